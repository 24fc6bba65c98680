package schema

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/leveehq/levee/internal/graphql/catalog"
)

// proc is a function that is shown.
type proc struct {
	id       catalog.ProcID
	class    catalog.ClassID // it is a field of that class's type; 0: of none
	query    bool            // it is a field of Query
	mutation bool            // it is a field of Mutation
}

const oidRecord = 2249

// readProcs decides which functions are shown, and where.
func (b *builder) readProcs() error {
	for i := range b.catalog.Procs {
		id := catalog.ProcID(i)
		f := &b.catalog.Procs[i]
		if f.Privileges&catalog.Execute == 0 || strings.HasPrefix(f.Name, "__") || b.makesRange(f) {
			continue
		}
		p := b.placeOf(id)
		if p.class == 0 && !p.query && !p.mutation {
			continue
		}
		if why := b.unfit(f, p); why != "" {
			b.warn("%s is left out: %s", b.describeProc(id), why)
			continue
		}
		b.procs = append(b.procs, p)
		b.warnOfTags(id)
	}
	b.sortProcs()
	for i, p := range b.procs {
		if p.class != 0 {
			b.computed = append(b.computed, uint32(i))
		}
	}
	slices.SortStableFunc(b.computed, func(x, y uint32) int { return cmp.Compare(b.procs[x].class, b.procs[y].class) })
	return nil
}

// placeOf says where the field of a function is: in Mutation if it changes something, in the type of the row that it takes
// first, else in Query. A function of a composite type is in both of the latter.
func (s *Schema) placeOf(id catalog.ProcID) proc {
	f := &s.catalog.Procs[id]
	tags, _ := parseComment(f.Comment)
	changes := f.Volatility == 'v'
	row := s.firstRow(f)
	p := proc{id: id, mutation: matches("mutationField", changes, tags)}
	if matches("typeField", !changes && row != 0, tags) {
		p.class = row
	}
	p.query = matches("queryField", !changes && (row == 0 || s.catalog.Classes[row].Kind == 'c'), tags)
	if f.Set && !changes {
		p.query = p.query && matches("queryField:resource:connection", true, tags)
		if !matches("typeField:resource:connection", true, tags) {
			p.class = 0
		}
	}
	return p
}

// makesRange is true for the functions that PostgreSQL makes with a range type.
func (s *Schema) makesRange(f *catalog.Proc) bool {
	t := &s.catalog.Types[f.Returns]
	return t.Name == f.Name && (t.Kind == 'r' || t.Kind == 'm')
}

// warnOfTags names what tags ask of a function that there is not.
func (b *builder) warnOfTags(id catalog.ProcID) {
	tags, _ := parseComment(b.catalog.Procs[id].Comment)
	for _, t := range tags {
		if strings.HasPrefix(t.name, "arg") && strings.HasSuffix(t.name, "variant") && t.value != "patch" && t.value != "input" {
			b.warn("tag @%s of %s is without effect: there is no variant but patch", t.name, b.describeProc(id))
		}
	}
	for what, effect := range map[string]string{"proc:orderBy": "ordering by", "condition:proc:filterBy": "conditions on"} {
		if matches(what, false, tags) && !matches("*", false, tags) {
			b.warn("%s: there is no %s computed columns, so that part of @behavior has no effect", b.describeProc(id), effect)
		}
	}
	if matches("queryField:resource:list", false, tags) {
		b.warn("%s: there are no lists beside connections, so that part of @behavior has no effect", b.describeProc(id))
	}
}

func (s *Schema) describeProc(id catalog.ProcID) string {
	f := &s.catalog.Procs[id]
	return "function " + s.catalog.Schemas[f.Schema] + "." + f.Name
}

