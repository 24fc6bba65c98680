package sqlgen

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/leveehq/levee/internal/graphql/catalog"
	"github.com/leveehq/levee/internal/graphql/pgvalue"
	"github.com/leveehq/levee/internal/graphql/schema"
)

// change is a mutation field: two statements in one transaction. The first changes something and keeps the row that came of it, as
// text in a setting of this transaction; the second, whose snapshot sees the change, makes the payload from that row. A single
// statement could not: what a WITH changes is not visible to the rest of the statement, so relations and counts in the payload would
// be those from before. A setting needs no second round trip, as a parameter taken from the first answer would.
type change struct {
	first    text
	empty    bool // a patch that changes nothing: an error, and nothing runs
	deletes  bool // no row is an error
	keyed    bool // by node id: one that names nothing makes the field null
	keeps    bool // the payload has something of the row
	captures bool // the first statement's row is what the payload's result is made from
}

// rowSetting is the setting that the row travels in.
const rowSetting = "levee.row"

const (
	keepRow = "pg_catalog.set_config('" + rowSetting + "', "
	readRow = "nullif(pg_catalog.current_setting('" + rowSetting + "', true), '')"
)

func (c *compiler) mutation(r *root, s *selected) {
	r.change = &change{}
	in := s.def.Args[0]
	input := sourceOf(c.op, c.types, in.Type, s.arg(in.Name))
	b := s.def.Bind
	r.change.keeps = c.needsRow(s)
	w := &builder{}
	switch b.Op {
	case schema.OpCreate:
		c.insert(w, b.Class, c.types(in.Type.Name), input)
	case schema.OpUpdate, schema.OpDelete:
		r.change.keyed = b.ByNodeID
		r.change.deletes = b.Op == schema.OpDelete
		c.changeRow(w, b, c.types(in.Type.Name), input)
	case schema.OpProcMutation:
		c.callMutation(w, s, input, c.types(in.Type.Name))
	}
	r.change.first = w.text()
	second := &builder{}
	r.out = c.payload(second, s, input)
	r.sql = second.text()
}

func (c *compiler) needsRow(s *selected) bool {
	return slices.ContainsFunc(c.collect(c.types(s.def.Type.Name), s.sub()...), func(f *selected) bool {
		if f.def == nil {
			return false
		}
		op := f.def.Bind.Op
		return op == schema.OpPayloadRow || op == schema.OpPayloadEdge || op == schema.OpDeletedID
	})
}

// assigned are the columns that an input object gives, in the schema's order.
func (c *compiler) assigned(t *schema.Type, of source, each func(id catalog.ColumnID, p param)) {
	value, _ := of.get(c.vars)
	members, _ := value.(map[string]any)
	for i := range t.Inputs {
		f := &t.Inputs[i]
		if _, ok := members[f.Name]; ok && f.Bind.Op == schema.InColumn {
			each(f.Bind.Column, param{of: of.member(f.Name), pg: f.Bind.Pg, ref: f.Type})
		}
	}
}

func inputWith(t *schema.Type, op schema.InputOp) *schema.InputValue {
	for i := range t.Inputs {
		if t.Inputs[i].Bind.Op == op {
			return &t.Inputs[i]
		}
	}
	return nil
}

func (c *compiler) insert(w *builder, class catalog.ClassID, t *schema.Type, input source) {
	obj := inputWith(t, schema.InObject)
	names, values := &builder{}, &builder{}
	c.assigned(c.types(obj.Type.Name), input.member(obj.Name), func(id catalog.ColumnID, p param) {
		if names.b.Len() > 0 {
			names.put(", ")
			values.put(", ")
		}
		names.put(quote(c.cat.Columns[id].Name))
		c.cast(values, p, c.cat.Columns[id].Type)
	})
	alias := c.nextAlias()
	w.put("insert into ", c.className(class), " as ", alias)
	if names.b.Len() == 0 {
		w.put(" default values")
	} else {
		w.put(" (")
		w.add(names.text())
		w.put(") values (")
		w.add(values.text())
		w.put(")")
	}
	c.returning(w, class, alias)
}

// returning keeps the row, if the payload has anything of it: who may not read a table may still write to it. Of a row that cannot
// be read as a whole, it keeps the columns that can.
func (c *compiler) returning(w *builder, class catalog.ClassID, alias string) {
	if !c.root.change.keeps {
		w.put(" returning true")
		return
	}
	k := c.cat.Classes[class].Columns
	var fields []string
	all := true
	for id := k.From; id < k.From+uint32(k.N); id++ {
		if c.cat.Columns[id].Flags&catalog.CanSelect == 0 {
			fields, all = append(fields, "null"), false
			continue
		}
		fields = append(fields, c.column(tableRow(alias), catalog.ColumnID(id)))
	}
	if all {
		w.put(" returning ", keepRow, alias, ".*::text, true)")
		return
	}
	w.put(" returning ", keepRow, "row(", strings.Join(fields, ", "), ")::", c.className(class), "::text, true)")
}

