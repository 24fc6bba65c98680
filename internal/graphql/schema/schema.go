package schema

import (
	"slices"
	"unsafe"

	"github.com/leveehq/levee/internal/graphql/catalog"
)

// Schema derives types from a catalog. It is immutable and safe for concurrent use.
type Schema struct {
	catalog  *catalog.Catalog
	classes  []class                     // by ClassID
	order    []uint32                    // of the shown classes: those of few columns first, then by name
	virtual  []virtualRelation           // relations above the catalog's foreign keys
	forward  []relation                  // by class, in the order of their names
	backward []relation                  // by foreign class, in the order of the referring tables
	procs    []proc                      // the shown ones, in the order of the SDL
	computed []uint32                    // of procs: those that are fields of a class, in order of it
	renamed  map[catalog.TypeID]string   // types whose own names were taken
	columns  map[catalog.ColumnID]string // columns whose own names were taken
	enums    enumTables
	refs     []ref
	types    index
	queries  index
	changes  index
	warnings []string
}

// New indexes the names that c gives. Names that clash or that GraphQL cannot express are settled by rule, and each
// settlement is a warning; New fails on nothing but an impossible smart tag, naming the object and the tag.
func New(c *catalog.Catalog) (*Schema, error) {
	s := &Schema{catalog: c}
	b := &builder{Schema: s}
	for _, step := range []func() error{b.readClasses, b.readKeys, b.readRelations, b.readRefs, b.readProcs, b.nameTypes, b.nameRoots} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	b.warnOfIgnored()
	b.finish()
	s.warnOfHiddenRefs()
	return s, nil
}

// Catalog is what it was made from.
func (s *Schema) Catalog() *catalog.Catalog { return s.catalog }

// Type derives the type of that name, or returns nil, as for one that no field leads to. Built-in scalars are types too; introspection's types (__Schema and
// so on) are not.
func (s *Schema) Type(name string) *Type {
	if t := fixedType(name); t != nil {
		return t
	}
	switch name {
	case "Query":
		return s.rootType(name)
	case "Mutation":
		if s.MutationType() != "" {
			return s.rootType(name)
		}
		return nil
	}
	e, ok := s.types.find(name)
	if !ok {
		e, ok = s.companion(name)
	}
	if !ok || e.kind == rowType && !s.classes[e.id].shown && !s.classes[e.id].gives {
		return nil // a row that is only an argument has an input alone
	}
	return s.derive(e, name)
}

// RootField derives one field of the query or mutation type, or returns nil: those types may have a field for each key of
// each table.
func (s *Schema) RootField(root, name string) *Field {
	if root == "Mutation" {
		return s.fieldIn(&s.changes, name, s.mutationField)
	}
	for _, f := range queryFields {
		if f.Name == name {
			return &f
		}
	}
	return s.fieldIn(&s.queries, name, s.queryField)
}

func (s *Schema) fieldIn(in *index, name string, derive func(entry) Field) *Field {
	e, ok := in.find(name)
	if !ok {
		return nil
	}
	f := derive(e)
	return &f
}

// MutationType is the name of the mutation type, "" if nothing can be changed. The query type is always Query.
func (s *Schema) MutationType() string {
	if len(s.changes.entries) == 0 {
		return ""
	}
	return "Mutation"
}

// NodeType says which type's node ids begin with name; ok is false if none does.
func (s *Schema) NodeType(name string) (class catalog.ClassID, ok bool) {
	e, ok := s.types.find(name)
	if !ok || e.kind != rowType {
		return 0, false
	}
	class = catalog.ClassID(e.id)
	_, ok = s.NodeKey(class)
	return class, ok
}

// TypeOfClass is the name of the object type of a row or composite class, "" if it has none.
func (s *Schema) TypeOfClass(c catalog.ClassID) string {
	if int(c) >= len(s.classes) || !s.classes[c].typed {
		return ""
	}
	return s.typeName(c)
}

// NodeKey is the key that node ids and the ordering PRIMARY_KEY are made of; ok is false if the class has none.
func (s *Schema) NodeKey(c catalog.ClassID) (key Key, ok bool) {
	if !s.hasPrimary(c) {
		return Key{}, false
	}
	return s.Keys(c)[0], true
}

