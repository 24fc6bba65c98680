package sqlgen

import (
	"slices"
	"strconv"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/leveehq/levee/internal/graphql/catalog"
	"github.com/leveehq/levee/internal/graphql/pgvalue"
	"github.com/leveehq/levee/internal/graphql/schema"
)

func itoa(n int) string { return strconv.Itoa(n) }

// connection is one being compiled.
type connection struct {
	args   connArgs
	class  catalog.ClassID
	order  []ordering
	number int
	items  *columns // of one row's record
	out    *out
}

// table writes a connection to the rows of a class. join says which of them belong to the enclosing row; it writes nothing if
// all do.
func (c *compiler) table(w *builder, s *selected, class catalog.ClassID, join func(w *builder, alias string)) *out {
	alias := c.nextAlias()
	row := tableRow(alias)
	k := c.begin(s)
	skips := c.skips(k)
	if skips {
		row.whole = alias + "." + wholeRow
	}
	k.class = class
	k.order = c.orderBy(class, s.arg("orderBy"), s.def)
	k.args.natural = len(k.order) == 0
	if !k.args.natural {
		k.args.digest = c.digest(class, k.order)
	}
	where := &builder{}
	c.where(where, alias, class, s, join)
	node := func(w *builder, sets []ast.SelectionSet) *out {
		return c.object(w, row, c.types(c.schema.TypeOfClass(class)), sets)
	}
	c.connectionFields(k, s, node)
	if k.needsCursors() {
		c.cursorColumns(k.out.extra, k.items, k.order, row)
	}
	for _, o := range k.order {
		k.args.keys = append(k.args.keys, keyPart{o.tie})
	}
	from := c.className(class) + " as " + alias
	cols := &columns{}
	if k.out.extra.items >= 0 {
		rows := &builder{}
		rows.add(where.text())
		c.seek(rows, k, row)
		list := &builder{}
		list.put("array(select ")
		k.items.row(list)
		if skips {
			c.skipping(list, k, rows, from, alias)
		} else {
			list.put(" from ", from)
			putWhere(list, rows)
			c.orderAndLimit(list, k, row)
		}
		list.put(")")
		k.out.extra.items = cols.add(list)
	}
	if k.out.extra.count >= 0 {
		count := &builder{}
		count.put("(select pg_catalog.count(*) from ", from)
		again := &builder{}
		c.where(again, alias, class, s, join)
		putWhere(count, again)
		count.put(")")
		k.out.extra.count = cols.add(count)
	}
	return c.end(w, k, cols)
}

// wholeRow is the column that has the row itself, where rows come out of a sub-select.
const wholeRow = `"levee_row"`

// skips tells whether rows may be passed over.
func (c *compiler) skips(k *connection) bool { return k.args.offset.has(c.vars) }

// skipping reads rows behind an offset in a sub-select: PostgreSQL works out what is selected of each row that it passes over, and
// relations of 1,450 rows that nobody sees cost five times what those of the 50 do. The sub-select names what is used of a row:
// the role need not be able to see all of it.
func (c *compiler) skipping(list *builder, k *connection, rows *builder, from, alias string) {
	list.put(" from (select 1")
	columns := c.cat.Classes[k.class].Columns
	for i := range uint32(columns.N) {
		if column := c.column(tableRow(alias), catalog.ColumnID(columns.From+i)); k.items.mention(column) {
			list.put(", ", column)
		}
	}
	if k.items.mention(alias + "." + wholeRow) {
		list.put(", (", alias, ".*)::", c.className(k.class), " as ", wholeRow)
	}
	list.put(" from ", from)
	putWhere(list, rows)
	c.orderAndLimit(list, k, tableRow(alias))
	list.put(") as ", alias)
}

func putWhere(w, conditions *builder) {
	t := conditions.text()
	if len(t.params) == 0 && t.parts[0] == "" {
		return
	}
	w.put(" where ")
	w.add(t)
}

// begin enters the connection's arguments among those of its root.
func (c *compiler) begin(s *selected) *connection {
	arg := func(name string) source { return sourceOf(c.op, c.types, schema.Ref{Name: argType(name)}, s.arg(name)) }
	k := &connection{items: &columns{}, number: len(c.root.conns)}
	k.args = connArgs{at: s.at(), first: arg("first"), last: arg("last"), offset: arg("offset"), before: arg("before"), after: arg("after"), page: c.page}
	c.root.conns = append(c.root.conns, connArgs{})
	k.out = &out{kind: outConn, conn: k.number, extra: &connOut{items: -1, count: -1}}
	return k
}

func argType(name string) string {
	if name == "before" || name == "after" {
		return "Cursor"
	}
	return "Int"
}

func (k *connection) needsCursors() bool { return k.out.extra.cursors >= 0 && k.out.extra.items >= 0 }

// connectionFields compiles what is selected of a connection: every selection of nodes becomes a column of the rows' record.
func (c *compiler) connectionFields(k *connection, s *selected, node func(*builder, []ast.SelectionSet) *out) {
	t := c.types(s.def.Type.Name)
	k.out.extra.cursors = -1
	cursors := false
	for _, s := range c.collect(t, s.sub()...) {
		f := outField{key: jsonKey(s.key), name: s.key, column: -1}
		if s.def == nil {
			f.out = &out{kind: outConst, text: string(pgvalue.AppendString(nil, t.Name))}
			k.out.fields = append(k.out.fields, f)
			continue
		}
		f.nonNull = s.def.Type.NonNull
		switch s.def.Bind.Op {
		case schema.OpNodes:
			k.out.extra.items = 0
			w := &builder{}
			f.out = &out{kind: outRows, item: node(w, s.sub())}
			f.out.column = k.items.add(w)
		case schema.OpEdges:
			k.out.extra.items = 0
			f.out = &out{kind: outRows, column: -1, item: c.edge(k, s, node, &cursors)}
		case schema.OpPageInfo:
			f.out = c.pageInfo(k, s, &cursors)
		case schema.OpTotalCount:
			k.out.extra.count = 0
			f.out = &out{kind: outCount}
		}
		k.out.fields = append(k.out.fields, f)
	}
	if cursors {
		k.out.extra.cursors = len(k.items.list)
	}
}

