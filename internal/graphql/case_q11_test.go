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

// The full size is asked of the command by the nightly tests.
func TestQ11ColdTenantsAtTheSameMomentAreBuiltOneByOneAndOnceEach(t *testing.T) {
	const tenants, callers = 20, 3 // fewer than half of the places at the door, so that none is shed
	database, names := pgtest.Database(t), schemaNames(tenants)
	pgtest.Exec(t, database, notes(names...))
	c := startCase(t, Options{Tenants: tenantsOf(t, database, names), Wait: 20 * time.Second})
	token := sub(t, "u1")
	done := make(chan struct{})
	var all sync.WaitGroup
	for _, name := range names {
		for range callers {
			all.Go(func() { c.ownRows(name, token) })
		}
	}
	go func() { all.Wait(); close(done) }()
	within(t, 60*time.Second, "all are answered", func() bool {
		if st := c.service.cache.Stats(); st.Building > 1 {
			t.Errorf("%d builds at once", st.Building)
		}
		select {
		case <-done:
			return true
		default:
			return false
		}
	})
	if st := c.service.Status().Instances; st.Begun != tenants || st.Failed != 0 {
		t.Errorf("%d builds for %d tenants, %d failed", st.Begun, tenants, st.Failed)
	}
}

func TestQ11AFailedBuildFreesItsSlotAndIsTriedAgain(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, notes("ta"))
	c := startCase(t, Options{Tenants: tenantsOf(t, database, []string{"late", "ta"})})
	if a := c.ask("late", allNotes); a.status != http.StatusInternalServerError || a.code() != "INTERNAL_ERROR" {
		t.Errorf("%d %s", a.status, a.text)
	}
	if !c.ownRows("ta", sub(t, "u1")) {
		t.Error("another tenant was turned away")
	}
	pgtest.Exec(t, database, notes("late"))
	within(t, 10*time.Second, "it is built", func() bool {
		a := c.ask("late", allNotes, sub(t, "u1"))
		return a.status == http.StatusOK && len(a.Errors) == 0
	})
}

func TestQ11SchemaChangesOneAfterTheOtherLeaveNothing(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, notes("ta"))
	c := startCase(t, Options{Tenants: []Tenant{visitors(t, database, "ta")}, Watch: 20 * time.Millisecond})
	token := sub(t, "u1")
	change := func(n int) {
		pgtest.Exec(t, database, fmt.Sprintf("alter table ta.note add column c%d int", n))
		within(t, 10*time.Second, "the column is served", func() bool {
			return len(c.ask("ta", fmt.Sprintf("{ allNotes { nodes { c%d } } }", n), token).Errors) == 0
		})
	}
	settled := func() int64 {
		within(t, 10*time.Second, "former instances are gone", func() bool {
			st := c.service.Status().Instances
			return st.Resident == 1 && st.Draining+st.Closing+st.Building == 0
		})
		return liveHeap()
	}
	const warm, changes = 4, 14
	for n := range warm {
		change(n)
	}
	before := settled()
	for n := warm; n < changes; n++ {
		change(n)
	}
	if after := settled(); after > before+before/10 {
		t.Errorf("%d kB live after %d changes, %d kB after %d", before>>10, warm, after>>10, changes)
	}
	if n := c.service.Status().Instances.Evicted["renewed"]; n < changes-1 {
		t.Errorf("void: %d instances were renewed", n)
	}
}

func TestQ13AChangeOfOneSchemaRebuildsItsTenantAlone(t *testing.T) {
	const tenants = 10
	database, names := pgtest.Database(t), schemaNames(tenants)
	pgtest.Exec(t, database, notes(names...))
	c := startCase(t, Options{Tenants: tenantsOf(t, database, names), Watch: time.Millisecond})
	token := sub(t, "u1")
	for _, name := range names {
		c.ownRows(name, token)
	}
	pgtest.Exec(t, database, "create table t1.more(id int primary key, body text); grant select on t1.more to visitor; alter table t1.note add column more int; analyze")
	within(t, 10*time.Second, "the change is served", func() bool {
		return len(c.ask("t1", "{ allMores { nodes { body } } allNotes { nodes { more } } }", token).Errors) == 0
	})
	for range 5 { // each of them is looked at again
		for _, name := range names {
			if !c.ownRows(name, token) {
				t.Errorf("%s was turned away", name)
			}
		}
		within(t, 10*time.Second, "all have been looked at", func() bool { return len(c.service.watch) == 0 })
	}
	st := c.service.Status().Instances
	if st.Begun != tenants+1 || st.Evicted["renewed"] != 1 {
		t.Errorf("%d builds for %d tenants, one of which has changed: %+v", st.Begun, tenants, st)
	}
}

func TestQ13FiveHundredRequestsAtOnceToAColdTenantKnowAllOfItsColumns(t *testing.T) {
	database, names := pgtest.Database(t), schemaNames(5)
	pgtest.Exec(t, database, notes(names...)+`do $$ begin for i in 1..100 loop execute format('create table t3.thing_%s(id int primary key, title text, note_id bigint references t3.note)', i);
		execute format('grant select on t3.thing_%s to visitor', i); end loop; end $$`)
	c := startCase(t, Options{Tenants: tenantsOf(t, database, names), Wait: 20 * time.Second})
	token := sub(t, "u1")
	var all sync.WaitGroup
	for i := range 500 {
		query := fmt.Sprintf("{ allThing%dS { nodes { rowId title noteByNoteId { body } } } allNotes { nodes { rowId body } } }", 1+i%100)
		all.Go(func() {
			a := c.ask("t3", query, token)
			if ids, _ := a.rows(); (a.status != http.StatusOK || len(a.Errors) > 0 || strings.Join(ids, " ") != "1 2") && !a.turnedAway() {
				t.Errorf("%d %.300s", a.status, a.text)
			}
		})
	}
	all.Wait()
	st := c.service.Status()
	if st.Instances.Begun != 1 || st.Instances.Failed != 0 {
		t.Errorf("%+v", st.Instances)
	}
	t.Logf("%+v", st.Answers)
}
