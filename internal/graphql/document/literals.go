package document

import (
	"encoding/json"
	"strings"

	"github.com/leveehq/levee/internal/graphql/schema"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/parser"
)

// Value is the value of an argument, in the form that Coerce gives those of variables. It is not given if it is a variable
// that was omitted. Nothing in it refers to the document.
func (o *Operation) Value(ref schema.Ref, v *ast.Value, vars map[string]any) (value any, given bool) {
	return literals{source: o.source, types: o.types, vars: vars}.value(ref, v)
}

// literals turns literals that have been checked into values.
type literals struct {
	source Schema
	types  map[string]*schema.Type // those derived already
	vars   map[string]any
}

func (l literals) value(ref schema.Ref, v *ast.Value) (value any, given bool) {
	switch {
	case v.Kind == ast.Variable: // of a type that fits here, so coerced as it must be
		value, given = l.vars[v.Raw]
		return value, given
	case v.Kind == ast.NullValue:
		return nil, true
	case ref.List:
		return l.list(schema.Ref{Name: ref.Name, NonNull: ref.ItemNonNull}, v), true
	}
	t := l.types[ref.Name]
	if t == nil {
		t = typeNamed(l.source, ref.Name)
	}
	switch formOf(t, l.source.Catalog()) {
	case formObject:
		return l.object(t, v), true
	case formJSON:
		return l.untyped(v)
	case formHash:
		return l.hash(v), true
	case formInt, formFloat:
		return json.Number(strings.Clone(v.Raw)), true
	case formBoolean:
		return v.Raw == "true", true
	default:
		return strings.Clone(v.Raw), true
	}
}

// list takes a single value for a list of one. A variable that was omitted is null among items.
func (l literals) list(item schema.Ref, v *ast.Value) []any {
	if v.Kind != ast.ListValue {
		value, _ := l.value(item, v)
		return []any{value}
	}
	items := make([]any, len(v.Children))
	for i, c := range v.Children {
		items[i], _ = l.value(item, c.Value)
	}
	return items
}

func (l literals) object(t *schema.Type, v *ast.Value) map[string]any {
	object := make(map[string]any, len(v.Children))
	for i := range t.Inputs {
		in := &t.Inputs[i]
		member := v.Children.ForName(in.Name)
		if member != nil {
			if value, given := l.value(in.Type, member); given {
				object[in.Name] = value
				continue
			}
		}
		if in.Default != "" {
			object[in.Name], _ = l.value(in.Type, literal(in.Default))
		}
	}
	return object
}

// untyped is the inside of a JSON literal.
func (l literals) untyped(v *ast.Value) (value any, given bool) {
	switch v.Kind {
	case ast.Variable:
		value, given = l.vars[v.Raw]
		return value, given
	case ast.NullValue:
		return nil, true
	case ast.BooleanValue:
		return v.Raw == "true", true
	case ast.IntValue, ast.FloatValue:
		return json.Number(strings.Clone(v.Raw)), true
	case ast.ListValue:
		items := make([]any, len(v.Children))
		for i, c := range v.Children {
			items[i], _ = l.untyped(c.Value)
		}
		return items, true
	case ast.ObjectValue:
		object := make(map[string]any, len(v.Children))
		for _, c := range v.Children {
			if value, given := l.untyped(c.Value); given {
				object[strings.Clone(c.Name)] = value
			}
		}
		return object, true
	default:
		return strings.Clone(v.Raw), true
	}
}

// hash has the texts of numbers as they are written.
func (l literals) hash(v *ast.Value) map[string]any {
	object := make(map[string]any, len(v.Children))
	for _, c := range v.Children {
		object[strings.Clone(c.Name)] = nil
		if c.Value.Kind != ast.NullValue {
			object[strings.Clone(c.Name)] = strings.Clone(c.Value.Raw)
		}
	}
	return object
}

// literal parses a default value of the schema, which is one; nil if there is none.
func literal(text string) *ast.Value {
	if text == "" {
		return nil
	}
	doc, err := parser.ParseQuery(&ast.Source{Input: "{f(v:" + text + ")}"})
	if err != nil {
		return &ast.Value{Kind: ast.NullValue}
	}
	return doc.Operations[0].SelectionSet[0].(*ast.Field).Arguments[0].Value
}
