package document

import (
	"fmt"
	"strings"

	"github.com/leveehq/levee/internal/graphql/schema"
	"github.com/vektah/gqlparser/v2/ast"
)

// queryType is the name of the query type, in every schema.
const queryType = "Query"

// reached is a schema of what one document reaches: types with the fields that it mentions, and of arguments' types those
// for which it has values. gqlparser's whole schema costs 45 KB per table; this one costs what the document does.
type reached struct {
	source Schema
	limits Limits
	schema *ast.Schema
	types  map[string]*schema.Type // derived ones; nil: there is none of that name
	fields map[member]*ast.FieldDefinition
	errs   []Error
}

// member names a field of an object, interface or input type.
type member struct{ owner, name string }

func reach(s Schema, doc *ast.QueryDocument, l Limits) *reached {
	r := &reached{
		source: s, limits: l,
		types:  map[string]*schema.Type{},
		fields: map[member]*ast.FieldDefinition{},
		schema: &ast.Schema{
			Types:         map[string]*ast.Definition{},
			Directives:    introspected().directives,
			PossibleTypes: map[string][]*ast.Definition{},
		},
	}
	r.definition("String") // of __typename
	r.definition("Boolean")
	r.schema.Query = r.definition(queryType)
	if m := s.MutationType(); m != "" {
		r.schema.Mutation = r.definition(m)
	}
	for _, op := range doc.Operations {
		r.operationOf(op)
	}
	for _, f := range doc.Fragments {
		r.selections(r.definition(f.TypeCondition), f.SelectionSet)
		r.directives(f.Directives)
	}
	return r
}

func (r *reached) operationOf(op *ast.OperationDefinition) {
	for _, v := range op.VariableDefinitions {
		r.variable(v)
	}
	r.directives(op.Directives)
	switch op.Operation {
	case ast.Mutation:
		r.selections(r.schema.Mutation, op.SelectionSet)
	case ast.Subscription:
	default:
		r.selections(r.schema.Query, op.SelectionSet)
	}
}

// variable refuses what no position of the schema takes but the untyped inside of a JSON literal would let through.
func (r *reached) variable(v *ast.VariableDefinition) {
	name := v.Type.Name()
	if v.Type.Elem != nil && v.Type.Elem.Elem != nil {
		r.errs = append(r.errs, errorAt(v.Position, fmt.Sprintf("Variable %q cannot be of type %q: the schema has no lists of lists.", "$"+cut(v.Variable), cut(v.Type.String()))))
	}
	if strings.HasPrefix(name, "__") {
		r.errs = append(r.errs, errorAt(v.Position, fmt.Sprintf("Variable %q cannot be of introspection's type %q.", "$"+cut(v.Variable), cut(name))))
		return
	}
	r.definition(name)
	if v.DefaultValue != nil {
		r.value(name, v.DefaultValue)
	}
	r.directives(v.Directives)
}

func (r *reached) selections(parent *ast.Definition, set ast.SelectionSet) {
	for _, s := range set {
		switch s := s.(type) {
		case *ast.Field:
			r.field(parent, s)
		case *ast.InlineFragment:
			on := parent
			if s.TypeCondition != "" {
				on = r.definition(s.TypeCondition)
			}
			r.directives(s.Directives)
			r.selections(on, s.SelectionSet)
		case *ast.FragmentSpread:
			r.directives(s.Directives)
		}
	}
}

func (r *reached) field(parent *ast.Definition, f *ast.Field) {
	r.directives(f.Directives)
	if parent == nil || f.Name == "__typename" {
		return
	}
	if r.limits.NoIntrospection && parent == r.schema.Query && (f.Name == "__schema" || f.Name == "__type") {
		r.errs = append(r.errs, errorAt(f.Position, fmt.Sprintf("Introspection is off: %q cannot be queried.", f.Name)))
	}
	def := r.fieldOf(parent, f.Name)
	if def == nil {
		return
	}
	for _, a := range f.Arguments {
		if arg := def.Arguments.ForName(a.Name); arg != nil {
			r.value(arg.Type.Name(), a.Value)
		}
	}
	if len(f.SelectionSet) > 0 {
		r.selections(r.definition(def.Type.Name()), f.SelectionSet)
	}
}

// directives have arguments of built-in scalars only, so there is nothing to reach but their objects and lists, which are
// wrong there whatever they hold.
func (r *reached) directives(list ast.DirectiveList) {
	for _, d := range list {
		for _, a := range d.Arguments {
			r.value("Boolean", a.Value)
		}
	}
}

// fieldOf adds a field to what is reached of its type.
func (r *reached) fieldOf(parent *ast.Definition, name string) *ast.FieldDefinition {
	if strings.HasPrefix(parent.Name, "__") {
		return parent.Fields.ForName(name)
	}
	key := member{parent.Name, name}
	if def, ok := r.fields[key]; ok {
		return def
	}
	def := r.deriveField(parent, name)
	r.fields[key] = def
	if def != nil {
		parent.Fields = append(parent.Fields, def)
		r.definition(def.Type.Name())
	}
	return def
}

