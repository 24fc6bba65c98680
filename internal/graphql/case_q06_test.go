package graphql

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leveehq/levee/internal/pglocal/pgtest"
)

// napper occupies n connections with requests that nap, until the func returned is called.
func (c *caseRig) napper(tenant, database string, n int) (wake func()) {
	ctx, leave := context.WithCancel(c.Context())
	var all sync.WaitGroup
	for range n {
		all.Go(func() { _, _ = c.try(ctx, tenant, `{ nap(seconds: 20) }`) })
	}
	see := observer(c.T)
	within(c.T, 10*time.Second, "all nap", func() bool {
		return see(connectionsTo(database, "and state = 'active' and query ilike '%nap%'")) == strconv.Itoa(n)
	})
	return func() { leave(); all.Wait() }
}

func TestQ6AFullPoolTurnsRequestsAndBuildsAwayInTime(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, notes("ta", "tb"))
	const wait = time.Second
	c := startCase(t, Options{Tenants: []Tenant{visitors(t, database, "ta"), visitors(t, database, "tb")}, Connections: 2, Wait: wait, Timeout: time.Minute})
	c.sees("ta", []string{"1", "2"}, sub(t, "u1"))
	wake := c.napper("ta", database, 2)
	began := time.Now()
	var all sync.WaitGroup
	for i := range 10 {
		tenant := "ta"
		if i%2 == 1 {
			tenant = "tb" // cold: it is built first
		}
		all.Go(func() {
			if a := c.ask(tenant, allNotes, sub(t, "u1")); !a.turnedAway() || a.code() != CodeOverloaded {
				t.Errorf("%s: %d %s", tenant, a.status, a.text)
			}
		})
	}
	all.Wait()
	if took := time.Since(began); took < wait/2 || took > 5*time.Second {
		t.Errorf("the last was answered after %v", took)
	}
	wake()
	c.sees("ta", []string{"1", "2"}, sub(t, "u1"))
	within(t, 5*time.Second, "the cold one is built", func() bool { return c.ask("tb", allNotes).status == http.StatusOK })
}

func TestQ6RequestsOfManyFieldsShareTwoConnectionsWithoutADeadlock(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, notes("ta", "tb"))
	c := startCase(t, Options{Tenants: []Tenant{visitors(t, database, "ta"), visitors(t, database, "tb")}, Connections: 2, Wait: 20 * time.Second})
	see := observer(t)
	var query strings.Builder
	for i := range 5 {
		query.WriteString(" n" + strconv.Itoa(i) + `: nap(seconds: 0.002) a` + strconv.Itoa(i) + ": allNotes { nodes { rowId } }")
	}
	done := make(chan struct{})
	var all sync.WaitGroup
	for i := range 50 {
		tenant := []string{"ta", "tb"}[i%2]
		all.Go(func() {
			a := c.ask(tenant, "{"+query.String()+" }", sub(t, "u1"))
			if whole := a.status == http.StatusOK && len(a.Errors) == 0 && len(a.Data) == 10 && strings.Count(a.text, `"rowId":"2"`) == 5; !whole && !a.turnedAway() {
				t.Errorf("%d %s", a.status, a.text)
			}
		})
	}
	go func() { all.Wait(); close(done) }()
	most := 0
	within(t, 30*time.Second, "all are answered", func() bool {
		n, err := strconv.Atoi(see(connectionsTo(database, "")))
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, n)
		select {
		case <-done:
			return true
		default:
			return false
		}
	})
	if most == 0 || most > 2 {
		t.Errorf("PostgreSQL saw %d connections", most)
	}
}
