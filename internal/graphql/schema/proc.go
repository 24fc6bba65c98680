package schema

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/leveehq/levee/internal/graphql/catalog"
)

const oidRecord = 2249

// readProcs decides which functions are shown, and where.
func (b *builder) readProcs() error {
	for i := range b.catalog.Procs {
		id := catalog.ProcID(i)
		if why := b.unfit(id); why != "" {
			if why != "-" {
				b.warn("%s is left out: %s", b.describeProc(id), why)
			}
			continue
		}
		f := &b.catalog.Procs[i]
		tags, _ := parseComment(f.Comment)
		p := proc{id: id, query: f.Volatility != 'v' && !tags.forbids("queryField")}
		if c := b.firstRow(f); c != 0 && f.Volatility != 'v' && !tags.forbids("typeField") {
			p.class = c
			p.query = p.query && b.catalog.Classes[c].Kind == 'c' || tags.allows("queryField")
		}
		b.procs = append(b.procs, p)
	}
	slices.SortStableFunc(b.procs, func(x, y proc) int {
		a, z := &b.catalog.Procs[x.id], &b.catalog.Procs[y.id]
		return cmp.Or(cmp.Compare(a.Schema, z.Schema), cmp.Compare(a.Name, z.Name))
	})
	for i, p := range b.procs {
		if p.class != 0 {
			b.computed = append(b.computed, uint32(i))
		}
	}
	slices.SortStableFunc(b.computed, func(x, y uint32) int { return cmp.Compare(b.procs[x].class, b.procs[y].class) })
	return nil
}

func (s *Schema) describeProc(id catalog.ProcID) string {
	f := &s.catalog.Procs[id]
	return "function " + s.catalog.Schemas[f.Schema] + "." + f.Name
}

// unfit says why a function cannot be shown; "-" where nobody would expect it.
func (b *builder) unfit(id catalog.ProcID) string {
	f := &b.catalog.Procs[id]
	tags, _ := parseComment(f.Comment)
	if f.Privileges&catalog.Execute == 0 || tags.forbids("*") || f.Volatility == 'v' && tags.forbids("mutationField") {
		return "-"
	}
	if f.Overloaded {
		return "another function of its schema has the same name, and one field cannot be both"
	}
	for i := range int(f.Args.N) {
		a := &b.catalog.Args[int(f.Args.From)+i]
		if a.Mode == 'v' {
			return "it takes any number of arguments (VARIADIC)"
		}
		if _, ok := b.refOf(a.Type, false, a.Mode == 'i' || a.Mode == 'b'); !ok {
			return fmt.Sprintf("its argument %d has the type %s, which has no form in GraphQL", i+1, b.catalog.Types[a.Type].Name)
		}
	}
	result := b.resultOf(f)
	if result == ResultVoid && f.Returns != 0 {
		return fmt.Sprintf("it returns %s, which has no form in GraphQL", b.catalog.Types[f.Returns].Name)
	}
	if result == ResultVoid && f.Volatility != 'v' {
		return "it returns nothing and changes nothing"
	}
	return ""
}

// firstRow is the class of the first argument, if that is a row or composite.
func (s *Schema) firstRow(f *catalog.Proc) catalog.ClassID {
	if f.Args.N == 0 {
		return 0
	}
	a := s.catalog.Args[f.Args.From]
	if a.Mode == 'i' && s.catalog.Types[a.Type].Kind == 'c' {
		return s.catalog.Types[a.Type].Class
	}
	return 0
}

// resultOf is the form of what a function gives; void where it cannot be represented, too.
func (s *Schema) resultOf(f *catalog.Proc) Result {
	form := ResultVoid
	t := s.catalog.Types[f.Returns]
	switch {
	case f.Returns == 0:
		return ResultVoid
	case t.OID == oidRecord:
		if len(s.outs(f)) > 0 {
			form = ResultRecord
		}
	case t.Kind == 'c' && s.classes[t.Class].shown:
		form = ResultRow
	default:
		if _, ok := s.refOf(f.Returns, false, false); ok {
			form = ResultValue
		}
	}
	if form == ResultVoid || !f.Set {
		return form
	}
	return map[Result]Result{ResultRecord: ResultRecords, ResultRow: ResultRows, ResultValue: ResultValues}[form]
}