func (r *reached) deriveField(parent *ast.Definition, name string) *ast.FieldDefinition {
	if parent == r.schema.Query && strings.HasPrefix(name, "__") {
		return introspected().roots.ForName(name)
	}
	if parent.Kind != ast.Object && parent.Kind != ast.Interface {
		return nil
	}
	t := r.types[parent.Name]
	f := t.Field(name)
	if r.isRoot(parent.Name) && f == nil {
		if f = r.source.RootField(parent.Name, name); f != nil {
			t.Fields = append(t.Fields, *f)
		}
	}
	if f == nil {
		return nil
	}
	def := &ast.FieldDefinition{Name: f.Name, Type: typeOf(f.Type)}
	for i := range f.Args {
		def.Arguments = append(def.Arguments, argumentOf(&f.Args[i]))
	}
	return def
}

// value reaches what a literal mentions, so that the validator knows what is expected at every depth of it.
func (r *reached) value(typeName string, v *ast.Value) {
	switch v.Kind {
	case ast.ListValue:
		for _, c := range v.Children {
			r.value(typeName, c.Value)
		}
	case ast.ObjectValue:
		def := r.definition(typeName)
		if def == nil || def.Kind != ast.InputObject {
			return
		}
		for _, c := range v.Children {
			if in := r.inputOf(def, c.Name); in != nil {
				r.value(in.Type.Name(), c.Value)
			}
		}
	default:
		r.definition(typeName)
	}
}

func (r *reached) inputOf(parent *ast.Definition, name string) *ast.FieldDefinition {
	key := member{parent.Name, name}
	if def, ok := r.fields[key]; ok {
		return def
	}
	var def *ast.FieldDefinition
	if in := r.types[parent.Name].Input(name); in != nil {
		arg := argumentOf(in)
		def = &ast.FieldDefinition{Name: name, Type: arg.Type, DefaultValue: arg.DefaultValue}
		parent.Fields = append(parent.Fields, def)
		r.definition(in.Type.Name)
	}
	r.fields[key] = def
	return def
}

func (r *reached) isRoot(name string) bool {
	return name == queryType || name == r.source.MutationType() && name != ""
}

// definition is the type of that name, with the fields reached so far; nil if there is none.
func (r *reached) definition(name string) *ast.Definition {
	if def, ok := r.schema.Types[name]; ok {
		return def
	}
	if strings.HasPrefix(name, "__") {
		return r.introspectionType(name)
	}
	if _, known := r.types[name]; known {
		return nil
	}
	t := r.derive(name)
	r.types[name] = t
	if t == nil {
		return nil
	}
	def := &ast.Definition{Name: name, Kind: kindOf(t.Kind), Interfaces: t.Implements}
	r.schema.Types[name] = def
	if t.Kind == schema.Object {
		r.schema.PossibleTypes[name] = []*ast.Definition{def}
		for _, i := range t.Implements {
			r.schema.PossibleTypes[i] = append(r.schema.PossibleTypes[i], def)
		}
	}
	return def
}

// derive makes the root types without fields; these come one by one, as they are asked for.
func (r *reached) derive(name string) *schema.Type {
	if !r.isRoot(name) {
		return typeNamed(r.source, name)
	}
	t := &schema.Type{Name: name, Kind: schema.Object}
	if name == queryType && r.source.RootField(name, "id") != nil {
		t.Implements = []string{"Node"} // the root is a node to Relay's mutations
	}
	return t
}

// typeNamed is the schema's type; the built-in scalars exist in every schema, used or not.
func typeNamed(s Schema, name string) *schema.Type {
	t := s.Type(name)
	if t != nil {
		return t
	}
	switch name {
	case "Int", "Float", "String", "Boolean", "ID":
		return &schema.Type{Name: name, Kind: schema.Scalar}
	}
	return nil
}

// introspectionType brings in one of introspection's types with those that its fields are of.
func (r *reached) introspectionType(name string) *ast.Definition {
	def := introspected().definitions[name]
	if def == nil {
		return nil
	}
	r.schema.Types[name] = def
	r.schema.PossibleTypes[name] = []*ast.Definition{def}
	for _, f := range def.Fields {
		r.definition(f.Type.Name())
	}
	return def
}

func kindOf(k schema.Kind) ast.DefinitionKind {
	switch k {
	case schema.Object:
		return ast.Object
	case schema.Interface:
		return ast.Interface
	case schema.Input:
		return ast.InputObject
	case schema.Enum:
		return ast.Enum
	default:
		return ast.Scalar
	}
}

func argumentOf(in *schema.InputValue) *ast.ArgumentDefinition {
	def := &ast.ArgumentDefinition{Name: in.Name, Type: typeOf(in.Type)}
	switch in.Default {
	case "":
	case "null":
		def.DefaultValue = &ast.Value{Raw: in.Default, Kind: ast.NullValue}
	default: // that there is one is all that validation asks
		def.DefaultValue = &ast.Value{Raw: in.Default, Kind: ast.EnumValue}
	}
	return def
}

func typeOf(ref schema.Ref) *ast.Type {
	if !ref.List {
		return &ast.Type{NamedType: ref.Name, NonNull: ref.NonNull}
	}
	return &ast.Type{Elem: &ast.Type{NamedType: ref.Name, NonNull: ref.ItemNonNull}, NonNull: ref.NonNull}
}

// refOf is the other way; lists of lists have been refused.
func refOf(t *ast.Type) schema.Ref {
	if t.Elem == nil {
		return schema.Ref{Name: t.NamedType, NonNull: t.NonNull}
	}
	return schema.Ref{Name: t.Elem.Name(), NonNull: t.NonNull, List: true, ItemNonNull: t.Elem.NonNull}
}
