package graphql

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/leveehq/levee"
	"github.com/leveehq/levee/governor"
	"github.com/leveehq/levee/internal/pglocal/pgtest"
	"github.com/leveehq/levee/internal/raceless"
)

// schemaNames are tenants, all of one database.
func schemaNames(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("t%d", i))
	}
	return names
}

func tenantsOf(t *testing.T, database string, names []string) (all []Tenant) {
	for _, name := range names {
		all = append(all, visitors(t, database, name))
	}
	return all
}

// ownRows holds that an answer has this tenant's rows of u1, or says that there is no room. It may be called from any goroutine.
func (c *caseRig) ownRows(tenant string, token with) (served bool) {
	c.Helper()
	a := c.ask(tenant, allNotes, token)
	ids, bodies := a.rows()
	switch {
	case a.status == http.StatusOK && len(a.Errors) == 0 && slices.Equal(ids, []string{"1", "2"}) && slices.Equal(bodies, []string{tenant}):
		return true
	case !a.turnedAway():
		c.Errorf("%s: %d %.300s", tenant, a.status, a.text)
	}
	return false
}

// The full size, 200 tenants of 100 tables in 1 GiB, is asked of the command by the nightly tests.
func TestQ1ManyTenantsShareABudgetOfBytesAndEachSeesItsOwnRows(t *testing.T) {
	const tenants, plans = 12, 2 * mib
	database, names := pgtest.Database(t), schemaNames(tenants)
	pgtest.Exec(t, database, notes(names...))
	c := startCase(t, Options{Tenants: tenantsOf(t, database, names), Memory: 64 * mib, MaxResponse: mib, Connections: 4, PlanBytes: plans, Wait: 20 * time.Second})
	token := sub(t, "u1")
	checked := func(tenant string) {
		if !c.ownRows(tenant, token) {
			t.Errorf("%s was turned away", tenant)
		}
		if st := c.service.Status().Instances; st.Charged > st.Budget || int64(st.Resident) > st.Budget/plans {
			t.Errorf("above the budget: %+v", st)
		}
	}
	var all sync.WaitGroup
	for worker := range 4 {
		all.Go(func() {
			zipf := rand.NewZipf(rand.New(rand.NewPCG(1, uint64(worker))), 1.1, 1, tenants-1)
			for range 10 {
				checked(names[zipf.Uint64()])
			}
		})
	}
	all.Wait()
	for range 2 {
		for _, name := range names {
			checked(name)
		}
	}
	st := c.service.Status()
	t.Logf("%d builds in %.1f s; capacity %d", st.Instances.Built, st.Instances.BuildSeconds, st.Instances.Capacity)
	if n := st.Instances.Capacity; n < 2 || n >= tenants || st.Instances.Evicted["room"] == 0 {
		t.Errorf("void: %+v", st.Instances)
	}
	for _, in := range st.Tenants {
		if in.Bytes < plans || in.Bytes > 2*plans || !slices.Contains(names, in.Tenant) {
			t.Errorf("status shows %+v", in)
		}
	}
}

