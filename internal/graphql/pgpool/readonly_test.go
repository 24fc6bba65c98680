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

// Prepared statements are no part of a transaction, so a function can have another in place of one of ours.
func TestQ3AReadingRequestThatReplacesWhatUndoesItLosesItsSession(t *testing.T) {
	const state = "select coalesce(current_setting('app.left', true), ''), current_setting('transaction_read_only')"
	for _, ours := range []string{"begin read only not deferrable", "savepoint levee", "rollback to savepoint levee", "commit"} {
		b, d, name := database(t, pgpool.Options{Budget: 1})
		pgtest.Exec(t, name, `create function usurp(ours text) returns text language plpgsql as $$ declare n text; begin
			select name into strict n from pg_prepared_statements where statement = ours;
			execute 'deallocate ' || n;
			execute 'prepare ' || n || ' as select 1';
			return set_config('app.left', 'left', false);
		end $$`)
		read := func(sql string) (got []string, err error) {
			err = d.Do(t.Context(), "key", pgpool.Request{ReadOnly: true, Idempotent: true, Statements: []pgpool.Statement{text(sql, &got)}})
			return got, err
		}
		if got, err := read(state); err != nil || !slices.Equal(got, []string{"", "on"}) {
			t.Fatalf("%q, %v", got, err)
		}
		if got, err := read("select usurp('" + ours + "')"); !slices.Equal(got, []string{"left"}) {
			t.Fatalf("%s was not replaced: %q, %v", ours, got, err)
		}
		for range 2 {
			if got, err := read(state); err != nil || !slices.Equal(got, []string{"", "on"}) {
				t.Errorf("after %s: %q, %v", ours, got, err)
			}
		}
		if s := b.Stats(); s.Opened != 2 {
			t.Errorf("after %s: %d connections", ours, s.Opened)
		}
	}
}

// A transaction that is serializable, READ ONLY and deferrable waits until nobody writes, and that before its time limit is set.
func TestAReadingRequestDoesNotWaitForWriters(t *testing.T) {
	_, d, name := database(t, pgpool.Options{Budget: 2})
	pgtest.Exec(t, name, "create table item (id int)")
	deferrable := []string{"alter database " + name + " set default_transaction_isolation = serializable", "alter database " + name + " set default_transaction_deferrable = on"}
	for _, sql := range deferrable {
		pgtest.Exec(t, name, sql)
	}
	see := observer(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- d.Do(ctx, "key", pgpool.Request{Statements: []pgpool.Statement{text("insert into item values (1)", nil), text("select pg_sleep(60)", nil)}})
	}()
	until(t, 10*time.Second, "somebody writes", func() bool {
		return see("select count(*) from pg_stat_activity where state = 'active' and wait_event = 'PgSleep' and datname = '"+name+"'") == "1"
	})
	reading, stop := context.WithTimeout(t.Context(), 5*time.Second)
	defer stop()
	var got []string
	err := d.Do(reading, "key", pgpool.Request{ReadOnly: true, Statements: []pgpool.Statement{text("select count(*) from item", &got)}})
	if err != nil || !slices.Equal(got, []string{"0"}) {
		t.Errorf("%v, %v", got, err)
	}
	cancel()
	<-ended
}

func TestAReadingRequestBehindAPoolerIsAsAnyOther(t *testing.T) {
	_, d, _ := database(t, pgpool.Options{Budget: 1, Pooler: true})
	if got := askReading(t, d, "select 1"); !slices.Equal(got, []string{"1"}) {
		t.Fatal(got)
	}
}
