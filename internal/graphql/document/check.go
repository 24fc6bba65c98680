package document

import (
	"encoding/json"
	"fmt"

	"github.com/leveehq/levee/internal/graphql/schema"
	"github.com/vektah/gqlparser/v2/ast"
)

// Check applies the limits that depend on variables, Page and Cost, and refuses null from a variable where an argument or a
// part of one is required. Errors are for the client, with status 400. What is skipped costs nothing.
func (o *Operation) Check(vars map[string]any) []Error {
	c := checker{Operation: o, vars: vars}
	c.selections(o.Definition.SelectionSet, 1)
	return c.errs
}

type checker struct {
	*Operation
	vars   map[string]any
	rows   int // that lists may have given so far
	errs   []Error
	costly bool
}

// selections counts what a selection set asks of each of so many objects.
func (c *checker) selections(set ast.SelectionSet, objects int) {
	for _, s := range set {
		if c.costly || len(c.errs) == maxErrors {
			return
		}
		switch s := s.(type) {
		case *ast.Field:
			if c.included(s.Directives) {
				c.fieldOf(s, objects)
			}
		case *ast.InlineFragment:
			if c.included(s.Directives) {
				c.selections(s.SelectionSet, objects)
			}
		case *ast.FragmentSpread:
			if c.included(s.Directives) {
				c.selections(s.Definition.SelectionSet, objects)
			}
		}
	}
}

func (c *checker) fieldOf(f *ast.Field, objects int) {
	for _, a := range f.Arguments {
		c.required(a.Value)
	}
	def := c.field(f)
	if def == nil || len(f.SelectionSet) == 0 {
		return // introspection, or a leaf: no rows
	}
	if n, list := c.length(f, def); list {
		objects = min(objects*n, c.limits.Cost+1) // both are at most that, so the product does not overflow
		c.rows += objects
	}
	if c.rows > c.limits.Cost && !c.costly {
		c.costly = true
		c.errs = append(c.errs, errorAt(f.Position, fmt.Sprintf(
			"The lists of this query may multiply to more than %d rows (graphql.max_cost). Ask for fewer of each with first, or for fewer lists within lists.", c.limits.Cost)))
	}
	c.selections(f.SelectionSet, objects)
}

// length is how many rows a field may give; list is false for what is one object. The nodes and edges of a connection are
// counted at the connection, which has the arguments.
func (c *checker) length(f *ast.Field, def *schema.Field) (n int, list bool) {
	if def.Bind.Op == schema.OpNodes || def.Bind.Op == schema.OpEdges {
		return 0, false
	}
	n, given, paged := c.limits.ListGuess, false, false
	for i := range def.Args {
		in := &def.Args[i]
		if in.Bind.Op != schema.InFirst && in.Bind.Op != schema.InLast {
			continue
		}
		paged = true
		if page, ok := c.page(f.Arguments.ForName(in.Name)); ok && (!given || page < n) {
			n, given = page, true
		}
	}
	return min(n, c.limits.Cost+1), paged || def.Type.List
}

// page is the value of a first or last. A negative one is for PostgreSQL to refuse, as an error of its field.
func (c *checker) page(a *ast.Argument) (n int, ok bool) {
	if a == nil {
		return 0, false
	}
	n, ok = c.integer(a.Value)
	if ok && n > c.limits.Page {
		c.errs = append(c.errs, errorAt(a.Position, fmt.Sprintf(
			"%s is %d; a page has at most %d rows (graphql.max_page). Ask for the rest with after and before.", a.Name, n, c.limits.Page)))
	}
	return max(n, 0), ok
}

func (c *checker) integer(v *ast.Value) (int, bool) {
	number := json.Number(v.Raw)
	if v.Kind == ast.Variable {
		number, _ = c.vars[v.Raw].(json.Number)
	}
	n, err := number.Int64()
	return int(n), err == nil
}

func (c *checker) included(ds ast.DirectiveList) bool {
	for _, d := range ds {
		for _, a := range d.Arguments {
			c.required(a.Value)
		}
	}
	return included(ds, c.vars)
}

// included evaluates @skip and @include.
func included(ds ast.DirectiveList, vars map[string]any) bool {
	for _, d := range ds {
		a := d.Arguments.ForName("if")
		if a == nil {
			continue
		}
		if isTrue(a.Value, vars) == (d.Name == "skip") {
			return false
		}
	}
	return true
}

func isTrue(v *ast.Value, vars map[string]any) bool {
	if v.Kind == ast.Variable {
		return vars[v.Raw] == true
	}
	return v.Raw == "true"
}

// required finds variables that are null although their position is not: the language allows them there if they have a
// default, which an explicit null overrides.
func (c *checker) required(v *ast.Value) {
	if v.Kind != ast.Variable {
		for _, child := range v.Children {
			c.required(child.Value)
		}
		return
	}
	if v.ExpectedType == nil || !v.ExpectedType.NonNull || v.ExpectedTypeHasDefault {
		return
	}
	if value, ok := c.vars[v.Raw]; !ok || value == nil {
		c.errs = append(c.errs, errorAt(v.Position, fmt.Sprintf("Variable %q must not be null here, where %q is expected.", "$"+cut(v.Raw), v.ExpectedType.String())))
	}
}
