package schema

import (
	"fmt"
	"strings"

	"github.com/leveehq/levee/internal/graphql/catalog"
)

// place orders the entries of one kind.
func (s *Schema) place(e entry) int {
	if e.kind == procQuery || e.kind == procMutation {
		return int(e.id)
	}
	return int(s.classes[e.id].place)
}

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
	tags, _ := parseComment(k.Comment)
	name := tags.get("name")
	if name == "" && k.Type != 0 {
		typeTags, _ := parseComment(s.catalog.Types[k.Type].Comment)
		name = typeTags.get("name")
	}
	if name == "" {
		name = s.prefix(k.Schema) + k.Name
	}
	if name = plain(name); k.Kind == 'c' {
		return name
	}
	return notInput(singular(name))
}

func (s *Schema) typeName(c catalog.ClassID) string {
	name := upperCamel(s.tableName(c))
	switch name { // types that are always there
	case "Query", "Mutation", "Node", "PageInfo", "Cursor", "Int", "Float", "String", "Boolean", "ID", "Interval", "IntervalInput", "Text":
		if name != "Text" {
			return name + "Record"
		}
	}
	return name
}

// columnName is the name that fields and arguments of a column are made from. Relay's id is taken.
func (s *Schema) columnName(id catalog.ColumnID) string {
	column := &s.catalog.Columns[id]
	tags, _ := parseComment(s.catalog.Comment(column.Comment))
	name := tags.get("name")
	if name == "" {
		name = column.Name
	}
	if strings.EqualFold(name, "id") {
		name = "row_id"
	}
	return plain(name)
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

func (s *Schema) relationTags(id uint32) tags {
	if !s.isVirtual(id) {
		t, _ := parseComment(s.catalog.ForeignKeys[id].Comment)
		return t
	}
	k := s.virtual[int(id)-len(s.catalog.ForeignKeys)]
	own, _ := parseComment(s.catalog.Classes[k.Class].Comment)
	n := 0
	for _, v := range s.virtual[:int(id)-len(s.catalog.ForeignKeys)] {
		if v.Class == k.Class {
			n++
		}
	}
	for _, t := range own {
		if t.name != "foreignKey" {
			continue
		}
		if n == 0 {
			v, _ := parseForeignKey(t.value)
			return v.tags
		}
		n--
	}
	return nil
}

func (s *Schema) forwardName(id uint32, k ForeignKey) string {
	if name := s.relationTags(id).get("fieldName"); name != "" {
		return name
	}
	return camel(s.tableName(k.Foreign) + "-by-" + s.joined(k.Columns))
}

func (s *Schema) backwardName(id uint32, k ForeignKey) string {
	tags := s.relationTags(id)
	if k.Unique {
		if name := tags.get("foreignSingleFieldName"); name != "" {
			return name
		}
	}
	if name := tags.get("foreignFieldName"); name != "" {
		return name
	}
	if k.Unique {
		return camel(s.tableName(k.Class) + "-by-" + s.joined(k.Columns))
	}
	return camel(plural(s.tableName(k.Class)) + "-by-" + s.joined(k.Columns))
}

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
	if name := tags.get("name"); name != "" {
		return camel(plain(name))
	}
	return camel(plain(strings.TrimPrefix(f.Name, s.catalog.Classes[p.class].Name+"_")))
}

// typeOwnName is the name of an enum or domain.
func (s *Schema) typeOwnName(t catalog.TypeID) string {
	typ := &s.catalog.Types[t]
	tags, _ := parseComment(typ.Comment)
	if name := tags.get("name"); name != "" {
		return upperCamel(plain(name))
	}
	return upperCamel(plain(s.prefix(typ.Schema) + typ.Name))
}

