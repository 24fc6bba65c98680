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
	first   text
	empty   bool // a patch that changes nothing: an error, and nothing runs
	deletes bool // no row is an error
	node    int  // the node id of the row, which makes the field null if it names nothing; -1
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

// callMutation writes the call of a function, and keeps what it gives.
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
	case schema.ResultRecord:
		w.put("select ", keepRow)
		c.keepOuts(w, b.Proc, "t")
		w.put(", true) from ")
		w.add(call.text())
		w.put(" as t")
	case schema.ResultRecords:
		w.put("select ", keepRow, "array(select ")
		c.keepOuts(w, b.Proc, "t")
		w.put(" from ")
		w.add(call.text())
		w.put(" as t)::text, true)")
	}
}

// keepOuts writes what of a record travels: an array of its columns' texts, as a record's own text could not be read back, having no
// type that says how. concat gives the text that a type's input function reads, where a cast to text may give another.
func (c *compiler) keepOuts(w *builder, proc catalog.ProcID, alias string) {
	w.put("array[")
	for i := range c.outs(proc) {
		column := alias + "." + quote(c.outName(proc, i))
		w.put(separator(i == 0, ""), "case when ", column, isPresent, " then pg_catalog.concat(", column, ") end")
	}
	w.put("]::text")
}

// readOuts reads them again, as columns of the same names.
func (c *compiler) readOuts(w *builder, proc catalog.ProcID, array string) {
	w.put("select ")
	for i, t := range c.outs(proc) {
		w.put(separator(i == 0, ""), array, "[", itoa(i+1), "]::", c.typeName(t), " as ", quote(c.outName(proc, i)))
	}
}

// outs are the types of the columns of a function's record.
func (c *compiler) outs(proc catalog.ProcID) (types []catalog.TypeID) {
	f := &c.cat.Procs[proc]
	for _, a := range c.cat.Args[f.Args.From : f.Args.From+uint32(f.Args.N)] {
		if a.Mode != 'i' && a.Mode != 'v' {
			types = append(types, a.Type)
		}
	}
	return types
}
