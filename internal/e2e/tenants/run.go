package tenants

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/leveehq/levee/internal/e2e/rig"
)

// late is what an answer may take beyond what it may wait, on a busy machine.
const late = 1500 * time.Millisecond

// Run checks all of it, with so much mixed load, so many requests at once to a pool of one connection, and so many deaths of PostgreSQL.
func Run(t *testing.T, mixed time.Duration, requests, deaths int) {
	c := newCluster(t)
	t.Run("the budget of connections holds", func(t *testing.T) { c.budgetHolds(t, mixed) })
	t.Run("a pool that is full sheds in time", c.saturationIsShed)
	t.Run("pools of one do not deadlock", func(t *testing.T) { c.poolsOfOneDoNotDeadlock(t, requests) })
	t.Run("PostgreSQL may be killed", func(t *testing.T) { c.restartsAreSurvived(t, deaths) })
}

// budgetHolds asks all tenants at once for some time: the command never has more connections than its budget.
func (c *cluster) budgetHolds(t *testing.T, d time.Duration) {
	s := c.serve(t, budget)
	for i := range count {
		served(t, s, name(i))
	}
	end := c.watch(t, "")
	l := startLoad(t, s, list, first, five, shortNap, write)
	began := time.Now()
	until(t, d+20*time.Second, "all tenants are served", func() bool { return time.Since(began) > d && l.servedSince(began) == count })
	l.stop()
	most, looks := end()
	t.Logf("%v; at most %d connections, seen %d times", l, most, looks)
	if most > budget || most < budget/2 || looks < 50 {
		t.Errorf("%d connections of %d, seen %d times", most, budget, looks)
	}
	c.writtenAsTold(t, l)
	if l.mu.slowest > 2*wait+late { // at the door, and for a connection: all instances are there
		t.Errorf("the slowest took %v", l.mu.slowest)
	}
}

// saturationIsShed fills all connections with what takes long: whoever comes then is turned away within the wait, by the right code, and
// served when it is over.
func (c *cluster) saturationIsShed(t *testing.T) {
	s := c.serve(t, budget)
	for i := range 10 {
		served(t, s, name(i))
	}
	ctx, cancel := context.WithCancel(t.Context())
	var naps sync.WaitGroup
	for i := range 2 * budget {
		naps.Go(func() {
			for ctx.Err() == nil {
				a, err := ask(ctx, s.HTTP, name(i%2), nap(20))
				if err == nil && a.good() || err != nil && !errors.Is(err, context.Canceled) {
					t.Errorf("a nap of 20 s: %+v, %v", a, err)
				}
			}
		})
	}
	sleeping := c.watchFor(t, connections+" and wait_event = 'PgSleep'")
	until(t, 20*time.Second, "all connections are taken", func() bool { return sleeping() == budget })
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			a, err := ask(t.Context(), s.HTTP, name(2+i%8), five())
			if err != nil || a.code != "SERVICE_OVERLOADED" || a.took > wait+late {
				t.Errorf("beside a full pool: %+v, %v", a, err)
			}
		})
	}
	all.Wait()
	cancel()
	naps.Wait()
	until(t, 5*time.Second, "the naps have ended", func() bool { return sleeping() == 0 })
	served(t, s, name(5))
}

// poolsOfOneDoNotDeadlock asks for many fields at once where each database has one connection: each request is served as a whole or
// turned away in time.
func (c *cluster) poolsOfOneDoNotDeadlock(t *testing.T, requests int) {
	s := c.serve(t, 1)
	end := c.watch(t, name(0))
	var all sync.WaitGroup
	var mu sync.Mutex
	codes := map[string]int{}
	for range requests { // of a tenant that is not resident
		all.Go(func() {
			a, err := ask(t.Context(), s.HTTP, name(0), five())
			mu.Lock()
			defer mu.Unlock()
			codes[a.code]++
			if err != nil || a.took > 2*wait+late { // for the instance, which needs a connection too, and then for one's own
				t.Errorf("%+v, %v", a, err)
			}
		})
	}
	all.Wait()
	most, looks := end()
	t.Logf("%v; at most %d connections, seen %d times", codes, most, looks)
	if most != 1 || codes[""] == 0 {
		t.Errorf("%d connections; %v", most, codes)
	}
	served(t, s, name(0))
}

// restartsAreSurvived kills PostgreSQL under load, in two ways in turn: every tenant is served within five seconds of its return, and
// what was told of mutations is true.
func (c *cluster) restartsAreSurvived(t *testing.T, times int) {
	s := c.serve(t, budget)
	end := c.watch(t, "")
	l := startLoad(t, s, list, first, five, shortNap, write)
	for i := range times {
		began := time.Now()
		until(t, 20*time.Second, "all tenants are served", func() bool { return l.servedSince(began) == count })
		failed := l.failed()
		if i%2 == 0 {
			c.Stop()
		} else {
			c.Kill()
		}
		until(t, 5*time.Second, "requests are turned away", func() bool { return l.failed() > failed+2*clients })
		c.start(t)
		up := time.Now()
		until(t, 5*time.Second, "all tenants are served again", func() bool { return l.servedSince(up) == count })
		t.Logf("served again after %v", time.Since(up).Round(time.Millisecond))
	}
	l.stop()
	most, looks := end()
	t.Logf("%v; at most %d connections, seen %d times", l, most, looks)
	c.writtenAsTold(t, l)
	if most > budget || l.mu.codes["DATABASE_UNAVAILABLE"] == 0 {
		t.Errorf("%d connections; %v", most, l)
	}
	if err := errors.Join(s.WaitReady(late), s.Stop()); err != nil {
		t.Errorf("the process does not live: %v", err)
	}
}

func served(t testing.TB, s *rig.Server, tenant string) {
	t.Helper()
	if a, err := ask(t.Context(), s.HTTP, tenant, list()); err != nil || !a.good() {
		t.Errorf("%+v, %v", a, err)
	}
}
