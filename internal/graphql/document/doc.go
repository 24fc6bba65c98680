// Package document turns a GraphQL request's text into an operation that is safe to compile: parsed, within the limits,
// valid against the schema, with its variables coerced.
//
// It refuses to know SQL and to keep schemas: gqlparser's validator runs over a small schema that holds only what the
// document reaches, made from schema.Type on the way. It also answers introspection, streamed from schema.Types.
package document

import (
	"iter"

	"github.com/leveehq/levee/internal/graphql/catalog"
	"github.com/leveehq/levee/internal/graphql/schema"
	"github.com/vektah/gqlparser/v2/ast"
)

// Schema is what documents are checked against: a *schema.Schema.
type Schema interface {
	// Type derives a type, or returns nil. It is not asked for the root types, which may have a field per key of every
	// table, except for introspection.
	Type(name string) *schema.Type

	// RootField derives one field of the query or mutation type, or returns nil.
	RootField(root, name string) *schema.Field

	// MutationType is the name of the mutation type, "" if there is none.
	MutationType() string

	// Catalog says what the domains among the scalars are over.
	Catalog() *catalog.Catalog
}

// AllTypes is a Schema that introspection can walk.
type AllTypes interface {
	Schema
	Types() iter.Seq[*schema.Type]
}

// Error is an entry of a response's errors.
type Error struct {
	Message    string
	Locations  []Location
	Path       []any // string and int
	Extensions map[string]any
}

// Location is a place in the document, from 1.
type Location struct{ Line, Column int }

// Operation is one operation of a valid document. It is immutable. It is made to be compiled and dropped: only its
// Variables are small enough to be kept.
type Operation struct {
	// Definition is the operation. Every field in it and in the fragments that it spreads has its Definition and
	// ObjectDefinition, every spread its Definition; definitions hold what this document reaches, no more.
	Definition *ast.OperationDefinition
	Document   *ast.QueryDocument // with this operation only
	Variables  *Variables

	limits Limits
	source Schema
	types  map[string]*schema.Type
}

// Type is the schema's type of that name, as it was derived while the document was checked, nil if the document does not
// reach it. The root types hold only the fields that the document asks for.
func (o *Operation) Type(name string) *schema.Type { return o.types[name] }

// field is what the schema says of a field of the document; nil for __typename, __schema and __type.
func (o *Operation) field(f *ast.Field) *schema.Field {
	t := o.types[f.ObjectDefinition.Name]
	if t == nil {
		return nil
	}
	return t.Field(f.Name)
}
