package document

import (
	"strings"
	"sync"

	"github.com/leveehq/levee/internal/graphql/schema"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/validator"
)

// introspection is what every schema has: its types about types, and the directives.
type introspection struct {
	definitions map[string]*ast.Definition // never changed: shared by all documents
	roots       ast.FieldList              // __schema and __type
	directives  map[string]*ast.DirectiveDefinition
	order       []string                // of directives
	types       map[string]*schema.Type // the same types as introspection shows them
	typeOrder   []string
}

// introspected takes the types from the parser's library, with what newer texts of the specification added.
var introspected = sync.OnceValue(func() *introspection {
	doc := validator.PreludeDocument()
	x := &introspection{
		definitions: map[string]*ast.Definition{}, directives: map[string]*ast.DirectiveDefinition{},
		types: map[string]*schema.Type{}, roots: validator.QueryIntrospectionFields(),
	}
	for _, def := range doc.Definitions {
		if !strings.HasPrefix(def.Name, "__") {
			continue
		}
		amend(def)
		x.definitions[def.Name] = def
		x.types[def.Name] = shown(def)
		x.typeOrder = append(x.typeOrder, def.Name)
	}
	for _, def := range doc.Directives {
		if def.Name == "defer" { // it would need answers in parts
			continue
		}
		x.directives[def.Name] = def
		x.order = append(x.order, def.Name)
	}
	return x
})

// amend adds the deprecation of directives.
func amend(def *ast.Definition) {
	boolean := ast.NonNullNamedType("Boolean", nil)
	switch def.Name {
	case "__Schema":
		def.Fields.ForName("directives").Arguments = ast.ArgumentDefinitionList{{
			Name: "includeDeprecated", Type: boolean, DefaultValue: &ast.Value{Raw: "false", Kind: ast.BooleanValue},
		}}
	case "__Directive":
		def.Fields = append(def.Fields,
			&ast.FieldDefinition{Name: "isDeprecated", Type: boolean},
			&ast.FieldDefinition{Name: "deprecationReason", Type: ast.NamedType("String", nil)},
		)
	}
}

// shown makes the type that introspection shows of itself.
func shown(def *ast.Definition) *schema.Type {
	t := &schema.Type{Name: def.Name, Description: def.Description, Kind: schema.Object}
	if def.Kind == ast.Enum {
		t.Kind = schema.Enum
	}
	for _, f := range def.Fields {
		t.Fields = append(t.Fields, schema.Field{
			Name: f.Name, Description: f.Description, Type: refOf(f.Type), Args: shownArguments(f.Arguments),
		})
	}
	for _, v := range def.EnumValues {
		t.Values = append(t.Values, schema.EnumValue{Name: v.Name, Description: v.Description})
	}
	return t
}

func shownArguments(args ast.ArgumentDefinitionList) (in []schema.InputValue) {
	for _, a := range args {
		v := schema.InputValue{Name: a.Name, Description: a.Description, Type: refOf(a.Type)}
		if a.DefaultValue != nil {
			v.Default = a.DefaultValue.String()
		}
		in = append(in, v)
	}
	return in
}
