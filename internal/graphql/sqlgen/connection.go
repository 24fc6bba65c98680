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
	items  *columns // of one row
	joins  *joins
	apart  bool // rows come out of a sub-select
	out    *out
}

// table writes a connection to the rows of a class. join says which of them belong to the enclosing row; it writes nothing if
// all do.
func (c *compiler) table(w *builder, s *selected, class catalog.ClassID, join func(w *builder, alias string)) *out {
	alias := c.nextAlias()
	row := tableRow(alias)
	k := c.begin(s)
	k.class = class
	k.order = c.orderBy(class, s.arg("orderBy"), s.def)
	k.args.natural = len(k.order) == 0
	if !k.args.natural {
		k.args.digest = c.digest(class, k.order)
		if c.leadsOn(s) {
			k.apart, row.joins = true, k.joins
		}
	}
	if k.apart = k.apart || k.args.offset.has(c.vars); k.apart {
		row.whole = alias + "." + wholeRow
	}
	c.connectionFields(k, s, func(cols *columns, sets []ast.SelectionSet) *out {
		o := c.fields(cols, row, c.types(c.schema.TypeOfClass(class)), sets)
		o.kind = outSame
		return o
	})
	if k.needsCursors() {
		c.cursorColumns(k.out.extra, k.items, k.order, row)
	}
	for _, o := range k.order {
		k.args.keys = append(k.args.keys, keyPart{o.tie})
	}
	count := &builder{}
	if k.out.extra.count >= 0 {
		count.put("(select pg_catalog.count(*) from ", c.className(class), " as ", alias)
		conditions := &builder{}
		c.where(conditions, alias, class, s, join)
		putWhere(count, conditions)
		count.put(")")
	}
	return c.end(w, k, count, func(w *builder) {
		conditions := &builder{}
		c.where(conditions, alias, class, s, join)
		c.seek(conditions, k, row)
		c.putRows(w, k, conditions, alias, row)
	})
}

// begin enters the connection's arguments among those of its root.
func (c *compiler) begin(s *selected) *connection {
	arg := func(name string) source { return sourceOf(c.op, c.types, schema.Ref{Name: argType(name)}, s.arg(name)) }
	k := &connection{items: &columns{}, joins: &joins{by: map[string]joinedRow{}}, number: len(c.root.conns)}
	k.args = connArgs{at: s.at(), first: arg("first"), last: arg("last"), offset: arg("offset"), before: arg("before"), after: arg("after"), page: c.page}
	c.root.conns = append(c.root.conns, connArgs{})
	k.out = &out{kind: outConn, conn: k.number, extra: &connOut{count: -1, cursors: -1}}
	return k
}

func argType(name string) string {
	if name == "before" || name == "after" {
		return "Cursor"
	}
	return "Int"
}

func (k *connection) needsCursors() bool { return k.out.extra.cursors >= 0 && !k.args.natural }

// nodeFunc compiles a selection of a list's rows into their columns. Its output is an object of these, or has one that is the whole.
type nodeFunc func(cols *columns, sets []ast.SelectionSet) *out

// connectionFields compiles what is selected of a connection.
func (c *compiler) connectionFields(k *connection, s *selected, node nodeFunc) {
	t := c.types(s.def.Type.Name)
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
			k.out.extra.rows = true
			f.out = &out{kind: outRows, item: node(k.items, s.sub())}
		case schema.OpEdges:
			k.out.extra.rows = true
			f.out = &out{kind: outEdges, item: c.edge(k, s, node, &cursors)}
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

func (c *compiler) edge(k *connection, s *selected, node nodeFunc, cursors *bool) *out {
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
			f.out = node(k.items, s.sub())
		}
		o.fields = append(o.fields, f)
	}
	return o
}

