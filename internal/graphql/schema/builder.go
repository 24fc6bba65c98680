package schema

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/leveehq/levee/internal/graphql/catalog"
)

// class is what there is to know of a class that takes time to derive.
type class struct {
	shown    bool  // is a table or view of an exposed schema
	typed    bool  // has an object type: it is shown, or used as a type
	readable bool  // is shown, and somebody may read it
	gives    bool  // is the type of something that is read, by a column or function
	given    bool  // is the type of something that is written, or of an argument
	listed   bool  // is what a function returns a set of
	place    int32 // in Schema.order
	name     string
	keys     []virtualUnique
}

// virtualUnique is a key that a tag made.
type virtualUnique struct {
	Key
	tags tags
}

// virtualRelation is a foreign key that a tag made.
type virtualRelation struct {
	ForeignKey
	tags tags
}

// relation is a foreign key: the catalog's, or from len(catalog.ForeignKeys) on one of Schema.virtual.
type relation struct {
	of catalog.ClassID // the class that has the field
	id uint32
}

type builder struct {
	*Schema
	typeNames, queryNames, changeNames []entry
	taken                              map[uint64]string // who has a name, while they are given
	used                               []bool            // by TypeID
}

func (b *builder) warn(format string, args ...any) {
	b.warnings = append(b.warnings, fmt.Sprintf(format, args...))
}

// readClasses decides what is shown, and in which order, and what it is called.
func (b *builder) readClasses() error {
	c := b.catalog
	b.classes = make([]class, len(c.Classes))
	b.readEnums()
	for id := 1; id < len(c.Classes); id++ {
		b.classes[id].readable = b.readable(catalog.ClassID(id))
		if b.isShown(catalog.ClassID(id)) {
			b.classes[id].shown = true
			b.order = append(b.order, uint32(id))
		}
		b.classes[id].readable = b.classes[id].readable && b.classes[id].shown
	}
	slices.SortFunc(b.order, func(x, y uint32) int {
		a, z := &c.Classes[x], &c.Classes[y]
		return cmp.Or(cmp.Compare(a.Columns.N, z.Columns.N), cmp.Compare(a.Schema, z.Schema), cmp.Compare(a.Name, z.Name))
	})
	for i, id := range b.order {
		b.classes[id].place = int32(i)
	}
	b.findUsed()
	b.nameClasses()
	b.nameColumns()
	return nil
}

// isShown is true for the tables of exposed schemas that somebody may do something with. Partitions are shown by what they are
// partitions of, and unlogged tables are somebody's cache.
func (b *builder) isShown(id catalog.ClassID) bool {
	k := &b.catalog.Classes[id]
	if int(k.Schema) >= b.catalog.Exposed || k.Kind == 'c' || k.Partition || k.Columns.N == 0 {
		return false
	}
	if tags := b.classTags(id); !matches("table", true, tags) || b.isEnumTable(id) || k.Unlogged && !matches("resource:select", false, tags) {
		return false
	}
	return b.classes[id].readable || b.mayOf(id)&k.Updatable != 0
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

// mayOf is what somebody may do to a class, or to a column of it.
func (s *Schema) mayOf(c catalog.ClassID) catalog.Privileges {
	k := &s.catalog.Classes[c]
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
	return may
}

// classTags are those of a class; what the comment on a composite type says is on the type.
func (s *Schema) classTags(c catalog.ClassID) tags {
	k := &s.catalog.Classes[c]
	comment := k.Comment
	if k.Kind == 'c' && comment == "" {
		comment = s.catalog.Types[k.Type].Comment
	}
	t, _ := parseComment(comment)
	return t
}

// findUsed marks the types that values have: those of columns, arguments and results, and so on inside. Too many may be marked, such
// as those of functions that are not shown after all, but none too few.
func (b *builder) findUsed() {
	b.used = make([]bool, len(b.catalog.Types))
	for _, id := range b.order {
		b.classes[id].typed = true
	}
	for _, id := range b.order {
		b.markColumns(catalog.ClassID(id), true, true)
	}
	for i := range b.catalog.Procs {
		f := &b.catalog.Procs[i]
		if c := b.mark(f.Returns, true, false); c != 0 && f.Set {
			b.classes[c].listed = true
		}
	}
	for i := range b.catalog.Args {
		a := &b.catalog.Args[i]
		in := a.Mode == 'i' || a.Mode == 'b' || a.Mode == 'v'
		b.mark(a.Type, !in || a.Mode == 'b', in)
	}
}

// mark marks a type that is read, or written, and returns its class if it is a row.
func (b *builder) mark(t catalog.TypeID, gives, given bool) catalog.ClassID {
	b.used[t] = true
	t = b.baseOf(t)
	b.used[t] = true
	if typ := &b.catalog.Types[t]; isArray(typ) {
		return b.mark(typ.Element, gives, given)
	} else if typ.Kind == 'r' {
		b.mark(typ.Element, gives, given)
	}
	c := b.catalog.Types[t].Class
	if c == 0 {
		return 0
	}
	k := &b.classes[c]
	if gives, given = gives && !k.gives, given && !k.given; !gives && !given {
		return c
	}
	k.gives, k.given = k.gives || gives, k.given || given
	if k.typed || b.catalog.Classes[c].Columns.N > 0 && matches("table", true, b.classTags(c)) && !b.isEnumTable(c) {
		k.typed = true
		b.markColumns(c, gives, given)
	}
	return c
}

func (b *builder) markColumns(c catalog.ClassID, gives, given bool) {
	k := &b.catalog.Classes[c]
	for i := range uint32(k.Columns.N) {
		b.mark(b.catalog.Columns[k.Columns.From+i].Type, gives, given)
	}
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
	return out, nil
}

func (b *builder) finish() {
	for _, x := range []struct {
		to   *index
		from []entry
	}{{&b.types, b.typeNames}, {&b.queries, b.queryNames}, {&b.changes, b.changeNames}} {
		slices.SortFunc(x.from, func(a, z entry) int { return cmp.Compare(a.hash, z.hash) })
		x.to.entries = exact(x.from)
	}
	b.forward, b.backward, b.order, b.procs, b.computed = exact(b.forward), exact(b.backward), exact(b.order), exact(b.procs), exact(b.computed)
}

// exact copies into a slice of the exact size: append leaves up to a quarter unused.
func exact[T any](s []T) []T {
	out := make([]T, len(s))
	copy(out, s)
	return out
}
