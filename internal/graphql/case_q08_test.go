package graphql

import (
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/leveehq/levee/internal/graphql/sqlgen"
	"github.com/leveehq/levee/internal/pglocal/pgtest"
)

func TestQ8DepthAndFanOutAreRefusedBeforeAnySQL(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, notes("ta"))
	c := startCase(t, Options{Tenants: []Tenant{visitors(t, database, "ta")}})
	introspection := introspectionQuery(t)
	if a := c.ask("ta", introspection); a.status != http.StatusOK || len(a.Errors) > 0 || a.Data["__schema"] == nil {
		t.Fatalf("the standard query: %d %.300s", a.status, a.text)
	}
	before := c.service.pool.Stats().Requests
	up, down := "noteByParentId { ", "notesByParentId(first: 100) { nodes { "
	deep := func(field, end string, n int) string {
		return `noteByRowId(rowId: "1") { ` + strings.Repeat(field, n) + "rowId" + strings.Repeat(end, n) + " }"
	}
	for name, bad := range map[string]struct{ query, setting string }{
		"40 deep":               {"{ " + deep(up, " }", 40) + " }", "max_depth"},
		"40 deep, in fragments": {`{ noteByRowId(rowId: "1") { ...A } } fragment A on Note { noteByParentId { noteByParentId { noteByParentId { noteByParentId { noteByParentId { ...B } } } } } } fragment B on Note { noteByParentId { noteByParentId { noteByParentId { noteByParentId { noteByParentId { ...C } } } } } } fragment C on Note { ` + strings.Repeat(up, 30) + "rowId" + strings.Repeat(" }", 30) + " }", "max_depth"},
		"100 to the fifth":      {"{ " + deep(down, " } }", 5) + " }", "max_cost"},
		"types within types":    {"{ __schema { " + strings.Repeat("types { fields { type { ", 4) + "name" + strings.Repeat(" } } }", 4) + " } }", "__type"},
	} {
		a := c.ask("ta", bad.query)
		if a.status != http.StatusBadRequest || a.Data != nil || !strings.Contains(a.text, bad.setting) {
			t.Errorf("%s: %d %.300s", name, a.status, a.text)
		}
	}
	if ran := c.service.pool.Stats().Requests - before; ran != 0 {
		t.Errorf("%d statements were sent", ran)
	}
}

// introspectionQuery is the one that GraphQL's tools send.
func introspectionQuery(t *testing.T) string {
	t.Helper()
	for _, c := range recordedCases(t, "testdata/forum") {
		if c.Query != nil && strings.Contains(*c.Query, "fragment TypeRef on __Type") {
			return *c.Query
		}
	}
	t.Fatal("no recorded case has it")
	return ""
}

func TestQ9AListIsNeverCutInSilence(t *testing.T) {
	database := pgtest.Database(t)
	rows := 100_000
	if os.Getenv("LEVEE_NIGHTLY") != "" {
		rows = 1_000_000
	}
	pgtest.Exec(t, database, notes("ta")+`alter policy own on ta.note using (true);
		insert into ta.note select i, 'u1', 'body of a note', null from generate_series(5, `+strconv.Itoa(rows)+`) i; analyze ta.note`)
	c := startCase(t, Options{Tenants: []Tenant{visitors(t, database, "ta")}})
	before := allocated()
	for query, says := range map[string]string{
		`{ allNotes { nodes { body } } }`:                    "graphql.max_page",
		`{ allNotes(first: 1000000) { nodes { body } } }`:    "1000",
		`{ allNotes(last: 1001) { nodes { body } } }`:        "1000",
		`{ allNotes(first: -1) { nodes { body } } }`:         "negative",
		`{ allNotes(first: 2147483648) { nodes { body } } }`: "2147483648",
	} {
		if a := c.ask("ta", query); len(a.Errors) == 0 || !strings.Contains(a.Errors[0].Message, says) || a.Data["allNotes"] != nil {
			t.Errorf("%s: %d %.300s", query, a.status, a.text)
		}
	}
	if grown := allocated() - before; grown > 32<<20 {
		t.Errorf("%d MiB were allocated", grown>>20)
	}
	a := c.ask("ta", `{ allNotes(first: 1000) { nodes { body } pageInfo { hasNextPage } totalCount } }`)
	list, _ := a.Data["allNotes"].(map[string]any)
	if nodes, _ := list["nodes"].([]any); len(nodes) != 1000 || list["totalCount"] != float64(rows) || list["pageInfo"].(map[string]any)["hasNextPage"] != true {
		t.Errorf("a page: %d %.300s", a.status, a.text)
	}
}

func TestQ9ARowOf200MBIsRefusedWithoutBeingRead(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, notes("ta")+`create function ta.note_huge(n ta.note) returns text stable language sql as $$ select repeat('0123456789', 20000000) $$`)
	c := startCase(t, Options{Tenants: []Tenant{visitors(t, database, "ta")}})
	c.sees("ta", []string{"3", "4"}, sub(t, "u2"))
	before := allocated()
	a := c.ask("ta", `{ noteByRowId(rowId: "1") { huge } }`, sub(t, "u1"))
	if a.status != http.StatusBadRequest || a.code() != "RESPONSE_TOO_LARGE" || a.Data != nil {
		t.Errorf("%d %.300s", a.status, a.text)
	}
	if grown := allocated() - before; grown > 8<<20 {
		t.Errorf("%d MiB were allocated", grown>>20)
	}
	c.sees("ta", []string{"3", "4"}, sub(t, "u2"))
	if held := c.service.gates.answers.Stats().InUse; held != 0 {
		t.Errorf("%d bytes of answers are held", held)
	}
}

func TestQ9AMutationWhoseAnswerIsRefusedIsNotSaidToHaveFailed(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, notes("ta")+`create function ta.note_huge(n ta.note) returns text stable language sql as $$ select repeat('0123456789', 20000000) $$`)
	c := startCase(t, Options{Tenants: []Tenant{visitors(t, database, "ta")}})
	a := c.ask("ta", `mutation { createNote(input: {note: {rowId: "9", owner: "u1"}}) { note { huge } } }`, sub(t, "u1"))
	if line := c.masked(a, http.StatusOK, sqlgen.CodeUnknown); !strings.Contains(line, "200000") || len(a.Data) != 1 || a.Data["createNote"] != nil {
		t.Errorf("%.300s; the log has %q", a.text, line)
	}
	if held := c.service.gates.answers.Stats().InUse; held != 0 {
		t.Errorf("%d bytes of answers are held", held)
	}
}

// allocated is all that was ever allocated: what was freed again counts too.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}
