package pgpool_test

import (
	"context"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leveehq/levee/internal/graphql/pgpool"
	"github.com/leveehq/levee/internal/pglocal/pgtest"
)

// foreignState is what another client of a pooler may leave in the session that the next transaction gets.
const foreignState = `
	set role pool_visitor; set jwt.claims.sub = 'u1'; set app.nobody_knows = 'u1'; set search_path = pg_catalog;
	set datestyle = 'SQL, DMY'; set intervalstyle = 'sql_standard'; set bytea_output = 'escape'; set statement_timeout = 77777;
	set default_transaction_read_only = on; set default_transaction_isolation = serializable`

func TestQ3WhatOtherClientsOfAPoolerLeaveDoesNotReachARequest(t *testing.T) {
	name := pgtest.Database(t)
	pgtest.Exec(t, name, q3Schema+"; create table mark (id int); grant temporary on database "+name+" to public")
	pgtest.Exec(t, "postgres", "alter database "+name+" set intervalstyle = 'iso_8601'")
	for kind, url := range poolers(t, name, 1) {
		t.Run(kind, func(t *testing.T) { foreign(t, url) })
	}
}

func foreign(t *testing.T, url string) {
	other, err := pgconn.Connect(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close(context.Background())
	leave := func(sql string) {
		t.Helper()
		if _, err := other.Exec(context.Background(), sql).ReadAll(); err != nil {
			t.Fatal(err)
		}
	}
	d := open(t, rig(t, pgpool.Options{Pooler: true}), url)
	for range 3 {
		leave("create temp table note as select 99 as id, 'u2'::text as owner; grant select on note to public")
		leave(foreignState)
		got := ask(t, d, `select current_user, coalesce(current_setting('jwt.claims.sub', true), ''), coalesce(current_setting('app.nobody_knows', true), ''),
			current_schemas(false)::text, current_setting('statement_timeout'), current_setting('transaction_isolation'),
			'2020-02-01'::date::text, '90 min'::interval::text, '\xff'::bytea::text`)
		if want := []string{"postgres", "", "", "{public}", "0", "read committed", "2020-02-01", "01:30:00", `\xff`}; !slices.Equal(got, want) {
			t.Fatalf("a request without a role finds %q", got)
		}
		leave(foreignState)
		if got := ask(t, d, "select id from note order by 1", visitor("u2")...); !slices.Equal(got, []string{"3", "4"}) {
			t.Fatalf("u2 sees %v", got)
		}
		leave(foreignState)
		if got := ask(t, d, "select id from note", visitor("")...); len(got) != 0 {
			t.Fatalf("an anonymous request sees %v", got)
		}
		leave(foreignState)
		ask(t, d, "insert into mark values (1)")
	}
}

func TestARequestThatFailsBehindAPoolerLeavesNothingToOthers(t *testing.T) {
	name := pgtest.Database(t)
	pgtest.Exec(t, name, q3Schema)
	for kind, url := range poolers(t, name, 1) {
		t.Run(kind, func(t *testing.T) {
			d := open(t, rig(t, pgpool.Options{Pooler: true}), url)
			if _, err := try(d, "select pg_advisory_lock(4711), 1/(id-2) from note order by id"); code(err) != "22012" {
				t.Fatal(err)
			}
			if got := observer(t)("select count(*) from pg_locks where locktype = 'advisory'"); got != "0" {
				t.Fatalf("%s locks are left", got)
			}
		})
	}
}
