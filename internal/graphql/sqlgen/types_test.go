package sqlgen

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/leveehq/levee/internal/graphql/document"
	"github.com/leveehq/levee/internal/pglocal/pgtest"
)

// recorded is a question, and what PostGraphile answered.
type recorded struct {
	Query     string
	Variables map[string]any
	Data      any
	Errors    [][]any // their paths
}

// everyType is an engine over testdata/types.sql.
func everyType(t *testing.T, more ...string) (*Engine, *session) {
	database := pgtest.Load(t, "../testdata/types.sql")
	for _, sql := range more {
		pgtest.Exec(t, database, sql)
	}
	s := connect(t, "postgres", database)
	return New(schemaOf(t, s, "app"), Options{Limits: document.Limits{Aliases: 500, RootField: 500}}), s
}

// answersAsRecorded asks the questions of a file in turn.
func answersAsRecorded(t *testing.T, e *Engine, s *session, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all []recorded
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	if err := d.Decode(&all); err != nil || len(all) == 0 {
		t.Fatal(len(all), err)
	}
	for _, r := range all {
		got := ask(t, e, s, r.Query, r.Variables)
		if !alike(got.Data, r.Data) || !reflect.DeepEqual(pathsOf(got.Errors), pathTexts(r.Errors)) {
			t.Errorf("%s %v:\n%v %v\nwant\n%v %v", r.Query, r.Variables, got.Data, got.Errors, r.Data, r.Errors)
		}
	}
}

// alike compares numbers as such: 1e3 is 1000.
func alike(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		b, ok := b.(json.Number)
		x, _ := a.Float64()
		y, _ := b.Float64()
		return ok && x == y
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, alike)
	case map[string]any:
		b, ok := b.(map[string]any)
		for key, v := range a {
			other, has := b[key]
			ok = ok && has && alike(v, other)
		}
		return ok && len(a) == len(b)
	}
	return a == b
}

func pathsOf(errs []Error) []string {
	paths := make([][]any, len(errs))
	for i, e := range errs {
		paths[i] = e.Path
	}
	return pathTexts(paths)
}

func pathTexts(paths [][]any) []string {
	out := make([]string, len(paths))
	for i, p := range paths {
		text, _ := json.Marshal(p)
		out[i] = string(text)
	}
	slices.Sort(out)
	return out
}

func TestValuesOfEveryTypeGoInAndOutAsTheyDoAtPostGraphile(t *testing.T) {
	e, s := everyType(t)
	answersAsRecorded(t, e, s, "../testdata/types.json")
}

func TestALineIsGivenByTwoOfItsPoints(t *testing.T) {
	e, s := everyType(t, "create function app.echo_line(l line) returns line language sql stable as 'select l'")
	for coefficients, want := range map[string]string{
		"{2,3,4}":  `{"a":{"x":-2,"y":0},"b":{"x":0,"y":-1.3333333333333333}}`, // where it meets the axes, as PostGraphile has it
		"{0,1,-3}": `{"a":{"x":1,"y":3},"b":{"x":0,"y":3}}`,                    // the others have points off the line there, or one point twice
		"{1,0,-2}": `{"a":{"x":2,"y":0},"b":{"x":2,"y":1}}`,
		"{1,-1,0}": `{"a":{"x":0,"y":0},"b":{"x":1,"y":1}}`,
		"{0,2,0}":  `{"a":{"x":1,"y":0},"b":{"x":0,"y":0}}`,
		"{-1,0,0}": `{"a":{"x":0,"y":0},"b":{"x":0,"y":1}}`,
	} {
		if err := s.run(t.Context(), "update app.shape set line = $1::line where id = 1", [][]byte{[]byte(coefficients)}, nil); err != nil {
			t.Fatal(err)
		}
		line := at(ask(t, e, s, `{ shapeByRowId(rowId: 1) { line { a { x y } b { x y } } } }`, nil).Data, "shapeByRowId", "line")
		if text, _ := json.Marshal(line); string(text) != want {
			t.Errorf("%s is %s, want %s", coefficients, text, want)
			continue
		}
		again := ask(t, e, s, `query($l: LineInput) { lines: echoLine(l: $l) { a { x y } b { x y } } }`, map[string]any{"l": line})
		if text, _ := json.Marshal(at(again.Data, "lines")); string(text) != want {
			t.Errorf("%s comes back as %s %v", coefficients, text, again.Errors)
		}
	}
}

func TestAPointIsAConditionThoughPointsHaveNoEqualsSign(t *testing.T) {
	e, s := everyType(t)
	got := ask(t, e, s, `{ allShapes(condition: {point: {x: 1, y: 2}}) { nodes { rowId } } }`, nil)
	if nodes, _ := at(got.Data, "allShapes", "nodes").([]any); len(nodes) != 1 || len(got.Errors) > 0 {
		t.Error(got)
	}
}

func TestAnOidIsANumberHoweverLarge(t *testing.T) {
	e, s := everyType(t)
	got := ask(t, e, s, `query($o: Oid) { a: eAOid(v: 4294967295) b: eAOid(v: $o) c: scalarByRowId(rowId: 1) { lOid } }`, map[string]any{"o": json.Number("4294967295")})
	if at(got.Data, "a") != json.Number("4294967295") || at(got.Data, "b") != json.Number("4294967295") || at(got.Data, "c", "lOid", 0) != json.Number("4294967295") {
		t.Error(got)
	}
	if got := ask(t, e, s, `{ eAOid(v: -1) }`, nil); !got.Invalid {
		t.Error(got)
	}
}

func TestPointsWithinAListOfListsAreErrorsAndNoSilentNulls(t *testing.T) {
	e, s := everyType(t)
	if err := s.run(t.Context(), `update app.shape set points = '{{"(1,2)","(3,4)"}}' where id = 1`, nil, nil); err != nil {
		t.Fatal(err)
	}
	got := ask(t, e, s, `{ shapeByRowId(rowId: 1) { points { x } } }`, nil)
	if len(got.Errors) != 1 || !reflect.DeepEqual(got.Errors[0].Path, []any{"shapeByRowId", "points", 0}) {
		t.Error(got)
	}
}

func TestTypesThatNobodyHasThoughtOfAreTextsBothWays(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, `create schema a; create domain a.lsn as pg_lsn`)
	values := [][2]string{{"xid", "7"}, {"xid8", "8"}, {"cid", "9"}, {"tid", "(1,2)"}, {"pg_snapshot", "10:20:10,14"}, {"pg_lsn", "16/B374D848"}, {"int2vector", "1 2 3"},
		{"oidvector", "4 5"}, {"refcursor", "c"}, {"regcollation", "pg_catalog.default"}, {"int4multirange", "{[1,3),[5,7)}"}, {"a.lsn", "0/1"}}
	for i, v := range values {
		pgtest.Exec(t, database, fmt.Sprintf("create function a.%c(v %s) returns %[2]s language sql stable as 'select v'", 'a'+i, v[0]))
	}
	s := connect(t, "postgres", database)
	e := New(schemaOf(t, s, "a"), Options{})
	for i, v := range values {
		got := ask(t, e, s, fmt.Sprintf("{ %c(v: %q) }", 'a'+i, v[1]), nil)
		if text := at(got.Data, string(rune('a'+i))); text != v[1] && v[0] != "regcollation" || text == nil {
			t.Errorf("%s: %v is %v, %v", v[0], v[1], text, got.Errors)
		}
	}
}
