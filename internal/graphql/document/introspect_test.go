package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/leveehq/levee/internal/graphql/schema"
	"github.com/vektah/gqlparser/v2/ast"
)

// toolsQuery is what GraphQL's tools send, with every option that they have.
const toolsQuery = `query IntrospectionQuery($all: Boolean = true) {
  __schema {
    description
    queryType { name kind }
    mutationType { name kind }
    subscriptionType { name kind }
    types { ...FullType }
    directives { name description isRepeatable locations args(includeDeprecated: true) { ...InputValue } }
  }
}
fragment FullType on __Type {
  kind name description isOneOf specifiedByURL
  fields(includeDeprecated: $all) { name description args(includeDeprecated: true) { ...InputValue } type { ...TypeRef } isDeprecated deprecationReason }
  inputFields(includeDeprecated: true) { ...InputValue }
  interfaces { ...TypeRef }
  enumValues(includeDeprecated: $all) { name description isDeprecated deprecationReason }
  possibleTypes { ...TypeRef }
}
fragment InputValue on __InputValue { name description type { ...TypeRef } defaultValue isDeprecated deprecationReason }
fragment TypeRef on __Type {
  kind name
  ofType { kind name ofType { kind name ofType { kind name ofType { kind name ofType { kind name ofType { kind name ofType { kind name ofType { kind name ofType { kind name } } } } } } } } }
}`

// introspect answers the root fields of a query that has introspection only.
func introspect(t testing.TB, s AllTypes, w io.Writer, query, variables string) {
	t.Helper()
	op, errs := Parse(s, query, "", Limits{})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	vars, errs := op.Variables.Coerce(variablesOf(t, variables))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if errs := op.Check(vars); len(errs) > 0 {
		t.Fatal(errs)
	}
	for _, sel := range op.Definition.SelectionSet {
		if err := WriteIntrospection(w, s, sel.(*ast.Field), vars); err != nil {
			t.Fatal(err)
		}
	}
}

// The types of an answer, as far as they are compared.
type (
	answeredRef struct {
		Kind, Name string
		OfType     *answeredRef
	}
	answeredInput struct {
		Name, Description, DefaultValue, DeprecationReason string
		Type                                               answeredRef
	}
	answeredField struct {
		Name, Description, DeprecationReason string
		IsDeprecated                         bool
		Args                                 []answeredInput
		Type                                 answeredRef
	}
	answeredType struct {
		Kind, Name, Description, SpecifiedByURL string
		Fields                                  []answeredField
		InputFields                             []answeredInput
		EnumValues                              []answeredField
		Interfaces, PossibleTypes               []answeredRef
	}
	answeredSchema struct {
		QueryType, MutationType, SubscriptionType *answeredRef
		Types                                     []answeredType
		Directives                                []answeredField
	}
)

func (r answeredRef) ref() schema.Ref {
	switch r.Kind {
	case "NON_NULL":
		ref := r.OfType.ref()
		ref.NonNull = true
		return ref
	case "LIST":
		item := r.OfType.ref()
		return schema.Ref{Name: item.Name, List: true, ItemNonNull: item.NonNull}
	default:
		return schema.Ref{Name: r.Name}
	}
}

func answeredInputs(in []answeredInput) (out []schema.InputValue) {
	for _, v := range in {
		out = append(out, schema.InputValue{Name: v.Name, Description: v.Description, Deprecated: v.DeprecationReason, Type: v.Type.ref(), Default: v.DefaultValue})
	}
	return out
}

func (a answeredType) typ() schema.Type {
	t := schema.Type{Name: a.Name, Description: a.Description, SpecifiedBy: a.SpecifiedByURL, Inputs: answeredInputs(a.InputFields)}
	for kind, name := range kindNames {
		if name == a.Kind {
			t.Kind = schema.Kind(kind)
		}
	}
	for _, f := range a.Fields {
		t.Fields = append(t.Fields, schema.Field{Name: f.Name, Description: f.Description, Deprecated: f.DeprecationReason, Type: f.Type.ref(), Args: answeredInputs(f.Args)})
	}
	for _, v := range a.EnumValues {
		t.Values = append(t.Values, schema.EnumValue{Name: v.Name, Description: v.Description, Deprecated: v.DeprecationReason})
	}
	for _, i := range a.Interfaces {
		t.Implements = append(t.Implements, i.Name)
	}
	return t
}

// plain leaves of a type what introspection shows.
func plain(t schema.Type) schema.Type {
	t.Pg = 0
	t.Fields = append([]schema.Field(nil), t.Fields...)
	for i := range t.Fields {
		t.Fields[i].Bind = schema.Bind{}
		t.Fields[i].Args = plainInputs(t.Fields[i].Args)
	}
	t.Inputs = plainInputs(t.Inputs)
	return t
}

func plainInputs(in []schema.InputValue) []schema.InputValue {
	in = append([]schema.InputValue(nil), in...)
	for i := range in {
		in[i].Bind = schema.InputBind{}
	}
	return in
}

