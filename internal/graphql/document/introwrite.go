package document

import (
	"iter"
	"slices"

	"github.com/leveehq/levee/internal/graphql/schema"
	"github.com/vektah/gqlparser/v2/ast"
)

// object writes an object; value writes the value of each selected field.
func (x *introspector) object(typeName string, sel []selected, value func(f *selected)) {
	x.raw("{")
	for i := range sel {
		if i > 0 {
			x.raw(",")
		}
		x.raw(sel[i].key)
		if sel[i].field == "__typename" {
			x.string(typeName)
			continue
		}
		value(&sel[i])
	}
	x.raw("}")
}

// list writes items until there is an error.
func list[T any](x *introspector, items iter.Seq[T], write func(T)) {
	x.raw("[")
	first := true
	for item := range items {
		if x.err != nil {
			return
		}
		if !first {
			x.raw(",")
		}
		first = false
		write(item)
	}
	x.raw("]")
}

func (x *introspector) schemaObject(sel []selected) {
	x.object("__Schema", sel, func(f *selected) {
		switch f.field {
		case "types":
			list(x, x.allTypes(), func(t *schema.Type) { x.named(f.sub, t.Name, t) })
		case "queryType":
			x.named(f.sub, queryType, nil)
		case "mutationType":
			if m := x.schema.MutationType(); m != "" {
				x.named(f.sub, m, nil)
				return
			}
			x.raw("null")
		case "directives":
			list(x, slices.Values(introspected().order), func(name string) { x.directive(f.sub, introspected().directives[name]) })
		default: // description, subscriptionType
			x.raw("null")
		}
	})
}

func (x *introspector) allTypes() iter.Seq[*schema.Type] {
	return func(yield func(*schema.Type) bool) {
		for t := range x.schema.Types() {
			if !yield(t) {
				return
			}
		}
		for _, name := range introspected().typeOrder {
			if !yield(introspected().types[name]) {
				return
			}
		}
	}
}

// reference writes a type where it is used: its wrappers from the outside in, then the named type.
func (x *introspector) reference(sel []selected, ref schema.Ref) {
	switch {
	case ref.NonNull:
		ref.NonNull = false
		x.wrapper(sel, "NON_NULL", ref)
	case ref.List:
		x.wrapper(sel, "LIST", schema.Ref{Name: ref.Name, NonNull: ref.ItemNonNull})
	default:
		x.named(sel, ref.Name, nil)
	}
}

func (x *introspector) wrapper(sel []selected, kind string, of schema.Ref) {
	x.object("__Type", sel, func(f *selected) {
		switch f.field {
		case "kind":
			x.string(kind)
		case "ofType":
			x.reference(f.sub, of)
		default:
			x.raw("null")
		}
	})
}

var kindNames = [...]string{
	schema.Scalar: "SCALAR", schema.Object: "OBJECT", schema.Interface: "INTERFACE", schema.Input: "INPUT_OBJECT", schema.Enum: "ENUM",
}

// named writes a named type; t is derived if it is nil and more than its kind is asked.
func (x *introspector) named(sel []selected, name string, t *schema.Type) {
	x.object("__Type", sel, func(f *selected) {
		switch f.field {
		case "kind":
			if t != nil {
				x.string(kindNames[t.Kind])
				return
			}
			x.string(kindNames[x.kind(name)])
			return
		case "name":
			x.string(name)
			return
		case "ofType":
			x.raw("null")
			return
		}
		if t == nil {
			t = x.derive(name)
		}
		x.details(f, t)
	})
}

// details writes what a type must be derived for. Lists that a kind of type does not have are null.
func (x *introspector) details(f *selected, t *schema.Type) {
	composite := t.Kind == schema.Object || t.Kind == schema.Interface
	switch {
	case f.field == "description":
		x.text(t.Description)
	case f.field == "specifiedByURL":
		x.text(t.SpecifiedBy)
	case f.field == "isOneOf" && t.Kind == schema.Input:
		x.boolean(false)
	case f.field == "fields" && composite:
		list(x, current(t.Fields, f.deprecated, func(m *schema.Field) string { return m.Deprecated }), func(m *schema.Field) { x.fieldObject(f.sub, m) })
	case f.field == "interfaces" && composite:
		list(x, slices.Values(t.Implements), func(name string) { x.named(f.sub, name, nil) })
	case f.field == "possibleTypes" && t.Kind == schema.Interface:
		list(x, x.implementing(t.Name), func(of *schema.Type) { x.named(f.sub, of.Name, of) })
	case f.field == "enumValues" && t.Kind == schema.Enum:
		list(x, current(t.Values, f.deprecated, func(v *schema.EnumValue) string { return v.Deprecated }), func(v *schema.EnumValue) { x.enumValue(f.sub, v) })
	case f.field == "inputFields" && t.Kind == schema.Input:
		x.inputs(f, t.Inputs)
	default:
		x.raw("null")
	}
}

// current leaves out what is deprecated unless it is asked for.
func current[T any](items []T, all bool, deprecated func(*T) string) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for i := range items {
			if (all || deprecated(&items[i]) == "") && !yield(&items[i]) {
				return
			}
		}
	}
}

func (x *introspector) implementing(name string) iter.Seq[*schema.Type] {
	return func(yield func(*schema.Type) bool) {
		for t := range x.schema.Types() {
			if slices.Contains(t.Implements, name) && !yield(t) {
				return
			}
		}
	}
}

func (x *introspector) fieldObject(sel []selected, m *schema.Field) {
	x.object("__Field", sel, func(f *selected) {
		switch f.field {
		case "name":
			x.string(m.Name)
		case "description":
			x.text(m.Description)
		case "args":
			x.inputs(f, m.Args)
		case "type":
			x.reference(f.sub, m.Type)
		default:
			x.deprecation(f, m.Deprecated)
		}
	})
}

func (x *introspector) inputs(f *selected, in []schema.InputValue) {
	list(x, current(in, f.deprecated, func(v *schema.InputValue) string { return v.Deprecated }), func(v *schema.InputValue) { x.inputValue(f.sub, v) })
}

func (x *introspector) inputValue(sel []selected, v *schema.InputValue) {
	x.object("__InputValue", sel, func(f *selected) {
		switch f.field {
		case "name":
			x.string(v.Name)
		case "description":
			x.text(v.Description)
		case "type":
			x.reference(f.sub, v.Type)
		case "defaultValue":
			x.text(v.Default)
		default:
			x.deprecation(f, v.Deprecated)
		}
	})
}

func (x *introspector) enumValue(sel []selected, v *schema.EnumValue) {
	x.object("__EnumValue", sel, func(f *selected) {
		switch f.field {
		case "name":
			x.string(v.Name)
		case "description":
			x.text(v.Description)
		default:
			x.deprecation(f, v.Deprecated)
		}
	})
}

func (x *introspector) deprecation(f *selected, reason string) {
	if f.field == "isDeprecated" {
		x.boolean(reason != "")
		return
	}
	x.text(reason)
}

func (x *introspector) directive(sel []selected, d *ast.DirectiveDefinition) {
	x.object("__Directive", sel, func(f *selected) {
		switch f.field {
		case "name":
			x.string(d.Name)
		case "description":
			x.text(d.Description)
		case "isRepeatable":
			x.boolean(d.IsRepeatable)
		case "locations":
			list(x, slices.Values(d.Locations), func(l ast.DirectiveLocation) { x.string(string(l)) })
		case "args":
			x.inputs(f, shownArguments(d.Arguments))
		default:
			x.deprecation(f, "")
		}
	})
}
