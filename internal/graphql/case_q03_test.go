package graphql

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/leveehq/levee/internal/graphql/sqlgen"
	"github.com/leveehq/levee/internal/pglocal/pgtest"
)

func TestQ3NothingOfASessionReachesTheNextRequest(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, notes("ta"))
	c := startCase(t, Options{Tenants: []Tenant{visitors(t, database, "ta")}, Connections: 1})
	c.sees("ta", []string{"1", "2"}, sub(t, "u1"))
	// One statement after the other, in one transaction: the second fails.
	a := c.ask("ta", `{ allNotes { nodes { rowId } } fails(kind: "zero") }`, sub(t, "u1"))
	if a.status != http.StatusOK || len(a.Errors) != 1 {
		t.Errorf("%d %s", a.status, a.text)
	}
	c.sees("ta", nil)
	c.sees("ta", []string{"3", "4"}, sub(t, "u2"))
	for _, set := range [][2]string{{"role", "visitor"}, {"jwt.claims.sub", "u1"}, {"search_path", "pg_temp"}, {"row_security", "off"}, {"statement_timeout", "1"}} {
		a := c.ask("ta", `mutation { setIt(input: {name: "`+set[0]+`", value: "`+set[1]+`"}) { result } }`, sub(t, "u2"))
		if a.status != http.StatusOK || len(a.Errors) != 0 {
			t.Fatalf("%v: %d %s", set, a.status, a.text)
		}
		c.sees("ta", nil)
		c.sees("ta", []string{"3", "4"}, sub(t, "u2"))
	}
	if opened := c.service.pool.Stats().Opened; opened != 1 {
		t.Errorf("%d connections were made: void, if each request had its own", opened)
	}
}

func TestQ3ABackendThatIsTerminatedMidwayIsAnErrorOfItsRequestAlone(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, notes("ta"))
	c := startCase(t, Options{Tenants: []Tenant{visitors(t, database, "ta")}, Connections: 1})
	see := observer(t)
	c.sees("ta", []string{"1", "2"}, sub(t, "u1"))
	ended := make(chan answered)
	go func() {
		ended <- c.ask("ta", `mutation { napAndWrite(input: {seconds: 30, rowId: "10"}) { result } }`, sub(t, "u1"))
	}()
	napping := connectionsTo(database, "and state = 'active' and query ilike '%nap%'")
	within(t, 10*time.Second, "the mutation naps", func() bool { return see(napping) == "1" })
	see("select pg_terminate_backend(pid) from pg_stat_activity where datname = '" + database + "' and usename = 'app'")
	a := <-ended
	if line := c.masked(a, http.StatusOK, sqlgen.CodeUnknown); !strings.Contains(line, "lost a connection") || len(a.Data) != 1 || a.Data["napAndWrite"] != nil {
		t.Errorf("%s; the log has %q", a.text, line)
	}
	if a.header.Get("Retry-After") != "" {
		t.Error("a client is told to do it again")
	}
	c.sees("ta", []string{"3", "4"}, sub(t, "u2"))
	c.sees("ta", []string{"1", "2"}, sub(t, "u1"))
	c.sees("ta", nil)
}
