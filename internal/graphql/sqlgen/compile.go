package sqlgen

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/leveehq/levee/internal/graphql/catalog"
	"github.com/leveehq/levee/internal/graphql/document"
	"github.com/leveehq/levee/internal/graphql/pgvalue"
	"github.com/leveehq/levee/internal/graphql/schema"
)

// compiler makes the plan of one operation for one shape of its variables.
type compiler struct {
	schema *schema.Schema
	cat    *catalog.Catalog
	op     *document.Operation
	vars   map[string]any
	page   int
	alias  int
	root   *root    // the one being compiled: connections are numbered within it
	ids    []source // of node fields: the plan is for ids of these types
}

func (c *compiler) types(name string) *schema.Type {
	if t := c.op.Type(name); t != nil {
		return t
	}
	return c.schema.Type(name)
}

func (c *compiler) nextAlias() string {
	c.alias++
	return fmt.Sprintf("t%d", c.alias)
}

// compile makes the plan.
func (c *compiler) compile() *plan {
	p := &plan{mutation: c.op.Definition.Operation == ast.Mutation}
	name := "Query"
	if p.mutation {
		name = "Mutation"
	}
	for _, s := range c.collect(&schema.Type{Name: name}, c.op.Definition.SelectionSet) {
		r := root{key: s.key, at: s.at()}
		c.root = &r
		switch {
		case s.first.Name == "__typename":
			r.out = &out{kind: outConst, text: string(pgvalue.AppendString(nil, name))}
		case s.def == nil:
			r.intro = &introspection{field: merged(s), vars: c.vars}
		case p.mutation:
			r.nonNull = s.def.Type.NonNull
			c.mutation(&r, s)
		default:
			r.nonNull = s.def.Type.NonNull
			w := &builder{}
			r.out = c.queryField(w, s)
			r.sql = w.text()
		}
		p.roots = append(p.roots, r)
	}
	p.noteBounds(c.vars)
	return p
}

// merged is one field with the selections of all that share its response name.
func merged(s *selected) *ast.Field {
	if len(s.fields) == 1 {
		return s.first
	}
	f := *s.first
	f.SelectionSet = nil
	for _, other := range s.fields {
		f.SelectionSet = append(f.SelectionSet, other.SelectionSet...)
	}
	return &f
}

// query compiles a selection on Query within a record: the field query of payloads and of Query itself.
func (c *compiler) query(cols *columns, sets []ast.SelectionSet) *out {
	t := &schema.Type{Name: "Query", Implements: []string{"Node"}}
	o := &out{kind: outSame}
	for _, s := range c.collect(t, sets...) {
		f := outField{key: jsonKey(s.key), name: s.key, column: -1}
		switch {
		case s.first.Name == "__typename":
			f.out = &out{kind: outConst, text: `"Query"`}
		case s.def == nil: // introspection below the top, which nobody asks for
			f.out = &out{kind: outConst, text: "null"}
		default:
			f.nonNull = s.def.Type.NonNull
			w := &builder{}
			f.out = c.queryField(w, s)
			f.column = cols.add(w, f.out)
		}
		o.fields = append(o.fields, f)
	}
	return o
}

// columns are the expressions of a record being built, or of a row of a list.
type columns struct {
	list   []text
	types  []pgvalue.Wire // of each; it is certain of leaves only
	arrays []bool         // of each: it is an array
	plain  map[string]int // where values of columns are: each is there once, however often it is asked for
}

// add appends an expression, which out reads; an empty one is no column.
func (l *columns) add(w *builder, o *out) int {
	if w.empty() {
		return -1
	}
	l.list = append(l.list, w.text())
	l.types = append(l.types, o.leaf.Wire())
	l.arrays = append(l.arrays, o.kind == outList || o.kind == outLeaf && o.leaf.IsArray())
	return len(l.list) - 1
}

// once is add for the value of a column.
func (l *columns) once(w *builder, o *out) int {
	if len(w.params) > 0 || w.empty() {
		return l.add(w, o)
	}
	sql := w.b.String()
	if i, ok := l.plain[sql]; ok {
		return i
	}
	if l.plain == nil {
		l.plain = map[string]int{}
	}
	l.plain[sql] = l.add(w, o)
	return l.plain[sql]
}

// leaf appends the expression of a leaf.
func (l *columns) leaf(leaf pgvalue.Out, sql string) int {
	w := &builder{}
	w.put(leaf.SQL(sql))
	return l.add(w, &out{kind: outLeaf, leaf: leaf})
}

// mention tells whether some expression has the text.
func (l *columns) mention(sql string) bool {
	return slices.ContainsFunc(l.list, func(t text) bool {
		return slices.ContainsFunc(t.parts, func(part string) bool { return strings.Contains(part, sql) })
	})
}

