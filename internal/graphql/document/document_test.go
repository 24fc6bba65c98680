package document

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// variablesOf decodes variables as the service does.
func variablesOf(t testing.TB, text string) map[string]any {
	t.Helper()
	if text == "" {
		return nil
	}
	var vars map[string]any
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.UseNumber()
	if err := d.Decode(&vars); err != nil {
		t.Fatal(err)
	}
	return vars
}

// refused are the errors of a request at any of its stages before SQL.
func refused(t testing.TB, s Schema, query, variables string, l Limits) []Error {
	t.Helper()
	op, errs := Parse(s, query, "", l)
	if len(errs) > 0 {
		return errs
	}
	vars, errs := op.Variables.Coerce(variablesOf(t, variables))
	if len(errs) > 0 {
		return errs
	}
	return op.Check(vars)
}

func texts(errs []Error) []string {
	var out []string
	for _, e := range errs {
		out = append(out, fmt.Sprint(e.Message, e.Locations))
	}
	return out
}

func TestErrorsAreThoseOfTheRecordedCases(t *testing.T) {
	for _, c := range []struct {
		query, variables string
		want             []string
	}{
		{`{ allPosts(orderBy: HEADLINE_ASC) { nodes { rowId } } }`, "",
			[]string{`Value "HEADLINE_ASC" does not exist in "PostOrderBy" enum.[{1 21}]`}},
		{`{ postByRowId(rowId: 42) { isHot } }`, "",
			[]string{`Field "isHot" argument "threshold" of type "Int!" is required, but it was not provided.[{1 28}]`}},
		{`{ allPosts { nodes { rowId nope } } }`, "",
			[]string{`Cannot query field "nope" on type "Post".[{1 28}]`}},
		{`{ postByRowId(rowId: "one") { rowId } }`, "",
			[]string{`Int cannot represent non-integer value: "one"[{1 22}]`}},
		{`query ($id: Int!) { postByRowId(rowId: $id) { rowId } }`, ``,
			[]string{`Variable "$id" of required type "Int!" was not provided.[{1 8}]`}},
		{`query ($id: Int!) { postByRowId(rowId: $id) { rowId } }`, `{"id": "7"}`,
			[]string{`Variable "$id" got invalid value "7"; Int cannot represent non-integer value: "7"[{1 8}]`}},
		{`{ postByRowId(rowId: 2147483648) { rowId } }`, "",
			[]string{`Int cannot represent non 32-bit signed integer value: 2147483648[{1 22}]`}},
		{`{ commentByRowId(rowId: 5) { rowId } }`, "",
			[]string{`BigInt cannot represent a non string value: 5. Write it as a string.[{1 25}]`}},
		{`{ allPosts( { nodes } }`, "",
			[]string{`Syntax Error: Expected Name, found {[{1 13}]`}},
		{`{ allPosts { nodes } postByRowId(rowId: 1) { headline { x } } }`, "",
			[]string{
				`Field "nodes" of type "[Post]!" must have a selection of subfields. Did you mean "nodes { ... }"?[{1 14}]`,
				`Field "headline" must not have a selection since type "String" has no subfields.[{1 46}]`,
			}},
		{`{ peopleByMood(mood: ANGRY) { totalCount } allPosts(condition: { nope: 1 }) { totalCount } }`, "",
			[]string{`Value "ANGRY" does not exist in "Mood" enum.[{1 22}]`, `Field "nope" is not defined by type "PostCondition".[{1 66}]`}},
		{`query ($x: Int) { __typename } fragment F on Post { rowId }`, "",
			[]string{`Variable "$x" is never used.[{1 8}]`, `Fragment "F" is never used.[{1 32}]`}},
		{`mutation { createPost(input: { post: { forumId: 1, authorId: 1 } }) { post { rowId } } }`, "",
			[]string{`Field "PostInput.headline" of required type "String!" was not provided.[{1 38}]`}},
		{`query ($a: KeyValueHash) { echoAttrs(v: $a) }`, `{"a": {"x": 1}}`,
			[]string{`Variable "$a" got invalid value { x: 1 }; KeyValueHash expects an object whose values are strings or null.[{1 8}]`}},
		{`query One { __typename } query Two { __typename }`, "",
			[]string{`Must provide operation name if query contains multiple operations.[]`}},
	} {
		if got := texts(refused(t, forum(t), c.query, c.variables, Limits{})); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s\n got %q\nwant %q", c.query, got, c.want)
		}
	}
}

func TestAnUnknownOperationIsNamed(t *testing.T) {
	_, errs := Parse(forum(t), `query One { __typename }`, "Nope", Limits{})
	if len(errs) != 1 || errs[0].Message != `Unknown operation named "Nope".` {
		t.Errorf("got %v", errs)
	}
}

