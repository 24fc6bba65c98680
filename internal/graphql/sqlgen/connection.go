package sqlgen

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
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
	order  []ordering
	number int
	items  *columns // of one row's record
	out    *out
}

// ordering is one column that rows are ordered by.
type ordering struct {
	column catalog.ColumnID
	desc   bool
	tie    bool // it orders only rows whose unique key is null, and is in the cursors of those only
}

// table writes a connection to the rows of a class. join says which of them belong to the enclosing row; it writes nothing if
// all do.
func (c *compiler) table(w *builder, s *selected, class catalog.ClassID, join func(w *builder, alias string)) *out {
	alias := c.nextAlias()
	row := tableRow(alias)
	k := c.begin(s)
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
		for _, o := range k.order {
			leaf := c.keyLeaf(o.column)
			k.out.extra.leaves = append(k.out.extra.leaves, leaf)
			if !o.tie {
				k.out.extra.named++
			}
			k.items.expr(leaf.SQL(c.column(row, o.column)))
		}
	}
	for _, o := range k.order {
		ref, _ := c.schema.RefOf(c.cat.Columns[o.column].Type)
		k.args.keys = append(k.args.keys, keyPart{param{pg: c.cat.Columns[o.column].Type, ref: ref}, o.tie})
	}
	from := c.className(class) + " as " + alias
	cols := &columns{}
	if k.out.extra.items >= 0 {
		list := &builder{}
		list.put("array(select ")
		k.items.row(list)
		list.put(" from ", from)
		rows := &builder{}
		rows.add(where.text())
		c.seek(rows, k, row)
		putWhere(list, rows)
		c.orderAndLimit(list, k, row)
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
		w.put(" = ")
		c.cast(w, param{of: of.member(f.Name), pg: f.Bind.Pg, ref: f.Type}, f.Bind.Pg)
	}
}

func and(w *builder) {
	if w.b.Len() > 0 || len(w.params) > 0 {
		w.put(" and ")
	}
}

// orderBy resolves an ordering. One that leaves rows in ties is made total by the primary key, in the direction of the first.
func (c *compiler) orderBy(class catalog.ClassID, v *ast.Value, def *schema.Field) []ordering {
	in := def.Args[slices.IndexFunc(def.Args, func(a schema.InputValue) bool { return a.Bind.Op == schema.InOrderBy })]
	names := c.orderNames(in, v)
	t := c.types(in.Type.Name)
	key, keyed := c.schema.NodeKey(class)
	var out []ordering
	desc := false
	for i, name := range names {
		o := valueNamed(t, name)
		if i == 0 {
			desc = o.Desc
		}
		switch o.Kind {
		case schema.OrderByColumn:
			out = append(out, ordering{column: o.Column, desc: o.Desc})
		case schema.OrderPrimaryKey:
			for _, id := range key.Columns {
				out = append(out, ordering{column: id, desc: o.Desc})
			}
		}
	}
	unique, nullable := c.unique(class, out)
	if keyed && (!unique || nullable) {
		for _, id := range key.Columns {
			out = append(out, ordering{column: id, desc: desc, tie: unique})
		}
	}
	return out
}

func (c *compiler) orderNames(in schema.InputValue, v *ast.Value) []string {
	if v == nil {
		return defaultOrder(in)
	}
	value, given := c.op.Value(in.Type, v, c.vars)
	if !given || value == nil {
		return defaultOrder(in)
	}
	items, ok := value.([]any)
	if !ok {
		items = []any{value}
	}
	var names []string
	for _, item := range items {
		if name, ok := item.(string); ok {
			names = append(names, name)
		}
	}
	return names
}

func defaultOrder(in schema.InputValue) []string {
	return []string{in.Default[1 : len(in.Default)-1]}
}

func valueNamed(t *schema.Type, name string) schema.Order {
	for _, v := range t.Values {
		if v.Name == name {
			return v.Order
		}
	}
	return schema.Order{}
}

// unique tells whether the columns hold a key, and whether only one that can be null: rows in which it is are alike.
func (c *compiler) unique(class catalog.ClassID, order []ordering) (unique, nullable bool) {
	for _, k := range c.schema.Keys(class) {
		all, null := true, false
		for _, id := range k.Columns {
			all = all && slices.ContainsFunc(order, func(o ordering) bool { return o.column == id })
			null = null || !k.Primary && !c.notNull(id)
		}
		if all && !null {
			return true, false
		}
		unique, nullable = unique || all, nullable || all
	}
	return unique, nullable
}

func (c *compiler) notNull(id catalog.ColumnID) bool {
	return c.cat.Columns[id].Flags&catalog.NotNull != 0
}

