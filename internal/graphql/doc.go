// Package graphql serves, for each tenant, the API that PostGraphile would build from that tenant's PostgreSQL schemas.
//
// It refuses to keep a schema tree, to hold a connection between requests, to share an instance between tenants that do not
// resolve to the same thing, and to run SQL for a request whose role it cannot set.
//
// A request passes, in this order:
//
//	body        read before there is a place for the request, so that who sends slowly keeps nobody out; large ones are charged
//	door        graphql_requests: places, fair between tenants; then the body is taken apart, charged by what it becomes
//	tenant      from the path, a trusted header, the Host, or the operator's statement; cached briefly
//	identity    internal/graphql/auth: role and claims, or 401 or 403
//	instance    a lease from residency: catalog, schema and engine, built once, evicted by bytes
//	engine      internal/graphql/sqlgen: one statement, one round trip, through internal/graphql/pgpool
//	answer      whole or not at all, introspection apart: it is made in memory and charged as it grows; instance and place are
//	            given back before it is written
//
// What turns a request away on that way answers 503 with Retry-After and one of a few codes, the same at every place.
package graphql
