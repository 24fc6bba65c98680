package schema

import (
	"io"
	"iter"

	"github.com/leveehq/levee/internal/graphql/catalog"
)

// Schema derives types from a catalog. It is immutable and safe for concurrent use.
type Schema struct {
	catalog *catalog.Catalog
}

// New indexes the names that c gives. Names that clash or that GraphQL cannot express are settled by rule, and each
// settlement is a warning; New fails on nothing but an impossible smart tag, naming the object and the tag.
func New(c *catalog.Catalog) (*Schema, error) { panic("contract") }

// Catalog is what it was made from.
func (s *Schema) Catalog() *catalog.Catalog { return s.catalog }

// Type derives the type of that name, or returns nil. Built-in scalars are types too; introspection's types (__Schema and
// so on) are not.
func (s *Schema) Type(name string) *Type { panic("contract") }

// Types walks all types in the order of the SDL, the built-in scalars last.
func (s *Schema) Types() iter.Seq[*Type] { panic("contract") }

// MutationType is the name of the mutation type, "" if nothing can be changed. The query type is always Query.
func (s *Schema) MutationType() string { panic("contract") }

// NodeType says which type's node ids begin with name; ok is false if none does.
func (s *Schema) NodeType(name string) (class catalog.ClassID, ok bool) { panic("contract") }

// TypeOfClass is the name of the object type of a row or composite class, "" if it has none.
func (s *Schema) TypeOfClass(c catalog.ClassID) string { panic("contract") }

// NodeKey is the key that node ids and the ordering PRIMARY_KEY are made of; ok is false if the class has none.
func (s *Schema) NodeKey(c catalog.ClassID) (key Key, ok bool) { panic("contract") }

// Keys are the unique keys of a class, those of smart tags included.
func (s *Schema) Keys(c catalog.ClassID) []Key { panic("contract") }

// Warnings say what was renamed or left out, and why, for the operator.
func (s *Schema) Warnings() []string { panic("contract") }

// Size is the memory that the schema keeps reachable besides the catalog, in bytes.
func (s *Schema) Size() int64 { panic("contract") }

// WriteSDL writes the schema definition, streamed type by type.
func (s *Schema) WriteSDL(w io.Writer) error { panic("contract") }