// digest tells cursors of one ordering from those of others. Directions are not in it: a cursor is a place, whichever way one
// goes from there.
func (c *compiler) digest(class catalog.ClassID, order []ordering) string {
	var exprs []string
	for _, o := range order {
		if o.tie {
			continue
		}
		exprs = append(exprs, "__"+c.cat.Classes[class].Name+"__."+quote(c.cat.Columns[o.column].Name))
	}
	b, _ := json.Marshal(exprs) // strings always have JSON
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])[:10]
}

// seek writes the conditions of the cursors.
func (c *compiler) seek(w *builder, k *connection, row rowRef) {
	if k.args.natural {
		return // by offset
	}
	for _, x := range []struct {
		of   source
		role role
	}{{k.args.after, afterOf}, {k.args.before, beforeOf}} {
		if v, ok := x.of.get(c.vars); !ok || v == nil {
			continue
		}
		and(w)
		w.put("(")
		c.beyond(w, k, row, 0, x.role)
		w.put(")")
	}
}

// beyond writes that a row comes after the cursor in the ordering from the i-th column on, or before it. PostgreSQL has nulls
// last in ascending order and first in descending order, so a column that may be null needs more than a comparison.
func (c *compiler) beyond(w *builder, k *connection, row rowRef, i int, r role) {
	o := k.order[i]
	column := c.column(row, o.column)
	value := func() {
		ref, _ := c.schema.RefOf(c.cat.Columns[o.column].Type)
		c.cast(w, param{conn: k.number, role: r, of: source{value: i}, pg: c.cat.Columns[o.column].Type, ref: ref}, c.cat.Columns[o.column].Type)
	}
	up := o.desc == (r == beforeOf) // towards larger values
	sign := " < "
	if up {
		sign = " > "
	}
	if c.notNull(o.column) || c.inPrimaryKey(o.column) {
		w.put(column, sign)
		value()
		if i+1 < len(k.order) {
			w.put(" or ", column, " = ")
			value()
			w.put(" and (")
			c.beyond(w, k, row, i+1, r)
			w.put(")")
		}
		return
	}
	if up {
		value()
		w.put(" is not null and (", column, " is null or ", column, sign)
		value()
		w.put(")")
	} else {
		value()
		w.put(" is null and ", column, " is not null or ", column, sign)
		value()
	}
	if i+1 < len(k.order) {
		w.put(" or ", column, " is not distinct from ")
		value()
		w.put(" and (")
		c.beyond(w, k, row, i+1, r)
		w.put(")")
	}
}

func (c *compiler) inPrimaryKey(id catalog.ColumnID) bool {
	for class := 1; class < len(c.cat.Classes); class++ {
		k := c.cat.Classes[class].Columns
		if uint32(id) >= k.From && uint32(id) < k.From+uint32(k.N) {
			key, ok := c.schema.NodeKey(catalog.ClassID(class))
			return ok && slices.Contains(key.Columns, id)
		}
	}
	return false
}

// orderAndLimit writes the end of the select. Last rows are read in reverse order.
func (c *compiler) orderAndLimit(w *builder, k *connection, row rowRef) {
	reversed := c.reversed(k)
	for i, o := range k.order {
		before := k.order[:i]
		if i == 0 {
			w.put(" order by ")
		} else if slices.ContainsFunc(before, func(x ordering) bool { return x.column == o.column }) {
			continue // it is in the cursors twice, for PostGraphile's sake
		} else {
			w.put(", ")
		}
		w.put(c.column(row, o.column))
		if o.desc != reversed {
			w.put(" desc")
		}
	}
	w.put(" limit ")
	w.param(param{conn: k.number, role: limitOf})
	w.put("::int8 offset ")
	w.param(param{conn: k.number, role: offsetOf})
	w.put("::int8")
}

// reversed tells whether rows are read from the end: there is last, and no first.
func (c *compiler) reversed(k *connection) bool {
	last, ok := k.args.last.get(c.vars)
	if !ok || last == nil || k.args.natural {
		return false
	}
	first, ok := k.args.first.get(c.vars)
	return !ok || first == nil
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
		from.put("(v)")
		node = func(w *builder, sets []ast.SelectionSet) *out {
			ref, _ := c.schema.RefOf(b.Pg)
			return c.valueOf(w, alias+".v", b.Pg, ref, sets)
		}
	} else {
		item := c.schema.Type(s.def.Type.Name).Field("nodes").Type.Name
		node = func(w *builder, sets []ast.SelectionSet) *out {
			// A function may give a null where a row belongs; it has no columns to be an object of.
			w.put("case when ", alias, " is null then null else ")
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
