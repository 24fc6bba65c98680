package document

import (
	"encoding/json"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/leveehq/levee/internal/graphql/schema"
	"github.com/vektah/gqlparser/v2/ast"
)

// variablesFor parses a query of these variables, all used inside a JSON literal, where any type may be.
func variablesFor(t testing.TB, declarations string) *Variables {
	t.Helper()
	var uses []string
	for _, d := range strings.Split(declarations, "$")[1:] {
		name, _, _ := strings.Cut(d, ":")
		uses = append(uses, name+": $"+name)
	}
	op, errs := Parse(forum(t), "query ("+declarations+") { echoJson(v: {"+strings.Join(uses, " ")+"}) }", "", Limits{})
	if len(errs) > 0 {
		t.Fatal(declarations, errs)
	}
	return op.Variables
}

func TestVariablesAreCoerced(t *testing.T) {
	for _, c := range []struct{ declarations, sent, want string }{
		{`$a: Int`, `{}`, `{}`},
		{`$a: Int`, `{"a": null, "b": 1}`, `{"a": null}`},
		{`$a: Int = 3`, `{}`, `{"a": 3}`},
		{`$a: Int = 3`, `{"a": null}`, `{"a": null}`},
		{`$a: Int!`, `{"a": 2.0}`, `{"a": 2}`},
		{`$a: Int!`, `{"a": -1e3}`, `{"a": -1000}`},
		{`$a: Float`, `{"a": 5}`, `{"a": 5}`},
		{`$a: ID, $b: ID`, `{"a": 5, "b": "x"}`, `{"a": "5", "b": "x"}`},
		{`$a: BigInt, $b: BigFloat, $c: Datetime`, `{"a": 12345678901234567890, "b": 1.50, "c": true}`, `{"a": "12345678901234567890", "b": "1.50", "c": "true"}`},
		{`$a: [Int]`, `{"a": 5}`, `{"a": [5]}`},
		{`$a: [Int] = 5`, `{}`, `{"a": [5]}`},
		{`$a: [PostOrderBy!] = [SCORE_DESC, ROW_ID_ASC]`, `{}`, `{"a": ["SCORE_DESC", "ROW_ID_ASC"]}`},
		{`$a: [PostOrderBy!]`, `{"a": "NATURAL"}`, `{"a": ["NATURAL"]}`},
		{`$a: JSON = {x: [1.5, "y", null, true]}`, `{}`, `{"a": {"x": [1.5, "y", null, true]}}`},
		{`$a: JSON`, `{"a": [{"x": 1e5}]}`, `{"a": [{"x": 1e5}]}`},
		{`$a: KeyValueHash = {x: 1, y: null}`, `{}`, `{"a": {"x": "1", "y": null}}`},
		{`$a: UUID`, `{"a": "0f3a4ddc5a0c4a6e8f9e2f3a1b0c9d8e"}`, `{"a": "0f3a4ddc5a0c4a6e8f9e2f3a1b0c9d8e"}`},
		{`$a: PostInput`, `{"a": {"forumId": 1, "authorId": 2, "headline": "h", "topic": null}}`, `{"a": {"forumId": 1, "authorId": 2, "headline": "h", "topic": null}}`},
		{`$a: IntRangeInput = {start: {value: 1, inclusive: true}}`, `{}`, `{"a": {"start": {"value": 1, "inclusive": true}}}`},
	} {
		got, errs := variablesFor(t, c.declarations).Coerce(variablesOf(t, c.sent))
		if len(errs) > 0 || !reflect.DeepEqual(got, variablesOf(t, c.want)) {
			t.Errorf("%s %s\n got %v %v\nwant %s", c.declarations, c.sent, got, errs, c.want)
		}
	}
}

