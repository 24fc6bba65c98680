package graphql

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/leveehq/levee/internal/pglocal/pgtest"
)

func TestQ14AClientThatLeavesEndsItsStatementAndTheConnectionStaysGood(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, notes("ta"))
	c := startCase(t, Options{Tenants: []Tenant{visitors(t, database, "ta")}, Connections: 1, Timeout: time.Minute})
	see := observer(t)
	c.sees("ta", []string{"1", "2"}, sub(t, "u1"))
	ctx, leave := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { _, err := c.try(ctx, "ta", `{ nap(seconds: 60) }`, sub(t, "u1")); ended <- err }()
	napping := connectionsTo(database, "and state = 'active' and query ilike '%nap%'")
	within(t, 10*time.Second, "it naps", func() bool { return see(napping) == "1" })
	leave()
	if err := <-ended; err == nil {
		t.Error("it was answered")
	}
	within(t, 2*time.Second, "nobody naps", func() bool { return see(napping) == "0" })
	for range 20 { // a late cancellation would hit one of these
		c.sees("ta", []string{"3", "4"}, sub(t, "u2"))
		c.sees("ta", nil)
	}
	if s := c.service.pool.Stats(); s.Opened != 1 || s.Canceled != 1 {
		t.Errorf("%+v", s)
	}
}

func TestQ14ATimeLimitEndsItsStatementAndNeverRoundsToNone(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, notes("ta"))
	for _, limit := range []time.Duration{500 * time.Millisecond, 400 * time.Microsecond} {
		c := startCase(t, Options{Tenants: []Tenant{visitors(t, database, "ta")}, Connections: 1, Timeout: limit})
		c.ask("ta", `{ __typename }`) // builds
		began := time.Now()
		a := c.ask("ta", `{ nap(seconds: 30) }`)
		took := time.Since(began)
		if a.status != http.StatusOK || a.code() != "STATEMENT_TIMEOUT" || took > 10*time.Second || took < limit {
			t.Errorf("%v: after %v %d %s", limit, took, a.status, a.text)
		}
		if limit > time.Millisecond {
			c.sees("ta", []string{"1", "2"}, sub(t, "u1"))
		}
		// Another service with another limit is not affected, nor is who reads the catalog.
		other := startCase(t, Options{Tenants: []Tenant{visitors(t, database, "ta")}, Connections: 1})
		if a := other.ask("ta", `{ nap(seconds: 0.6) }`); a.status != http.StatusOK || len(a.Errors) > 0 {
			t.Errorf("%d %s", a.status, a.text)
		}
	}
}

func TestQ14AMutationWhoseClientLeavesIsWholeOrNotAtAll(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, notes("ta"))
	c := startCase(t, Options{Tenants: []Tenant{visitors(t, database, "ta")}, Connections: 4})
	const tries, first = 40, 100
	for i := range tries {
		ctx, leave := context.WithTimeout(t.Context(), time.Duration(i)*2*time.Millisecond)
		_, _ = c.try(ctx, "ta", fmt.Sprintf(`mutation { napAndWrite(input: {seconds: 0.02, rowId: "%d"}) { result } }`, first+2*i), sub(t, "u1"))
		leave()
	}
	within(t, 10*time.Second, "all have ended", func() bool { return c.service.pool.Stats().InUse == 0 })
	see := observerOf(t, database)
	if half := see(fmt.Sprintf("select count(*) from (select id / 2 from ta.note where id >= %d group by id / 2 having count(*) <> 2) half", first)); half != "0" {
		t.Errorf("%s are half done", half)
	}
	whole, err := strconv.Atoi(see(fmt.Sprintf("select count(*) / 2 from ta.note where id >= %d", first)))
	if err != nil || whole == 0 || whole == tries {
		t.Errorf("void: %d of %d are done", whole, tries)
	}
}
