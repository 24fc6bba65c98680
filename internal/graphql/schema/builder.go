package schema

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/leveehq/levee/internal/graphql/catalog"
)

// class is what there is to know of a class that takes time to derive.
type class struct {
	shown bool  // is a table or view of an exposed schema that somebody may read
	typed bool  // has an object type: it is shown, or a composite that is used
	place int32 // in Schema.order
	name  string
	keys  []Key // made by tags
}

// relation is a foreign key: the catalog's, or from len(catalog.ForeignKeys) on one of Schema.virtual.
type relation struct {
	of catalog.ClassID // the class that has the field
	id uint32
}

// proc is a function that is shown.
type proc struct {
	id    catalog.ProcID
	class catalog.ClassID // it is a field of that class's type; 0: of none
	query bool            // it is a field of Query
}

type builder struct {
	*Schema
	typeNames, queryNames, changeNames []entry
	taken                              map[uint64]string // who has a name, while they are given
}

func (b *builder) warn(format string, args ...any) {
	b.warnings = append(b.warnings, fmt.Sprintf(format, args...))
}

// readClasses decides what is shown, and in which order.
func (b *builder) readClasses() error {
	c := b.catalog
	b.classes = make([]class, len(c.Classes))
	for id := 1; id < len(c.Classes); id++ {
		k := &c.Classes[id]
		tags, _ := parseComment(k.Comment)
		if int(k.Schema) >= c.Exposed || k.Kind == 'c' || k.Partition || !b.readable(catalog.ClassID(id)) || tags.forbids("select") {
			continue
		}
		b.classes[id].shown, b.classes[id].typed = true, true
		b.order = append(b.order, uint32(id))
		if err := b.readVirtualKeys(catalog.ClassID(id), tags); err != nil {
			return err
		}
	}
	for id := 1; id < len(c.Classes); id++ {
		b.classes[id].typed = b.classes[id].typed || c.Classes[id].Kind == 'c'
		if b.classes[id].typed {
			b.classes[id].name = strings.Clone(b.makeTableName(catalog.ClassID(id)))
		}
	}
	slices.SortFunc(b.order, func(x, y uint32) int {
		a, z := &c.Classes[x], &c.Classes[y]
		return cmp.Or(cmp.Compare(a.Columns.N, z.Columns.N), cmp.Compare(a.Schema, z.Schema), cmp.Compare(a.Name, z.Name))
	})
	for i, id := range b.order {
		b.classes[id].place = int32(i)
	}
	return nil
}

func (b *builder) readable(id catalog.ClassID) bool {
	k := b.catalog.Classes[id]
	if k.Privileges&catalog.Select != 0 {
		return true
	}
	for i := range uint32(k.Columns.N) {
		if b.catalog.Columns[k.Columns.From+i].Flags&catalog.CanSelect != 0 {
			return true
		}
	}
	return false
}

