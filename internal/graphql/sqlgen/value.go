package sqlgen

import (
	"strings"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/leveehq/levee/internal/graphql/catalog"
	"github.com/leveehq/levee/internal/graphql/pgvalue"
	"github.com/leveehq/levee/internal/graphql/schema"
)

const oidInterval = 1186

// value writes an expression of any type as its selection wants it. expr is written more than once where it is composite.
func (c *compiler) value(w *builder, expr string, pg catalog.TypeID, s *selected) *out {
	return c.valueOf(w, expr, pg, s.def.Type, s.sub())
}

func (c *compiler) valueOf(w *builder, expr string, pg catalog.TypeID, ref schema.Ref, sets []ast.SelectionSet) *out {
	if leaf, ok := pgvalue.OutOf(c.schema, pg, ref); ok {
		w.put(leaf.SQL(expr))
		return &out{kind: outLeaf, leaf: leaf}
	}
	base := c.base(pg)
	t := &c.cat.Types[base]
	switch {
	case t.Category == 'A' && schema.IsShape(c.cat.Types[c.base(t.Element)].OID): // what is of one type is sent whole
		w.put(expr)
		return &out{kind: outList, item: c.shape(c.cat.Types[c.base(t.Element)].OID, c.types(ref.Name), sets)}
	case t.Category == 'A' && t.Element != 0:
		return c.arrayValue(w, expr, t.Element, ref, sets)
	case t.Kind == 'r':
		return c.rangeValue(w, expr, t, ref, sets)
	case t.OID == oidInterval:
		w.put(expr)
		return c.parts(c.types(ref.Name), sets)
	case schema.IsShape(t.OID):
		w.put(expr)
		return c.shape(t.OID, c.types(ref.Name), sets)
	default: // a composite; one of nothing but nulls is null, as in SQL
		w.put("case when (", expr, ") is null then null else ")
		o := c.object(w, valueRow(expr), c.types(ref.Name), sets)
		w.put(" end")
		return o
	}
}

// arrayValue writes an array of what is no leaf. It is taken apart once: a subscript goes through all items before its own. One of
// several dimensions, which the schema has no type for, comes as one of two that is as long, which is what the renderer refuses.
func (c *compiler) arrayValue(w *builder, expr string, element catalog.TypeID, ref schema.Ref, sets []ast.SelectionSet) *out {
	alias := c.nextAlias()
	w.put("case when pg_catalog.array_ndims(", expr, ") > 1 then pg_catalog.array_fill(null::", c.itemName(element), ", array[pg_catalog.array_length(", expr, ", 1), 1])",
		" when ", expr, " is not null then array(select ")
	item := c.valueOf(w, alias+".v", element, schema.Ref{Name: ref.Name, NonNull: ref.ItemNonNull}, sets)
	w.put(" from (select pg_catalog.unnest(", expr, ") as v) as ", alias, ") end")
	return &out{kind: outList, item: item}
}

// itemName is the type that valueOf makes of what is no leaf.
func (c *compiler) itemName(t catalog.TypeID) string {
	if base := &c.cat.Types[c.base(t)]; base.OID == oidInterval || schema.IsShape(base.OID) {
		return c.typeName(t)
	}
	return "record"
}

func (c *compiler) base(t catalog.TypeID) catalog.TypeID {
	for c.cat.Types[t].Kind == 'd' && c.cat.Types[t].Base != 0 {
		t = c.cat.Types[t].Base
	}
	return t
}

// rangeValue writes a record of both bounds and whether they are included.
func (c *compiler) rangeValue(w *builder, expr string, t *catalog.Type, ref schema.Ref, sets []ast.SelectionSet) *out {
	boundType := c.types(ref.Name + "Bound")
	item := schema.Ref{}
	if f := boundType.Field("value"); f != nil {
		item = f.Type
	}
	leaf, ok := pgvalue.OutOf(c.schema, t.Element, item)
	if !ok {
		leaf = pgvalue.Text
	}
	w.put("case when ", expr, " is null then null else row(", leaf.SQL("pg_catalog.lower("+expr+")"), ", pg_catalog.lower_inc(", expr, "), ",
		leaf.SQL("pg_catalog.upper("+expr+")"), ", pg_catalog.upper_inc(", expr, ")) end")
	o := &out{kind: outObject}
	for _, s := range c.collect(c.types(ref.Name), sets...) {
		f := outField{key: jsonKey(s.key), name: s.key, column: -1}
		if s.def == nil {
			f.out = &out{kind: outConst, text: string(pgvalue.AppendString(nil, ref.Name))}
		} else {
			part := 0
			if s.def.Bind.Op == schema.OpRangeEnd {
				part = 2
			}
			f.out = c.bound(boundType, part, leaf, s.sub())
		}
		o.fields = append(o.fields, f)
	}
	return o
}