func (c *compiler) changeRow(w *builder, b schema.Bind, t *schema.Type, input source) {
	alias := c.nextAlias()
	if b.Op == schema.OpDelete {
		w.put("delete from ", c.className(b.Class), " as ", alias)
	} else {
		w.put("update ", c.className(b.Class), " as ", alias, " set ")
		obj := inputWith(t, schema.InObject)
		n := 0
		c.assigned(c.types(obj.Type.Name), input.member(obj.Name), func(id catalog.ColumnID, p param) {
			if n > 0 {
				w.put(", ")
			}
			n++
			w.put(quote(c.cat.Columns[id].Name), " = ")
			c.cast(w, p, c.cat.Columns[id].Type)
		})
		c.root.change.empty = n == 0
	}
	w.put(" where ")
	node := -1
	if b.ByNodeID {
		in := inputWith(t, schema.InNodeID)
		c.root.nodes = append(c.root.nodes, input.member(in.Name))
		c.root.nodeType = append(c.root.nodeType, c.schema.TypeOfClass(b.Class))
		node = len(c.root.nodes) - 1
	}
	for i, id := range b.Key.Columns {
		if i > 0 {
			w.put(" and ")
		}
		w.put(c.column(tableRow(alias), id), c.operator("=", c.cat.Columns[id].Type))
		p := param{}
		if node >= 0 {
			p = c.nodeParam(node, i, id)
		} else {
			f := inputOfColumn(t, id)
			p = param{of: input.member(f.Name), pg: f.Bind.Pg, ref: f.Type}
		}
		c.cast(w, p, c.cat.Columns[id].Type)
	}
	c.returning(w, b.Class, alias)
}

func inputOfColumn(t *schema.Type, id catalog.ColumnID) *schema.InputValue {
	for i := range t.Inputs {
		if t.Inputs[i].Bind.Op == schema.InColumn && t.Inputs[i].Bind.Column == id {
			return &t.Inputs[i]
		}
	}
	panic("sqlgen: the input has no field for its key")
}

// callMutation writes the call of a function, and keeps what it gives. Records have no type that text could be read as, so what is
// selected of them is made at once.
func (c *compiler) callMutation(w *builder, s *selected, input source, t *schema.Type) {
	b := s.def.Bind
	call := &builder{}
	c.callExpr(call, b.Proc, nil, t.Inputs, func(in *schema.InputValue) source { return input.member(in.Name) })
	switch b.Result {
	case schema.ResultVoid:
		w.put("select ")
		w.add(call.text())
	case schema.ResultValue:
		w.put("select ", keepRow, "coalesce('x' || (")
		w.add(call.text())
		w.put(")::text, ''), true)")
	case schema.ResultRow:
		w.put("select ", keepRow, "coalesce((")
		w.add(call.text())
		w.put(")::text, ''), true)")
	case schema.ResultRows:
		w.put("select ", keepRow, "array(select t.*::", c.className(b.Class), " from ")
		w.add(call.text())
		w.put(" as t)::text, true)")
	case schema.ResultValues:
		as, value := c.item("t", b.Pg)
		w.put("select ", keepRow, "array(select ", value, " from ")
		w.add(call.text())
		w.put(" as t", as, ")::text, true)")
	case schema.ResultRecord, schema.ResultRecords:
		c.root.change.captures = true
		c.captured(w, s, call.text(), b)
	}
}

// captured writes a record, or an array of records, from the function itself.
func (c *compiler) captured(w *builder, s *selected, call text, b schema.Bind) {
	payload := c.types(s.def.Type.Name)
	sets, name := c.resultSelection(payload, s)
	alias := c.nextAlias()
	if b.Result == schema.ResultRecords {
		w.put("select array(select ")
	} else {
		w.put("select ")
	}
	o := c.object(w, tableRow(alias), c.types(name), sets)
	w.put(" from ")
	w.add(call)
	w.put(" as ", alias)
	if b.Result == schema.ResultRecords {
		w.put(")")
		o = &out{kind: outList, item: o}
	}
	c.root.captured = o
}

// resultSelection is what the payload's result field selects; fields under several names are made from all of it.
func (c *compiler) resultSelection(payload *schema.Type, s *selected) (sets []ast.SelectionSet, name string) {
	for _, f := range c.collect(payload, s.sub()...) {
		if f.def != nil && f.def.Bind.Op == schema.OpPayloadResult {
			sets, name = append(sets, f.sub()...), f.def.Type.Name
		}
	}
	if name == "" {
		for i := range payload.Fields {
			if payload.Fields[i].Bind.Op == schema.OpPayloadResult {
				name = payload.Fields[i].Type.Name
			}
		}
	}
	return sets, name
}

