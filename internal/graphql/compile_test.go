package graphql

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/leveehq/levee/internal/graphql/document"
	"github.com/leveehq/levee/internal/graphql/sqlgen"
	"github.com/leveehq/levee/internal/pglocal/pgtest"
	"github.com/leveehq/levee/internal/raceless"
)

// A document is charged for by max_tokens: whatever it spends them on, it allocates less than that in all.
func TestNoDocumentTakesMoreThanItsTokensArePlannedFor(t *testing.T) {
	if raceless.Again(t) {
		return
	}
	tenant := samples["forum"].asOwner(pgtest.Load(t, "testdata/forum/schema.sql"), t)
	s, _ := serve(t, Options{Tenants: []Tenant{tenant}})
	db, err := s.pool.Database(s.byName[""].url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	in, err := s.read(t.Context(), s.byName[""], db)
	if err != nil {
		t.Fatal(err)
	}
	for _, tokens := range []int{10_000, 40_000} {
		limits := document.Limits{Bytes: 16 * mib, Tokens: tokens}
		for name, query := range greedy(tokens - 10) {
			e := sqlgen.New(in.schema, sqlgen.Options{Limits: limits})
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			r, err := e.Execute(t.Context(), nowhere{}, sqlgen.Request{Query: query, Variables: map[string]any{}})
			runtime.ReadMemStats(&after)
			took := int64(after.TotalAlloc - before.TotalAlloc)
			t.Logf("%d tokens, %s: %d KiB", tokens, name, took/kib)
			if took > perCompile(tokens) {
				t.Errorf("%d tokens, %s: %d bytes, planned for %d (%v, %v)", tokens, name, took, perCompile(tokens), err, r)
			}
		}
	}
}

// greedy are documents of about n tokens, each spent on one thing.
func greedy(n int) map[string]string {
	again := func(times int, text string) string { return strings.Repeat(text, times) }
	numbered := func(times int, format string) string {
		var b strings.Builder
		for i := range times {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	posts := func(inside string) string { return "{ allPosts { nodes { " + inside + " } } }" }
	const aliases = 190
	return map[string]string{
		"one field":         posts(again(n, "headline ")),
		"one relation":      posts(again(n/4, "personByAuthorId { username } ")),
		"relations":         posts(numbered(aliases, "a%d: personByAuthorId { "+again(n/aliases/15, "postsByAuthorId(first: 3) { nodes { headline rowId body } totalCount } ")+" } ")),
		"fields":            posts(numbered(aliases, "a%d: personByAuthorId { "+again(n/aliases-5, "username ")+" } ")),
		"a list of values":  "{ allPosts(orderBy: [" + again(n, "ROW_ID_DESC ") + "]) { nodes { headline } } }",
		"unknown fields":    posts(numbered(n, "u%d ")),
		"variables":         "query (" + numbered(n/4, "$v%d: Int ") + ") { __typename }",
		"fragments":         posts(numbered(n/10, "...F%d ")) + numbered(n/10, "fragment F%d on Post { headline } "),
		"nested conditions": "{ " + again(n/12, "allPosts(first: 10, condition: { rowId: 1 }) { nodes { headline } } ") + " }",
	}
}

// nowhere is a database that runs nothing.
type nowhere struct{}

func (nowhere) DoAll(context.Context, []sqlgen.Statement) error { return errors.New("nothing is run") }
