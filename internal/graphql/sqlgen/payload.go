package sqlgen

import (
	"fmt"
	"strings"

	"github.com/leveehq/levee/internal/graphql/catalog"
	"github.com/leveehq/levee/internal/graphql/pgvalue"
	"github.com/leveehq/levee/internal/graphql/schema"
)

// payload writes the second statement.
func (c *compiler) payload(w *builder, s *selected, input source) (o *out, use rowUse) {
	t := c.types(s.def.Type.Name)
	x := c.nextAlias()
	row := valueRow(x + ".r")
	cols := &columns{}
	o = &out{kind: outObject}
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
			of.column = cols.add(w, of.out)
		}
		o.fields = append(o.fields, of)
	}
	o.types = cols.types
	w.put("select ")
	cols.row(w)
	use = c.useOf(w.text(), row, s.def.Bind.Class)
	w.put(" from (select ", c.keptType(s.def.Bind), " as r offset 0) as ", x) // offset 0: the text is read once, not at each use
	return o, use
}

// rowUse is what a payload has of the row that was changed.
type rowUse struct {
	whole   bool // a function takes it
	present bool // whether there is one
	columns map[catalog.ColumnID]bool
}

func (u rowUse) nothing() bool { return !u.whole && !u.present && len(u.columns) == 0 }

const isPresent = " is distinct from null"

// useOf reads from the payload's SQL how it refers to the row, since that is decided in many places. What it cannot tell is taken for
// the whole.
func (c *compiler) useOf(t text, row rowRef, class catalog.ClassID) rowUse {
	sql := strings.Join(t.parts, "")
	u := rowUse{present: strings.Contains(sql, row.whole+isPresent), columns: map[catalog.ColumnID]bool{}}
	k := c.cat.Classes[class].Columns
	for id := catalog.ColumnID(k.From); id < catalog.ColumnID(k.From+uint32(k.N)); id++ {
		u.columns[id] = strings.Contains(sql, c.column(row, id))
		if !u.columns[id] {
			delete(u.columns, id)
		}
	}
	sql = strings.ReplaceAll(strings.ReplaceAll(sql, row.dot, ""), row.whole+isPresent, "")
	u.whole = strings.Contains(sql, row.whole)
	return u
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
	case b.Result == schema.ResultRecord, b.Result == schema.ResultRecords:
		return readRow + "::text[]"
	default:
		return "null"
	}
}

func (c *compiler) payloadField(w *builder, cols *columns, f *selected, row rowRef, input source) *out {
	b := f.def.Bind
	present := "case when " + row.whole + isPresent + " then "
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
		return &out{kind: outObject, fields: o.fields, types: inner.types}
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
		w.put("array(select case when ", alias, ".* is null then null else ")
		o := c.object(w, tableRow(alias), c.types(f.def.Type.Name), f.sub())
		w.put(" end from pg_catalog.unnest(", row.whole, ") as ", alias, ")")
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
	case schema.ResultRecord:
		alias := c.nextAlias()
		w.put("(select ")
		o := c.object(w, tableRow(alias), c.types(f.def.Type.Name), f.sub())
		w.put(" from (")
		c.readOuts(w, b.Proc, "("+row.whole+")")
		w.put(" offset 0) as ", alias, ")")
		return o
	case schema.ResultRecords:
		alias, item := c.nextAlias(), c.nextAlias()
		w.put("array(select ")
		o := c.object(w, tableRow(alias), c.types(f.def.Type.Name), f.sub())
		w.put(" from (")
		c.readOuts(w, b.Proc, item+".v")
		w.put(" from (select r::text[] as v from pg_catalog.unnest(", row.whole, ") as r offset 0) as ", item, " offset 0) as ", alias, ")")
		return &out{kind: outList, item: o}
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
			of.column = cols.add(inner, of.out)
		}
		o.fields = append(o.fields, of)
	}
	if !x.natural {
		x.digest = c.digest(f.def.Bind.Class, order)
		c.cursorColumns(x, cols, order, row)
	}
	o.types = cols.types
	w.put(present)
	cols.row(w)
	w.put(" end")
	return o
}