func TestIntrospectionShowsAllThereIs(t *testing.T) {
	s := forum(t)
	s.types["Post"].Fields[1].Deprecated = "old"
	var out bytes.Buffer
	introspect(t, s, &out, toolsQuery, "")
	var got answeredSchema
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.QueryType.Name != "Query" || got.MutationType.Name != "Mutation" || got.SubscriptionType != nil {
		t.Errorf("roots are %v, %v, %v", got.QueryType, got.MutationType, got.SubscriptionType)
	}
	var names []string
	for _, d := range got.Directives {
		names = append(names, d.Name)
	}
	if want := "include skip deprecated specifiedBy oneOf"; strings.Join(names, " ") != want {
		t.Errorf("directives are %v, want %s", names, want)
	}
	if len(got.Types) != len(s.order)+8 {
		t.Errorf("%d types are shown, want those of the schema, %d, and 8 of introspection", len(got.Types), len(s.order))
	}
	for i, want := range s.order {
		if typ := got.Types[i].typ(); !reflect.DeepEqual(typ, plain(*want)) {
			t.Errorf("type %s\n got %+v\nwant %+v", want.Name, typ, plain(*want))
		}
	}
	node := got.Types[1]
	if node.Name != "Node" || len(node.PossibleTypes) != 11 || node.PossibleTypes[0].Name != "Query" {
		t.Errorf("the possible types of %s are %v", node.Name, node.PossibleTypes)
	}
}

func TestIntrospectionAnswersWhatIsAsked(t *testing.T) {
	s := forum(t)
	s.types["Post"].Fields = s.types["Post"].Fields[:2]
	s.types["Post"].Fields[1].Deprecated = "old"
	for _, c := range []struct{ query, variables, want string }{
		{`{ __type(name: "Nope") { name } }`, ``, `null`},
		{`query ($n: String!) { __type(name: $n) { __typename n: name kind } }`, `{"n": "Mood"}`, `{"__typename":"__Type","n":"Mood","kind":"ENUM"}`},
		{`{ __type(name: "Post") { fields { name } all: fields(includeDeprecated: true) { name isDeprecated deprecationReason } } }`, ``,
			`{"fields":[{"name":"id"}],"all":[{"name":"id","isDeprecated":false,"deprecationReason":null},{"name":"isHot","isDeprecated":true,"deprecationReason":"old"}]}`},
		{`query ($no: Boolean!) { __type(name: "Post") { name @skip(if: $no) ...F ... on __Type { fields { type { kind ofType { name fields { name } } } } } } } fragment F on __Type { fields { name } kind @include(if: $no) }`, `{"no": true}`,
			`{"fields":[{"name":"id","type":{"kind":"NON_NULL","ofType":{"name":"ID","fields":null}}}],"kind":"OBJECT"}`},
		{`{ __type(name: "AddressInput") { inputFields { name defaultValue } isOneOf interfaces { name } } }`, ``,
			`{"inputFields":[{"name":"street","defaultValue":null},{"name":"city","defaultValue":null},{"name":"zip","defaultValue":null}],"isOneOf":false,"interfaces":null}`},
		{`{ __type(name: "__TypeKind") { enumValues { name } } }`, ``, `{"enumValues":[{"name":"SCALAR"},{"name":"OBJECT"},{"name":"INTERFACE"},{"name":"UNION"},{"name":"ENUM"},{"name":"INPUT_OBJECT"},{"name":"LIST"},{"name":"NON_NULL"}]}`},
	} {
		var out bytes.Buffer
		introspect(t, s, &out, c.query, c.variables)
		if out.String() != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.query, out.String(), c.want)
		}
	}
}

// limited fails after so many bytes, and remembers its largest write.
type limited struct {
	left, largest int
}

var errTooLong = errors.New("too long")

func (l *limited) Write(p []byte) (int, error) {
	l.left -= len(p)
	l.largest = max(l.largest, len(p))
	if l.left < 0 {
		return 0, errTooLong
	}
	return len(p), nil
}

func TestIntrospectionOfManyTypesIsWrittenAsItGoes(t *testing.T) {
	s := wide(10_000)
	op, errs := Parse(s, toolsQuery, "", Limits{})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	f := op.Definition.SelectionSet[0].(*ast.Field)
	all := &limited{left: 1 << 40}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := WriteIntrospection(all, s, f, map[string]any{"all": true}); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if all.largest > 64<<10 {
		t.Errorf("one write had %d bytes", all.largest)
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > 64<<20 {
		t.Errorf("%d bytes were allocated for an answer of %d", got, 1<<40-all.left)
	}
	clear(s.mu.asked)
	short := &limited{left: 100_000}
	if err := WriteIntrospection(short, s, f, map[string]any{"all": true}); !errors.Is(err, errTooLong) {
		t.Errorf("got %v, want the writer's error", err)
	}
	if n := len(s.mu.asked); n > 1000 {
		t.Errorf("%d types were derived after the writer had failed", n)
	}
}