// unfit says why a function cannot be shown.
func (s *Schema) unfit(f *catalog.Proc, p proc) string {
	if f.Overloaded {
		return "another function of its schema has the same name, and one field cannot be both"
	}
	for i := range int(f.Args.N) {
		a := &s.catalog.Args[int(f.Args.From)+i]
		if a.Mode == 'v' {
			return "it takes any number of arguments (VARIADIC)"
		}
		if _, ok := s.refOf(a.Type, false, a.Mode == 'i' || a.Mode == 'b'); !ok {
			return fmt.Sprintf("its argument %d has the type %s, which has no form in GraphQL", i+1, s.catalog.Types[a.Type].Name)
		}
		if rowItself := i == 0 && !p.query && !p.mutation; !rowItself && (a.Mode == 'i' || a.Mode == 'b') && !s.canBeGiven(f, i) {
			return fmt.Sprintf("its argument %d is a row of %s, of which nobody may give a column", i+1, s.catalog.Types[s.leafOf(a.Type)].Name)
		}
	}
	result := s.resultOf(f)
	switch {
	case result == ResultVoid && f.Returns != 0 && s.catalog.Types[f.Returns].OID == oidRecord:
		return "it returns records of unknown columns: declare them with OUT or TABLE"
	case result == ResultVoid && f.Returns != 0:
		return fmt.Sprintf("it returns %s, which has no form in GraphQL", s.catalog.Types[f.Returns].Name)
	case result == ResultVoid && f.Volatility != 'v':
		return "it returns nothing and changes nothing"
	case result == ResultValues && isArray(&s.catalog.Types[s.baseOf(f.Returns)]):
		return "it returns a set of arrays, and a list of lists has no form here"
	}
	return ""
}

// leafOf is what a domain is over, and an array is of.
func (s *Schema) leafOf(t catalog.TypeID) catalog.TypeID {
	t = s.baseOf(t)
	if isArray(&s.catalog.Types[t]) {
		t = s.baseOf(s.catalog.Types[t].Element)
	}
	return t
}

// canBeGiven is false for arguments that are rows without an input type, because none of their columns can be set.
func (s *Schema) canBeGiven(f *catalog.Proc, i int) bool {
	t := s.catalog.Args[int(f.Args.From)+i].Type
	leaf := &s.catalog.Types[s.leafOf(t)]
	if leaf.Kind != 'c' {
		return true
	}
	kind := inputType
	if tags, _ := parseComment(f.Comment); s.takesPatch(t, tags.get(fmt.Sprintf("arg%dvariant", i))) {
		kind = patchType
	}
	return s.rowInput(leaf.Class, "", kind) != nil
}

// firstRow is the class of the first argument, if that is a row or composite.
func (s *Schema) firstRow(f *catalog.Proc) catalog.ClassID {
	if f.Args.N == 0 {
		return 0
	}
	a := s.catalog.Args[f.Args.From]
	if (a.Mode == 'i' || a.Mode == 'b') && s.catalog.Types[a.Type].Kind == 'c' {
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
	switch form {
	case ResultRecord:
		return ResultRecords
	case ResultRow:
		return ResultRows
	default:
		return ResultValues
	}
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

// procArgs are the inputs from the skip-th on. Those without default are required where NULL would have no result. An argument
// that has the name of one before it is numbered.
func (s *Schema) procArgs(f *catalog.Proc, skip int) (args []InputValue) {
	inputs := 0
	for i := range int(f.Args.N) {
		if m := s.catalog.Args[int(f.Args.From)+i].Mode; m == 'i' || m == 'b' {
			inputs++
		}
	}
	tags, _ := parseComment(f.Comment)
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
			name = fmt.Sprintf("arg%d", index-skip)
		}
		required := f.Strict && index < inputs-int(f.Defaults)
		ref, _ := s.refOf(a.Type, required, true)
		if s.takesPatch(a.Type, tags.get(fmt.Sprintf("arg%dvariant", i))) {
			ref.Name = strings.TrimSuffix(ref.Name, "Input") + "Patch"
		}
		ref.NonNull = required
		args = append(args, InputValue{Name: plain(camel(plain(name))), Type: ref, Bind: InputBind{Op: InProcArg, Index: uint16(index), Pg: a.Type}})
	}
	return uniqueInputs(args)
}

// takesPatch tells whether a tag asks for a row of which not every column is given.
func (s *Schema) takesPatch(t catalog.TypeID, variant string) bool {
	class := s.catalog.Types[t].Class
	return variant == "patch" && class != 0 && s.classes[class].shown
}

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
		f.Type.NonNull = f.Type.NonNull || s.catalog.Procs[p.id].Set
		fields = append(fields, f)
	}
	return fields
}
