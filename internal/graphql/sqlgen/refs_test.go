package sqlgen

import (
	"encoding/json"
	"testing"

	"github.com/leveehq/levee/internal/pglocal/pgtest"
)

func TestPathsOfRelationsLeadWhereTheyDoAtPostGraphile(t *testing.T) {
	s := connect(t, "postgres", pgtest.Load(t, "../testdata/refs.sql"))
	answersAsRecorded(t, New(schemaOf(t, s, "app"), Options{}), s, "../testdata/refs.json")
}

func TestARowThatManyWaysLeadToIsOneRow(t *testing.T) {
	database := pgtest.Load(t, "../testdata/refs.sql")
	pgtest.Exec(t, database, `comment on table app.people is E'@ref every_task to:Task plural via:(id)->tasks(person_id)\n@refVia every_task via:(id)->tasks(other_id)\n@ref a_task singular via:(id)->tasks(other_id)\n@refVia a_task via:(id)->tasks(person_id)'`)
	s := connect(t, "postgres", database)
	e := New(schemaOf(t, s, "app"), Options{})
	for query, want := range map[string]string{
		`{ orgByRowId(rowId: 1) { tags { totalCount nodes { rowId } } } }`:                                       `{"orgByRowId":{"tags":{"nodes":[{"rowId":1},{"rowId":2},{"rowId":3}],"totalCount":3}}}`,
		`{ orgByRowId(rowId: 1) { tags(first: 1, after: "WyJjMGEwYTNjMjdkIiwxXQ==") { nodes { rowId } } } }`:     `{"orgByRowId":{"tags":{"nodes":[{"rowId":2}]}}}`,
		`{ personByRowId(rowId: 3) { every_task { totalCount nodes { title } } } }`:                              `{"personByRowId":{"every_task":{"nodes":[{"title":"z"}],"totalCount":1}}}`,
		`{ personByRowId(rowId: 1) { every_task(condition: {rowId: 4}) { nodes { title } } a_task { title } } }`: `{"personByRowId":{"a_task":{"title":"x"},"every_task":{"nodes":[{"title":"w"}]}}}`,
		`{ allPeople { nodes { every_task(first: 1, orderBy: ROW_ID_DESC) { nodes { rowId } } } } }`:             `{"allPeople":{"nodes":[{"every_task":{"nodes":[{"rowId":4}]}},{"every_task":{"nodes":[{"rowId":5}]}},{"every_task":{"nodes":[{"rowId":3}]}},{"every_task":{"nodes":[{"rowId":5}]}},{"every_task":{"nodes":[{"rowId":4}]}}]}}`,
	} {
		got := ask(t, e, s, query, nil)
		if text, _ := json.Marshal(got.Data); string(text) != want || len(got.Errors) > 0 {
			t.Errorf("%s: %s %v\nwant %s", query, text, got.Errors, want)
		}
	}
}
