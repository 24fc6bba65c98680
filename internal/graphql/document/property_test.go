package document

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/parser"
	"github.com/vektah/gqlparser/v2/validator"
	"pgregory.net/rapid"
)

// checkField asserts what the compiler relies on.
func checkField(t testing.TB, op *Operation, s ast.Selection) {
	t.Helper()
	var sub ast.SelectionSet
	switch s := s.(type) {
	case *ast.Field:
		if s.Definition == nil || s.ObjectDefinition == nil {
			t.Fatalf("field %s has no definition", s.Name)
		}
		if !strings.HasPrefix(s.Name, "__") && !strings.HasPrefix(s.ObjectDefinition.Name, "__") && op.field(s) == nil {
			t.Fatalf("field %s has no derived field", s.Name)
		}
		for _, a := range s.Arguments {
			if a.Value.ExpectedType == nil {
				t.Fatalf("argument %s of field %s expects nothing", a.Name, s.Name)
			}
		}
		sub = s.SelectionSet
	case *ast.InlineFragment:
		sub = s.SelectionSet
	case *ast.FragmentSpread:
		if s.Definition == nil {
			t.Fatalf("spread %s has no definition", s.Name)
		}
		return // its definition is checked by itself
	}
	for _, s := range sub {
		checkField(t, op, s)
	}
}

func checkOperation(t testing.TB, op *Operation) {
	t.Helper()
	for _, s := range op.Definition.SelectionSet {
		checkField(t, op, s)
	}
	for _, f := range op.Document.Fragments {
		for _, s := range f.SelectionSet {
			checkField(t, op, s)
		}
	}
}

var fullSchema = sync.OnceValue(func() *ast.Schema {
	return gqlparser.MustLoadSchema(&ast.Source{Input: forumText()})
})

// documents draws documents that are mostly valid over the whole schema, with some of everything that can be wrong.
type documents struct {
	*rapid.T
	schema    *ast.Schema
	variables []string
	fragments []string
	budget    int
}

func (d *documents) oneIn(n int) bool { return rapid.IntRange(1, n).Draw(d.T, "chance") == n }

func (d *documents) pick(names []string) string { return rapid.SampledFrom(names).Draw(d.T, "name") }

func (d *documents) document() string {
	root := d.schema.Query
	keyword := "query"
	if d.oneIn(5) {
		root, keyword = d.schema.Mutation, "mutation"
	}
	body := d.selections(root, 0)
	vars := ""
	if len(d.variables) > 0 {
		vars = "(" + strings.Join(d.variables, ", ") + ")"
	}
	return keyword + " Q" + vars + " " + body + " " + strings.Join(d.fragments, " ")
}

func (d *documents) selections(def *ast.Definition, level int) string {
	var b strings.Builder
	b.WriteString("{ ")
	for range rapid.IntRange(1, 3).Draw(d.T, "fields") {
		switch {
		case d.oneIn(8) && level > 0:
			b.WriteString("... on " + d.pick([]string{def.Name, def.Name, def.Name, def.Name, "Node", "Post", "Int", "Nope"}) + " " + d.selections(def, level+1))
		case d.oneIn(8) && level > 0:
			name := fmt.Sprintf("F%d", len(d.fragments))
			at := len(d.fragments)
			d.fragments = append(d.fragments, "")
			d.fragments[at] = "fragment " + name + " on " + def.Name + " " + d.selections(def, level+1)
			b.WriteString("..." + d.pick([]string{name, name, name, "F0"}) + " ")
		case d.oneIn(8):
			b.WriteString(d.pick([]string{"", "a: "}) + "__typename ")
		default:
			d.field(&b, def, level)
		}
	}
	b.WriteString("} ")
	return b.String()
}

func (d *documents) field(b *strings.Builder, def *ast.Definition, level int) {
	if len(def.Fields) == 0 {
		b.WriteString("nope ")
		return
	}
	f := def.Fields[rapid.IntRange(0, len(def.Fields)-1).Draw(d.T, "field")]
	if strings.HasPrefix(f.Name, "__") || d.oneIn(200) {
		b.WriteString("nope ")
		return
	}
	b.WriteString(d.pick([]string{"", "", "", "", "a: ", "b: "}) + f.Name)
	d.arguments(b, f.Arguments)
	if d.oneIn(10) {
		b.WriteString(d.pick([]string{"@skip(if: true)", "@include(if: false)", "@include(if: 1)", "@skip", "@nope", "@skip(if: true) @skip(if: true)"}))
	}
	typ := d.schema.Types[f.Type.Name()]
	d.budget--
	if leaf := typ.IsLeafType(); leaf != d.oneIn(200) {
		b.WriteString(" ")
		return
	}
	if level > 4 || d.budget < 0 {
		b.WriteString("{ __typename } ")
		return
	}
	b.WriteString(d.selections(typ, level+1))
}

