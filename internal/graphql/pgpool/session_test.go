package pgpool_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/leveehq/levee/internal/graphql/pgpool"
	"github.com/leveehq/levee/internal/pglocal/pgtest"
)

const q3Schema = `
	do $$ begin create role pool_visitor nologin; exception when duplicate_object then null; end $$;
	create table note (id int primary key, owner text not null);
	insert into note values (1, 'u1'), (2, 'u1'), (3, 'u2'), (4, 'u2');
	alter table note enable row level security;
	create policy own on note to pool_visitor using (owner = current_setting('jwt.claims.sub', true));
	grant select, insert on note to pool_visitor;
	create function taint() returns text language plpgsql as $$ begin
		perform set_config('session_authorization', 'pool_visitor', false);
		perform set_config('role', 'pool_visitor', false);
		perform set_config('jwt.claims.sub', 'u1', false);
		perform set_config('app.nobody_knows', 'u1', false);
		perform set_config('search_path', 'pg_catalog', false);
		perform set_config('statement_timeout', '77777', false);
		return 'tainted';
	end $$;
	create function litter() returns text language plpgsql as $$ begin
		create temp table note as select 99 as id, 'u1'::text as owner;
		listen litter;
		perform pg_advisory_lock(4711);
		perform nextval('counter');
		execute 'declare held cursor with hold for select 1';
		return 'littered';
	end $$;
	create function leaflet() returns text language plpgsql as $$ begin
		listen leaflet;
		perform pg_advisory_lock(4712);
		execute 'declare held cursor with hold for select 1';
		return 'littered';
	end $$;
	create sequence counter;
	grant all on sequence counter to pool_visitor;
	create view sly as select taint() as tainted;
	grant select on sly to pool_visitor;`

func visitor(sub string) []pgpool.Setting {
	s := []pgpool.Setting{{Name: "role", Value: "pool_visitor"}}
	if sub != "" {
		s = append(s, pgpool.Setting{Name: "jwt.claims.sub", Value: sub})
	}
	return s
}

func sessions(t *testing.T, pooler, readOnly bool) {
	_, d, name := database(t, pgpool.Options{Budget: 1, Pooler: pooler})
	pgtest.Exec(t, name, q3Schema)
	try, ask := try, ask
	if readOnly {
		try, ask = tryReading, askReading
	}
	first := ask(t, d, "select pg_backend_pid()")
	anonymous := func(after string) {
		t.Helper()
		if got := ask(t, d, "select id from note order by 1", visitor("")...); len(got) != 0 {
			t.Fatalf("after %s an anonymous request sees %v", after, got)
		}
		got := ask(t, d, "select id from note order by 1", visitor("u2")...)
		if !slices.Equal(got, []string{"3", "4"}) {
			t.Fatalf("after %s u2 sees %v", after, got)
		}
		got = ask(t, d, "select current_user, coalesce(current_setting('jwt.claims.sub', true), ''), coalesce(current_setting('app.nobody_knows', true), ''), current_setting('statement_timeout'), current_schemas(false)::text")
		if !slices.Equal(got, []string{"postgres", "", "", "0", "{public}"}) {
			t.Fatalf("after %s a request without a role finds %v", after, got)
		}
	}
	anonymous("nothing")
	if _, err := try(d, "select 1/(id-2) from note order by id", visitor("u1")...); code(err) != "22012" {
		t.Fatalf("u1's request that fails: %v", err)
	}
	anonymous("a request that failed")
	ask(t, d, "select taint()", visitor("u1")...)
	anonymous("set_config(…, false)")
	ask(t, d, "select tainted from sly", visitor("u1")...)
	anonymous("a view that sets")
	if _, err := try(d, "select taint(), 1/0", visitor("u1")...); err == nil {
		t.Fatal("1/0")
	}
	anonymous("a set_config that failed")
	if readOnly {
		if _, err := try(d, "select litter()", visitor("u1")...); code(err) != "25006" {
			t.Fatalf("what writes: %v", err)
		}
	} else {
		ask(t, d, "select litter()", visitor("u1")...)
	}
	anonymous("temporary tables")
	ask(t, d, "select leaflet()", visitor("u1")...)
	anonymous("locks, channels and cursors")
	got := ask(t, d, "select (select count(*) from pg_locks where locktype = 'advisory'), (select count(*) from pg_listening_channels()), (select count(*) from pg_class where relpersistence = 't'), (select count(*) from pg_cursors where name = 'held')")
	if !slices.Equal(got, []string{"0", "0", "0", "0"}) {
		t.Fatalf("locks, channels, temporary tables, cursors: %v", got)
	}
	if got := ask(t, d, "select pg_backend_pid()"); !slices.Equal(got, first) {
		t.Errorf("another session, %v instead of %v", got, first)
	}
	if _, err := try(d, "select lastval()"); code(err) != "55000" {
		t.Fatalf("lastval of another's: %v", err)
	}
}

func TestQ3WhatOneRequestDoesToItsSessionDoesNotReachTheNext(t *testing.T) { sessions(t, false, false) }

func TestQ3WhatOneRequestDoesToItsSessionDoesNotReachTheNextBehindAPooler(t *testing.T) {
	sessions(t, true, false)
}

func TestQ3WhatAReadingRequestDoesToItsSessionDoesNotReachTheNext(t *testing.T) {
	sessions(t, false, true)
}

func TestQ3AConnectionThatIsTerminatedMidwayIsReplaced(t *testing.T) {
	_, d, name := database(t, pgpool.Options{Budget: 1})
	pgtest.Exec(t, name, q3Schema)
	_, err := try(d, "select id, pg_terminate_backend(pg_backend_pid()) from note")
	var gone *pgpool.Unavailable
	if !errors.As(err, &gone) || !gone.Ran {
		t.Fatalf("a terminated request: %v", err)
	}
	if got := ask(t, d, "select id from note order by 1", visitor("u2")...); !slices.Equal(got, []string{"3", "4"}) {
		t.Fatalf("u2 sees %v", got)
	}
}

