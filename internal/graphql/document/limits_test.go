package document

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// nested is a relation followed so many times, with the list arguments given.
func nested(levels int, args string) string {
	return strings.Repeat("commentsByParentCommentId"+args+" { nodes { ", levels) + "rowId" + strings.Repeat(" } }", levels)
}

const commentOf = `{ commentByRowId(rowId: "1") { %s } }`

func TestEveryLimitSaysItsNameItsValueAndItsSetting(t *testing.T) {
	for _, c := range []struct {
		name, query, variables string
		limits                 Limits
		want                   []string
	}{
		{"bytes", "{ id }" + strings.Repeat(" ", 1<<20), "", Limits{}, []string{"1048576", "graphql.max_query_bytes"}},
		{"tokens", "{ " + strings.Repeat("id ", 10_001) + "}", "", Limits{}, []string{"10000 tokens", "graphql.max_tokens"}},
		{"depth", fmt.Sprintf(commentOf, nested(40, "")), "", Limits{}, []string{"16 fields within one another", "graphql.max_depth"}},
		{"depth in fragments", `{ commentByRowId(rowId: "1") { ...A } } fragment A on Comment { commentByParentCommentId { ...B } } fragment B on Comment { commentByParentCommentId { rowId } }`,
			"", Limits{Depth: 3}, []string{"graphql.max_depth"}},
		{"aliases", "{ " + aliases(201) + "}", "", Limits{RootField: 1000}, []string{"200 aliases", "graphql.max_aliases"}},
		{"root fields", "{ ...F ...F } fragment F on Query { " + aliases(26) + "}", "", Limits{}, []string{"50 fields at its root", "graphql.max_root_fields"}},
		{"page", "{ allPosts(first: 1001) { totalCount } }", "", Limits{}, []string{"first is 1001", "1000", "graphql.max_page"}},
		{"page by variable", "query ($n: Int) { allPosts(last: $n) { totalCount } }", `{"n": 1000000}`, Limits{}, []string{"last is 1000000", "graphql.max_page"}},
		{"page by default", "query ($n: Int = 1000000) { allPosts(last: $n) { totalCount } }", ``, Limits{}, []string{"last is 1000000", "graphql.max_page"}},
		{"cost", fmt.Sprintf(commentOf, nested(5, "(first: 100)")), "", Limits{}, []string{"100000 rows", "graphql.max_cost"}},
		{"cost by variable", fmt.Sprintf("query ($n: Int!) "+commentOf, nested(5, "(first: $n)")), `{"n": 100}`, Limits{}, []string{"graphql.max_cost"}},
		{"cost by guess", fmt.Sprintf(commentOf, nested(3, "")), "", Limits{ListGuess: 50}, []string{"graphql.max_cost"}},
		{"introspection lists", `{ __schema { types { fields { type { fields { name } } } } } }`, "", Limits{}, []string{"within one another", "__type"}},
		{"introspection depth", `{ __type(name: "Post") { ` + strings.Repeat("ofType { ", 20) + "name" + strings.Repeat(" }", 20) + " } }", "", Limits{}, []string{"20 fields deep"}},
	} {
		got := strings.Join(texts(refused(t, forum(t), c.query, c.variables, c.limits)), "\n")
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: got %q, want %q", c.name, got, want)
			}
		}
	}
}

func aliases(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "a%d: id ", i)
	}
	return b.String()
}

func TestAnHonestQueryPassesTheLimits(t *testing.T) {
	for _, c := range []struct{ query, variables string }{
		{`{ allForums(first: 20) { nodes { name postsByForumId(first: 20) { totalCount pageInfo { hasNextPage } nodes { headline commentsByPostId(first: 20) { nodes { body personByAuthorId { username } } } } } } } }`, ``},
		{`query ($deep: Boolean!) { allForums(first: 1000) { nodes { name postsByForumId(first: 1000) @include(if: $deep) { nodes { headline } } } } }`, `{"deep": false}`},
		{fmt.Sprintf(commentOf, nested(5, "(first: 1000, last: 5)")), ``},
		{`{ allPosts(first: 1000) { nodes { rowId } edges { node { rowId } } } }`, ``},
	} {
		if errs := refused(t, forum(t), c.query, c.variables, Limits{}); len(errs) > 0 {
			t.Errorf("%s\n%v", c.query, errs)
		}
	}
}

func TestFragmentsThatDoubleAreRefusedBeforeTheyAreExpanded(t *testing.T) {
	var b strings.Builder
	b.WriteString("{ ...F0 }")
	for i := range 200 {
		fmt.Fprintf(&b, " fragment F%d on Query { ...F%d ...F%d }", i, i+1, i+1)
	}
	b.WriteString(" fragment F200 on Query { id }")
	errs := refused(t, forum(t), b.String(), "", Limits{})
	if len(errs) != 1 || !strings.Contains(errs[0].Message, "graphql.max_tokens") {
		t.Errorf("got %v", errs)
	}
}