func TestQ1UnderPressureAColdTenantIsTurnedAwayWhileWarmOnesAnswer(t *testing.T) {
	if raceless.Again(t) {
		return
	}
	database, names := pgtest.Database(t), schemaNames(9)
	pgtest.Exec(t, database, notes(names...))
	k := kernel(t, levee.Options{MemoryLimit: 1 << 30, EvictMark: 0.50, ShedMark: 0.55})
	c := startCase(t, Options{Kernel: k, Tenants: tenantsOf(t, database, names)})
	ctx, stop := contextOf(t)
	ended := make(chan error, 1)
	go func() { ended <- k.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	token, warm, cold := sub(t, "u1"), names[:8], names[8]
	for _, name := range warm {
		c.ownRows(name, token)
	}
	debug.FreeOSMemory()
	within(t, 10*time.Second, "there is room to begin with", func() bool { return k.Level() == governor.Normal })
	ballast := make([]byte, 640<<20)
	for i := 0; i < len(ballast); i += 4096 {
		ballast[i] = 1
	}
	within(t, 10*time.Second, "memory is short", func() bool { return k.Level() == governor.Shed })
	hot := warm[len(warm)-1]
	if !c.ownRows(hot, token) {
		t.Error("a warm tenant was turned away")
	}
	if a := c.ask(cold, allNotes, token); !a.turnedAway() || a.code() != CodeOverloaded {
		t.Errorf("a cold tenant: %d %s", a.status, a.text)
	}
	if !c.ownRows(hot, token) {
		t.Error("a warm tenant was turned away")
	}
	ballast[0]++
	ballast = nil
	debug.FreeOSMemory()
	within(t, 20*time.Second, "the cold tenant is served", func() bool { return c.ownRows(cold, token) })
}

// three is a service of three tenants with a database each, of which two may be resident.
func three(t *testing.T) (c *caseRig, databases []string) {
	base := pgtest.Database(t)
	var o Options
	for _, name := range []string{"a", "b", "c"} {
		database := base + "_" + name
		drop := fmt.Sprintf("drop database if exists %q with (force)", database)
		pgtest.Exec(t, "postgres", drop)
		pgtest.Exec(t, "postgres", fmt.Sprintf("create database %q", database))
		t.Cleanup(func() { pgtest.Exec(t, "postgres", drop) })
		pgtest.Exec(t, database, notes(name))
		o.Tenants = append(o.Tenants, visitors(t, database, name))
		databases = append(databases, database)
	}
	o.MaxInstances, o.Timeout = 2, time.Minute
	return startCase(t, o), databases
}

func TestQ2AnInstanceInUseServesToItsEndAndItsConnectionsCloseAfterIt(t *testing.T) {
	c, databases := three(t)
	see, token := observer(t), sub(t, "u1")
	c.ownRows("a", token)
	ended := make(chan answered, 1)
	go func() { ended <- c.ask("a", `{ nap(seconds: 2) who }`, token) }()
	napping := connectionsTo(databases[0], "and state = 'active' and query ilike '%nap%'")
	within(t, 10*time.Second, "a naps", func() bool { return see(napping) == "1" })
	for range 2 { // there is room for one of them beside a
		for _, name := range []string{"b", "c"} {
			if !c.ownRows(name, token) {
				t.Errorf("%s was turned away", name)
			}
		}
	}
	c.service.cache.EvictWhere(func(key instanceKey) bool { return c.service.tenants.get(key).name == "a" })
	if st := c.service.Status().Instances; st.Draining != 1 {
		t.Errorf("void: a does not drain: %+v", st)
	}
	c.ownRows("b", token)
	if see(napping) != "1" {
		t.Error("void: a has woken")
	}
	if a := <-ended; a.status != http.StatusOK || len(a.Errors) > 0 || a.Data["who"] != "app visitor u1 " {
		t.Errorf("the one that was in use: %d %s", a.status, a.text)
	}
	within(t, 5*time.Second, "the connections of a are closed", func() bool { return see(connectionsTo(databases[0], "")) == "0" })
	within(t, 5*time.Second, "nothing drains", func() bool {
		st := c.service.Status().Instances
		return st.Draining+st.Closing == 0
	})
	if !c.ownRows("a", token) {
		t.Error("a was turned away")
	}
}

// The full length, 60 s, is asked of the command by the nightly tests.
func TestQ2ThreeTenantsInRoomForTwoAreServedOrTurnedAwayWithoutNeedlessBuilds(t *testing.T) {
	c, databases := three(t)
	token := sub(t, "u1")
	end := time.Now().Add(5 * time.Second / 2)
	var all sync.WaitGroup
	var mu sync.Mutex
	served := 0
	for i := range 50 {
		all.Go(func() {
			for n := i; time.Now().Before(end); n++ {
				ok := c.ownRows([]string{"a", "b", "c"}[n%3], token)
				mu.Lock()
				if ok {
					served++
				}
				mu.Unlock()
				if st := c.service.cache.Stats(); st.Resident+st.Building > 2 {
					t.Errorf("%+v", st)
				}
			}
		})
	}
	all.Wait()
	st := c.service.Status().Instances
	evicted := uint64(0)
	for _, n := range st.Evicted {
		evicted += n
	}
	if st.Begun > evicted+3 || st.Failed > 0 || served == 0 {
		t.Errorf("%d served, %d builds, %d evictions, %d failed", served, st.Begun, evicted, st.Failed)
	}
	t.Logf("%d served, %d builds, %d evictions, shed %v", served, st.Begun, evicted, st.Shed)
	see := observer(t)
	within(t, 5*time.Second, "connections to two databases are left", func() bool {
		n := 0
		for _, database := range databases {
			if see(connectionsTo(database, "")) != "0" {
				n++
			}
		}
		return n <= 2
	})
}