// outs are the columns of a function's record.
func (s *Schema) outs(f *catalog.Proc) (out []catalog.Arg) {
	for i := range int(f.Args.N) {
		if a := s.catalog.Args[int(f.Args.From)+i]; a.Mode != 'i' && a.Mode != 'v' {
			out = append(out, a)
		}
	}
	return out
}

// procArgs are the inputs from the skip-th on. Those without default are required where NULL would have no result.
func (s *Schema) procArgs(f *catalog.Proc, skip int) (args []InputValue) {
	inputs := 0
	for i := range int(f.Args.N) {
		if m := s.catalog.Args[int(f.Args.From)+i].Mode; m == 'i' || m == 'b' {
			inputs++
		}
	}
	index := -1
	for i := range int(f.Args.N) {
		a := s.catalog.Args[int(f.Args.From)+i]
		if a.Mode != 'i' && a.Mode != 'b' {
			continue
		}
		if index++; index < skip {
			continue
		}
		name := a.Name
		if name == "" {
			name = fmt.Sprintf("arg%d", index)
		}
		required := f.Strict && index < inputs-int(f.Defaults)
		ref, _ := s.refOf(a.Type, required, true)
		ref.NonNull = required
		args = append(args, InputValue{Name: plain(camel(plain(name))), Type: ref, Bind: InputBind{Op: InProcArg, Index: uint16(index), Pg: a.Type}})
	}
	return args
}

// procField derives what query functions and computed columns have in common. The first skip arguments are not the client's.
func (s *Schema) procField(p proc, skip int) Field {
	f := &s.catalog.Procs[p.id]
	text, deprecated := described(f.Comment)
	out := Field{Description: text, Deprecated: deprecated, Args: s.procArgs(f, skip), Bind: Bind{Proc: p.id, Class: p.class, Result: s.resultOf(f), Pg: f.Returns}}
	set := ""
	switch out.Bind.Result {
	case ResultRow:
		out.Bind.Class = s.catalog.Types[f.Returns].Class
		out.Type = Ref{Name: s.typeName(out.Bind.Class)}
	case ResultRecord:
		out.Type = Ref{Name: s.recordName(p.id)}
	case ResultRows:
		out.Bind.Class = s.catalog.Types[f.Returns].Class
		set = s.typeName(out.Bind.Class)
		out.Type = Ref{Name: set + "Connection"}
	case ResultRecords:
		set = s.recordName(p.id)
		out.Type = Ref{Name: s.procTypeName(p.id) + "Connection"}
	case ResultValues:
		set = upperCamel(s.catalog.Types[f.Returns].Name)
		out.Type = Ref{Name: s.procTypeName(p.id) + "Connection"}
	default:
		out.Type, _ = s.refOf(f.Returns, false, false)
		out.Type.NonNull = false
	}
	if f.Set {
		out.Args = append(out.Args, argFirst, argOffset, argAfter)
		if out.Description == "" {
			out.Description = say(2, "Reads and enables pagination through a set of `%s`.", set)
		}
	}
	return out
}

func (s *Schema) procTypeName(p catalog.ProcID) string { return upperCamel(s.procName(p)) }
func (s *Schema) recordName(p catalog.ProcID) string   { return s.procTypeName(p) + "Record" }

// computedFields are the functions that take a row of the class.
func (s *Schema) computedFields(c catalog.ClassID) (fields []Field) {
	from, _ := slices.BinarySearchFunc(s.computed, c, func(i uint32, c catalog.ClassID) int { return int(s.procs[i].class) - int(c) })
	for _, i := range s.computed[from:] {
		p := s.procs[i]
		if p.class != c {
			break
		}
		f := s.procField(p, 1)
		f.Name, f.Bind.Op = s.computedName(p), OpComputed
		f.Type.NonNull = s.catalog.Procs[p.id].Set
		fields = append(fields, f)
	}
	return fields
}

