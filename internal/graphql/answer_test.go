package graphql

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/leveehq/levee/internal/graphql/auth"
	"github.com/leveehq/levee/internal/pglocal/pgtest"
)

// A name that the client chooses is in the JSON of each row, and nowhere in what PostgreSQL sends: a thousand rows of four bytes
// are a hundred megabytes under a name of a hundred thousand letters.
func TestNamesThatTheClientChoosesAreChargedForInEveryRow(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, `create schema s; create table s.note (id int primary key, tags int[], odd float8[]);
		insert into s.note select g, array(select generate_series(1, 10)), array_fill('NaN'::float8, array[30]) from generate_series(1, 1000) g`)
	tenant := Tenant{DatabaseURL: pgtest.Server(t).URL("postgres", database), Schemas: []string{"s"}, AllowBypassRLS: true, Auth: auth.Options{AnonymousRole: auth.ConnectionRole}}
	s, url := serve(t, Options{Tenants: []Tenant{tenant}, MaxResponse: mib, Wait: 30 * time.Second})
	name := func(letters int) string { return strings.Repeat("n", letters) }
	if status, body := ask(t, url, "{ allNotes(first: 1000) { nodes { "+name(500)+": rowId } } }"); status != 200 || len(body) < 500_000 {
		t.Errorf("half a megabyte: %d, %d bytes", status, len(body))
	}
	for what, query := range map[string]string{
		"long names":            "{ allNotes(first: 1000) { nodes { " + name(100_000) + ": rowId } } }",
		"long names of edges":   "{ allNotes(first: 1000) { edges { " + name(100_000) + ": cursor } } }",
		"an error in each item": "{ allNotes(first: 1000) { nodes { odd } } }",
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		status, body := ask(t, url, query)
		runtime.ReadMemStats(&after)
		if status != 400 || !strings.Contains(body, "RESPONSE_TOO_LARGE") {
			t.Errorf("%s: %d %.200s", what, status, body)
		}
		// Twice what there is room for, as it grows by doubling, and what the request and its client take.
		if took := int64(after.TotalAlloc - before.TotalAlloc); took > 3*s.shares.answers {
			t.Errorf("%s: %d bytes were allocated, and answers have %d", what, took, s.shares.answers)
		}
	}
	if n := s.gates.answers.Stats().InUse; n != 0 {
		t.Errorf("%d bytes are still charged", n)
	}
}