// row writes the record; one without columns gets one, so that it can be told from NULL.
func (l *columns) row(w *builder) {
	w.put("row(")
	if len(l.list) == 0 {
		w.put("true")
	}
	for i, t := range l.list {
		if i > 0 {
			w.put(", ")
		}
		w.add(t)
	}
	w.put(")")
}

// queryField writes the expression of a field of Query.
func (c *compiler) queryField(w *builder, s *selected) *out {
	b := s.def.Bind
	switch b.Op {
	case schema.OpQuery:
		cols := &columns{}
		o := c.query(cols, s.sub())
		if len(cols.list) == 0 {
			return o
		}
		cols.row(w)
		return &out{kind: outObject, fields: o.fields, types: cols.types}
	case schema.OpQueryID:
		return &out{kind: outConst, text: `"query"`}
	case schema.OpNode:
		return c.node(w, s)
	case schema.OpByNodeID:
		key, _ := c.schema.NodeKey(b.Class)
		return c.byNodeID(w, s, b.Class, key)
	case schema.OpByKey:
		return c.byKey(w, s, b.Class, func(i int, id catalog.ColumnID) param {
			in := s.def.Args[i]
			return param{of: sourceOf(c.op, c.types, in.Type, s.arg(in.Name)), pg: in.Bind.Pg, ref: in.Type}
		}, b.Key.Columns)
	case schema.OpAll:
		return c.table(w, s, b.Class, func(*builder, string) {})
	case schema.OpProcQuery:
		return c.call(w, s, nil)
	}
	panic(fmt.Sprintf("sqlgen: %s has an operation that fields of Query do not have: %d", s.first.Name, b.Op))
}

// byKey reads one row.
func (c *compiler) byKey(w *builder, s *selected, class catalog.ClassID, value func(i int, id catalog.ColumnID) param, key []catalog.ColumnID) *out {
	alias := c.nextAlias()
	w.put("(select ")
	o := c.object(w, tableRow(alias), c.types(c.schema.TypeOfClass(class)), s.sub())
	w.put(" from ", c.className(class), " as ", alias, " where ")
	for i, id := range key {
		if i > 0 {
			w.put(" and ")
		}
		w.put(c.column(tableRow(alias), id), c.operator("=", c.cat.Columns[id].Type))
		c.cast(w, value(i, id), c.cat.Columns[id].Type)
	}
	w.put(c.one(class, key), ")")
	return o
}

// cast leaves a place for a parameter of that type.
func (c *compiler) cast(w *builder, p param, t catalog.TypeID) {
	w.param(p)
	w.put("::", c.typeName(t))
}

func (c *compiler) byNodeID(w *builder, s *selected, class catalog.ClassID, key schema.Key) *out {
	n := c.nodeID(s.arg("id"), c.schema.TypeOfClass(class))
	return c.byKey(w, s, class, func(i int, id catalog.ColumnID) param { return c.nodeParam(n, i, id) }, key.Columns)
}

// nodeID enters a node id among those whose parts are parameters.
func (c *compiler) nodeID(v *ast.Value, typeName string) int {
	c.root.nodes = append(c.root.nodes, sourceOf(c.op, c.types, schema.Ref{Name: "ID", NonNull: true}, v))
	c.root.nodeType = append(c.root.nodeType, typeName)
	return len(c.root.nodes) - 1
}

func (c *compiler) nodeParam(n, i int, id catalog.ColumnID) param {
	p := c.keyParam(id)
	p.role, p.conn, p.of = nodePart, n, source{value: i}
	return p
}

// node reads whatever the id names. The plan is for ids of that type: see Engine.shape.
func (c *compiler) node(w *builder, s *selected) *out {
	ref := schema.Ref{Name: "ID", NonNull: true}
	c.ids = append(c.ids, sourceOf(c.op, c.types, ref, s.arg("id")))
	id, _ := c.op.Value(ref, s.arg("id"), c.vars)
	text, _ := id.(string)
	if text == queryID {
		cols := &columns{}
		o := c.query(cols, s.sub())
		if len(cols.list) == 0 {
			return o
		}
		cols.row(w)
		return &out{kind: outObject, fields: o.fields, types: cols.types}
	}
	typeName, _, ok := decodeID(text)
	class, known := c.schema.NodeType(typeName)
	if !ok || !known {
		return &out{kind: outConst, text: "null"}
	}
	key, _ := c.schema.NodeKey(class)
	return c.byNodeID(w, s, class, key)
}

// object writes the record of a row, or of anything that has columns.
func (c *compiler) object(w *builder, r rowRef, t *schema.Type, sets []ast.SelectionSet) *out {
	cols := &columns{}
	o := c.fields(cols, r, t, sets)
	o.types = cols.types
	cols.row(w)
	return o
}

