package schema

import (
	"fmt"

	"github.com/leveehq/levee/internal/graphql/catalog"
)

// procField derives what query functions and computed columns have in common. The first skip arguments are not the client's.
func (s *Schema) procField(p proc, skip int) Field {
	f := &s.catalog.Procs[p.id]
	tags, text := parseComment(f.Comment)
	out := Field{Description: text, Deprecated: tags.deprecation(), Args: s.procArgs(f, skip), Bind: Bind{Proc: p.id, Class: p.class, Result: s.resultOf(f), Pg: f.Returns}}
	set := ""
	switch out.Bind.Result {
	case ResultRow:
		out.Bind.Class = s.catalog.Types[f.Returns].Class
		out.Type = Ref{Name: s.typeName(out.Bind.Class), NonNull: tags.has("notNull")}
	case ResultRecord:
		out.Type = Ref{Name: s.recordName(p.id), NonNull: tags.has("notNull")}
	case ResultRows:
		out.Bind.Class = s.catalog.Types[f.Returns].Class
		set = s.typeName(out.Bind.Class)
		out.Type = Ref{Name: set + "Connection"}
	case ResultRecords:
		set = s.recordName(p.id)
		out.Type = Ref{Name: s.procTypeName(p.id) + "Connection"}
	case ResultValues:
		set = s.setName(f.Returns)
		out.Type = Ref{Name: s.valuesConnection(p.id, f)}
	default:
		out.Type, _ = s.refOf(f.Returns, false, false)
		out.Type.NonNull = tags.has("notNull")
	}
	if f.Set {
		out.Args = uniqueInputs(append(out.Args, s.setArgs(out.Bind, tags, skip)...))
		if out.Description == "" {
			out.Description = say(2, "Reads and enables pagination through a set of `%s`.", set)
		}
	}
	return out
}

// setArgs are those of a function's connection. There is no way backwards through it: a function would be run to its end.
func (s *Schema) setArgs(b Bind, tags tags, skip int) []InputValue {
	place := "queryField"
	if skip > 0 {
		place = "typeField"
	}
	args := []InputValue{argFirst, argOffset, argAfter}
	if matches("resource:connection:backwards", false, tags) {
		args = []InputValue{argFirst, argLast, argOffset, argBefore, argAfter}
	}
	if b.Result != ResultRows {
		return args
	}
	if matches(place+":resource:connection:filter", false, tags) && len(s.conditionInputs(b.Class)) > 0 {
		args = append(args, InputValue{Name: "condition", Description: "A condition to be used in determining which values should be returned by the collection.",
			Type: Ref{Name: s.typeName(b.Class) + "Condition"}, Bind: InputBind{Op: InCondition}})
	}
	if matches("order", false, tags) {
		order := s.orderByArg(b.Class, Ref{Name: s.typeName(b.Class) + "OrderBy", List: true, ItemNonNull: true})
		order.Default = "" // the function's own order
		args = append(args, order)
	}
	return args
}

// setName is what a set of values of a type is called.
func (s *Schema) setName(t catalog.TypeID) string {
	typ := &s.catalog.Types[t]
	if class := s.catalog.Types[s.baseOf(t)].Class; class != 0 {
		return s.typeName(class)
	}
	return upperCamel(s.prefixOf(typ) + typ.Name)
}

// prefixOf is empty for the types of PostgreSQL itself.
func (s *Schema) prefixOf(t *catalog.Type) string {
	if int(t.Schema) >= s.catalog.Exposed {
		return ""
	}
	return s.prefix(t.Schema)
}

// valuesConnection is the connection type of a set of values: composite types have one of their own.
func (s *Schema) valuesConnection(p catalog.ProcID, f *catalog.Proc) string {
	if s.catalog.Types[f.Returns].Kind == 'c' {
		name, _ := s.leafName(f.Returns, false)
		return name + "Connection"
	}
	return s.procTypeName(p) + "Connection"
}

func (s *Schema) procTypeName(p catalog.ProcID) string { return upperCamel(s.procName(p)) }
func (s *Schema) recordName(p catalog.ProcID) string   { return s.procTypeName(p) + "Record" }

