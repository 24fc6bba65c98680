package schema

import (
	"slices"
	"strings"

	"github.com/leveehq/levee/internal/graphql/catalog"
)

// enumTables are the tables whose rows are the values of an enum, and where these enums are used.
type enumTables struct {
	names   []string // of the enums, by their places in catalog.Enums; "" for those that are none
	columns map[catalog.ColumnID]uint16
	domains map[catalog.TypeID]uint16
}

func (e *enumTables) size() (n int64) {
	const perEntry = 16
	for _, name := range e.names {
		n += int64(len(name)+7) &^ 7
	}
	return n + sizeOf(e.names) + perEntry*int64(len(e.columns)+len(e.domains))
}

// readEnums finds what is an enum instead of a text. What cannot be one is warned of, and stays what it is in the database.
func (b *builder) readEnums() {
	all := b.catalog.Enums
	if len(all) > 0 {
		b.enums = enumTables{make([]string, len(all)), map[catalog.ColumnID]uint16{}, map[catalog.TypeID]uint16{}}
	}
	for i := range all {
		e := &all[i]
		if e.Problem != "" {
			b.warn("tag @enum of %s is without effect: %s", b.describeEnum(e), e.Problem)
			continue
		}
		for _, column := range e.Users {
			b.enums.columns[column] = uint16(i)
		}
	}
	for id := 1; id < len(b.catalog.Types); id++ {
		if b.catalog.Types[id].Kind == 'd' {
			b.readEnumDomain(catalog.TypeID(id))
		}
	}
	b.warnOfKeyless()
}

// warnOfKeyless names the tables that would be enums if they had a key.
func (b *builder) warnOfKeyless() {
	for id := 1; id < len(b.catalog.Classes); id++ {
		c := catalog.ClassID(id)
		if !strings.Contains(b.catalog.Classes[c].Comment, "@enum") || !b.classTags(c).has("enum") {
			continue
		}
		if !slices.ContainsFunc(b.catalog.Enums, func(e catalog.EnumTable) bool { return e.Class == c }) {
			b.warn("tag @enum of table %s is without effect: it has no primary key; a view needs a tag @primaryKey", b.describe(c))
		}
	}
}

func (s *Schema) describeEnum(e *catalog.EnumTable) string {
	table := "table " + s.catalog.Schemas[e.Schema] + "." + e.Name
	if e.Primary {
		return table
	}
	return "constraint " + e.Key + " of " + table
}

// isEnumTable is true for a table whose rows are values: it is not shown as a table. One that has them by the comment on a key alone
// is.
func (s *Schema) isEnumTable(c catalog.ClassID) bool {
	for i := range s.catalog.Enums {
		if e := &s.catalog.Enums[i]; e.Class == c && (e.Problem == "" || e.NoRows) && s.classTags(c).has("enum") {
			return true
		}
	}
	return false
}

// readEnumDomain finds the domains that stand for an enum where there is no foreign key: those over text that are named after
// a table, or say @enum and its name. By another key than the primary one it is the table's name, an underscore, and the key's.
func (b *builder) readEnumDomain(id catalog.TypeID) {
	t := &b.catalog.Types[id]
	tags, _ := parseComment(t.Comment)
	of, said := strings.TrimSuffix(t.Name, "_enum_domain"), tags.has("enum")
	if said {
		of = tags.get("enum")
	} else if of == t.Name {
		return
	}
	if b.catalog.Types[t.Base].OID != oidText {
		if said {
			b.warn("tag @enum of %s is without effect: it is not a domain over text itself", b.describeType(id))
		}
		return
	}
	for i := range b.catalog.Enums {
		e := &b.catalog.Enums[i]
		if e.Problem == "" && e.Schema == t.Schema && (e.Primary && of == e.Name || of == e.Name+"_"+e.Key) {
			b.enums.domains[id] = uint16(i)
			return
		}
	}
	if said {
		b.warn("tag @enum of %s is without effect: write the name of a table of its schema whose comment says @enum, or TABLE_CONSTRAINT", b.describeType(id))
	}
}

const oidText = 25

// useEnum makes an enum of a column that refers to one by a tag @foreignKey, and tells whether that is all that the tag can do.
func (b *builder) useEnum(class catalog.ClassID, v virtualForeignKey) (hidden bool) {
	schema := v.schema
	if schema == "" {
		schema = b.catalog.Schemas[b.catalog.Classes[class].Schema]
	}
	columns, err := b.columnsNamed(class, v.columns)
	if err != nil || len(columns) != 1 {
		return false
	}
	for i := range b.catalog.Enums {
		e := &b.catalog.Enums[i]
		if e.Problem != "" || b.catalog.Schemas[e.Schema] != schema || e.Name != v.table {
			continue
		}
		if v.foreignColumns == nil && e.Primary || len(v.foreignColumns) == 1 && v.foreignColumns[0] == e.Column {
			b.enums.columns[columns[0]] = uint16(i)
			return !b.classes[e.Class].shown
		}
	}
	return false
}

// nameEnumTables gives the enums their names: those that @enumName says, or the table's, with the column's if it is not the primary
// key.
func (b *builder) nameEnumTables() {
	for i := range b.enums.names {
		e := &b.catalog.Enums[i]
		if e.Problem != "" {
			continue
		}
		ofTable, _ := parseComment(e.Comment)
		ofKey, _ := parseComment(e.KeyComment)
		name := ofKey.get("enumName")
		if name == "" && e.Primary {
			name = ofTable.get("enumName")
		}
		if name == "" {
			name = singular(plain(b.enumTableName(e, ofTable)))
			if !e.Primary {
				name += "-" + e.Column
			}
		}
		who := b.describeEnum(e)
		b.enums.names[i] = strings.Clone(upperCamel(b.free(upperCamel(plain(name)), who, []string{""})))
		b.taken[hashOf(b.enums.names[i])] = who
	}
}

func (s *Schema) enumTableName(e *catalog.EnumTable, t tags) string {
	if name := t.get("name"); name != "" {
		return name
	}
	return s.prefix(e.Schema) + e.Name
}

// EnumTable is the enum of that name whose values are rows, and nil if there is none. Its labels are in the database what its
// values are called here.
func (s *Schema) EnumTable(name string) *catalog.EnumTable {
	for i, n := range s.enums.names {
		if n == name && n != "" {
			return &s.catalog.Enums[i]
		}
	}
	return nil
}

// rowEnum makes the type of an enum whose values are rows.
func (s *Schema) rowEnum(i int, name string) *Type {
	e := &s.catalog.Enums[i]
	t := &Type{Name: name, Kind: Enum, Values: s.labelled(e.Labels)}
	for j := range t.Values {
		t.Values[j].Description = s.catalog.Labels[int(e.Notes.From)+j]
	}
	return t
}

// columnRef is the reference to the type of a column.
func (s *Schema) columnRef(id catalog.ColumnID, notNull, input bool) (r Ref, ok bool) {
	column := &s.catalog.Columns[id]
	r, ok = s.refOf(column.Type, notNull, input)
	if i, is := s.enums.columns[id]; is {
		r.Name = s.enums.names[i]
	}
	return r, ok
}

func (s *Schema) isEnumColumn(id catalog.ColumnID) bool {
	_, is := s.enums.columns[id]
	return is
}