// nameTypes gives the names of all types. The first to have a name keeps it.
func (b *builder) nameTypes() error {
	b.taken = map[uint64]string{}
	for _, name := range fixedNames() {
		b.taken[hashOf(name)] = "a type that is always there"
	}
	give := func(name string, kind what, id uint32, sub int, who string) {
		b.give(&b.typeNames, name, entry{kind: kind, id: id, sub: uint8(sub)}, "type", who)
	}
	for _, id := range b.order {
		b.nameTypesOf(catalog.ClassID(id), give)
	}
	for id := 1; id < len(b.catalog.Classes); id++ {
		if k := b.catalog.Classes[id]; k.Kind == 'c' {
			name := b.typeName(catalog.ClassID(id))
			give(name, rowType, uint32(id), 0, "type "+b.describe(catalog.ClassID(id)))
			give(name+"Input", inputType, uint32(id), 0, "type "+b.describe(catalog.ClassID(id)))
		} else if !b.classes[id].shown {
			continue
		}
	}
	b.namePgTypes(give)
	b.nameProcTypes(give)
	b.taken = nil
	return nil
}

// give enters a name. Two entries that mean the same PostgreSQL type under one GraphQL type (tsrange and tstzrange) are no
// clash.
func (b *builder) give(to *[]entry, name string, e entry, kind, who string) bool {
	if !validName(name) {
		b.warn("%s has no name that GraphQL can express (%q): left out; give it another with a comment such as @name", who, name)
		return false
	}
	e.hash = hashOf(name)
	if first, ok := b.taken[e.hash]; ok {
		if first != who && e.kind != rangeType && e.kind != boundType && e.kind != rangeInput && e.kind != boundInput {
			b.warn("%s %s of %s is left out, because %s has that name: give one of them another with a comment such as @name", kind, name, who, first)
		}
		return false
	}
	b.taken[e.hash] = who
	*to = append(*to, e)
	return true
}

func (b *builder) nameTypesOf(c catalog.ClassID, give func(string, what, uint32, int, string)) {
	id, name, who := uint32(c), b.typeName(c), "table "+b.describe(c)
	give(name, rowType, id, 0, who)
	give(name+"Connection", connectionType, id, 0, who)
	give(name+"Edge", edgeType, id, 0, who)
	give(name+"Condition", conditionType, id, 0, who)
	give(name+"OrderBy", orderByType, id, 0, who)
	give(name+"Input", inputType, id, 0, who)
	can := b.changesOf(c)
	if can&catalog.Insert != 0 {
		give("Create"+name+"Payload", createPayload, id, 0, who)
		give("Create"+name+"Input", createInput, id, 0, who)
	}
	_, node := b.NodeKey(c)
	for _, x := range []struct {
		of                    catalog.Privileges
		verb                  string
		payload, input, byKey what
	}{{catalog.Update, "Update", updatePayload, updateInput, updateKeyInput}, {catalog.Delete, "Delete", deletePayload, deleteInput, deleteKeyInput}} {
		if can&x.of == 0 {
			continue
		}
		if x.of == catalog.Update {
			give(name+"Patch", patchType, id, 0, who)
		}
		give(x.verb+name+"Payload", x.payload, id, 0, who)
		if node {
			give(x.verb+name+"Input", x.input, id, 0, who)
		}
		for i, k := range b.Keys(c) {
			give(x.verb+upperCamel(b.keyName(k))+"Input", x.byKey, id, i, who)
		}
	}
}

// changesOf says which mutations a class has: what it allows, somebody may do, its comment does not forbid, and, for
// changes of a row, a key can find.
func (s *Schema) changesOf(c catalog.ClassID) (can catalog.Privileges) {
	k := &s.catalog.Classes[c]
	tags, _ := parseComment(k.Comment)
	may := k.Privileges
	for i := range uint32(k.Columns.N) {
		flags := s.catalog.Columns[k.Columns.From+i].Flags
		if flags&catalog.CanInsert != 0 {
			may |= catalog.Insert
		}
		if flags&catalog.CanUpdate != 0 {
			may |= catalog.Update
		}
	}
	keyed := len(s.Keys(c)) > 0
	for _, x := range []struct {
		of    catalog.Privileges
		name  string
		keyed bool
	}{{catalog.Insert, "insert", true}, {catalog.Update, "update", keyed}, {catalog.Delete, "delete", keyed}} {
		if k.Updatable&may&x.of != 0 && x.keyed && !tags.forbids(x.name) {
			can |= x.of
		}
	}
	return can
}

