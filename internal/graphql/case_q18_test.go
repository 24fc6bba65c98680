package graphql

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leveehq/levee/internal/pglocal/pgtest"
)

// padded is a document of 10 kB that nobody else sends.
func padded(n int) string {
	return fmt.Sprintf("{ x%d: __typename query { %s} }", n, strings.Repeat("__typename ", 900))
}

// The full number, 200,000, is sent by the nightly tests to the command.
func TestQ18DocumentsThatNeverComeAgainLeaveMemoryFlat(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, notes("ta"))
	c := startCase(t, Options{Tenants: []Tenant{visitors(t, database, "ta")}})
	send := func(from, to int) int64 {
		for n := from; n < to; n++ {
			if a := c.ask("ta", padded(n)); a.status != http.StatusOK || a.Data[fmt.Sprintf("x%d", n)] != "Query" {
				t.Fatalf("%d %.300s", a.status, a.text)
			}
		}
		return liveHeap()
	}
	warm := send(0, 200)
	if grown := send(200, 800) - warm; grown > 512<<10 {
		t.Errorf("600 documents of 10 kB left %d kB", grown>>10)
	}
	if shown := c.service.Status().Tenants[0].Bytes; shown > 256*kib {
		t.Errorf("the instance is charged with %d bytes", shown)
	}
}

func TestQ18PreparedStatementsStayWithinTheirCapOnEachConnection(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, notes("ta"))
	c := startCase(t, Options{Tenants: []Tenant{visitors(t, database, "ta")}, Connections: 1})
	most := 0.0
	for n := range 400 {
		var b strings.Builder // a set of fields that is like no other
		for i, field := range []string{"rowId", "owner", "body", "parentId", "id", "noteByParentId { body }", "noteByParentId { owner }", "notesByParentId { totalCount }", "notesByParentId { nodes { rowId } }"} {
			if (n+1)&(1<<i) != 0 {
				b.WriteString(field + " ")
			}
		}
		a := c.ask("ta", "{ allNotes(first: 1) { nodes { "+b.String()+"} } }", sub(t, "u1"))
		if a.status != http.StatusOK || len(a.Errors) > 0 {
			t.Fatalf("%d %s", a.status, a.text)
		}
		if n%20 == 19 {
			now, _ := c.ask("ta", `{ prepared }`).Data["prepared"].(float64)
			most = max(most, now)
		}
	}
	if most > 100 || most < 50 {
		t.Errorf("%v statements are prepared on the connection, of at most 100", most)
	}
}

func TestQ18ThroughAPoolerOfTransactionsNothingIsPreparedTwice(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, notes("ta"))
	tenant := visitors(t, database, "ta")
	if tenant.DatabaseURL = pgtest.PgBouncer(t, "app", database, 2); tenant.DatabaseURL == "" {
		t.Fatal("pgbouncer is not installed: apt-get install pgbouncer")
	}
	c := startCase(t, Options{Tenants: []Tenant{tenant}, Connections: 8, Pooler: true})
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			who, want := []string{"u1", "u2"}[i%2], [][]string{{"1", "2"}, {"3", "4"}}[i%2]
			for range 10 {
				c.sees("ta", want, sub(t, who))
				c.sees("ta", nil)
				if a := c.ask("ta", `{ a: allNotes(first: 1) { nodes { rowId } } prepared who }`, sub(t, who)); a.status != http.StatusOK || len(a.Errors) > 0 || a.Data["prepared"] != 0.0 {
					t.Errorf("%d %s", a.status, a.text)
				}
			}
		})
	}
	all.Wait()
}

func TestQ18AfterDDLNoCachedPlanReachesAClient(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, notes("ta"))
	c := startCase(t, Options{Tenants: []Tenant{visitors(t, database, "ta")}, Connections: 2, Watch: time.Hour})
	see := observerOf(t, database)
	queries := []string{allNotes, `{ noteByRowId(rowId: "1") { body owner } }`, `{ allNotes(orderBy: [PRIMARY_KEY_DESC], first: 1) { nodes { owner body } totalCount } }`}
	const change = `mutation { updateNoteByRowId(input: {rowId: "1", notePatch: {body: "new"}}) { note { body owner } } }`
	token := sub(t, "u1")
	ask := func(after string) {
		for _, query := range queries {
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() {
					a := c.ask("ta", query, token)
					if a.code() == CodeRotating && a.turnedAway() { // a column has another type than it had
						return
					}
					if a.status != http.StatusOK || len(a.Errors) > 0 {
						t.Errorf("after %q: %d %s", after, a.status, a.text)
					}
				})
			}
			all.Wait()
		}
	}
	for range 3 {
		ask("nothing")
	}
	for _, ddl := range []string{"alter table ta.note alter body type varchar(99)", "alter table ta.note add column more int", "alter table ta.note alter owner type varchar(99)", "alter table ta.note drop column more",
		"drop policy own on ta.note; create policy own on ta.note using (owner = current_setting('jwt.claims.sub', true))", "analyze ta.note"} {
		if strings.Contains(ddl, "alter owner") {
			ddl = "drop policy own on ta.note; " + ddl + "; create policy own on ta.note using (owner = current_setting('jwt.claims.sub', true))"
		}
		see(ddl)
		ask(ddl)
		// A change names all columns of its row: it may fail until the new ones are known, which its error hastens.
		within(t, 10*time.Second, "changes work after "+ddl, func() bool { return len(c.ask("ta", change, token).Errors) == 0 })
		for _, query := range queries {
			within(t, 10*time.Second, query+" works after "+ddl, func() bool { return len(c.ask("ta", query, token).Errors) == 0 })
		}
	}
	if log := c.log.String(); strings.Contains(log, "cached plan") {
		t.Error("the log has an error of a cached plan")
	}
}
