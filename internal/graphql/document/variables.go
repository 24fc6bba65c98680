package document

import (
	"encoding/json"
	"slices"
	"strings"
	"unsafe"

	"github.com/leveehq/levee/internal/graphql/schema"
	"github.com/vektah/gqlparser/v2/ast"
)

// Variables coerces an operation's variables. It stays small when it is kept without the rest of the operation: it holds
// names and types of its own and nothing of the document.
type Variables struct {
	vars  []variable
	types []inputType
}

type variable struct {
	name     string
	ref      schema.Ref
	typ      int // in types
	at       Location
	fallback fallback
}

type inputType struct {
	form   form
	order  bool     // an enum that orders: its values have no labels in the database, but are SQL
	values []string // of an enum, sorted
	fields []inputField
}

type inputField struct {
	name     string
	ref      schema.Ref
	typ      int
	fallback fallback
}

// fallback is a default value as Coerce gives it.
type fallback struct {
	is    bool
	value any
}

// newVariables copies what coercing needs.
func newVariables(r *reached, op *ast.OperationDefinition) *Variables {
	if len(op.VariableDefinitions) == 0 {
		return &Variables{}
	}
	b := variablesBuilder{reached: r, index: map[string]int{}, v: &Variables{}}
	for _, def := range op.VariableDefinitions {
		ref := refOf(def.Type)
		ref.Name = strings.Clone(ref.Name)
		v := variable{
			name: strings.Clone(def.Variable), ref: ref, typ: b.typeNamed(ref.Name),
			at: Location{def.Position.Line, def.Position.Column},
		}
		v.fallback = b.fallback(v.ref, def.DefaultValue)
		b.v.vars = append(b.v.vars, v)
	}
	return b.v
}

type variablesBuilder struct {
	*reached
	v     *Variables
	index map[string]int
}

// typeNamed copies a type and all that its fields are of. The index is taken first: a type may be within itself.
func (b *variablesBuilder) typeNamed(name string) int {
	if i, ok := b.index[name]; ok {
		return i
	}
	i := len(b.v.types)
	b.index[name] = i
	t := b.types[name]
	if t == nil {
		t = typeNamed(b.source, name)
	}
	b.v.types = append(b.v.types, inputType{form: formOf(t, b.source.Catalog()), order: !slices.ContainsFunc(t.Values, func(v schema.EnumValue) bool { return v.Label != "" })})
	if n := len(t.Values); n > 0 {
		values := make([]string, n)
		for j := range t.Values {
			values[j] = t.Values[j].Name
		}
		slices.Sort(values)
		b.v.types[i].values = values
	}
	if n := len(t.Inputs); n > 0 {
		fields := make([]inputField, n)
		for j := range t.Inputs {
			in := &t.Inputs[j]
			fields[j] = inputField{name: in.Name, ref: in.Type, typ: b.typeNamed(in.Type.Name)}
			fields[j].fallback = b.fallback(in.Type, literal(in.Default))
		}
		b.v.types[i].fields = fields
	}
	return i
}

func (b *variablesBuilder) fallback(ref schema.Ref, v *ast.Value) fallback {
	if v == nil {
		return fallback{}
	}
	value, _ := literals{source: b.source, types: b.types}.value(ref, v)
	return fallback{is: true, value: value}
}

// Size is an estimate from above of the memory that the variables keep, in bytes.
func (v *Variables) Size() int {
	const perString = 16 // what an allocation is rounded up by, at most, for short ones
	n := int(unsafe.Sizeof(*v)) + cap(v.vars)*int(unsafe.Sizeof(variable{})) + cap(v.types)*int(unsafe.Sizeof(inputType{}))
	for i := range v.vars {
		n += len(v.vars[i].name) + len(v.vars[i].ref.Name) + 2*perString + sizeOf(v.vars[i].fallback.value)
	}
	for i := range v.types {
		t := &v.types[i]
		n += cap(t.values)*int(unsafe.Sizeof("")) + cap(t.fields)*int(unsafe.Sizeof(inputField{}))
		for _, value := range t.values {
			n += len(value) + perString
		}
		for j := range t.fields {
			n += len(t.fields[j].name) + len(t.fields[j].ref.Name) + 2*perString + sizeOf(t.fields[j].fallback.value)
		}
	}
	return n
}

// sizeOf is what a default value takes: an interface's box, and a map's first table of 8 members.
func sizeOf(value any) int {
	switch value := value.(type) {
	case nil, bool:
		return 0
	case string:
		return 32 + len(value)
	case json.Number:
		return 32 + len(value)
	case []any:
		n := 24 + 16*cap(value)
		for _, item := range value {
			n += sizeOf(item)
		}
		return n
	case map[string]any:
		n := 48 + 320 + 80*len(value)
		for key, item := range value {
			n += len(key) + 16 + sizeOf(item)
		}
		return n
	default:
		return 64
	}
}