// fields compiles the selection of an object.
func (c *compiler) fields(cols *columns, r rowRef, t *schema.Type, sets []ast.SelectionSet) *out {
	o := &out{kind: outObject}
	for _, s := range c.collect(t, sets...) {
		f := outField{key: jsonKey(s.key), name: s.key, column: -1}
		if s.def == nil { // __typename: all else is in the type
			f.out = &out{kind: outConst, text: string(pgvalue.AppendString(nil, t.Name))}
			o.fields = append(o.fields, f)
			continue
		}
		f.nonNull, f.itemsNN = s.def.Type.NonNull, s.def.Type.ItemNonNull
		c.rowField(&f, cols, r, s)
		o.fields = append(o.fields, f)
	}
	return o
}

// rowField compiles a field of a row, record or composite.
func (c *compiler) rowField(f *outField, cols *columns, r rowRef, s *selected) {
	b := s.def.Bind
	w := &builder{}
	switch b.Op {
	case schema.OpNodeID:
		f.out = c.nodeIDOut(cols, r, b.Class)
		return
	case schema.OpColumn:
		f.out = c.value(w, c.column(r, b.Column), b.Pg, s)
		f.column = cols.once(w, f.out)
		return
	case schema.OpRecordField:
		f.out = c.value(w, r.dot+quote(c.outName(b.Proc, int(b.Index))), b.Pg, s)
	case schema.OpForward, schema.OpBackwardOne:
		to := relationOf(b)
		if f.out = c.joined(cols, r, s, to); f.out != nil {
			return
		}
		f.out = c.single(w, s, to, r)
	case schema.OpRefOne:
		f.out = c.refOne(w, s, r)
	case schema.OpRef:
		f.out = c.table(w, s, b.Class, func(w *builder, alias string) { c.through(w, alias, r, c.schema.Paths(b.Index)) })
	case schema.OpBackward:
		k := b.ForeignKey
		f.out = c.table(w, s, k.Class, func(w *builder, alias string) { c.join(w, alias, k.Columns, r, k.ForeignColumns) })
	case schema.OpComputed:
		f.out = c.call(w, s, &r)
	default:
		panic(fmt.Sprintf("sqlgen: %s has an operation that fields of rows do not have: %d", s.first.Name, b.Op))
	}
	if r.there != "" && !w.empty() {
		w = w.guarded(r.there)
	}
	f.column = cols.add(w, f.out)
}

// join writes the condition that pairs columns of a table with those of the enclosing row.
func (c *compiler) join(w *builder, alias string, own []catalog.ColumnID, r rowRef, theirs []catalog.ColumnID) {
	for i := range own {
		if i > 0 {
			w.put(" and ")
		}
		w.put(c.column(tableRow(alias), own[i]), c.operator("=", c.cat.Columns[own[i]].Type), c.column(r, theirs[i]))
	}
}

// single writes the one row that a relation leads to.
func (c *compiler) single(w *builder, s *selected, to relation, r rowRef) *out {
	alias := c.nextAlias()
	w.put("(select ")
	o := c.object(w, tableRow(alias), c.types(c.schema.TypeOfClass(to.class)), s.sub())
	w.put(" from ", c.className(to.class), " as ", alias, " where ")
	c.join(w, alias, to.columns, r, to.near)
	w.put(c.one(to.class, to.columns), ")")
	return o
}

// one ends the select of a row by its key. A key that a tag promises may have several rows.
func (c *compiler) one(class catalog.ClassID, key []catalog.ColumnID) string {
	if c.isKey(class, key) {
		return ""
	}
	return " limit 1"
}

func (c *compiler) nodeIDOut(cols *columns, r rowRef, class catalog.ClassID) *out {
	key, _ := c.schema.NodeKey(class)
	o := &out{kind: outNodeID, column: len(cols.list), text: string(pgvalue.AppendString([]byte("["), c.schema.TypeOfClass(class)))}
	for _, id := range key.Columns {
		leaf := c.keyLeaf(id)
		cols.leaf(leaf, c.column(r, id))
		o.fields = append(o.fields, outField{out: &out{kind: outLeaf, leaf: leaf}})
	}
	return o
}

// keyParam is how a value of a key or ordering comes back: as keyLeaf had it.
func (c *compiler) keyParam(id catalog.ColumnID) param {
	t := c.cat.Columns[id].Type
	ref, _ := c.schema.RefOf(t)
	if _, ok := pgvalue.OutOf(c.schema, t, ref); !ok {
		return param{pg: c.text(), ref: schema.Ref{Name: "String"}}
	}
	return param{pg: t, ref: ref}
}

// keyLeaf is how a column of a key or ordering travels. What is no leaf goes as text.
func (c *compiler) keyLeaf(id catalog.ColumnID) pgvalue.Out {
	t := c.cat.Columns[id].Type
	ref, _ := c.schema.RefOf(t)
	if leaf, ok := pgvalue.OutOf(c.schema, t, ref); ok {
		return leaf
	}
	return pgvalue.Text
}