func TestWhatTheRecordedCasesAcceptIsAccepted(t *testing.T) {
	for _, c := range []struct{ query, variables string }{
		{`query Q($yes: Boolean!, $no: Boolean = false) { personByRowId(rowId: 1) { ...A username @skip(if: $yes) rowId @include(if: $no) ... @include(if: $yes) { lastName } ... on Person @skip(if: $no) { firstName } ...B @skip(if: $yes) } } fragment A on Person { fullName @include(if: $yes) ...C } fragment B on Person { email } fragment C on Node { id }`, `{"yes": true}`},
		{`query ($n: Int = 3, $s: String = "line 1", $list: [PostOrderBy!] = SCORE_DESC) { searchPosts(search: $s, first: $n) { nodes { rowId headline } } allPosts(first: 1, orderBy: $list) { nodes { score } } }`, `{"n": 2}`},
		{`query ($t: [String]) { a: echoTags(v: "one") b: echoTags(v: $t) c: echoTags(v: ["a", null, ""]) d: echoTags(v: []) e: echoTags(v: null) f: echoTags }`, `{"t": "single"}`},
		{`query ($j: JSON) { a: echoJson(v: $j) b: echoJson(v: { x: [1, null, "s", { y: true }] }) c: echoJson(v: "text") d: echoJson(v: 1.5) e: echoJson(v: null) f: echoJson(v: true) g: echoJson(v: []) }`, `{"j": {"b": 1, "a": [{}]}}`},
		{`{ echoAttrs(v: { x: 1, y: "two" }) }`, ``},
		{`query ($n: BigFloat, $b: BigInt, $a: KeyValueHash, $f: [String]) { echoNumeric(v: $n) echoBigint(v: $b) echoAttrs(v: $a) echoTags(v: $f) }`, `{"n": 5.25, "b": 7, "a": {"x": "1"}, "f": null}`},
		{`{ a: allForums(first: -1) { nodes { rowId } } b: allForums(offset: -3, first: 1) { nodes { rowId } } }`, ``},
		{`{ node(id: "x") { __typename id ... on Person { username } ... on Query { currentPersonId } ...P } } fragment P on Post { headline }`, ``},
		{`{ __typename id query { __typename id query { currentPersonId } } }`, ``},
		{`query ($c: Cursor) { allForums(first: 2, after: $c, before: null) { nodes { rowId } } }`, `{"c": null}`},
		{`query ($a: AddressInput) { a: echoAddress(v: $a) { street } d: echoRating(v: ASTERISK__ASTERISK) g: echoEmail(v: "Some@One") }`, `{"a": {"street": "x", "zip": null}}`},
	} {
		if errs := refused(t, forum(t), c.query, c.variables, Limits{}); len(errs) > 0 {
			t.Errorf("%s\n%v", c.query, errs)
		}
	}
}

