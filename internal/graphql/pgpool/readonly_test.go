package pgpool_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/leveehq/levee/internal/graphql/pgpool"
	"github.com/leveehq/levee/internal/pglocal/pgtest"
)

func TestAReadingRequestThatWritesChangesNothing(t *testing.T) {
	b, d, name := database(t, pgpool.Options{Budget: 1})
	pgtest.Exec(t, name, `create table mark (id int);
		create function scribble() returns int language plpgsql as $$ begin insert into mark values (1); return 1; end $$`)
	for range 3 {
		if _, err := tryReading(d, "select scribble()"); code(err) != "25006" {
			t.Fatalf("%v", err)
		}
		if got := askReading(t, d, "select count(*) from mark")[0]; got != "0" {
			t.Fatalf("%s rows", got)
		}
	}
	ask(t, d, "select scribble()")
	if got := askReading(t, d, "select count(*) from mark")[0]; got != "1" {
		t.Fatalf("%s rows", got)
	}
	if s := b.Stats(); s.Opened != 1 {
		t.Errorf("%d connections were opened for requests that failed", s.Opened)
	}
}

func TestAReadingRequestIsRepeatedIfItsStatementsAreGone(t *testing.T) {
	b, d, name := database(t, pgpool.Options{Budget: 1})
	pgtest.Exec(t, name, `create table item (id int); insert into item values (1);
		create function forget() returns text language plpgsql as $$ begin execute 'deallocate all'; return 'gone'; end $$`)
	item := func(when string) {
		t.Helper()
		if got := askReading(t, d, "select id from item"); !slices.Equal(got, []string{"1"}) {
			t.Fatalf("%s: %v", when, got)
		}
	}
	item("at first")
	pgtest.Exec(t, name, "alter table item alter id type text")
	item("its type has changed")
	ask(t, d, "select forget()")
	item("all is deallocated")
	if s := b.Stats(); s.Repeated != 2 {
		t.Errorf("%d repeated", s.Repeated)
	}
	if got := askReading(t, d, "select forget()"); !slices.Equal(got, []string{"gone"}) {
		t.Fatalf("what deallocates what comes behind it: %v", got)
	}
	item("and once more")
	if s := b.Stats(); s.Opened != 1 {
		t.Errorf("%d connections", s.Opened)
	}
}

func TestAReadingRequestCountsAsCommitted(t *testing.T) {
	_, d, name := database(t, pgpool.Options{Budget: 1})
	for range 10 {
		askReading(t, d, "select 1")
	}
	askReading(t, d, "select pg_stat_force_next_flush()")
	see := observer(t)
	until(t, 10*time.Second, "the statistics are there", func() bool {
		return see("select xact_commit >= 10 from pg_stat_database where datname = '"+name+"'") == "t"
	})
	if got := see("select xact_rollback from pg_stat_database where datname = '" + name + "'"); got != "0" {
		t.Errorf("%s transactions were rolled back", got)
	}
}

func TestAReadingRequestMayHaveSettingsOfItsTransaction(t *testing.T) {
	_, d, _ := database(t, pgpool.Options{Budget: 1})
	got := askReading(t, d, "select current_setting('transaction_read_only')", pgpool.Setting{Name: "Transaction_Read_Only", Value: "off"})
	if !slices.Equal(got, []string{"off"}) {
		t.Fatal(got)
	}
}

func TestAReadingRequestWhoseCallerLeavesKeepsNoLock(t *testing.T) {
	b, d, _ := database(t, pgpool.Options{Budget: 1})
	see := observer(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		var out []string
		ended <- d.Do(ctx, "key", pgpool.Request{ReadOnly: true, Statements: []pgpool.Statement{text("select pg_advisory_lock(77), pg_sleep(100)", &out)}})
	}()
	until(t, 5*time.Second, "it sleeps", func() bool {
		return see("select count(*) from pg_locks where locktype = 'advisory' and objid = 77") == "1"
	})
	cancel()
	if err := <-ended; err == nil {
		t.Fatal("it was served")
	}
	askReading(t, d, "select 1")
	if got := see("select count(*) from pg_locks where locktype = 'advisory' and objid = 77"); got != "0" {
		t.Errorf("%s locks are held", got)
	}
	if s := b.Stats(); s.Opened != 1 {
		t.Errorf("%d connections", s.Opened)
	}
}

func TestAReadingRequestBehindAPoolerIsAsAnyOther(t *testing.T) {
	_, d, _ := database(t, pgpool.Options{Budget: 1, Pooler: true})
	if got := askReading(t, d, "select 1"); !slices.Equal(got, []string{"1"}) {
		t.Fatal(got)
	}
}
