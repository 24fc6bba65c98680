// Package pgvalue carries single values between PostgreSQL and JSON: leaves and arrays of leaves on the way out, everything
// on the way in.
//
// It refuses to know fields and selections: composites, ranges and intervals that come out are objects, whose fields were
// selected, and belong to sqlgen. Outgoing values are in PostgreSQL's binary format, or text where Out.SQL casts; incoming
// ones are always in text format, the only one that every type has.
package pgvalue

import (
	"github.com/leveehq/levee/internal/graphql/catalog"
	"github.com/leveehq/levee/internal/graphql/schema"
)

// Out says how values of one PostgreSQL type leave. It is a small value to keep in a plan.
type Out struct {
	kind, element uint8
	names         []string // awkward enum labels and their GraphQL names, in pairs
}

// OutOf returns the way of a leaf or of an array of leaves (domains are what they are over); ok is false for composites,
// ranges, intervals and arrays of those.
func OutOf(s *schema.Schema, t catalog.TypeID) (o Out, ok bool) { panic("contract") }

// SQL wraps an expression so that its value travels as AppendJSON expects it.
func (o Out) SQL(expr string) string { panic("contract") }

// AppendJSON appends the JSON of a value that is not null. An error (a float that is NaN) is a field error: dst is returned
// as it was.
func (o Out) AppendJSON(dst, value []byte) ([]byte, error) { panic("contract") }

// EncodeError is an input value that cannot be given to PostgreSQL in any form; the message is for the client.
type EncodeError struct{ Message string }

func (e *EncodeError) Error() string { return e.Message }

// Encode turns an input value (nil, bool, string, json.Number, []any, map[string]any, as coerced) of the schema's input
// type ref into the text of a parameter of PostgreSQL type t. A nil result is NULL.
func Encode(s *schema.Schema, t catalog.TypeID, ref schema.Ref, value any) ([]byte, error) {
	panic("contract")
}