func TestVariablesThatDoNotFitAreRefused(t *testing.T) {
	for _, c := range []struct{ declarations, sent, want string }{
		{`$a: Int!`, `{}`, `Variable "$a" of required type "Int!" was not provided.`},
		{`$a: Int!`, `{"a": null}`, `Variable "$a" of non-null type "Int!" must not be null.`},
		{`$a: Int`, `{"a": 2147483648}`, `Variable "$a" got invalid value 2147483648; Int cannot represent non 32-bit signed integer value: 2147483648`},
		{`$a: Int`, `{"a": 1e400}`, `Variable "$a" got invalid value 1e400; Int cannot represent non-integer value: 1e400`},
		{`$a: Int`, `{"a": 99999999999999999999999}`, `Variable "$a" got invalid value 99999999999999999999999; Int cannot represent non 32-bit signed integer value: 99999999999999999999999`},
		{`$a: Int`, `{"a": 7.5}`, `Variable "$a" got invalid value 7.5; Int cannot represent non-integer value: 7.5`},
		{`$a: Float`, `{"a": 1e400}`, `Variable "$a" got invalid value 1e400; Float cannot represent non numeric value: 1e400`},
		{`$a: Boolean`, `{"a": "true"}`, `Variable "$a" got invalid value "true"; Boolean cannot represent a non boolean value: "true"`},
		{`$a: String`, `{"a": 5}`, `Variable "$a" got invalid value 5; String cannot represent a non string value: 5`},
		{`$a: ID`, `{"a": 5.5}`, `Variable "$a" got invalid value 5.5; ID cannot represent value: 5.5`},
		{`$a: ID`, `{"a": true}`, `Variable "$a" got invalid value true; ID cannot represent value: true`},
		{`$a: UUID`, `{"a": "xx"}`, `Variable "$a" got invalid value "xx"; UUID expects 32 hexadecimal digits, with or without hyphens.`},
		{`$a: BigInt`, `{"a": {"b": []}}`, `Variable "$a" got invalid value { b: [] }; BigInt cannot represent a non string value: { b: [] }`},
		{`$a: [PostOrderBy!]`, `{"a": ["NOPE"]}`, `Variable "$a" got invalid value "NOPE" at "a[0]"; Value "NOPE" does not exist in "PostOrderBy" enum.`},
		{`$a: [PostOrderBy!]`, `{"a": [null]}`, `Variable "$a" got invalid value null at "a[0]"; Expected non-nullable type "PostOrderBy!" not to be null.`},
		{`$a: PostOrderBy`, `{"a": 5}`, `Variable "$a" got invalid value 5; Enum "PostOrderBy" cannot represent non-string value: 5.`},
		{`$a: AddressInput`, `{"a": "x"}`, `Variable "$a" got invalid value "x"; Expected type "AddressInput" to be an object.`},
		{`$a: AddressInput`, `{"a": {"nope": 1}}`, `Variable "$a" got invalid value { nope: 1 }; Field "nope" is not defined by type "AddressInput".`},
		{`$a: [AddressInput]`, `{"a": [{}, {"zip": "x"}]}`, `Variable "$a" got invalid value "x" at "a[1].zip"; Int cannot represent non-integer value: "x"`},
		{`$a: IntRangeInput`, `{"a": {"start": {"value": 1}}}`, `Variable "$a" got invalid value { value: 1 } at "a.start"; Field "inclusive" of required type "Boolean!" was not provided.`},
	} {
		got, errs := variablesFor(t, c.declarations).Coerce(variablesOf(t, c.sent))
		if got != nil || len(errs) != 1 || errs[0].Message != c.want {
			t.Errorf("%s %s\n got %v %v\nwant %s", c.declarations, c.sent, got, errs, c.want)
		}
	}
}

func TestErrorsInVariablesEnd(t *testing.T) {
	sent := `{"a": [` + strings.Repeat(`"x", `, 10_000) + `"x"]}`
	_, errs := variablesFor(t, `$a: [Int]`).Coerce(variablesOf(t, sent))
	if len(errs) != maxErrors {
		t.Errorf("there are %d errors", len(errs))
	}
}

func TestShapesDifferWhereSQLMay(t *testing.T) {
	v := variablesFor(t, `$n: Int, $o: [PostOrderBy], $b: Boolean, $c: PostCondition, $j: JSON, $t: [String]`)
	shapes := map[string]string{}
	for _, sent := range []string{
		`{}`, `{"n": null}`, `{"n": 1}`, `{"o": []}`, `{"o": ["SCORE_ASC"]}`, `{"o": ["SCORE_DESC"]}`, `{"o": ["SCORE_DESC", "NATURAL"]}`, `{"o": [null]}`, `{"o": null}`,
		`{"b": true}`, `{"b": false}`, `{"c": {}}`, `{"c": {"topic": null}}`, `{"c": {"topic": "x"}}`, `{"c": {"forumId": 1}}`, `{"c": null}`, `{"j": null}`, `{"j": 1}`,
		`{"t": ["a"]}`, `{"t": ["a", "b"]}`, `{"t": ["a", null]}`, `{"n": null, "b": true}`,
	} {
		vars, errs := v.Coerce(variablesOf(t, sent))
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		shape := v.Shape(vars)
		if other, ok := shapes[shape]; ok {
			t.Errorf("%s and %s have the shape %q", sent, other, shape)
		}
		shapes[shape] = sent
	}
	for _, pair := range [][2]string{{`{"n": 1}`, `{"n": 2}`}, {`{"c": {"topic": "x"}}`, `{"c": {"topic": "y"}}`}, {`{"j": 1}`, `{"j": {"a": []}}`}, {`{"t": ["a"]}`, `{"t": "b"}`}} {
		a, _ := v.Coerce(variablesOf(t, pair[0]))
		b, _ := v.Coerce(variablesOf(t, pair[1]))
		if v.Shape(a) != v.Shape(b) {
			t.Errorf("%s and %s have different shapes, %q and %q", pair[0], pair[1], v.Shape(a), v.Shape(b))
		}
	}
}

