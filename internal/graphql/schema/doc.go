// Package schema says which GraphQL types a catalog gives, by rule, one type at a time.
//
// It refuses to hold a schema: a Type is made when it is asked for and forgotten by its asker. What stays is an index from
// names (as hashes) to what they stand for, a few bytes per name, so 10,000 tables cost megabytes. It runs no query and
// reads no database. The shape is that of PostGraphile 5's Amber preset; where that loses things (an enum label that is no
// GraphQL name) this package keeps them and warns.
package schema
