package sqlgen

import (
	"encoding/json"
	"strings"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/leveehq/levee/internal/graphql/document"
	"github.com/leveehq/levee/internal/graphql/schema"
)

// source is where a value comes from, without the document that said so.
type source struct {
	kind   sourceKind
	value  any      // constant
	name   string   // of a variable
	keys   []string // of an object; of a variable, the members that lead to the value
	items  []source // of a list; of an object, by keys
	inList bool     // a single value where a list is meant
}

type sourceKind uint8

const (
	constant sourceKind = iota
	variable
	listOf
	object
	absent
)

// sourceOf copies what an argument says. Only what has variables in it is kept in its form.
func sourceOf(op *document.Operation, types func(string) *schema.Type, ref schema.Ref, v *ast.Value) source {
	if v == nil {
		return source{kind: absent}
	}
	if !hasVariables(v) {
		value, given := op.Value(ref, v, nil)
		if !given {
			return source{kind: absent}
		}
		return source{value: own(value)}
	}
	switch v.Kind {
	case ast.Variable:
		return source{kind: variable, name: strings.Clone(v.Raw)}
	case ast.ListValue:
		s := source{kind: listOf}
		for _, child := range v.Children {
			s.items = append(s.items, sourceOf(op, types, schema.Ref{Name: ref.Name, NonNull: ref.ItemNonNull}, child.Value))
		}
		return s
	default:
		s := source{kind: object, inList: ref.List}
		in := types(ref.Name)
		for _, child := range v.Children {
			inner := schema.Ref{Name: "JSON"}
			if in != nil {
				if field := in.Input(child.Name); field != nil {
					inner = field.Type
				}
			}
			s.keys = append(s.keys, strings.Clone(child.Name))
			s.items = append(s.items, sourceOf(op, types, inner, child.Value))
		}
		return s
	}
}

// own copies a value, whose texts may be parts of the document's: a plan would hold all of that.
func own(value any) any {
	switch v := value.(type) {
	case string:
		return strings.Clone(v)
	case json.Number:
		return json.Number(strings.Clone(string(v)))
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = own(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, item := range v {
			out[strings.Clone(key)] = own(item)
		}
		return out
	default:
		return value
	}
}

func hasVariables(v *ast.Value) bool {
	if v.Kind == ast.Variable {
		return true
	}
	for _, child := range v.Children {
		if hasVariables(child.Value) {
			return true
		}
	}
	return false
}

// get is the value in a request; given is false for a variable that was omitted.
func (s source) get(vars map[string]any) (value any, given bool) {
	switch s.kind {
	case constant:
		return s.value, true
	case variable:
		value, given = vars[s.name]
		for _, key := range s.keys { // a member of what the variable holds
			m, _ := value.(map[string]any)
			value, given = m[key]
		}
		return value, given
	case listOf:
		out := make([]any, 0, len(s.items))
		for _, item := range s.items {
			v, _ := item.get(vars)
			out = append(out, v)
		}
		return out, true
	case object:
		out := make(map[string]any, len(s.keys))
		for i, key := range s.keys {
			if v, ok := s.items[i].get(vars); ok {
				out[key] = v
			}
		}
		if s.inList {
			return []any{out}, true
		}
		return out, true
	default:
		return nil, false
	}
}

// has tells of a value that is not null. It is so in all requests that have a plan's shape, or in none.
func (s source) has(vars map[string]any) bool {
	v, given := s.get(vars)
	return given && v != nil
}

// settled tells whether the value is the same in all requests that have a plan's shape.
func (s source) settled(vars map[string]any) bool { return s.kind == constant || !s.has(vars) }

// member is the source of an object's field.
func (s source) member(name string) source {
	switch s.kind {
	case constant:
		m, _ := s.value.(map[string]any)
		v, ok := m[name]
		if !ok {
			return source{kind: absent}
		}
		return source{value: v}
	case object:
		for i, key := range s.keys {
			if key == name {
				return s.items[i]
			}
		}
		return source{kind: absent}
	case variable:
		return source{kind: variable, name: s.name, keys: append(append([]string{}, s.keys...), name)}
	default:
		return source{kind: absent}
	}
}