func (s *Schema) hasPrimary(c catalog.ClassID) bool {
	k := &s.catalog.Classes[c]
	if k.Keys.N > 0 && s.catalog.Keys[k.Keys.From].Primary {
		return true
	}
	return slices.ContainsFunc(s.classes[c].keys, func(v virtualUnique) bool { return v.Primary })
}

// Keys are the unique keys of a class, those of smart tags included; the primary one is the first.
func (s *Schema) Keys(c catalog.ClassID) []Key {
	class := s.catalog.Classes[c]
	keys := make([]Key, 0, int(class.Keys.N)+len(s.classes[c].keys))
	for i := range uint32(class.Keys.N) {
		k := s.catalog.Keys[class.Keys.From+i]
		keys = append(keys, Key{Class: c, Columns: s.columnsAt(c, k.Numbers), Primary: k.Primary})
	}
	for _, v := range s.classes[c].keys {
		keys = append(keys, v.Key)
	}
	for i, k := range keys {
		if k.Primary {
			copy(keys[1:i+1], keys[:i])
			keys[0] = k
			break
		}
	}
	return keys
}

// keyTags are those of the i-th of Keys.
func (s *Schema) keyTags(c catalog.ClassID, i int) tags {
	class := &s.catalog.Classes[c]
	first := int(class.Keys.N) // of those that tags made
	if at := slices.IndexFunc(s.classes[c].keys, func(v virtualUnique) bool { return v.Primary }); at >= 0 && (first == 0 || !s.catalog.Keys[class.Keys.From].Primary) {
		switch { // which the primary one has left
		case i == 0:
			return s.classes[c].keys[at].tags
		case i <= first+at:
			i--
		}
	}
	if i >= first {
		return s.classes[c].keys[i-first].tags
	}
	t, _ := parseComment(s.catalog.Keys[int(class.Keys.From)+i].Comment)
	return t
}

// columnsAt turns attnums into columns.
func (s *Schema) columnsAt(c catalog.ClassID, numbers catalog.Range) []catalog.ColumnID {
	columns := s.catalog.Classes[c].Columns
	out := make([]catalog.ColumnID, numbers.N)
	for i := range out {
		number := s.catalog.Numbers[int(numbers.From)+i]
		for j := range uint32(columns.N) {
			if s.catalog.Columns[columns.From+j].Number == number {
				out[i] = catalog.ColumnID(columns.From + j)
			}
		}
	}
	return out
}

// Warnings say what was renamed or left out, and why, for the operator.
func (s *Schema) Warnings() []string { return s.warnings }

// Size is the memory that the schema keeps reachable besides the catalog, in bytes.
func (s *Schema) Size() int64 {
	n := int64(unsafe.Sizeof(*s)) + sizeOf(s.classes) + sizeOf(s.order) + sizeOf(s.virtual) + sizeOf(s.forward) + sizeOf(s.backward)
	n += sizeOf(s.procs) + sizeOf(s.computed) + s.types.size() + s.queries.size() + s.changes.size() + sizeOf(s.warnings)
	for _, w := range s.warnings {
		n += int64(len(w))
	}
	for i := range s.classes {
		n += sizeOf(s.classes[i].keys) + int64(len(s.classes[i].name)+7)&^7
		for _, k := range s.classes[i].keys {
			n += sizeOf(k.Columns) + k.tags.size()
		}
	}
	for _, k := range s.virtual {
		n += sizeOf(k.Columns) + sizeOf(k.ForeignColumns) + k.tags.size()
	}
	n += s.enums.size() + sizeOfRefs(s.refs)
	for _, name := range s.columns {
		n += 2*int64(unsafe.Sizeof(name)) + int64(len(name))
	}
	for _, name := range s.renamed {
		n += 2*int64(unsafe.Sizeof(name)) + int64(len(name))
	}
	return n
}

func sizeOf[T any](s []T) int64 { return int64(cap(s)) * int64(unsafe.Sizeof(*new(T))) }
