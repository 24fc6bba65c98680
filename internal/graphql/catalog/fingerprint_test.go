package catalog

import (
	"testing"

	"github.com/leveehq/levee/internal/pglocal/pgtest"
)

func TestAnyChangeOfTheSchemaOrOfTheLoginChangesTheFingerprint(t *testing.T) {
	print, change := fingerprinted(t)
	before := print()
	for _, sql := range []string{
		"alter table a.t add column y int", "alter table a.t drop column y", "alter table a.t alter x set not null", "alter table a.t alter x set default ''",
		"alter table a.t rename x to z", "alter table a.t rename z to x", "comment on table a.t is 'text'", "comment on column a.t.x is 'text'",
		"comment on constraint t_pkey on a.t is 'text'", "comment on function a.f is 'text'", "comment on type elsewhere.e is 'text'", "comment on type a.c is 'text'",
		"grant insert on a.t to print_login", "revoke insert on a.t from print_login", "grant update (x) on a.t to print_login",
		"grant print_role to print_login", "revoke print_role from print_login", "grant delete on a.t to public", "revoke execute on function a.f from public",
		"create policy p on a.t using (true)", "alter policy p on a.t using (false)", "alter table a.t enable row level security", "alter table a.t force row level security",
		"alter type elsewhere.e add value 'two'", "alter type elsewhere.e rename value 'two' to 'three'", "alter type elsewhere.pair alter attribute b type int",
		"alter type elsewhere.pair add attribute c int", "alter domain elsewhere.d set not null", "alter domain elsewhere.d rename to dd", "alter schema elsewhere rename to there",
		"create or replace function a.f(i int) returns int language sql immutable as 'select 1 + i'", "create or replace function a.f(i int) returns int language sql stable as 'select i'",
		"create function a.f(t text) returns int language sql as 'select 1'", "drop function a.f(text)", "create index on a.t(x)", "drop index a.t_x_idx", "create unique index u on a.t(x)",
		"alter table a.t add constraint uq unique using index u", "create view a.v as select 1 as one", "create or replace view a.w as select id from a.t limit 1", "create or replace view a.w as select id from a.t",
		"alter role print_login bypassrls", "alter role print_login nobypassrls", "alter role print_login superuser", "alter role print_login nosuperuser",
		"alter table a.t owner to print_login", "alter extension citext add table a.t", "alter extension citext drop table a.t", "drop schema a cascade; create schema a",
	} {
		change(sql)
		after := print()
		if after == before {
			t.Errorf("%s: not noticed", sql)
		}
		before = after
	}
}

func TestTheFingerprintIsCalmWhenNothingOfTheSchemaChanges(t *testing.T) {
	print, change := fingerprinted(t)
	before := print()
	for _, sql := range []string{
		"insert into a.t values (1, 'x')", "analyze a.t", "vacuum freeze pg_catalog.pg_class", "vacuum full a.t", "truncate a.t", "cluster a.t using t_pkey",
		"reindex table a.t", "reindex table concurrently a.t", "refresh materialized view a.m", "create index on a.t(x) where id > 3",
		"create table other.w(id int)", "alter extension citext set schema a", "comment on table other.u is 'text'", "create role print_passer", "grant print_passer to print_login",
		"grant select on other.u to print_login", "drop owned by print_passer; drop role print_passer",
	} {
		change(sql)
		after := print()
		if after != before {
			t.Errorf("%s: noticed", sql)
		}
		before = after
	}
}

// fingerprinted makes a schema, and returns how its fingerprint is taken, and how it is changed.
func fingerprinted(t *testing.T) (print func() string, change func(sql string)) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, `
		create schema elsewhere; create type elsewhere.e as enum ('one'); create domain elsewhere.d as text; create type elsewhere.pair as (a elsewhere.e[], b text);
		create schema a; create extension citext; create table a.t(id int primary key, x text, e elsewhere.e[], d elsewhere.d); create type a.c as (i int);
		create view a.w as select id from a.t; create materialized view a.m as select 1 as one;
		create function a.g(p elsewhere.pair[]) returns int language sql as 'select 1';
		create function a.f(i int) returns int language sql immutable as 'select i';
		do $$ begin create role print_login login; create role print_role; exception when duplicate_object then null; end $$;
		alter role print_login nobypassrls nosuperuser; grant usage on schema a to print_login; grant select on a.t, a.w, a.m to print_login; grant delete on a.t to print_role;
		create schema other; create table other.u(id int);`)
	q := connect(t, "print_login", database)
	print = func() string {
		p, err := Fingerprint(t.Context(), q, Options{Schemas: []string{"a"}, RolesOfLogin: true})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	return print, func(sql string) { pgtest.Exec(t, database, sql) }
}