func (d *documents) arguments(b *strings.Builder, args ast.ArgumentDefinitionList) {
	var parts []string
	for _, a := range args {
		if required := a.Type.NonNull && a.DefaultValue == nil; required && !d.oneIn(200) || !required && d.oneIn(4) {
			parts = append(parts, a.Name+": "+d.value(a.Type, 0))
		}
	}
	if d.oneIn(200) {
		parts = append(parts, "nope: 1")
	}
	if len(parts) > 0 {
		b.WriteString("(" + strings.Join(parts, ", ") + ")")
	}
}

func (d *documents) value(typ *ast.Type, level int) string {
	switch {
	case d.oneIn(6):
		name := fmt.Sprintf("v%d", len(d.variables))
		declared := typ.String()
		if d.oneIn(12) {
			declared = d.pick([]string{"Int", "String!", "[Int]", "Post", "Nope", strings.TrimSuffix(declared, "!")})
		}
		d.variables = append(d.variables, "$"+name+": "+declared)
		return "$" + name
	case !typ.NonNull && d.oneIn(10) || d.oneIn(100):
		return "null"
	case typ.Elem != nil && d.oneIn(2):
		return "[" + d.value(typ.Elem, level+1) + ", " + d.value(typ.Elem, level+1) + "]"
	}
	def := d.schema.Types[typ.Name()]
	switch def.Kind {
	case ast.Enum:
		if d.oneIn(20) {
			return d.pick([]string{"NOPE", `"x"`, "1"})
		}
		return def.EnumValues[rapid.IntRange(0, len(def.EnumValues)-1).Draw(d.T, "value")].Name
	case ast.InputObject:
		return d.object(def, level)
	}
	switch def.Name {
	case "Int", "Float", "String", "Boolean", "ID":
		if d.oneIn(20) {
			return d.pick([]string{"1", "1.5", `"x"`, "true", "[1]", "{a: 1}", "ENUM"})
		}
		return map[string]string{"Int": "3", "Float": "3.5", "String": `"x"`, "Boolean": "false", "ID": "7"}[def.Name]
	case "KeyValueHash":
		return `{a: "1"}`
	case "UUID":
		return `"0f3a4ddc-5a0c-4a6e-8f9e-2f3a1b0c9d8e"`
	case "PositiveInt": // the library lets every literal of these pass, so only good ones are drawn
		return "1"
	default:
		return `"x"`
	}
}

func (d *documents) object(def *ast.Definition, level int) string {
	var parts []string
	for _, f := range def.Fields {
		if f.Type.NonNull && !d.oneIn(30) || !f.Type.NonNull && level < 3 && d.oneIn(6) {
			parts = append(parts, f.Name+": "+d.value(f.Type, level+1))
		}
	}
	if d.oneIn(30) {
		parts = append(parts, "nope: 1")
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func TestWhatIsReachedIsEnoughToJudgeADocument(t *testing.T) {
	s := forum(t)
	var valid, invalid int
	rapid.Check(t, func(rt *rapid.T) {
		d := &documents{T: rt, schema: fullSchema(), budget: 12}
		text := d.document()
		doc, err := parser.ParseQuery(&ast.Source{Input: text})
		if err != nil {
			rt.Fatal(err)
		}
		want := validator.ValidateWithRules(d.schema, doc, nil)
		op, got := Parse(s, text, "", Limits{Tokens: 1 << 20, Depth: 100, Aliases: 1000, RootField: 1000})
		if (len(want) == 0) != (len(got) == 0) {
			rt.Fatalf("%s\nwhole schema: %v\nreached: %v", text, want, texts(got))
		}
		if op == nil {
			invalid++
			return
		}
		valid++
		checkOperation(t, op)
	})
	if valid == 0 || invalid == 0 {
		t.Errorf("%d documents were valid and %d were not", valid, invalid)
	}
	t.Logf("%d documents were valid and %d were not", valid, invalid)
}