func TestWhatDoesNotFitIsRefused(t *testing.T) {
	for _, c := range []struct{ query, variables, want string }{
		{`{ echoJson(v: {a: [FOO]}) }`, ``, `enum value`},
		{`{ echoAttrs(v: "x") }`, ``, `KeyValueHash`},
		{`{ echoAttrs(v: {a: {b: "c"}}) }`, ``, `KeyValueHash`},
		{`query ($s: String) { echoAttrs(v: {a: $s}) }`, ``, `Pass variables as the whole object`},
		{`{ echoEmail(v: 5) }`, ``, `Email cannot represent a non string value: 5`},
		{`{ echoTags(v: [["a"]]) }`, ``, `String cannot represent a non string value: ["a"]`},
		{`{ allPosts(orderBy: [null]) { totalCount } }`, ``, `Expected value of type "PostOrderBy!", found null.`},
		{`{ allPosts(orderBy: "SCORE_DESC") { totalCount } }`, ``, `Enum "PostOrderBy" cannot represent non-enum value: "SCORE_DESC".`},
		{`{ allPosts(condition: 1) { totalCount } }`, ``, `Expected value of type "PostCondition", found 1.`},
		{`query ($x: [[Int]]) { echoJson(v: {a: $x}) }`, ``, `no lists of lists`},
		{`query ($x: __TypeKind) { echoJson(v: {a: $x}) }`, ``, `introspection`},
		{`query ($x: Post) { echoJson(v: {a: $x}) }`, ``, `cannot be non-input type "Post"`},
		{`query ($x: Nope) { echoJson(v: {a: $x}) }`, ``, `Unknown type "Nope"`},
		{`query ($id: Int = 1) { postByRowId(rowId: $id) { rowId } }`, `{"id": null}`, `must not be null here`},
		{`query ($yes: Boolean = true) { id @skip(if: $yes) }`, `{"yes": null}`, `must not be null here`},
		{`{ postByRowId(rowId: 1) { ...F } } fragment F on Person { rowId }`, ``, `can never be of type "Person"`},
		{`{ postByRowId(rowId: 1) { ... on Int { rowId } } }`, ``, `non composite type "Int"`},
		{`{ postByRowId(rowId: 1) { ...F } } fragment F on Post { ...G } fragment G on Post { ...F }`, ``, `Cannot spread fragment "F" within itself`},
		{`{ postByRowId(rowId: 1) { ...F } } fragment F($x: Int) on Post { rowId }`, ``, `cannot define variables`},
		{`{ id ...F } fragment F on Query { id } fragment F on Query { id }`, ``, `only one fragment named "F"`},
		{`{ a: postByRowId(rowId: 1) { rowId } a: postByRowId(rowId: 2) { rowId } }`, ``, `they have differing arguments`},
		{`{ p: postByRowId(rowId: 1) { a: rowId } p: postByRowId(rowId: 1) { a: score } }`, ``, `"rowId" and "score" are different fields`},
		{`{ node(id: "x") { ... on Person { a: rowId } ... on Post { a: headline } } }`, ``, `conflicting types "Int!" and "String!"`},
		{`{ node(id: "x") { ... on Person { x: postsByAuthorId { a: totalCount } } ... on Post { x: commentsByPostId { a: pageInfo { endCursor } } } } }`, ``, `conflicting types`},
		{`{ __typename { x } }`, ``, `must not have a selection`},
		{`{ __typename(x: 1) }`, ``, `Unknown argument "x"`},
		{`{ id @defer }`, ``, `Unknown directive "@defer"`},
		{`{ id @skip }`, ``, `argument "if" of type "Boolean!" is required`},
		{`{ id @skip(if: "x") }`, ``, `Boolean cannot represent a non boolean value: "x"`},
		{`{ id @deprecated }`, ``, `may not be used on FIELD`},
		{`subscription { id }`, ``, `does not support operation type "subscription"`},
		{`fragment F on Query { id }`, ``, `Must provide an operation`},
		{``, ``, `Must provide an operation`},
		{`{ postByRowId(rowId: 1) { headlin } }`, ``, `Did you mean "headline"?`},
		{`{ postByRowId(rowid: 1) { headline } }`, ``, `Did you mean "rowId"?`},
	} {
		got := strings.Join(texts(refused(t, forum(t), c.query, c.variables, Limits{})), "\n")
		if !strings.Contains(got, c.want) {
			t.Errorf("%s\n got %q\nwant %q", c.query, got, c.want)
		}
	}
}

func TestFieldsOfDifferentObjectsMayShareAName(t *testing.T) {
	for _, query := range []string{
		`{ node(id: "x") { ... on Person { a: rowId } ... on Post { a: forumId } } }`,
		`{ node(id: "x") { ... on Person { x: postsByAuthorId(first: 1) { totalCount } } ... on Forum { x: postsByForumId(first: 2) { totalCount } } } }`,
		`{ postByRowId(rowId: 1) { rowId ...F } postByRowId(rowId: 1) { rowId } } fragment F on Post { rowId ... on Node { id } }`,
		`{ a: allPosts(condition: {forumId: 1, topic: "x"}) { totalCount } a: allPosts(condition: {topic: "x", forumId: 1}) { totalCount } }`,
	} {
		if errs := refused(t, forum(t), query, "", Limits{}); len(errs) > 0 {
			t.Errorf("%s\n%v", query, errs)
		}
	}
}

func TestAValidFieldKnowsItsDefinition(t *testing.T) {
	op, errs := Parse(forum(t), `query A { postByRowId(rowId: 1) { ...F } } query B($n: Int) { allPosts(first: $n) { nodes { ...F } } } fragment F on Post { rowId summary(length: 3) }`, "A", Limits{})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if len(op.Document.Operations) != 1 || op.Definition.Name != "A" {
		t.Errorf("the other operation is still there")
	}
	for _, f := range op.Document.Fragments[0].SelectionSet {
		checkField(t, op, f)
	}
	if got := op.Type("Query").Field("postByRowId"); got == nil || got.Type.Name != "Post" {
		t.Errorf("the root type lacks a field that was reached: %v", got)
	}
	if op.Type("Mutation").Field("createPost") != nil {
		t.Error("the root type has a field that was not reached")
	}
}

func TestALookUpDerivesNoMoreThanItReaches(t *testing.T) {
	s := wide(1000)
	if errs := refused(t, s, `query ($id: Int!) { table7ByRowId(rowId: $id) { column1 id query { table8ByRowId(rowId: 1) { column2 } } } }`, `{"id": 1}`, Limits{}); len(errs) > 0 {
		t.Fatal(errs)
	}
	for name, n := range s.mu.asked {
		if !slices.Contains([]string{"Table7", "Table8", "Int", "String", "Boolean", "ID"}, name) || n > 1 {
			t.Errorf("type %s was derived %d times", name, n)
		}
	}
}