func (b *builder) readVirtualKeys(id catalog.ClassID, tags tags) error {
	for _, t := range tags {
		if t.name != "primaryKey" && t.name != "unique" {
			continue
		}
		columns, err := b.columnsNamed(id, columnList(t.value))
		if err != nil {
			return fmt.Errorf("tag @%s of %s: %w", t.name, b.describe(id), err)
		}
		b.classes[id].keys = append(b.classes[id].keys, Key{Class: id, Columns: columns, Primary: t.name == "primaryKey"})
	}
	slices.SortStableFunc(b.classes[id].keys, func(x, y Key) int {
		return cmp.Compare(boolInt(y.Primary), boolInt(x.Primary))
	})
	return nil
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (s *Schema) describe(id catalog.ClassID) string {
	k := s.catalog.Classes[id]
	return s.catalog.Schemas[k.Schema] + "." + k.Name
}

func (b *builder) columnsNamed(id catalog.ClassID, names []string) (out []catalog.ColumnID, err error) {
	columns := b.catalog.Classes[id].Columns
	for _, name := range names {
		at := -1
		for i := range int(columns.N) {
			if b.catalog.Columns[int(columns.From)+i].Name == name {
				at = int(columns.From) + i
			}
		}
		if at < 0 {
			return nil, fmt.Errorf("%s has no column %q: correct the comment", b.describe(id), name)
		}
		out = append(out, catalog.ColumnID(at))
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("it names no column: write the columns' names, separated by commas")
	}
	return out, nil
}

// readRelations lists foreign keys from both of their ends. Those of partitions and to what is not shown are none.
func (b *builder) readRelations() error {
	for id := range b.catalog.ForeignKeys {
		b.addRelation(uint32(id), b.catalog.ForeignKeys[id].Class, b.catalog.ForeignKeys[id].Foreign)
	}
	for _, id := range b.order {
		tags, _ := parseComment(b.catalog.Classes[id].Comment)
		for _, t := range tags {
			if t.name != "foreignKey" {
				continue
			}
			key, err := b.virtualForeignKey(catalog.ClassID(id), t.value)
			if err != nil {
				return fmt.Errorf("tag @foreignKey of %s: %w", b.describe(catalog.ClassID(id)), err)
			}
			b.virtual = append(b.virtual, key)
			b.addRelation(uint32(len(b.catalog.ForeignKeys)+len(b.virtual)-1), key.Class, key.Foreign)
		}
	}
	slices.SortStableFunc(b.forward, func(x, y relation) int {
		return cmp.Or(cmp.Compare(x.of, y.of), cmp.Compare(b.relationName(x.id), b.relationName(y.id)))
	})
	slices.SortStableFunc(b.backward, func(x, y relation) int {
		return cmp.Or(cmp.Compare(x.of, y.of), cmp.Compare(boolInt(b.isVirtual(x.id)), boolInt(b.isVirtual(y.id))),
			cmp.Compare(b.foreignKey(x.id).Class, b.foreignKey(y.id).Class), cmp.Compare(b.relationName(x.id), b.relationName(y.id)))
	})
	return nil
}

func (b *builder) addRelation(id uint32, class, foreign catalog.ClassID) {
	if b.classes[class].shown && b.classes[foreign].shown {
		b.forward = append(b.forward, relation{class, id})
		b.backward = append(b.backward, relation{foreign, id})
	}
}

func (s *Schema) isVirtual(id uint32) bool { return int(id) >= len(s.catalog.ForeignKeys) }

func (s *Schema) relationName(id uint32) string {
	if s.isVirtual(id) {
		return "\uffff" // behind the real ones, in their own order
	}
	return s.catalog.ForeignKeys[id].Name
}

func (b *builder) virtualForeignKey(id catalog.ClassID, value string) (ForeignKey, error) {
	v, err := parseForeignKey(value)
	if err != nil {
		return ForeignKey{}, err
	}
	foreign := b.classNamed(v.schema, v.table, id)
	if foreign == 0 {
		return ForeignKey{}, fmt.Errorf("there is no table %q among those that are exposed: correct the comment", strings.TrimPrefix(v.schema+"."+v.table, "."))
	}
	key := ForeignKey{Class: id, Foreign: foreign}
	if key.Columns, err = b.columnsNamed(id, v.columns); err != nil {
		return key, err
	}
	if len(v.foreignColumns) == 0 {
		primary, ok := b.NodeKey(foreign)
		if !ok || len(primary.Columns) != len(key.Columns) {
			return key, fmt.Errorf("%s has no primary key of as many columns: name the columns it references", b.describe(foreign))
		}
		key.ForeignColumns = primary.Columns
	} else if key.ForeignColumns, err = b.columnsNamed(foreign, v.foreignColumns); err != nil {
		return key, err
	}
	key.Unique = b.isUnique(id, key.Columns)
	return key, nil
}

func (b *builder) classNamed(schema, name string, near catalog.ClassID) catalog.ClassID {
	if schema == "" {
		schema = b.catalog.Schemas[b.catalog.Classes[near].Schema]
	}
	for _, id := range b.order {
		if k := b.catalog.Classes[id]; k.Name == name && b.catalog.Schemas[k.Schema] == schema {
			return catalog.ClassID(id)
		}
	}
	return 0
}

// isUnique tells whether some key of the class consists of just these columns.
func (s *Schema) isUnique(id catalog.ClassID, columns []catalog.ColumnID) bool {
	for _, k := range s.Keys(id) {
		if len(k.Columns) != len(columns) {
			continue
		}
		same := true
		for _, column := range columns {
			same = same && slices.Contains(k.Columns, column)
		}
		if same {
			return true
		}
	}
	return false
}

// foreignKey derives the relation of that id.
func (s *Schema) foreignKey(id uint32) ForeignKey {
	if s.isVirtual(id) {
		return s.virtual[int(id)-len(s.catalog.ForeignKeys)]
	}
	k := s.catalog.ForeignKeys[id]
	out := ForeignKey{Class: k.Class, Foreign: k.Foreign, Columns: s.columnsAt(k.Class, k.Numbers), ForeignColumns: s.columnsAt(k.Foreign, k.ForeignNumbers)}
	out.Unique = s.isUnique(k.Class, out.Columns)
	return out
}

func (b *builder) finish() {
	for _, x := range []struct {
		to   *index
		from []entry
	}{{&b.types, b.typeNames}, {&b.queries, b.queryNames}, {&b.changes, b.changeNames}} {
		slices.SortFunc(x.from, func(a, z entry) int { return cmp.Compare(a.hash, z.hash) })
		x.to.entries = slices.Clip(append(make([]entry, 0, len(x.from)), x.from...))
	}
	b.forward, b.backward, b.order, b.procs, b.computed = exact(b.forward), exact(b.backward), exact(b.order), exact(b.procs), exact(b.computed)
}

func exact[T any](s []T) []T { return append(make([]T, 0, len(s)), s...) }
