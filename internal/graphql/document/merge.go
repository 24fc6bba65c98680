package document

import (
	"slices"
	"strings"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/validator/core"
)

// merging checks that fields which share a name in the response can be answered as one. The usual rule compares all pairs
// and remembers which; this one groups what is merged level by level and compares with one of the group, so its time is
// that of the document with its fragments expanded, which is limited.
//
// Fields that may be of the same object must be the same field with the same arguments. Fields that cannot, because they
// are asked of different object types, must still be of the same shape, all the way down.
func (v *validation) merging(doc *ast.QueryDocument) {
	for _, op := range doc.Operations {
		top := []ast.SelectionSet{op.SelectionSet}
		v.sameFields(top)
		if len(v.errs) == 0 { // else the same fields would be named again
			v.sameShapes(top)
		}
	}
}

// group is the fields with one response name.
type group []*ast.Field

// collect groups the fields of selection sets that are merged, in the order of their names' first use.
func collect(sets []ast.SelectionSet) []group {
	c := collection{index: map[string]int{}, spread: map[string]bool{}}
	for _, set := range sets {
		c.add(set)
	}
	return c.groups
}

type collection struct {
	groups []group
	index  map[string]int
	spread map[string]bool
}

func (c *collection) add(set ast.SelectionSet) {
	for _, s := range set {
		switch s := s.(type) {
		case *ast.Field:
			i, ok := c.index[s.Alias]
			if !ok {
				i = len(c.groups)
				c.index[s.Alias] = i
				c.groups = append(c.groups, nil)
			}
			c.groups[i] = append(c.groups[i], s)
		case *ast.InlineFragment:
			c.add(s.SelectionSet)
		case *ast.FragmentSpread:
			if !c.spread[s.Name] {
				c.spread[s.Name] = true
				c.add(s.Definition.SelectionSet)
			}
		}
	}
}

func (v *validation) sameFields(sets []ast.SelectionSet) {
	for _, g := range collect(sets) {
		for _, part := range byParent(g) {
			v.sameField(part)
			if below := below(part); len(below) > 0 {
				v.sameFields(below)
			}
		}
	}
}

func (v *validation) sameField(g group) {
	for _, f := range g[1:] {
		switch {
		case f.Name != g[0].Name:
			v.conflict(g[0], f, "%q and %q are different fields", cut(g[0].Name), cut(f.Name))
		case !sameArguments(g[0].Arguments, f.Arguments):
			v.conflict(g[0], f, "they have differing arguments")
		}
	}
}

func (v *validation) sameShapes(sets []ast.SelectionSet) {
	for _, g := range collect(sets) {
		for _, f := range g[1:] {
			a, b := g[0].Definition.Type, f.Definition.Type
			if !v.sameShape(a, b) {
				v.conflict(g[0], f, "they return conflicting types %q and %q", a.String(), b.String())
			}
		}
		if below := below(g); len(below) > 0 {
			v.sameShapes(below)
		}
	}
}

func (v *validation) conflict(a, b *ast.Field, format string, args ...any) {
	v.add(
		core.Message("Fields %q conflict because ", cut(a.Alias)), core.Message(format, args...),
		core.Message(". Use different aliases on the fields to fetch both if this was intentional."),
		core.At(a.Position), core.At(b.Position),
	)
}

// byParent splits a group into those that may be asked of the same object. What is asked of an interface may be asked of
// all.
func byParent(g group) []group {
	if len(g) == 1 {
		return []group{g}
	}
	var shared group
	var order []string
	parts := map[string]group{}
	for _, f := range g {
		switch of := f.ObjectDefinition; {
		case of.IsAbstractType():
			shared = append(shared, f)
		default:
			if parts[of.Name] == nil {
				order = append(order, of.Name)
			}
			parts[of.Name] = append(parts[of.Name], f)
		}
	}
	if len(order) == 0 {
		return []group{shared}
	}
	groups := make([]group, len(order))
	for i, name := range order {
		groups[i] = slices.Concat(shared, parts[name])
	}
	return groups
}

func below(g group) (sets []ast.SelectionSet) {
	for _, f := range g {
		if len(f.SelectionSet) > 0 {
			sets = append(sets, f.SelectionSet)
		}
	}
	return sets
}

func (v *validation) sameShape(a, b *ast.Type) bool {
	if a.NonNull != b.NonNull || (a.Elem == nil) != (b.Elem == nil) {
		return false
	}
	if a.Elem != nil {
		return v.sameShape(a.Elem, b.Elem)
	}
	if v.schema.Types[a.NamedType].IsLeafType() || v.schema.Types[b.NamedType].IsLeafType() {
		return a.NamedType == b.NamedType
	}
	return true
}

func sameArguments(a, b ast.ArgumentList) bool {
	if len(a) != len(b) {
		return false
	}
	for _, arg := range a {
		other := b.ForName(arg.Name)
		if other == nil || !sameValue(arg.Value, other.Value) {
			return false
		}
	}
	return true
}

// sameValue compares literals; the order of an object's members means nothing.
func sameValue(a, b *ast.Value) bool {
	if a.Kind != b.Kind || a.Raw != b.Raw || len(a.Children) != len(b.Children) {
		return false
	}
	as, bs := a.Children, b.Children
	if a.Kind == ast.ObjectValue {
		as, bs = sorted(as), sorted(bs)
	}
	for i := range as {
		if as[i].Name != bs[i].Name || !sameValue(as[i].Value, bs[i].Value) {
			return false
		}
	}
	return true
}

func sorted(list ast.ChildValueList) ast.ChildValueList {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b *ast.ChildValue) int { return strings.Compare(a.Name, b.Name) })
	return list
}