func (b *builder) nameProcTypes(give func(string, what, uint32, int, string)) {
	for i, p := range b.procs {
		f, who, name := &b.catalog.Procs[p.id], b.describeProc(p.id), b.procTypeName(p.id)
		result := b.resultOf(f)
		if result == ResultRecord || result == ResultRecords {
			give(name+"Record", procRecord, uint32(i), 0, who)
		}
		if f.Volatility == 'v' {
			give(name+"Payload", procPayload, uint32(i), 0, who)
			give(name+"Input", procInput, uint32(i), 0, who)
		} else if result == ResultRecords || result == ResultValues {
			give(name+"Connection", procConnection, uint32(i), 0, who)
			give(name+"Edge", procEdge, uint32(i), 0, who)
		}
	}
}

// deriveProc makes the types that belong to a function.
func (s *Schema) deriveProc(e entry, name string) *Type {
	p := s.procs[e.id]
	f := &s.catalog.Procs[p.id]
	of := &Type{Proc: p.id, HasProc: true}
	bind := Bind{Proc: p.id, Result: s.resultOf(f), Pg: f.Returns}
	item, _ := s.refOf(f.Returns, false, false)
	if bind.Result == ResultRecords {
		item = Ref{Name: s.recordName(p.id)}
	}
	switch e.kind {
	case procConnection:
		return connection(name, s.procTypeName(p.id)+"Edge", item, of, bind)
	case procEdge:
		return edge(name, item, of, bind)
	case procRecord:
		return s.record(f, name, of)
	case procInput:
		inputs := append([]InputValue{inputMutationID}, s.procArgs(f, 0)...)
		return &Type{Name: name, Kind: Input, Proc: p.id, HasProc: true, Inputs: inputs, Description: say(0, "All input for the `%s` mutation.", camel(s.procName(p.id)))}
	default:
		return s.procPayloadType(p, name, bind)
	}
}

func (s *Schema) record(f *catalog.Proc, name string, of *Type) *Type {
	t := &Type{Name: name, Kind: Object, Proc: of.Proc, HasProc: true}
	for i, a := range s.outs(f) {
		if a.Name == "" {
			a.Name = fmt.Sprintf("column%d", i+1)
		}
		ref, _ := s.refOf(a.Type, false, false)
		ref.NonNull = false
		t.Fields = append(t.Fields, Field{Name: camel(plain(a.Name)), Type: ref, Bind: Bind{Op: OpRecordField, Proc: of.Proc, Index: uint16(i), Pg: a.Type}})
	}
	t.Fields = firstOfEachName(t.Fields)
	return t
}

func (s *Schema) procPayloadType(p proc, name string, bind Bind) *Type {
	t := &Type{Name: name, Kind: Object, Proc: p.id, HasProc: true, Fields: []Field{payloadMutationID},
		Description: say(0, "The output of our `%s` mutation.", camel(s.procName(p.id)))}
	result := s.procField(p, 0)
	result.Bind.Op, result.Name, result.Description, result.Args = OpPayloadResult, "result", "", nil
	tags, _ := parseComment(s.catalog.Procs[p.id].Comment)
	if own := tags.get("resultFieldName"); own != "" {
		result.Name = own
	}
	switch bind.Result {
	case ResultRows:
		result.Type = Ref{Name: s.typeName(result.Bind.Class), List: true}
	case ResultRecords:
		result.Type = Ref{Name: s.recordName(p.id), List: true}
	case ResultValues:
		item, _ := s.refOf(bind.Pg, false, false)
		result.Type = Ref{Name: item.Name, List: true}
	}
	if bind.Result != ResultVoid {
		t.Fields = append(t.Fields, result)
	}
	t.Fields = append(t.Fields, payloadQuery)
	if bind.Result == ResultRow {
		if edge, ok := s.payloadEdge(result.Bind.Class); ok {
			t.Fields = append(t.Fields, edge)
		}
	}
	return t
}

func (s *Schema) procMutationField(e entry) Field {
	p := s.procs[e.id]
	f := &s.catalog.Procs[p.id]
	text, deprecated := described(f.Comment)
	name := s.procTypeName(p.id)
	b := s.procField(p, 0).Bind
	b.Op = OpProcMutation
	return Field{Name: camel(s.procName(p.id)), Description: text, Deprecated: deprecated, Type: Ref{Name: name + "Payload"}, Args: inputArg(name + "Input"), Bind: b}
}