func (c *compiler) edge(k *connection, s *selected, node func(*builder, []ast.SelectionSet) *out, cursors *bool) *out {
	t := c.types(s.def.Type.Name)
	o := &out{kind: outSame}
	for _, s := range c.collect(t, s.sub()...) {
		f := outField{key: jsonKey(s.key), name: s.key, column: -1}
		switch {
		case s.def == nil:
			f.out = &out{kind: outConst, text: string(pgvalue.AppendString(nil, t.Name))}
		case s.def.Bind.Op == schema.OpCursor:
			*cursors = true
			f.out = &out{kind: outCursor, extra: k.out.extra}
		default:
			w := &builder{}
			f.out = node(w, s.sub())
			f.column = k.items.add(w)
		}
		o.fields = append(o.fields, f)
	}
	return o
}

func (c *compiler) pageInfo(k *connection, s *selected, cursors *bool) *out {
	o := &out{kind: outPageInfo}
	k.out.extra.items = 0
	for _, s := range c.collect(c.types("PageInfo"), s.sub()...) {
		f := outField{key: jsonKey(s.key), name: s.key, column: -1}
		switch {
		case s.def == nil:
			f.out = &out{kind: outConst, text: `"PageInfo"`}
		case s.def.Bind.Op == schema.OpStartCursor, s.def.Bind.Op == schema.OpEndCursor:
			*cursors = true
			f.out = &out{kind: outPageInfo, part: int(s.def.Bind.Op)}
		default:
			k.args.wantNext = k.args.wantNext || s.def.Bind.Op == schema.OpHasNextPage
			k.args.wantPrevious = k.args.wantPrevious || s.def.Bind.Op == schema.OpHasPreviousPage
			f.out = &out{kind: outPageInfo, part: int(s.def.Bind.Op)}
		}
		o.fields = append(o.fields, f)
	}
	return o
}

// end writes the connection's record.
func (c *compiler) end(w *builder, k *connection, cols *columns) *out {
	k.out.extra.natural, k.out.extra.digest = k.args.natural, k.args.digest
	c.root.conns[k.number] = k.args
	cols.row(w)
	return k.out
}

// where writes which rows belong to the connection: those of the enclosing row, under the condition.
func (c *compiler) where(w *builder, alias string, class catalog.ClassID, s *selected, join func(*builder, string)) {
	join(w, alias)
	in := s.def.Args
	i := slices.IndexFunc(in, func(a schema.InputValue) bool { return a.Bind.Op == schema.InCondition })
	if i < 0 {
		return
	}
	of := sourceOf(c.op, c.types, in[i].Type, s.arg(in[i].Name))
	value, given := of.get(c.vars)
	members, _ := value.(map[string]any)
	if !given || len(members) == 0 {
		return
	}
	t := c.types(in[i].Type.Name)
	for j := range t.Inputs {
		f := &t.Inputs[j]
		v, ok := members[f.Name]
		if !ok {
			continue
		}
		and(w)
		w.put(c.column(tableRow(alias), f.Bind.Column))
		if v == nil {
			w.put(" is null")
			continue
		}
		w.put(c.operator("=", f.Bind.Pg))
		c.cast(w, param{of: of.member(f.Name), pg: f.Bind.Pg, ref: f.Type}, f.Bind.Pg)
	}
}

func and(w *builder) {
	if w.b.Len() > 0 || len(w.params) > 0 {
		w.put(" and ")
	}
}

// functionSet writes a connection to the rows of a function, in the order that it gives them.
func (c *compiler) functionSet(w *builder, call text, alias string, s *selected, b schema.Bind) *out {
	k := c.begin(s)
	k.args.natural = true
	from := &builder{}
	from.add(call)
	from.put(" as ", alias)
	var node func(w *builder, sets []ast.SelectionSet) *out
	if b.Result == schema.ResultValues {
		as, value := c.item(alias, b.Pg)
		from.put(as)
		ref := c.types(s.def.Type.Name).Field("nodes").Type
		ref.List = false
		node = func(w *builder, sets []ast.SelectionSet) *out { return c.valueOf(w, value, b.Pg, ref, sets) }
	} else {
		item := c.schema.Type(s.def.Type.Name).Field("nodes").Type.Name
		node = func(w *builder, sets []ast.SelectionSet) *out {
			// A function may give a null where a row belongs; it has no columns to be an object of.
			w.put("case when ", alias, ".* is null then null else ")
			o := c.object(w, tableRow(alias), c.types(item), sets)
			w.put(" end")
			return o
		}
	}
	c.connectionFields(k, s, node)
	cols := &columns{}
	if k.out.extra.items >= 0 {
		list := &builder{}
		list.put("array(select ")
		k.items.row(list)
		list.put(" from ")
		list.add(from.text())
		c.orderAndLimit(list, k, rowRef{})
		list.put(")")
		k.out.extra.items = cols.add(list)
	}
	if k.out.extra.count >= 0 {
		count := &builder{}
		count.put("(select pg_catalog.count(*) from ")
		count.add(from.text())
		count.put(")")
		k.out.extra.count = cols.add(count)
	}
	return c.end(w, k, cols)
}
