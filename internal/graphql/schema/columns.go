package schema

import (
	"fmt"
	"strings"

	"github.com/leveehq/levee/internal/graphql/catalog"
)

func (s *Schema) commentOf(column *catalog.Column) string {
	if column.Comment == 0 {
		return ""
	}
	return s.catalog.Comment(column.Comment)
}

// columnName is the name that fields and arguments of a column are made from.
func (s *Schema) columnName(id catalog.ColumnID) string {
	if name, ok := s.columns[id]; ok {
		return name
	}
	return s.makeColumnName(id)
}

// makeColumnName leaves out that names could be the same. Relay's id is taken.
func (s *Schema) makeColumnName(id catalog.ColumnID) string {
	column := &s.catalog.Columns[id]
	tags, _ := parseComment(s.commentOf(column))
	name := tags.get("name")
	if name == "" {
		name = column.Name
	}
	if strings.EqualFold(name, "id") {
		return "row_id"
	}
	return plain(name)
}

// nameColumns renames the columns whose names GraphQL cannot express or that another column of the class has.
func (b *builder) nameColumns() {
	taken := map[string]catalog.ColumnID{}
	for c := range b.classes {
		if !b.classes[c].typed {
			continue
		}
		clear(taken)
		columns := b.catalog.Classes[c].Columns
		for i := range uint32(columns.N) {
			id := catalog.ColumnID(columns.From + i)
			name := b.makeColumnName(id)
			first, again := taken[camel(name)]
			if valid := validName(camel(name)); again || !valid {
				base := name
				if !valid {
					base = "column_" + madeUp(name)
				}
				name = numbered(base, func(s string) bool { _, ok := taken[camel(s)]; return ok })
				b.renameColumn(catalog.ClassID(c), id, first, again, name)
			}
			taken[camel(name)] = id
		}
	}
}

func (b *builder) renameColumn(c catalog.ClassID, id, first catalog.ColumnID, again bool, name string) {
	if b.columns == nil {
		b.columns = map[catalog.ColumnID]string{}
	}
	b.columns[id] = name
	why := "GraphQL cannot express its name"
	if again {
		why = fmt.Sprintf("column %q has that name", b.catalog.Columns[first].Name)
	}
	b.warn("column %q of %s is called %s, because %s: give it another with a comment such as @name", b.catalog.Columns[id].Name, b.describe(c), camel(name), why)
}

// numbered returns base, or the first of base_2, base_3 and so on that is not taken.
func numbered(base string, taken func(string) bool) string {
	name := base
	for n := 2; taken(name); n++ {
		name = fmt.Sprintf("%s_%d", base, n)
	}
	return name
}

// uniqueInputs numbers the arguments or input fields that have the name of one before them. What they mean is in their Bind.
func uniqueInputs(in []InputValue) []InputValue {
	for i := range in {
		if !validName(in[i].Name) {
			in[i].Name = "arg_" + madeUp(in[i].Name)
		}
		in[i].Name = numbered(in[i].Name, func(s string) bool {
			for j := range i {
				if in[j].Name == s {
					return true
				}
			}
			return false
		})
	}
	return in
}
