package schema

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/leveehq/levee/internal/graphql/catalog"
)

// prefix tells names of other schemas from those of the first one.
func (s *Schema) prefix(schema uint16) string {
	if schema == 0 {
		return ""
	}
	return s.catalog.Schemas[schema] + "_"
}

// tableName is what the names of a class are made from: one row, in snake case or however it is written. It is kept, because
// the rules of English take 50 microseconds.
func (s *Schema) tableName(c catalog.ClassID) string { return s.classes[c].name }

func (s *Schema) makeTableName(c catalog.ClassID) string {
	k := &s.catalog.Classes[c]
	name := s.classTags(c).get("name")
	if name == "" && k.Type != 0 {
		typeTags, _ := parseComment(s.catalog.Types[k.Type].Comment)
		name = typeTags.get("name")
	}
	if name == "" {
		name = s.prefix(k.Schema) + k.Name
	}
	return notInput(singular(plain(name)))
}

func (s *Schema) typeName(c catalog.ClassID) string { return upperCamel(s.tableName(c)) }

// suffixes are of the types that go with a row type.
var suffixes = []string{"", "Connection", "Edge", "Condition", "OrderBy", "Input", "Patch"}

// nameClasses gives each class the name that its types and fields are made from. The first of a name has it, in the order
// of schemas and names, so that a new column of one table does not rename another; the others are numbered.
func (b *builder) nameClasses() {
	ids := make([]catalog.ClassID, 0, len(b.classes))
	for id := range b.classes {
		if b.classes[id].typed {
			ids = append(ids, catalog.ClassID(id))
		}
	}
	slices.SortFunc(ids, func(x, y catalog.ClassID) int {
		a, z := &b.catalog.Classes[x], &b.catalog.Classes[y]
		return cmp.Or(cmp.Compare(a.Schema, z.Schema), cmp.Compare(a.Name, z.Name))
	})
	b.taken = map[uint64]string{}
	for _, name := range fixedNames() {
		b.taken[hashOf(name)] = "a type that is always there"
	}
	for _, id := range ids {
		who := "table " + b.describe(id)
		name := b.free(b.makeTableName(id), who, suffixes)
		b.classes[id].name = strings.Clone(name)
		for _, suffix := range suffixes {
			b.taken[hashOf(upperCamel(name)+suffix)] = who
		}
	}
}

// free returns name, or what is made of it if it cannot be, or not with one of the suffixes.
func (b *builder) free(name, who string, suffixes []string) string {
	base := name
	if !validName(upperCamel(name)) {
		base = "row_" + madeUp(name)
	}
	try := base
	for n := 1; ; n++ {
		if n == 2 {
			base = strings.TrimSuffix(base, "_record") + "_record"
			try = base
		} else if n > 2 {
			try = fmt.Sprintf("%s_%d", base, n-1)
		}
		owner := ""
		for _, suffix := range suffixes {
			if first, ok := b.taken[hashOf(upperCamel(try)+suffix)]; ok {
				owner = first
			}
		}
		if owner == "" {
			break
		}
		if n == 1 {
			b.warn("%s is not called %s, because %s is: give one of them another name with a comment such as @name", who, upperCamel(try), owner)
		}
	}
	if try != name {
		b.warn("%s is called %s", who, upperCamel(try))
	}
	return try
}

func (s *Schema) joined(columns []catalog.ColumnID) string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = s.columnName(c)
	}
	return strings.Join(names, "-and-")
}

// keyName is "post-by-row-id" and the like, to be put in camel case.
func (s *Schema) keyName(k Key) string { return s.tableName(k.Class) + "-by-" + s.joined(k.Columns) }

func (s *Schema) procName(p catalog.ProcID) string {
	f := &s.catalog.Procs[p]
	tags, _ := parseComment(f.Comment)
	if name := tags.get("name"); name != "" {
		return plain(name)
	}
	return plain(s.prefix(f.Schema) + f.Name)
}

// computedName leaves out the name of the type that the field is of.
func (s *Schema) computedName(p proc) string {
	f := &s.catalog.Procs[p.id]
	tags, _ := parseComment(f.Comment)
	if name := tags.get("fieldName"); name != "" {
		return name
	}
	return camel(plain(strings.TrimPrefix(f.Name, s.catalog.Classes[p.class].Name+"_")))
}

// typeOwnName is the name of an enum, domain or shape.
func (s *Schema) typeOwnName(t catalog.TypeID) string {
	if name, ok := s.renamed[t]; ok {
		return name
	}
	typ := &s.catalog.Types[t]
	if isShape(typ) {
		return shapes[typ.OID].name
	}
	tags, _ := parseComment(typ.Comment)
	if name := tags.get("name"); name != "" {
		return upperCamel(plain(name))
	}
	return upperCamel(plain(s.prefix(typ.Schema) + typ.Name))
}

// nameOwnTypes looks after the names of enums, domains and shapes: those that are taken are numbered.
func (b *builder) nameOwnTypes() {
	ids := make([]catalog.TypeID, 0, 16)
	for id := 1; id < len(b.catalog.Types); id++ {
		if b.hasOwnType(catalog.TypeID(id)) {
			ids = append(ids, catalog.TypeID(id))
		}
	}
	slices.SortFunc(ids, func(x, y catalog.TypeID) int {
		a, z := &b.catalog.Types[x], &b.catalog.Types[y]
		return cmp.Or(cmp.Compare(a.Schema, z.Schema), cmp.Compare(a.Name, z.Name))
	})
	for _, id := range ids {
		who := b.describeType(id)
		own := b.typeOwnName(id)
		name := upperCamel(b.free(own, who, []string{"", "Input"}))
		if name != own {
			if b.renamed == nil {
				b.renamed = map[catalog.TypeID]string{}
			}
			b.renamed[id] = name
		}
		b.taken[hashOf(name)] = who
		b.taken[hashOf(name+"Input")] = who
	}
	b.nameEnumTables()
}

func (s *Schema) describeType(t catalog.TypeID) string {
	typ := &s.catalog.Types[t]
	return "type " + s.catalog.Schemas[typ.Schema] + "." + typ.Name
}
