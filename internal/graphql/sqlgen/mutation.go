package sqlgen

import (
	"strings"

	"github.com/leveehq/levee/internal/graphql/catalog"
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
	node     int  // the node id of the row, which makes the field null if it names nothing; -1
	captures bool // the first statement's row is what the payload's result is made from
}

// rowSetting is the setting that the row travels in.
const rowSetting = "levee.row"

const (
	keepRow = "pg_catalog.set_config('" + rowSetting + "', "
	readRow = "nullif(pg_catalog.current_setting('" + rowSetting + "', true), '')"
)

func (c *compiler) mutation(r *root, s *selected) {
	r.change = &change{node: -1}
	in := s.def.Args[0]
	input := sourceOf(c.op, c.types, in.Type, s.arg(in.Name))
	b := s.def.Bind
	w, second := &builder{}, &builder{}
	var use rowUse
	if b.Op != schema.OpProcMutation {
		r.change.node = c.targetNode(b, c.types(in.Type.Name), input)
		r.out, use = c.payload(second, s, input)
	}
	switch b.Op {
	case schema.OpCreate:
		c.insert(w, b.Class, c.types(in.Type.Name), input, use)
	case schema.OpUpdate, schema.OpDelete:
		r.change.deletes = b.Op == schema.OpDelete
		c.changeRow(w, b, c.types(in.Type.Name), input, use)
	case schema.OpProcMutation:
		c.callMutation(w, s, input, c.types(in.Type.Name))
		r.out, _ = c.payload(second, s, input)
	}
	r.change.first, r.sql = w.text(), second.text()
}

// targetNode enters the node id of the row to change among those of the field, before those in its payload; -1 if there is none.
func (c *compiler) targetNode(b schema.Bind, t *schema.Type, input source) int {
	if !b.ByNodeID {
		return -1
	}
	c.root.nodes = append(c.root.nodes, input.member(inputWith(t, schema.InNodeID).Name))
	c.root.nodeType = append(c.root.nodeType, c.schema.TypeOfClass(b.Class))
	return len(c.root.nodes) - 1
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

func (c *compiler) insert(w *builder, class catalog.ClassID, t *schema.Type, input source, use rowUse) {
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
	c.returning(w, class, alias, use)
}

// returning keeps what the payload has of the row, and asks for no more: who may read some columns of a table, or none, may still
// write to it. Columns that nobody asks for are null, unless their domain forbids that.
func (c *compiler) returning(w *builder, class catalog.ClassID, alias string, use rowUse) {
	switch {
	case use.nothing():
		w.put(" returning true")
		return
	case use.whole:
		w.put(" returning ", keepRow, alias, ".*::text, true)")
		return
	}
	k := c.cat.Classes[class].Columns
	fields := make([]string, k.N)
	for i := range fields {
		id := catalog.ColumnID(k.From) + catalog.ColumnID(i)
		fields[i] = "null"
		if use.columns[id] || c.cat.Types[c.cat.Columns[id].Type].NotNull {
			fields[i] = c.column(tableRow(alias), id)
		}
	}
	w.put(" returning ", keepRow, "row(", strings.Join(fields, ", "), ")::", c.className(class), "::text, true)")
}

func (c *compiler) changeRow(w *builder, b schema.Bind, t *schema.Type, input source, use rowUse) {
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
	node := c.root.change.node
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
	c.returning(w, b.Class, alias, use)
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

// captured writes a record, or an array of records, from the function itself. The payload may show it under several names, each
// with a selection of its own.
func (c *compiler) captured(w *builder, s *selected, call text, b schema.Bind) {
	c.results = map[string]*out{}
	alias := c.nextAlias()
	cols := &columns{}
	for _, f := range c.collect(c.types(s.def.Type.Name), s.sub()...) {
		if f.def == nil || f.def.Bind.Op != schema.OpPayloadResult {
			continue
		}
		o := c.fields(cols, tableRow(alias), c.types(f.def.Type.Name), f.sub())
		if b.Result == schema.ResultRecords {
			o = &out{kind: outList, item: o}
		}
		c.results[f.key] = o
	}
	if b.Result == schema.ResultRecords {
		w.put("select array(select ")
	} else {
		w.put("select ")
	}
	cols.row(w)
	w.put(" from ")
	w.add(call)
	w.put(" as ", alias)
	if b.Result == schema.ResultRecords {
		w.put(")")
	}
}