func TestVariablesKeepTheirSizeAndNothingOfTheDocument(t *testing.T) {
	const n = 200
	s := forum(t)
	kept := make([]*Variables, n)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range kept {
		text := fmt.Sprintf(`query ($i: CreatePostInput!, $u: [TypeSampleInput], $o: [PostOrderBy!] = NATURAL, $d: JSON = {a: "%d"}) {
			__typename echoJson(v: {i: $i, u: $u, o: $o, d: $d}) } # %s`, i, strings.Repeat("x", 50_000))
		op, errs := Parse(s, text, "", Limits{})
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		kept[i] = op.Variables
	}
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&after)
	grown, said := int(after.HeapAlloc)-int(before.HeapAlloc), kept[0].Size()*n
	if grown > said {
		t.Errorf("%d variables hold %d bytes and say %d", n, grown, said)
	}
	if grown*2 < said {
		t.Errorf("%d variables hold %d bytes and say as much as %d", n, grown, said)
	}
	runtime.KeepAlive(kept)
	if empty := (&Variables{}).Size(); empty > 64 {
		t.Errorf("no variables have %d bytes", empty)
	}
}

func TestADomainHasTheFormOfWhatItIsOver(t *testing.T) {
	s := forum(t)
	for name, want := range map[string]form{"Email": formString, "PositiveInt": formInt, "Labels": formHash, "Datetime": formText, "KeyValueHash": formHash, "Cursor": formText, "Mood": formEnum} {
		typ := s.Type(name)
		if typ == nil {
			typ = &schema.Type{Name: name, Pg: s.pg[name]}
		}
		if got := formOf(typ, s.catalog); got != want {
			t.Errorf("%s has the form %d, want %d", name, got, want)
		}
	}
}

func TestDefaultsOfTheSchemaAreCoercedToo(t *testing.T) {
	s := forum(t)
	s.types["AddressInput"].Input("zip").Default = "7"
	s.types["AddressInput"].Input("zip").Type.NonNull = true
	op, errs := Parse(s, `query ($a: AddressInput, $b: AddressInput = {city: "x"}) { a: echoAddress(v: $a) { city } b: echoAddress(v: $b) { city } }`, "", Limits{})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	got, errs := op.Variables.Coerce(map[string]any{"a": map[string]any{}})
	want := map[string]any{"a": map[string]any{"zip": json.Number("7")}, "b": map[string]any{"zip": json.Number("7"), "city": "x"}}
	if len(errs) > 0 || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v %v, want %v", got, errs, want)
	}
}

func TestAnArgumentHasTheFormOfACoercedVariable(t *testing.T) {
	s := forum(t)
	s.types["AddressInput"].Input("zip").Default = "7"
	for _, c := range []struct{ query, sent, want string }{
		{`query ($x: [String]) { echoTags(v: $x) }`, `{}`, ``},
		{`query ($x: [String]) { echoTags(v: $x) }`, `{"x": null}`, `null`},
		{`{ echoTags(v: null) }`, `{}`, `null`},
		{`{ echoTags(v: "one") }`, `{}`, `["one"]`},
		{`query ($x: String) { echoTags(v: ["a", null, $x]) }`, `{}`, `["a", null, null]`},
		{`query ($x: Int, $y: String) { echoAddress(v: {zip: $x, city: $y}) { city } }`, `{"y": null}`, `{"city": null, "zip": 7}`},
		{`query ($x: Int, $y: Boolean!) { echoJson(v: {a: $x, b: [$x, $y, 1e3, "s", {c: null}]}) }`, `{"y": true}`, `{"b": [null, true, 1e3, "s", {"c": null}]}`},
		{`{ echoAttrs(v: {a: 1.50, b: "x", c: null}) }`, `{}`, `{"a": "1.50", "b": "x", "c": null}`},
		{`{ allPosts(orderBy: SCORE_DESC) { totalCount } }`, `{}`, `["SCORE_DESC"]`},
		{`{ node(id: 5) { id } }`, `{}`, `"5"`},
	} {
		op, errs := Parse(s, c.query, "", Limits{})
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		vars, errs := op.Variables.Coerce(variablesOf(t, c.sent))
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		f := op.Definition.SelectionSet[0].(*ast.Field)
		arg := f.Arguments[0]
		var got []any
		if value, given := op.Value(refOf(arg.Value.ExpectedType), arg.Value, vars); given {
			got = append(got, value)
		}
		want := variablesOf(t, `{"values": [`+c.want+`]}`)["values"].([]any)
		if len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
			t.Errorf("%s %s\n got %v\nwant %v", c.query, c.sent, got, want)
		}
	}
}

func TestValuesOfEnumsThatAreDataShareAShape(t *testing.T) {
	s := forum(t)
	for i := range s.types["Mood"].Values {
		s.types["Mood"].Values[i].Label = s.types["Mood"].Values[i].Name
	}
	op, errs := Parse(s, `query ($m: Mood, $o: [PostOrderBy!]) { a: peopleByMood(mood: $m) { totalCount } allPosts(orderBy: $o) { totalCount } }`, "", Limits{})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	shape := func(sent string) string {
		vars, errs := op.Variables.Coerce(variablesOf(t, sent))
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		return op.Variables.Shape(vars)
	}
	if shape(`{"m": "happy"}`) != shape(`{"m": "OK"}`) {
		t.Error("two moods need two plans")
	}
	if shape(`{"m": "happy"}`) == shape(`{"m": null}`) || shape(`{"o": ["SCORE_ASC"]}`) == shape(`{"o": ["SCORE_DESC"]}`) {
		t.Error("null, or an ordering, does not")
	}
}
