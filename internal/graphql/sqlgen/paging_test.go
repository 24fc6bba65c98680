package sqlgen

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/leveehq/levee/internal/graphql/document"
	"github.com/leveehq/levee/internal/pglocal/pgtest"
)

// walk reads a list page by page, forwards or backwards, and returns the ids in the list's order.
func walk(rt *rapid.T, t *testing.T, e *Engine, db DB, of *class, args string, size int, back bool) (ids []string) {
	limit, cursor, more, end := "first", "after", "hasNextPage", "endCursor"
	if back {
		limit, cursor, more, end = "last", "before", "hasPreviousPage", "startCursor"
	}
	query := fmt.Sprintf("query ($n: Int, $c: Cursor) { list: %s(%s: $n, %s: $c%s) { edges { cursor node { id } } pageInfo { %s startCursor endCursor } } }", of.all, limit, cursor, args, more)
	var from any
	for range 100 {
		response, err := e.Execute(t.Context(), db, Request{Query: query, Variables: map[string]any{"n": json.Number(fmt.Sprint(size)), "c": from}})
		if err != nil || len(response.Errors) > 0 {
			rt.Fatalf("%s after %v: %+v, %v", query, from, response, err)
		}
		list := at(decoded(t, response).Data, "list")
		edges, _ := at(list, "edges").([]any)
		var page []string
		for _, edge := range edges {
			page = append(page, at(edge, "node", "id").(string))
		}
		if n := len(edges); n > 0 && (at(edges[0], "cursor") != at(list, "pageInfo", "startCursor") || at(edges[n-1], "cursor") != at(list, "pageInfo", "endCursor")) {
			rt.Fatalf("%s: the page's cursors are not those of its ends: %s", query, response.Data)
		}
		if back {
			ids = append(page, ids...)
		} else {
			ids = append(ids, page...)
		}
		if at(list, "pageInfo", more) != true {
			return ids
		}
		from = at(list, "pageInfo", end)
	}
	rt.Fatalf("%s does not end", query)
	return nil
}

func TestPagesJoinToTheWholeListInEveryOrdering(t *testing.T) {
	e, db, n := fewRows(t, Options{Limits: document.Limits{Page: 50}})
	rapid.Check(t, func(rt *rapid.T) {
		c := model[rapid.SampledFrom(slices.Sorted(maps.Keys(model))).Draw(rt, "class")]
		var order []sorted
		var names []string
		for range rapid.IntRange(0, 3).Draw(rt, "orders") {
			o := sorted{rapid.SampledFrom(append([]string{""}, c.indexed...)).Draw(rt, "order"), rapid.Bool().Draw(rt, "desc")}
			order, names = append(order, o), append(names, o.String())
		}
		args := ""
		if len(names) > 0 {
			args = ", orderBy: [" + strings.Join(names, ", ") + "]"
		}
		var want []string
		for _, r := range n.list(c, nil, nil, order) {
			want = append(want, c.id(r))
		}
		size, back := rapid.IntRange(1, 5).Draw(rt, "size"), rapid.Bool().Draw(rt, "back")
		if got := walk(rt, t, e, db, c, args, size, back); !slices.Equal(got, want) {
			rt.Fatalf("%s%s in pages of %d, back %v:\n%v\nnot\n%v", c.all, args, size, back, got, want)
		}
	})
}

// A cursor is a place: what comes before it and what comes after it are the rest, whatever the direction of the ordering.
func TestACursorSplitsItsList(t *testing.T) {
	e, db, n := fewRows(t, Options{Limits: document.Limits{Page: 50}})
	rapid.Check(t, func(rt *rapid.T) {
		c := model[rapid.SampledFrom(slices.Sorted(maps.Keys(model))).Draw(rt, "class")]
		o := sorted{rapid.SampledFrom(c.indexed).Draw(rt, "order"), rapid.Bool().Draw(rt, "desc")}
		all := n.list(c, nil, nil, []sorted{o})
		i := rapid.IntRange(0, len(all)-1).Draw(rt, "row")
		query := fmt.Sprintf("{ list: %s(first: %d, orderBy: %s) { pageInfo { endCursor } } }", c.all, i+1, o)
		cursor := at(ask(t, e, db, query, nil).Data, "list", "pageInfo", "endCursor")
		sides := fmt.Sprintf("query ($c: Cursor) { before: %s(before: $c, orderBy: %s) { nodes { id } } after: %[1]s(after: $c, orderBy: %[2]s) { nodes { id } } }", c.all, o)
		got := ask(t, e, db, sides, map[string]any{"c": cursor})
		for side, want := range map[string][]row{"before": all[:i], "after": all[i+1:]} {
			nodes, _ := at(got.Data, side, "nodes").([]any)
			if len(nodes) != len(want) || len(got.Errors) > 0 {
				rt.Fatalf("%s: %s row %d of %d there are %d rows: %v", sides, side, i, len(all), len(nodes), got.Errors)
			}
			for j := range nodes {
				if at(nodes[j], "id") != c.id(want[j]) {
					rt.Fatalf("%s: %s row %d, row %d is another", sides, side, i, j)
				}
			}
		}
	})
}