func TestWithoutIntrospectionNothingOfTheSchemaIsTold(t *testing.T) {
	off := Limits{NoIntrospection: true}
	for _, query := range []string{
		`{ __schema { queryType { name } } }`, `{ ...F } fragment F on Query { __type(name: "Post") { name } }`, `{ query { a: __schema { description } } }`,
	} {
		got := strings.Join(texts(refused(t, forum(t), query, "", off)), "\n")
		if !strings.Contains(got, "Introspection is off") {
			t.Errorf("%s: got %q", query, got)
		}
	}
	if errs := refused(t, forum(t), `{ __typename postByRowId(rowId: 1) { __typename } }`, "", off); len(errs) > 0 {
		t.Errorf("__typename is refused: %v", errs)
	}
	for _, query := range []string{
		`{ postByRowId(rowid: 1) { headlin } }`, `{ allPosts { nodes } }`, `{ allPosts(orderBy: SCORE_DES, condition: {topc: ""}) { totalCount } }`, `{ id @skip(iff: true) }`,
		`{ ...F } fragment F on Quer { id }`,
	} {
		errs := refused(t, forum(t), query, "", off)
		got := strings.Join(texts(errs), "\n")
		if len(errs) == 0 || strings.Contains(got, "Did you mean") {
			t.Errorf("%s: got %q", query, got)
		}
	}
}

func TestErrorTextsRepeatLittleOfWhatWasSent(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	for _, c := range []struct{ query, variables string }{
		{`{ ` + long + ` }`, ``},
		{`{ allPosts(` + long + `: 1) { totalCount } }`, ``},
		{`{ postByRowId(rowId: "` + long + `") { rowId } }`, ``},
		{`{ allPosts(orderBy: ` + long + `) { totalCount } }`, ``},
		{`{ ...` + long + ` }`, ``},
		{`{ id @` + long + ` }`, ``},
		{`query ($` + long + `: Int) { id }`, ``},
		{`query ($v: ` + long + `) { id }`, ``},
		{`{ id } ` + long, ``},
		{`query ($v: UUID) { echoJson(v: {a: $v}) }`, `{"v": "` + long + `"}`},
		{`query ($v: AddressInput) { echoJson(v: {a: $v}) }`, `{"v": {"` + long + `": {"a": ["` + long + `"]}}}`},
	} {
		errs := refused(t, forum(t), c.query, c.variables, Limits{})
		if len(errs) == 0 {
			t.Errorf("%.60s was accepted", c.query)
		}
		for _, e := range errs {
			if len(e.Message) > 600 {
				t.Errorf("%.60s: the text has %d bytes", c.query, len(e.Message))
			}
		}
	}
}

// repeated is what f gives for 0 to n-1.
func repeated(n int, f func(i int) string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(f(i))
	}
	return b.String()
}

func TestTheWorstDocumentsCostMegabytesOnly(t *testing.T) {
	s := forum(t)
	for name, query := range map[string]string{
		"one field again and again":  "{ postByRowId(rowId: 1) {" + strings.Repeat("rowId ", 9900) + "} }",
		"unknown fields":             "{ postByRowId(rowId: 1) {" + repeated(9900, func(i int) string { return fmt.Sprintf("x%d ", i) }) + "} }",
		"operations":                 repeated(2400, func(i int) string { return fmt.Sprintf("query A%d{id}", i) }),
		"a chain of fragments":       "{ ...F0 }" + repeated(1200, func(i int) string { return fmt.Sprintf("fragment F%d on Query{...F%d}", i, i+1) }) + "fragment F1200 on Query { id }",
		"fragments unused":           "{ id }" + repeated(1400, func(i int) string { return fmt.Sprintf("fragment F%d on Post{id}", i) }),
		"fragments on unknown types": "{ id }" + repeated(1400, func(i int) string { return fmt.Sprintf("fragment F%d on X%d{id}", i, i) }),
		"variables": "query (" + repeated(1400, func(i int) string { return fmt.Sprintf("$v%d: Int ", i) }) + ") { echoJson(v: [" +
			repeated(1400, func(i int) string { return fmt.Sprintf("$v%d ", i) }) + "]) }",
		"unknown members":   "{ allPosts(condition: {" + repeated(3300, func(i int) string { return fmt.Sprintf("x%d: 1 ", i) }) + "}) { totalCount } }",
		"unknown arguments": "{ allPosts(" + repeated(3300, func(i int) string { return fmt.Sprintf("x%d: 1 ", i) }) + ") { totalCount } }",
		"directives":        "{ id " + repeated(4900, func(i int) string { return fmt.Sprintf("@x%d ", i) }) + " }",
		"lists in lists":    "{ echoJson(v: " + strings.Repeat("[", 990) + strings.Repeat("]", 990) + ") }",
		"lists too deep":    "{ echoJson(v: " + strings.Repeat("[", 4990) + strings.Repeat("]", 4990) + ") }",
		"a long string":     `{ echoJson(v: "` + strings.Repeat("x", 1<<20-100) + `") }`,
		"a long block":      `{ echoJson(v: """` + strings.Repeat(`"" `, 1<<18) + `""") }`,
		"a long comment":    "{ id } #" + strings.Repeat("x", 1<<20-100),
		"quotes":            strings.Repeat(`"`, 1<<20),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		refused(t, s, query, "", Limits{})
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > 8<<20 {
			t.Errorf("%s: %d bytes were allocated", name, got)
		}
	}
}
