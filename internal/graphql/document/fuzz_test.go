package document

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/vektah/gqlparser/v2/ast"
)

// patience is far above what the limits let a document take, and far below what a mistake would.
const patience = 5 * time.Second

func FuzzDocument(f *testing.F) {
	s := forum(f)
	for _, seed := range []string{
		toolsQuery,
		`query ($n: Int = 3) { allPosts(first: $n, condition: {topic: "x"}) { nodes { ...F personByAuthorId { fullName } } } } fragment F on Post { a: rowId @skip(if: true) }`,
		`mutation { createPost(input: {post: {forumId: 1, authorId: 1, headline: "h"}}) { post { rowId } } }`,
		`{ node(id: "x") { ... on Person { a: rowId } ... on Post { a: headline } } }`,
		`{ ...F } fragment F on Query { ...F }`,
		`{ echoJson(v: {x: [1, null, """s""", {y: true}]}) echoTags(v: ["a"]) }`,
		`query A { id } query B { id }`, `subscription { x }`, `{ a(b: [[[[[`, "{ id # comment\n }", `"d" query { id }`,
	} {
		f.Add(seed, "")
	}
	f.Fuzz(func(t *testing.T, text, name string) {
		begun := time.Now()
		op, errs := Parse(s, text, name, Limits{})
		if (op == nil) == (len(errs) == 0) {
			t.Fatalf("an operation %v and errors %v", op, errs)
		}
		for _, e := range errs {
			if len(e.Message) > 5000 || e.Message == "" {
				t.Fatalf("a text of %d bytes", len(e.Message))
			}
		}
		if op != nil {
			checkOperation(t, op)
			use(t, s, op)
		}
		if took := time.Since(begun); took > patience {
			t.Fatalf("it took %v", took)
		}
	})
}

// use does what is done with a valid operation.
func use(t *testing.T, s *fake, op *Operation) {
	vars, errs := op.Variables.Coerce(nil)
	if len(errs) > 0 {
		vars = map[string]any{}
	}
	op.Variables.Shape(vars)
	op.Check(vars)
	for _, sel := range op.Definition.SelectionSet {
		field, ok := sel.(*ast.Field)
		if !ok || field.Name != "__schema" && field.Name != "__type" {
			continue
		}
		var out bytes.Buffer
		if err := WriteIntrospection(&out, s, field, vars); err != nil {
			t.Fatal(err)
		}
		if !json.Valid(out.Bytes()) {
			t.Fatalf("no JSON: %s", out.Bytes())
		}
	}
}

func FuzzVariables(f *testing.F) {
	op, errs := Parse(forum(f), `query ($i: CreatePostInput, $t: TypeSamplePatch, $o: [PostOrderBy!] = NATURAL, $n: Int!, $f: Float, $s: [String], $b: Boolean, $d: ID, $u: UUID, $j: JSON, $h: KeyValueHash, $g: BigInt) {
		echoJson(v: {i: $i, t: $t, o: $o, n: $n, f: $f, s: $s, b: $b, d: $d, u: $u, j: $j, h: $h, g: $g}) }`, "", Limits{})
	if len(errs) > 0 {
		f.Fatal(errs)
	}
	for _, seed := range []string{
		`{"n": 1}`, `{"n": 1e2, "i": {"post": {"forumId": 1, "authorId": 2, "headline": "h"}}, "o": ["NATURAL"], "s": "x", "g": 5}`,
		`{"n": null, "t": {"nope": [[[]]]}, "h": {"a": null}, "j": {"a": [1]}, "u": "0f3a4ddc5a0c4a6e8f9e2f3a1b0c9d8e"}`, `[]`, `{"n": 1e999999999}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var sent map[string]any
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		if d.Decode(&sent) != nil {
			return
		}
		begun := time.Now()
		vars, errs := op.Variables.Coerce(sent)
		if (vars == nil) == (len(errs) == 0) || len(errs) > maxErrors {
			t.Fatalf("variables %v and %d errors", vars, len(errs))
		}
		for _, e := range errs {
			if len(e.Message) > 5000 {
				t.Fatalf("a text of %d bytes", len(e.Message))
			}
		}
		op.Variables.Shape(vars)
		again, errs2 := op.Variables.Coerce(vars)
		if len(errs) == 0 && (len(errs2) > 0 || op.Variables.Shape(again) != op.Variables.Shape(vars)) {
			t.Fatalf("what was coerced is not coerced to itself: %v", errs2)
		}
		if took := time.Since(begun); took > patience {
			t.Fatalf("it took %v", took)
		}
	})
}
