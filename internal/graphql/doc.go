// Package graphql serves, for each tenant, the API that PostGraphile would build from that tenant's PostgreSQL schemas.
//
// It refuses to keep a schema tree, to hold a connection between requests, to share an instance between tenants that do not
// resolve to the same thing, and to run SQL for a request whose role it cannot set.
//
// A request passes, in this order:
//
//	door        graphql_requests: bytes, fair between tenants; a body is read under its permit
//	tenant      from the path, the Host, or the operator's statement; cached briefly
//	identity    internal/graphql/auth: role and claims, or 401 or 403
//	instance    a lease from residency: catalog, schema and engine, built once, evicted by bytes
//	engine      internal/graphql/sqlgen: one statement, one round trip, through internal/graphql/pgpool
//	answer      whole or not at all: it is made in memory, charged to the request's permit
//
// What turns a request away on that way answers 503 with Retry-After and one of three codes, the same at every place.
package graphql