func (b *builder) namePgTypes(give func(string, what, uint32, int, string)) {
	for id := 1; id < len(b.catalog.Types); id++ {
		t := &b.catalog.Types[id]
		who := fmt.Sprintf("type %s.%s", b.catalog.Schemas[t.Schema], t.Name)
		switch t.Kind {
		case 'e':
			give(b.typeOwnName(catalog.TypeID(id)), enumType, uint32(id), 0, who)
			b.warnOfLabels(t, who)
		case 'd':
			if b.isOwnScalar(catalog.TypeID(id)) {
				give(b.typeOwnName(catalog.TypeID(id)), domainType, uint32(id), 0, who)
			}
		case 'r':
			name, ok := b.leafName(t.Element, false)
			if !ok {
				continue
			}
			give(name+"Range", rangeType, uint32(id), 0, who)
			give(name+"RangeBound", boundType, uint32(id), 0, who)
			give(name+"RangeInput", rangeInput, uint32(id), 0, who)
			give(name+"RangeBoundInput", boundInput, uint32(id), 0, who)
		}
	}
}

// warnOfLabels names the labels that became something that no rule of PostGraphile's spells: it would have left out the enum,
// and everything that uses it.
func (b *builder) warnOfLabels(t *catalog.Type, who string) {
	for _, v := range b.enumValues(t) {
		if _, renamed := enumName(v.Label); renamed || v.Name != first(enumName(v.Label)) {
			b.warn("label %q of %s has no GraphQL name, and is %s", v.Label, who, v.Name)
		}
	}
}

func first(name string, _ bool) string { return name }

// nameRoots gives the names of the roots' fields.
func (b *builder) nameRoots() error {
	b.taken = map[uint64]string{}
	for _, f := range queryFields {
		b.taken[hashOf(f.Name)] = "a field that is always there"
	}
	query := func(name string, kind what, id uint32, sub int, who string) {
		b.give(&b.queryNames, name, entry{kind: kind, id: id, sub: uint8(sub)}, "query", who)
	}
	for _, id := range b.order {
		b.nameQueriesOf(catalog.ClassID(id), query)
	}
	for i, p := range b.procs {
		if p.query {
			query(camel(b.procName(p.id)), procQuery, uint32(i), 0, b.describeProc(p.id))
		}
	}
	b.taken = map[uint64]string{}
	change := func(name string, kind what, id uint32, sub int, who string) {
		b.give(&b.changeNames, name, entry{kind: kind, id: id, sub: uint8(sub)}, "mutation", who)
	}
	for i, p := range b.procs {
		if b.catalog.Procs[p.id].Volatility == 'v' {
			change(camel(b.procName(p.id)), procMutation, uint32(i), 0, b.describeProc(p.id))
		}
	}
	for _, id := range b.order {
		b.nameMutationsOf(catalog.ClassID(id), change)
	}
	b.taken = nil
	return nil
}

func (b *builder) nameQueriesOf(c catalog.ClassID, give func(string, what, uint32, int, string)) {
	who, name := "table "+b.describe(c), b.tableName(c)
	tags, _ := parseComment(b.catalog.Classes[c].Comment)
	if !tags.forbids("single") {
		for i, k := range b.Keys(c) {
			give(camel(b.keyName(k)), byKey, uint32(c), i, who)
		}
		if _, node := b.NodeKey(c); node && !tags.forbids("node") {
			give(camel(name), byNodeID, uint32(c), 0, who)
		}
	}
	if !tags.forbids("connection") {
		give(camel("all-"+plural(name)), all, uint32(c), 0, who)
	}
}

func (b *builder) nameMutationsOf(c catalog.ClassID, give func(string, what, uint32, int, string)) {
	who, name, can := "table "+b.describe(c), b.tableName(c), b.changesOf(c)
	if can&catalog.Insert != 0 {
		give(camel("create-"+name), create, uint32(c), 0, who)
	}
	_, node := b.NodeKey(c)
	for _, x := range []struct {
		of         catalog.Privileges
		verb       string
		one, byKey what
	}{{catalog.Update, "update-", update, updateByKey}, {catalog.Delete, "delete-", remove, removeByKey}} {
		if can&x.of == 0 {
			continue
		}
		if node {
			give(camel(x.verb+name), x.one, uint32(c), 0, who)
		}
		for i, k := range b.Keys(c) {
			give(camel(x.verb+b.keyName(k)), x.byKey, uint32(c), i, who)
		}
	}
}
