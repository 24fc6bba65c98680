package document

import (
	"fmt"
	"iter"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/leveehq/levee/internal/graphql/catalog"
	"github.com/leveehq/levee/internal/graphql/schema"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/parser"
)

// fake is a schema read from an SDL file. It remembers which types it was asked for.
type fake struct {
	order   []*schema.Type
	types   map[string]*schema.Type
	catalog *catalog.Catalog
	pg      map[string]catalog.TypeID

	mu struct {
		sync.Mutex
		asked map[string]int
	}
}

func (s *fake) Type(name string) *schema.Type {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.asked == nil {
		s.mu.asked = map[string]int{}
	}
	s.mu.asked[name]++
	return s.types[name]
}

func (s *fake) RootField(root, name string) *schema.Field { return s.types[root].Field(name) }

func (s *fake) MutationType() string {
	if s.types["Mutation"] == nil {
		return ""
	}
	return "Mutation"
}

func (s *fake) Types() iter.Seq[*schema.Type] {
	return func(yield func(*schema.Type) bool) {
		for _, t := range s.order {
			if !yield(t) {
				return
			}
		}
	}
}

func (s *fake) Catalog() *catalog.Catalog { return s.catalog }

func newFake() *fake {
	s := &fake{types: map[string]*schema.Type{}, pg: map[string]catalog.TypeID{}, catalog: &catalog.Catalog{Types: make([]catalog.Type, 1)}}
	citext := s.addPg("citext", catalog.Type{OID: 90002, Extension: true, Name: "citext"})
	s.addPg("Email", catalog.Type{OID: 90003, Kind: 'd', Base: citext})
	hstore := s.addPg("hstore", catalog.Type{OID: 90005, Extension: true, Name: "hstore"})
	s.addPg("Labels", catalog.Type{OID: 90006, Kind: 'd', Base: hstore})
	s.addPg("PositiveInt", catalog.Type{OID: 90004, Kind: 'd', Base: s.addPg("int4", catalog.Type{OID: 23})})
	return s
}

func (s *fake) addPg(name string, t catalog.Type) catalog.TypeID {
	id := catalog.TypeID(len(s.catalog.Types))
	s.catalog.Types = append(s.catalog.Types, t)
	s.pg[name] = id
	return id
}

func (s *fake) add(t *schema.Type) {
	s.order = append(s.order, t)
	s.types[t.Name] = t
}

const forumFile = "../testdata/forum/owner.graphql"

// forumText reads the sample schema once.
var forumText = sync.OnceValue(func() string {
	text, err := os.ReadFile(forumFile)
	if err != nil {
		panic(err)
	}
	return string(text)
})

// forum is the fake of the sample schema.
func forum(t testing.TB) *fake {
	doc, err := parser.ParseSchema(&ast.Source{Input: forumText()})
	if err != nil {
		t.Fatal(err)
	}
	s := newFake()
	for _, def := range doc.Definitions {
		s.add(s.typeOf(def))
	}
	for _, name := range []string{"Int", "Float", "String", "Boolean", "ID"} {
		s.add(&schema.Type{Name: name, Kind: schema.Scalar})
	}
	return s
}

func (s *fake) typeOf(def *ast.Definition) *schema.Type {
	t := &schema.Type{Name: def.Name, Description: def.Description, Implements: def.Interfaces, Pg: s.pg[def.Name]}
	switch def.Kind {
	case ast.Object:
		t.Kind = schema.Object
	case ast.Interface:
		t.Kind = schema.Interface
	case ast.InputObject:
		t.Kind = schema.Input
	case ast.Enum:
		t.Kind = schema.Enum
	}
	if d := def.Directives.ForName("specifiedBy"); d != nil {
		t.SpecifiedBy = d.Arguments.ForName("url").Value.Raw
	}
	for _, v := range def.EnumValues {
		t.Values = append(t.Values, schema.EnumValue{Name: v.Name, Description: v.Description, Deprecated: reasonOf(v.Directives)})
	}
	for _, f := range def.Fields {
		if t.Kind == schema.Input {
			t.Inputs = append(t.Inputs, inputValue(f.Name, f.Description, f.Type, f.DefaultValue, f.Directives))
			continue
		}
		t.Fields = append(t.Fields, fieldOf(def.Name, f))
	}
	return t
}

func fieldOf(owner string, f *ast.FieldDefinition) schema.Field {
	out := schema.Field{Name: f.Name, Description: f.Description, Type: refOf(f.Type), Deprecated: reasonOf(f.Directives)}
	if strings.HasSuffix(owner, "Connection") {
		out.Bind.Op = map[string]schema.Op{"nodes": schema.OpNodes, "edges": schema.OpEdges}[f.Name]
	}
	for _, a := range f.Arguments {
		out.Args = append(out.Args, inputValue(a.Name, a.Description, a.Type, a.DefaultValue, a.Directives))
	}
	return out
}

func inputValue(name, description string, typ *ast.Type, value *ast.Value, ds ast.DirectiveList) schema.InputValue {
	in := schema.InputValue{Name: name, Description: description, Type: refOf(typ), Deprecated: reasonOf(ds)}
	if value != nil {
		in.Default = value.String()
	}
	in.Bind.Op = map[string]schema.InputOp{"first": schema.InFirst, "last": schema.InLast}[name]
	return in
}

func reasonOf(ds ast.DirectiveList) string {
	d := ds.ForName("deprecated")
	if d == nil {
		return ""
	}
	return d.Arguments.ForName("reason").Value.Raw
}

// wide is a fake of so many tables, with a look-up, a list and some columns each.
func wide(tables int) *fake {
	s := newFake()
	query := &schema.Type{Name: "Query", Kind: schema.Object, Implements: []string{"Node"}}
	query.Fields = append(query.Fields, schema.Field{Name: "id", Type: schema.Ref{Name: "ID", NonNull: true}})
	s.add(query)
	s.add(&schema.Type{Name: "Node", Kind: schema.Interface, Fields: []schema.Field{{Name: "id", Type: schema.Ref{Name: "ID", NonNull: true}}}})
	for i := range tables {
		name := fmt.Sprintf("Table%d", i)
		t := &schema.Type{Name: name, Kind: schema.Object, Implements: []string{"Node"}, Fields: []schema.Field{{Name: "id", Type: schema.Ref{Name: "ID", NonNull: true}}}}
		for c := range 10 {
			t.Fields = append(t.Fields, schema.Field{Name: fmt.Sprintf("column%d", c), Type: schema.Ref{Name: "String"}})
		}
		t.Fields = append(t.Fields, schema.Field{Name: "query", Type: schema.Ref{Name: "Query", NonNull: true}})
		s.add(t)
		query.Fields = append(query.Fields, schema.Field{
			Name: fmt.Sprintf("table%dByRowId", i), Type: schema.Ref{Name: name},
			Args: []schema.InputValue{{Name: "rowId", Type: schema.Ref{Name: "Int", NonNull: true}}},
		})
	}
	for _, name := range []string{"Int", "Float", "String", "Boolean", "ID"} {
		s.add(&schema.Type{Name: name, Kind: schema.Scalar})
	}
	return s
}
