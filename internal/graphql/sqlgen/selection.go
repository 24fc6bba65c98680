package sqlgen

import (
	"strings"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/leveehq/levee/internal/graphql/document"
	"github.com/leveehq/levee/internal/graphql/schema"
)

// selected is a field of a selection, with all that was selected under its response name.
type selected struct {
	key    string
	first  *ast.Field
	fields []*ast.Field
	def    *schema.Field // nil for __typename and introspection
}

// sub is what is selected below: the sets of all fields that share the response name.
func (s *selected) sub() (sets []ast.SelectionSet) {
	for _, f := range s.fields {
		sets = append(sets, f.SelectionSet)
	}
	return sets
}

func (s *selected) at() []document.Location {
	if p := s.first.Position; p != nil {
		return []document.Location{{Line: p.Line, Column: p.Column}}
	}
	return nil
}

func (s *selected) arg(name string) *ast.Value {
	if a := s.first.Arguments.ForName(name); a != nil {
		return a.Value
	}
	return nil
}

// collect flattens selection sets for objects of one type: fragments that apply, and fields that are not skipped.
func (c *compiler) collect(t *schema.Type, sets ...ast.SelectionSet) []*selected {
	var out []*selected
	by := map[string]*selected{}
	var walk func(set ast.SelectionSet)
	walk = func(set ast.SelectionSet) {
		for _, s := range set {
			switch s := s.(type) {
			case *ast.Field:
				if c.skipped(s.Directives) {
					continue
				}
				key := s.Alias
				if key == "" {
					key = s.Name
				}
				if by[key] == nil {
					by[key] = &selected{key: strings.Clone(key), first: s, def: c.field(t, s.Name)}
					out = append(out, by[key])
				}
				by[key].fields = append(by[key].fields, s)
			case *ast.InlineFragment:
				if !c.skipped(s.Directives) && applies(t, s.TypeCondition) {
					walk(s.SelectionSet)
				}
			case *ast.FragmentSpread:
				if !c.skipped(s.Directives) && s.Definition != nil && applies(t, s.Definition.TypeCondition) {
					walk(s.Definition.SelectionSet)
				}
			}
		}
	}
	for _, set := range sets {
		walk(set)
	}
	return out
}

func (c *compiler) field(t *schema.Type, name string) *schema.Field {
	if t.Name == "Query" || t.Name == "Mutation" {
		return c.schema.RootField(t.Name, name)
	}
	return t.Field(name)
}

func applies(t *schema.Type, condition string) bool {
	if condition == "" || condition == t.Name {
		return true
	}
	for _, i := range t.Implements {
		if i == condition {
			return true
		}
	}
	return false
}

func (c *compiler) skipped(directives ast.DirectiveList) bool {
	for _, d := range directives {
		if d.Name != "skip" && d.Name != "include" {
			continue
		}
		a := d.Arguments.ForName("if")
		if a == nil {
			continue
		}
		v, _ := c.op.Value(schema.Ref{Name: "Boolean", NonNull: true}, a.Value, c.vars)
		if on, _ := v.(bool); on == (d.Name == "skip") {
			return true
		}
	}
	return false
}