// payload writes the second statement.
func (c *compiler) payload(w *builder, s *selected, input source) *out {
	t := c.types(s.def.Type.Name)
	x := c.nextAlias()
	row := valueRow(x + ".r")
	cols := &columns{}
	o := &out{kind: outObject}
	for _, f := range c.collect(t, s.sub()...) {
		of := outField{key: jsonKey(f.key), name: f.key, column: -1}
		if f.def == nil {
			of.out = &out{kind: outConst, text: string(pgvalue.AppendString(nil, t.Name))}
			o.fields = append(o.fields, of)
			continue
		}
		of.nonNull = f.def.Type.NonNull
		w := &builder{}
		of.out = c.payloadField(w, cols, f, row, input)
		if of.out.kind != outNodeID {
			of.column = cols.add(w)
		}
		o.fields = append(o.fields, of)
	}
	w.put("select ")
	cols.row(w)
	w.put(" from (select ", c.keptType(s.def.Bind), " as r offset 0) as ", x) // offset 0: the text is read once, not at each use
	return o
}

// keptType reads the kept row as what it is.
func (c *compiler) keptType(b schema.Bind) string {
	switch {
	case b.Op != schema.OpProcMutation, b.Result == schema.ResultRow:
		return readRow + "::" + c.className(b.Class)
	case b.Result == schema.ResultRows:
		return readRow + "::" + c.className(b.Class) + "[]"
	case b.Result == schema.ResultValues:
		return readRow + "::" + c.typeName(b.Pg) + "[]"
	case b.Result == schema.ResultValue:
		return "pg_catalog.substr(" + readRow + ", 2)::" + c.typeName(b.Pg)
	default:
		return "null"
	}
}

func (c *compiler) payloadField(w *builder, cols *columns, f *selected, row rowRef, input source) *out {
	b := f.def.Bind
	present := "case when " + row.whole + " is distinct from null then "
	switch b.Op {
	case schema.OpClientMutationID:
		w.param(param{of: input.member("clientMutationId"), ref: schema.Ref{Name: "String"}, pg: c.text()})
		w.put("::text")
		return &out{kind: outLeaf, leaf: pgvalue.Text}
	case schema.OpPayloadRow:
		w.put(present)
		o := c.object(w, row, c.types(f.def.Type.Name), f.sub())
		w.put(" end")
		return o
	case schema.OpDeletedID:
		return c.nodeIDOut(cols, row, b.Class)
	case schema.OpQuery:
		inner := &columns{}
		o := c.query(inner, f.sub())
		if len(inner.list) == 0 {
			return o
		}
		inner.row(w)
		return &out{kind: outObject, fields: o.fields}
	case schema.OpPayloadEdge:
		return c.payloadEdge(w, f, row, present)
	case schema.OpPayloadResult:
		return c.payloadResult(w, f, row, present)
	}
	panic(fmt.Sprintf("sqlgen: %s has an operation that payloads do not have: %d", f.first.Name, b.Op))
}

func (c *compiler) text() catalog.TypeID {
	for i := range c.cat.Types {
		if c.cat.Types[i].OID == 25 {
			return catalog.TypeID(i)
		}
	}
	return 0
}

func (c *compiler) payloadResult(w *builder, f *selected, row rowRef, present string) *out {
	b := f.def.Bind
	switch b.Result {
	case schema.ResultRow:
		w.put(present)
		o := c.object(w, row, c.types(f.def.Type.Name), f.sub())
		w.put(" end")
		return o
	case schema.ResultRows:
		alias := c.nextAlias()
		w.put("array(select ")
		o := c.object(w, tableRow(alias), c.types(f.def.Type.Name), f.sub())
		w.put(" from pg_catalog.unnest(", row.whole, ") as ", alias, ")")
		return &out{kind: outList, item: o}
	case schema.ResultValues:
		alias := c.nextAlias()
		as, value := c.item(alias, b.Pg)
		ref := f.def.Type
		ref.List, ref.NonNull = false, false
		w.put("array(select ")
		o := c.valueOf(w, value, b.Pg, ref, f.sub())
		w.put(" from pg_catalog.unnest(", row.whole, ") as ", alias, as, ")")
		return &out{kind: outList, item: o}
	case schema.ResultRecord, schema.ResultRecords:
		return &out{kind: outCaptured, item: c.root.captured}
	default:
		return c.value(w, row.whole, b.Pg, f)
	}
}

func (c *compiler) payloadEdge(w *builder, f *selected, row rowRef, present string) *out {
	order := c.orderBy(f.def.Bind.Class, f.arg("orderBy"), f.def)
	x := &connOut{cursors: -1, natural: len(order) == 0}
	t := c.types(f.def.Type.Name)
	cols := &columns{}
	o := &out{kind: outObject}
	for _, e := range c.collect(t, f.sub()...) {
		of := outField{key: jsonKey(e.key), name: e.key, column: -1}
		switch {
		case e.def == nil:
			of.out = &out{kind: outConst, text: string(pgvalue.AppendString(nil, t.Name))}
		case e.def.Bind.Op == schema.OpCursor:
			of.out = &out{kind: outCursor, extra: x}
		default:
			inner := &builder{}
			of.out = c.object(inner, row, c.types(e.def.Type.Name), e.sub())
			of.column = cols.add(inner)
		}
		o.fields = append(o.fields, of)
	}
	if !x.natural {
		x.digest = c.digest(f.def.Bind.Class, order)
		c.cursorColumns(x, cols, order, row)
	}
	w.put(present)
	cols.row(w)
	w.put(" end")
	return o
}