func TestPagesOfAFunctionJoinToAllOfIt(t *testing.T) {
	e, db, _ := fewRows(t, Options{})
	whole := ask(t, e, db, `{ searchPosts(search: "h") { nodes { rowId } totalCount } }`, nil)
	var rows []any
	var from any
	for range 20 {
		page := ask(t, e, db, `query ($c: Cursor) { searchPosts(search: "h", first: 3, after: $c) { nodes { rowId } pageInfo { hasNextPage endCursor } } }`, map[string]any{"c": from})
		rows = append(rows, at(page.Data, "searchPosts", "nodes").([]any)...)
		if from = at(page.Data, "searchPosts", "pageInfo", "endCursor"); at(page.Data, "searchPosts", "pageInfo", "hasNextPage") != true {
			break
		}
	}
	if want := jsonOf(at(whole.Data, "searchPosts", "nodes")); jsonOf(rows) != want || len(rows) != 16 {
		t.Errorf("got %s, want %s", jsonOf(rows), want)
	}
}

func TestAPageThatNobodyAsksForIsNotRead(t *testing.T) {
	e, db, _ := fewRows(t, Options{Limits: document.Limits{Page: pages}})
	expect(t, e, db, `{ allComments { pageInfo { hasNextPage hasPreviousPage } totalCount } a: allComments(offset: 3) { pageInfo { hasPreviousPage } } b: allComments(first: 5) { pageInfo { hasPreviousPage hasNextPage } } }`,
		`{"allComments":{"pageInfo":{"hasNextPage":false,"hasPreviousPage":false},"totalCount":30},"a":{"pageInfo":{"hasPreviousPage":true}},"b":{"pageInfo":{"hasPreviousPage":false,"hasNextPage":true}}}`)
	if sql := db.asks[0].SQL; strings.Count(sql, `array_agg`) != 1 {
		t.Errorf("rows are read that nothing follows from: %s", sql)
	}
}

func TestAFewPageSizesArePartsOfTheStatementAndOthersAreParameters(t *testing.T) {
	e, db, _ := fewRows(t, Options{})
	const query = "query ($n: Int, $m: Int) { allForums(first: $n) { nodes { rowId postsByForumId(first: $m) { nodes { rowId } } } } }"
	texts := map[string]bool{}
	for range 2 {
		for n := range 30 {
			ask(t, e, db, query, map[string]any{"n": json.Number(fmt.Sprint(30 - n)), "m": json.Number("2")})
		}
	}
	for _, s := range db.asks {
		texts[s.SQL] = true
		if literal := len(s.Params) == 0; literal != strings.Contains(s.SQL, "limit 2::int8") {
			t.Fatalf("%d parameters: %s", len(s.Params), s.SQL)
		}
	}
	if len(texts) != mostSizes+1 {
		t.Errorf("%d statements, not %d and one for all others", len(texts), mostSizes)
	}
}

func TestAListThatCannotBeOrderedIsInTheOrderOfItsKey(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, `create schema plain; create table plain.thing (id int primary key, b text); comment on table plain.thing is '@behavior -order';
		create table plain.part (id int primary key, thing_id int references plain.thing); create index on plain.part (thing_id); insert into plain.thing values (3), (1), (2)`)
	s := connect(t, "postgres", database)
	expect(t, New(schemaOf(t, s, "plain"), Options{}), s, `{ allThings(first: 2) { edges { cursor node { rowId } } } }`,
		`{"allThings":{"edges":[{"cursor":"WyIwNmZkMWNmOTIxIiwxXQ==","node":{"rowId":1}},{"cursor":"WyIwNmZkMWNmOTIxIiwyXQ==","node":{"rowId":2}}]}}`)
}