// nameProcTypes gives the names of the types that belong to functions. A function that does not get all of its names has no
// fields either.
func (b *builder) nameProcTypes(give giver) {
	for i := range b.procs {
		p := &b.procs[i]
		f, who, name := &b.catalog.Procs[p.id], b.describeProc(p.id), b.procTypeName(p.id)
		result := b.resultOf(f)
		ok := true
		add := func(suffix string, kind what) { ok = give(name+suffix, kind, uint32(i), 0, who) && ok }
		if result == ResultRecord || result == ResultRecords {
			add("Record", procRecord)
		}
		if p.mutation {
			add("Payload", procPayload)
			add("Input", procInput)
		}
		if (p.query || p.class != 0) && (result == ResultRecords || result == ResultValues && b.catalog.Types[f.Returns].Kind != 'c') {
			add("Connection", procConnection)
			add("Edge", procEdge)
		}
		if !ok {
			p.class, p.query, p.mutation = 0, false, false
		}
	}
	computed := b.computed[:0]
	for _, i := range b.computed {
		if b.procs[i].class != 0 {
			computed = append(computed, i)
		}
	}
	b.computed = computed
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
	item.NonNull = false
	switch e.kind {
	case procConnection:
		return connection(name, s.procTypeName(p.id)+"Edge", item, of, bind)
	case procEdge:
		return edge(name, item, of, bind)
	case procRecord:
		return s.record(f, name, of)
	case procInput:
		inputs := append([]InputValue{inputMutationID}, s.procArgs(f, 0)...)
		return &Type{Name: name, Kind: Input, Proc: p.id, HasProc: true, Inputs: uniqueInputs(inputs), Description: "All input for the `" + camel(s.procName(p.id)) + "` mutation."}
	default:
		return s.procPayloadType(p, name, bind)
	}
}

func (s *Schema) record(f *catalog.Proc, name string, of *Type) *Type {
	t := &Type{Name: name, Kind: Object, Proc: of.Proc, HasProc: true}
	index := -1
	for i := range int(f.Args.N) {
		a := s.catalog.Args[int(f.Args.From)+i]
		if a.Mode == 'i' || a.Mode == 'v' {
			continue
		}
		index++
		if a.Name == "" {
			a.Name = fmt.Sprintf("column%d", i+1)
		}
		ref, _ := s.refOf(a.Type, false, false)
		ref.NonNull = false
		name := camel(plain(a.Name))
		if !validName(name) {
			name = "column" + madeUp(name)
		}
		name = numbered(name, func(s string) bool { return t.Field(s) != nil })
		t.Fields = append(t.Fields, Field{Name: name, Type: ref, Bind: Bind{Op: OpRecordField, Proc: of.Proc, Index: uint16(index), Pg: a.Type}})
	}
	return t
}

func (s *Schema) procPayloadType(p proc, name string, bind Bind) *Type {
	t := &Type{Name: name, Kind: Object, Proc: p.id, HasProc: true, Fields: []Field{payloadMutationID},
		Description: "The output of our `" + camel(s.procName(p.id)) + "` mutation."}
	tags, _ := parseComment(s.catalog.Procs[p.id].Comment)
	result := s.procField(p, 0)
	result.Bind.Op, result.Name, result.Description, result.Deprecated, result.Args = OpPayloadResult, "result", "", "", nil
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
	if bind.Result == ResultRow && matches("connection", true, tags) {
		t.Fields = append(t.Fields, s.payloadEdge(result.Bind.Class)...)
	}
	t.Fields = firstOfEachName(t.Fields)
	return t
}

func (s *Schema) procMutationField(e entry) Field {
	p := s.procs[e.id]
	tags, text := parseComment(s.catalog.Procs[p.id].Comment)
	name := s.procTypeName(p.id)
	b := s.procField(p, 0).Bind
	b.Op = OpProcMutation
	return Field{Name: camel(s.procName(p.id)), Description: text, Deprecated: tags.deprecation(), Type: Ref{Name: name + "Payload"}, Args: inputArg(name + "Input"), Bind: b}
}