func TestQ3ASessionThatCannotBeResetIsDiscarded(t *testing.T) {
	b, d, name := database(t, pgpool.Options{Budget: 1})
	see := observer(t)
	first := ask(t, d, "select pg_backend_pid()")[0]
	pgtest.Exec(t, name, `create function litter() returns text language plpgsql as $$ begin
		for i in 1..3000 loop execute format('create temp table t%s (id int)', i); end loop;
		return set_config('app.secret', 'mine', false); end $$`)
	ask(t, d, "select litter()")
	// Nobody waits for the reset, so it can be hit: it has 3000 tables to drop.
	until(t, 5*time.Second, "the reset is canceled", func() bool {
		return see("select pg_cancel_backend(pid) from pg_stat_activity where state = 'active' and query like 'set session authorization%' and pid = "+first) == "t"
	})
	second := ask(t, d, "select pg_backend_pid(), coalesce(current_setting('app.secret', true), '')")
	if got := b.Stats().Closed["reset"]; got != 1 || first == second[0] || second[1] != "" {
		t.Fatalf("%d sessions were discarded; the first is %s, the second %s", got, first, second)
	}
}

func TestARequestThatCannotTakeItsRoleRunsNothing(t *testing.T) {
	_, d, name := database(t, pgpool.Options{Budget: 1})
	pgtest.Exec(t, name, "create table mark (id int)")
	_, err := try(d, "insert into mark values (1)", pgpool.Setting{Name: "role", Value: "nobody_of_that_name"})
	if code(err) != "22023" {
		t.Fatalf("an unknown role: %v", err)
	}
	if got := ask(t, d, "select count(*) from mark")[0]; got != "0" {
		t.Fatalf("%s rows", got)
	}
}

func TestStatementsOfARequestAreOneTransaction(t *testing.T) {
	for _, pooler := range []bool{false, true} {
		t.Run(fmt.Sprintf("pooler=%v", pooler), func(t *testing.T) {
			_, d, name := database(t, pgpool.Options{Budget: 1, Pooler: pooler})
			pgtest.Exec(t, name, "create table mark (id int, parent int references mark deferrable initially deferred, primary key (id))")
			var out []string
			do := func(sql ...string) error {
				var r pgpool.Request
				for _, s := range sql {
					r.Statements = append(r.Statements, text(s, &out))
				}
				return d.Do(context.Background(), "key", r)
			}
			if err := do("insert into mark values (1) returning id", "select 1/0"); code(err) != "22012" {
				t.Fatal(err)
			}
			if err := do("insert into mark values (2, 7)"); code(err) != "23503" {
				t.Fatalf("a deferred constraint: %v", err)
			}
			if err := do("insert into mark values (3) returning id", "select count(*) from mark"); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(out, []string{"1", "3", "1"}) {
				t.Fatal(out)
			}
		})
	}
}

func TestValuesWithQuotesArriveAsTheyAre(t *testing.T) {
	_, d, _ := database(t, pgpool.Options{Budget: 1})
	nasty := `'"\$$ü;--`
	if got := ask(t, d, "select current_setting('jwt.claims.sub')", pgpool.Setting{Name: "jwt.claims.sub", Value: nasty}); got[0] != nasty {
		t.Fatal(got)
	}
	if _, err := try(d, "select 1", pgpool.Setting{Name: "jwt.claims.sub", Value: "a\x00b"}); code(err) != "22021" {
		t.Fatalf("a zero byte: %v", err)
	}
	if _, err := try(d, "select 1\x00"); err == nil {
		t.Fatal("a zero byte in a statement was sent")
	}
	if _, err := try(d, "select 1", pgpool.Setting{Name: "role", Value: "none"}, pgpool.Setting{Name: "ROLE", Value: "postgres"}); err == nil {
		t.Fatal("two roles were accepted")
	}
}

func TestARequestWithoutARoleRunsAsASessionOfItsLoginBegins(t *testing.T) {
	name := pgtest.Database(t)
	pgtest.Exec(t, name, q3Schema+`; do $$ begin create role pool_login login; exception when duplicate_object then null; end $$;
		grant pool_visitor to pool_login; grant create on schema public to pool_login; create schema login; grant usage on schema login to pool_login, pool_visitor`)
	pgtest.Exec(t, "postgres", "alter role pool_login in database "+name+" set role = 'pool_visitor'; alter role pool_login in database "+name+" set search_path = 'login', 'public'; alter role pool_login in database "+name+" set app.plan = 'gold'")
	t.Cleanup(func() { pgtest.Exec(t, "postgres", "alter role pool_login in database "+name+" reset all") })
	for _, pooler := range []bool{false, true} {
		t.Run(fmt.Sprintf("pooler=%v", pooler), func(t *testing.T) {
			d := open(t, rig(t, pgpool.Options{Budget: 1, Pooler: pooler}), pgtest.Server(t).URL("pool_login", name))
			for range 2 {
				got := ask(t, d, "select current_user, session_user, current_schema(), current_setting('app.plan')")
				if !slices.Equal(got, []string{"pool_visitor", "pool_login", "login", "gold"}) {
					t.Fatalf("without a role: %v", got)
				}
				if got := ask(t, d, "select current_user", pgpool.Setting{Name: "role", Value: "none"}); got[0] != "pool_login" {
					t.Fatalf("as the login itself: %v", got)
				}
				ask(t, d, "select set_config('role', 'none', false), set_config('search_path', 'pg_catalog', false), set_config('app.plan', 'free', false)")
			}
		})
	}
}
