// Package document turns a GraphQL request's text into an operation that is safe to compile: parsed, within the limits,
// valid against the schema, with its variables coerced.
//
// It refuses to know SQL and to keep schemas: gqlparser's validator runs over a small schema that holds only what the
// document reaches, made from schema.Type on the way. It also answers introspection, streamed from schema.Types.
package document

import (
	"io"

	"github.com/leveehq/levee/internal/graphql/schema"
	"github.com/vektah/gqlparser/v2/ast"
)

// Limits bound what one document may ask. Zero values mean the defaults.
type Limits struct {
	Bytes     int // longest text; default 1 MiB
	Tokens    int // default 10,000
	Depth     int // of fields, fragments included, introspection apart; default 16
	Aliases   int // fields with an alias; default 200
	RootField int // fields of the root, counted after fragments; default 50
	Cost      int // rows that the lists may multiply to, by their first and last; default 100,000
	Page      int // largest first or last; default 1,000
	ListGuess int // rows that a list without first and last counts as; default 10

	// NoIntrospection turns __schema and __type off, and with them the suggestions in error texts.
	NoIntrospection bool
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

// Operation is one operation of a valid document. It is immutable.
type Operation struct {
	Definition *ast.OperationDefinition // fields and fragments are resolved: Definition, ObjectDefinition, Fragment
	Document   *ast.QueryDocument
	Variables  *Variables
}

// Parse checks a document and picks the operation of that name ("": the only one). The errors are for the client, with
// status 400, and say which limit was passed; counting stops there.
func Parse(s *schema.Schema, text, operationName string, l Limits) (*Operation, []Error) {
	panic("contract")
}

// Type is the schema's type of that name, as it was derived while the document was checked.
func (o *Operation) Type(name string) *schema.Type { panic("contract") }

// Variables coerces an operation's variables. It stays small when it is kept without the rest of the operation.
type Variables struct{}

// Coerce checks the request's variables (decoded with json.Number) and adds defaults. An omitted variable without default
// is absent from the result, a null one is nil.
func (v *Variables) Coerce(raw map[string]any) (map[string]any, []Error) { panic("contract") }

// Shape distinguishes values of the variables that may need different SQL: which are absent or null, at any depth, the
// lengths of lists, and the values of enums and booleans. Two requests of one operation with equal shapes share a plan.
func (v *Variables) Shape(coerced map[string]any) string { panic("contract") }

// Check applies the limits that depend on variables: Page and Cost. Errors are for the client, with status 400.
func (o *Operation) Check(vars map[string]any) []Error { panic("contract") }

// Size is an estimate from above of the memory that the variables keep, in bytes.
func (v *Variables) Size() int { panic("contract") }

// WriteIntrospection writes the JSON value of a root field __schema or __type.
func WriteIntrospection(w io.Writer, s *schema.Schema, f *ast.Field, vars map[string]any) error {
	panic("contract")
}
