// Package pgpool keeps connections to PostgreSQL, for many databases, under one budget.
//
// It refuses to know what it carries: it has no words of GraphQL or of a catalog, takes SQL as text and hands out rows as the
// bytes that came. It refuses to hold a transaction open between two calls, and to lend a connection: a request is a list of
// statements that is sent whole and answered whole, so there is no handle that could outlive its user.
package pgpool
