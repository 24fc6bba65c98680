package sqlgen

import (
	"encoding/json"
	"fmt"
	"testing"
)

// deep has arrays of one type in every column; row 2 has two dimensions.
const deep = `create type app.pair as (a int, b text); create domain app.pairs as app.pair[]; create type app.weather as enum ('dry', 'wet'); create domain app.posint as int check (value > 0);
	create table app.deep (id int primary key, pairs app.pair[], own app.pairs, ints int[], moods app.weather[], domains app.posint[], texts text[], numerics numeric[],
		ranges int4range[], intervals interval[], points point[], times timetz[], instants timestamptz[], monies money[], binaries bytea[]);
	insert into app.deep values (1, '{"(1,x)","(2,y)"}', '{"(1,x)","(2,y)"}', '{1,2}', '{dry,wet}', '{1,2}', '{a,b}', '{1,2}', '{"[1,2)","[3,4)"}', '{1 day,2 days}', '{"(1,2)","(3,4)"}', '{10:00+00,11:00+00}', '{2020-01-01,2020-01-02}', '{1,2}', '{a,b}'),
		(2, '{{"(1,x)"},{"(2,y)"}}', '{{"(1,x)"},{"(2,y)"}}', '{{1,2},{3,4}}', '{{dry},{wet}}', '{{1},{2}}', '{{a},{b}}', '{{1},{2}}', '{{"[1,2)"},{"[3,4)"}}', '{{1 day},{2 days}}', '{{"(1,2)"},{"(3,4)"}}', '{{10:00+00},{11:00+00}}', '{{2020-01-01},{2020-01-02}}', '{{1},{2}}', '{{a},{b}}'),
		(3, '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}');
	create function app.pairs_of(n int) returns app.pair[] stable language sql as 'select pairs from app.deep where id = n';
	create function app.take_pairs(n int) returns app.pair[] volatile language sql as 'select pairs from app.deep where id = n';
	create table app.paper (id int primary key, a json[], b jsonb[]);
	insert into app.paper values (1, array[array['{"a": 1}'::json, null], array['2'::json, '"x"'::json]], array[array[array['{"a": 1}'::jsonb], array[null::jsonb]], array[array['[1]'::jsonb], array['2'::jsonb]]])`

func TestAnArrayOfSeveralDimensionsIsAnErrorForEachOfItsItemsWhateverTheyAre(t *testing.T) {
	e, s := everyType(t, deep)
	fields := map[string]string{"pairs": "{ a }", "own": "{ a b }", "ints": "", "moods": "", "domains": "", "texts": "", "numerics": "", "ranges": "{ start { value } }",
		"intervals": "{ days }", "points": "{ x }", "times": "", "instants": "", "monies": "", "binaries": ""}
	for name, selection := range fields {
		got := ask(t, e, s, fmt.Sprintf("{ one: deepByRowId(rowId: 1) { %s %s } none: deepByRowId(rowId: 3) { %[1]s %s } }", name, selection, selection), nil)
		one, _ := at(got.Data, "one", name).([]any)
		none, _ := at(got.Data, "none", name).([]any)
		if len(got.Errors) > 0 || len(one) != 2 || one[0] == nil || one[1] == nil || none == nil || len(none) != 0 {
			t.Errorf("%s: %v %v", name, got.Data, got.Errors)
		}
		got = ask(t, e, s, fmt.Sprintf("{ deepByRowId(rowId: 2) { %s %s } }", name, selection), nil)
		refusesItems(t, got, "deepByRowId", name)
	}
	refusesItems(t, ask(t, e, s, "{ pairsOf(n: 2) { a } }", nil), "pairsOf")
	refusesItems(t, ask(t, e, s, "mutation { takePairs(input: {n: 2}) { result { a } } }", nil), "takePairs", "result")
}

// refusesItems holds that the list at path is two nulls, with an error for each.
func refusesItems(t *testing.T, got answer, path ...any) {
	t.Helper()
	text, _ := json.Marshal(at(got.Data, path...))
	want := pathTexts([][]any{append(path[:len(path):len(path)], 0), append(path[:len(path):len(path)], 1)})
	if errs := pathsOf(got.Errors); string(text) != "[null,null]" || fmt.Sprint(errs) != fmt.Sprint(want) || got.Errors[0].Message != errNested.Error() {
		t.Errorf("%v: %s %v", path, text, got.Errors)
	}
}

func TestJSONHasListsOfLists(t *testing.T) {
	e, s := everyType(t, deep)
	got := ask(t, e, s, "{ paperByRowId(rowId: 1) { a b } }", nil)
	for name, want := range map[string]string{"a": `[[{"a":1},null],[2,"x"]]`, "b": `[[[{"a":1}],[null]],[[[1]],[2]]]`} {
		if text, _ := json.Marshal(at(got.Data, "paperByRowId", name)); string(text) != want || len(got.Errors) > 0 {
			t.Errorf("%s is %s, want %s; %v", name, text, want, got.Errors)
		}
	}
}