func (c *compiler) pageInfo(k *connection, s *selected, cursors *bool) *out {
	o := &out{kind: outPageInfo}
	for _, s := range c.collect(c.types("PageInfo"), s.sub()...) {
		f := outField{key: jsonKey(s.key), name: s.key, column: -1}
		switch {
		case s.def == nil:
			f.out = &out{kind: outConst, text: `"PageInfo"`}
		case s.def.Bind.Op == schema.OpStartCursor, s.def.Bind.Op == schema.OpEndCursor:
			*cursors = true
			k.out.extra.rows = true
			f.out = &out{kind: outPageInfo, part: int(s.def.Bind.Op)}
		default:
			k.args.wantNext = k.args.wantNext || s.def.Bind.Op == schema.OpHasNextPage
			k.args.wantPrevious = k.args.wantPrevious || s.def.Bind.Op == schema.OpHasPreviousPage
			f.out = &out{kind: outPageInfo, part: int(s.def.Bind.Op)}
		}
		o.fields = append(o.fields, f)
	}
	// Whether there are more is seen by a row too many, and only of rows that were counted off.
	k.out.extra.rows = k.out.extra.rows || k.args.wantNext && k.args.first.has(c.vars) || k.args.wantPrevious && k.args.last.has(c.vars)
	return o
}

// end writes the connection's record: an array for each column of its rows, which cost a third less than an array of records, and the
// count. rows writes where the rows come from; they are in a sub-select, whose order is that in which they are put together.
func (c *compiler) end(w *builder, k *connection, count *builder, rows func(w *builder)) *out {
	x := k.out.extra
	x.natural, x.digest, x.wrapped, x.types = k.args.natural, k.args.digest, k.items.arrays, k.items.types
	c.root.conns[k.number] = k.args
	if !x.rows {
		cols := &columns{}
		if !count.empty() {
			x.count = cols.add(count, &out{kind: outCount})
		}
		cols.row(w)
		return k.out
	}
	if len(k.items.list) == 0 { // how many rows there are is seen by a column
		w := &builder{}
		w.put("true")
		k.items.add(w, &out{kind: outLeaf})
		x.wrapped, x.types = k.items.arrays, k.items.types
	}
	alias := c.nextAlias()
	w.put("(select row(")
	for i, array := range k.items.arrays {
		value := alias + ".c" + itoa(i)
		if array { // an array of arrays is another thing
			value = "row(" + value + ")"
		}
		w.put(separator(i == 0, ""), "pg_catalog.array_agg(", value, ")")
	}
	if !count.empty() {
		x.count = len(k.items.list)
		w.put(", ")
		w.add(count.text())
	}
	w.put(") from (select ")
	for i, t := range k.items.list {
		w.put(separator(i == 0, ""))
		w.add(t)
		w.put(" as c", itoa(i))
	}
	rows(w)
	w.put(") as ", alias, ")")
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
	if !w.empty() {
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
	var node nodeFunc
	if b.Result == schema.ResultValues {
		as, value := c.item(alias, b.Pg)
		from.put(as)
		ref := c.types(s.def.Type.Name).Field("nodes").Type
		ref.List = false
		node = func(cols *columns, sets []ast.SelectionSet) *out {
			w := &builder{}
			o := c.valueOf(w, value, b.Pg, ref, sets)
			return inColumn(cols, w, o)
		}
	} else {
		item := c.schema.Type(s.def.Type.Name).Field("nodes").Type.Name
		node = func(cols *columns, sets []ast.SelectionSet) *out {
			// A function may give a null where a row belongs; it has no columns to be an object of.
			w := &builder{}
			w.put("case when ", alias, ".* is null then null else ")
			o := c.object(w, tableRow(alias), c.types(item), sets)
			w.put(" end")
			return inColumn(cols, w, o)
		}
	}
	c.connectionFields(k, s, node)
	count := &builder{}
	if k.out.extra.count >= 0 {
		count.put("(select pg_catalog.count(*) from ")
		count.add(from.text())
		count.put(")")
	}
	return c.end(w, k, count, func(w *builder) {
		w.put(" from ")
		w.add(from.text())
		c.putLimit(w, k)
	})
}

// inColumn is an output that is read from a column of its own.
func inColumn(cols *columns, w *builder, o *out) *out {
	return &out{kind: outColumn, column: cols.add(w, o), item: o}
}