func (c *compiler) bound(t *schema.Type, part int, leaf pgvalue.Out, sets []ast.SelectionSet) *out {
	o := &out{kind: outBound, part: part, leaf: leaf}
	for _, s := range c.collect(t, sets...) {
		f := outField{key: jsonKey(s.key), name: s.key, column: -1}
		switch {
		case s.def == nil:
			f.out = &out{kind: outConst, text: string(pgvalue.AppendString(nil, t.Name))}
		case s.def.Bind.Op == schema.OpBoundValue:
			f.column, f.out = part, &out{kind: outLeaf, leaf: leaf}
		default:
			f.column, f.nonNull, f.out = part+1, true, &out{kind: outLeaf, leaf: pgvalue.Bool}
		}
		o.fields = append(o.fields, f)
	}
	return o
}

// parts compiles the selection of an interval, which travels as itself.
func (c *compiler) parts(t *schema.Type, sets []ast.SelectionSet) *out {
	o := &out{kind: outInterval}
	for _, s := range c.collect(t, sets...) {
		f := outField{key: jsonKey(s.key), name: s.key}
		if s.def == nil {
			f.out = &out{kind: outConst, text: string(pgvalue.AppendString(nil, t.Name))}
		} else {
			f.out = &out{kind: outPart, part: int(s.def.Bind.Index)}
		}
		o.fields = append(o.fields, f)
	}
	return o
}

// call writes a function's result. With a row, that is its first argument.
func (c *compiler) call(w *builder, s *selected, r *rowRef) *out {
	b := s.def.Bind
	call := &builder{}
	c.callExpr(call, b.Proc, r, s.def.Args, func(in *schema.InputValue) source { return sourceOf(c.op, c.types, in.Type, s.arg(in.Name)) })
	return c.result(w, call.text(), s, b)
}

// callExpr writes the call. Arguments that are left out take their defaults: those behind the first such are named.
func (c *compiler) callExpr(w *builder, proc catalog.ProcID, r *rowRef, ins []schema.InputValue, value func(*schema.InputValue) source) {
	w.put(c.procName(proc), "(")
	n, named := 0, false
	if r != nil {
		w.put(r.whole)
		n++
	}
	for i := range ins {
		in := &ins[i]
		if in.Bind.Op != schema.InProcArg {
			continue
		}
		of := value(in)
		if !c.given(of) && c.hasDefault(proc, int(in.Bind.Index)) {
			named = true
			continue
		}
		if n > 0 {
			w.put(", ")
		}
		n++
		if named {
			w.put(quote(c.argName(proc, int(in.Bind.Index))), " => ")
		}
		c.cast(w, param{of: of, pg: in.Bind.Pg, ref: in.Type}, in.Bind.Pg)
	}
	w.put(")")
}

func (c *compiler) given(s source) bool {
	_, ok := s.get(c.vars)
	return ok
}

// inputArg is the index-th input of a function.
func (c *compiler) inputArg(proc catalog.ProcID, index int) (name string, inputs int) {
	f := &c.cat.Procs[proc]
	for i := range int(f.Args.N) {
		a := &c.cat.Args[int(f.Args.From)+i]
		if a.Mode != 'i' && a.Mode != 'b' {
			continue
		}
		if inputs == index {
			name = a.Name
		}
		inputs++
	}
	return name, inputs
}

func (c *compiler) argName(proc catalog.ProcID, index int) string {
	name, _ := c.inputArg(proc, index)
	return name
}

func (c *compiler) hasDefault(proc catalog.ProcID, index int) bool {
	_, inputs := c.inputArg(proc, index)
	return index >= inputs-int(c.cat.Procs[proc].Defaults)
}

// outName is the name of a column of a function's record.
func (c *compiler) outName(proc catalog.ProcID, index int) string {
	f := &c.cat.Procs[proc]
	n := 0
	for i := range int(f.Args.N) {
		a := &c.cat.Args[int(f.Args.From)+i]
		if a.Mode == 'i' || a.Mode == 'v' {
			continue
		}
		if n == index {
			if a.Name == "" {
				return "column" + itoa(index+1)
			}
			return a.Name
		}
		n++
	}
	return ""
}

// result writes what a function gives, in the form that the schema says.
func (c *compiler) result(w *builder, call text, s *selected, b schema.Bind) *out {
	alias := c.nextAlias()
	switch b.Result {
	case schema.ResultRow, schema.ResultRecord:
		w.put("(select ")
		o := c.object(w, tableRow(alias), c.types(s.def.Type.Name), s.sub())
		w.put(" from ")
		w.add(call)
		w.put(" as ", alias, " where not (", alias, ".* is null))")
		return o
	case schema.ResultRows, schema.ResultRecords, schema.ResultValues:
		return c.functionSet(w, call, alias, s, b)
	}
	if leaf, ok := pgvalue.OutOf(c.schema, b.Pg, s.def.Type); ok {
		if before, after, once := around(leaf); once {
			w.put(before)
			w.add(call)
			w.put(after)
			return &out{kind: outLeaf, leaf: leaf}
		}
	}
	w.put("(select ")
	o := c.value(w, alias+".v", b.Pg, s)
	w.put(" from (select ")
	w.add(call)
	w.put(" as v offset 0) as ", alias, ")")
	return o
}

// around splits what a leaf wraps an expression with; once is false for one that writes it twice.
func around(o pgvalue.Out) (before, after string, once bool) {
	const mark = "\x00"
	before, after, _ = strings.Cut(o.SQL(mark), mark)
	return before, after, !strings.Contains(after, mark)
}
