package graphql

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/leveehq/levee/internal/graphql/auth"
	"github.com/leveehq/levee/internal/pglocal/pgtest"
	"github.com/leveehq/levee/residency"
)

// ask posts a query and returns status and body.
func ask(t *testing.T, url, query string) (int, string) {
	t.Helper()
	status, answer := recorded{}.send(t, url, nil, &query, nil, nil)
	text, err := json.Marshal(answer)
	if err != nil {
		t.Fatal(err)
	}
	return status, string(text)
}

// until calls what until it is true, and fails if that takes long.
func until(t *testing.T, want string, what func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !what(); {
		if time.Now().After(deadline) {
			t.Fatal("it does not happen that " + want)
		}
	}
}

func TestATenantWhoseSchemaChangesIsServedAllTheTime(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, `create schema s; create table s.note (id int primary key, body text); insert into s.note values (1, 'one');
		drop role if exists watched_login; create role watched_login login noinherit; grant usage on schema s to watched_login; grant select on s.note to watched_login`)
	tenant := Tenant{DatabaseURL: pgtest.Server(t).URL("watched_login", database), Schemas: []string{"s"}, Auth: auth.Options{AnonymousRole: auth.ConnectionRole}}
	s, url := serve(t, Options{Tenants: []Tenant{tenant}, Watch: 50 * time.Millisecond})
	if status, body := ask(t, url, `{ allNotes { nodes { body } } }`); status != 200 || !strings.Contains(body, "one") {
		t.Fatal(status, body)
	}
	pgtest.Exec(t, database, `alter table s.note add column title text default 'new'; grant select on s.note to watched_login`)
	until(t, "the new column is served", func() bool {
		if status, body := ask(t, url, `{ allNotes { nodes { body } } }`); status != 200 || !strings.Contains(body, "one") {
			t.Fatalf("while the schema changes: %d %s", status, body)
		}
		_, body := ask(t, url, `{ allNotes { nodes { title } } }`)
		return strings.Contains(body, `"new"`)
	})
	if st := s.cache.Stats(); st.Evicted[residency.Renewed] != 1 || st.Hits < 2 || st.Waited != 2 { // the first request, and the watcher
		t.Errorf("a request waited for the build: %+v", st)
	}
	pgtest.Exec(t, "postgres", `alter role watched_login bypassrls`)
	until(t, "a login that became unsafe is refused", func() bool {
		status, body := ask(t, url, `{ allNotes { nodes { body } } }`)
		return status == 500 && strings.Contains(body, "UNSAFE_LOGIN")
	})
}

// Instances are looked at once an hour here: what the requests hear of PostgreSQL is what makes the difference.
func TestAMigrationIsNoErrorOfTheNextRequest(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, `create schema s; create table s.note (id int primary key, body text); create table s.other (id int primary key); insert into s.note values (1, 'one')`)
	tenant := Tenant{DatabaseURL: pgtest.Server(t).URL("postgres", database), Schemas: []string{"s"}, AllowBypassRLS: true, Auth: auth.Options{AnonymousRole: auth.ConnectionRole}}
	s, url := serve(t, Options{Tenants: []Tenant{tenant}, Watch: time.Hour})
	if status, body := ask(t, url, `{ allNotes { nodes { body } } }`); status != 200 {
		t.Fatal(status, body)
	}
	change := func(sql string) {
		pgtest.Exec(t, database, sql)
		for _, in := range s.cache.Instances() { // another second has passed
			if l, err := s.lease(t.Context(), s.tenants.get(in.Key)); err == nil {
				l.Value().suspected = time.Time{}
				l.Release()
			}
		}
	}
	change(`alter table s.note add column title text`)
	if status, body := ask(t, url, `mutation { createNote(input: { note: { rowId: 2, body: "two" } }) { note { body } } }`); status != 200 || !strings.Contains(body, `"body":"two"`) || strings.Contains(body, "errors") {
		t.Errorf("a change of a table that has a column more: %d %s", status, body)
	}
	change(`alter table s.note alter column body type varchar(10)`)
	if status, body := ask(t, url, `{ allNotes { nodes { body } } }`); status != 200 || !strings.Contains(body, "two") {
		t.Errorf("a column of another type: %d %s", status, body)
	}
	change(`drop table s.note`)
	if status, body := ask(t, url, `{ allNotes { nodes { body } } }`); status != 400 || !strings.Contains(body, "allNotes") {
		t.Errorf("a table that is gone: %d %s", status, body)
	}
}

func TestADatabaseThatIsGoneTakesItsInstancesAndNoOthers(t *testing.T) {
	kept := pgtest.Database(t)
	dropped := kept + "_b"
	remake := func(table string) {
		pgtest.Exec(t, "postgres", `drop database if exists `+dropped+` with (force)`)
		pgtest.Exec(t, "postgres", `create database `+dropped)
		pgtest.Exec(t, dropped, `create schema a; create schema b; create table a.`+table+` (id int primary key); create table b.`+table+` (id int primary key)`)
	}
	remake("note")
	t.Cleanup(func() { pgtest.Exec(t, "postgres", `drop database if exists `+dropped+` with (force)`) })
	pgtest.Exec(t, kept, `create schema a; create table a.note (id int primary key)`)
	tenant := func(name, database, schema string) Tenant {
		return Tenant{Name: name, DatabaseURL: pgtest.Server(t).URL("postgres", database), Schemas: []string{schema}, AllowBypassRLS: true, Auth: auth.Options{AnonymousRole: auth.ConnectionRole}}
	}
	s, url := serve(t, Options{Tenants: []Tenant{tenant("x", dropped, "a"), tenant("y", dropped, "b"), tenant("z", kept, "a")}})
	for _, name := range []string{"x", "y", "z"} {
		if status, body := ask(t, url+"/"+name, `{ allNotes { nodes { rowId } } }`); status != 200 {
			t.Fatal(name, status, body)
		}
	}
	pgtest.Exec(t, "postgres", `drop database `+dropped+` with (force)`)
	until(t, "the instances of the database that is gone are evicted", func() bool {
		if status, body := ask(t, url+"/x", `{ allNotes { nodes { rowId } } }`); status != 503 || !strings.Contains(body, CodeUnavailable) {
			t.Fatal(status, body)
		}
		return s.cache.Stats().Resident == 1
	})
	if status, body := ask(t, url+"/z", `{ allNotes { nodes { rowId } } }`); status != 200 || s.cache.Stats().Built != 3 {
		t.Error(status, body, "the other database's tenant was built again")
	}
	remake("letter")
	until(t, "what has come in its place is served", func() bool {
		status, body := ask(t, url+"/y", `{ allLetters { nodes { rowId } } }`)
		return status == 200 && strings.Contains(body, `"nodes":[]`)
	})
}

func TestATenantIsBuiltAsSoonAsItsDatabaseIsThere(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, "postgres", `drop database `+database)
	tenant := Tenant{DatabaseURL: pgtest.Server(t).URL("postgres", database), Schemas: []string{"s"}, AllowBypassRLS: true, Auth: auth.Options{AnonymousRole: auth.ConnectionRole}}
	s, url := serve(t, Options{Tenants: []Tenant{tenant}})
	const asks = 6 // in a row, they would have a failure remembered for half a minute
	for range asks {
		if status, body := ask(t, url, `{ __typename }`); status != 503 || !strings.Contains(body, CodeUnavailable) {
			t.Fatal(status, body)
		}
	}
	if st := s.cache.Stats(); st.BuildsFailed != asks {
		t.Errorf("%d asks were %d builds", asks, st.BuildsFailed)
	}
	pgtest.Exec(t, "postgres", `create database `+database)
	pgtest.Exec(t, database, `create schema s; create table s.note (id int primary key)`)
	until(t, "the tenant is served", func() bool {
		status, _ := ask(t, url, `{ allNotes { nodes { rowId } } }`)
		return status == 200
	})
}

// The bytes of a real are those of some integer too: read as what the column was, they would be a wrong answer with status 200.
func TestAColumnOfAnotherTypeIsNeverReadAsWhatItWas(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, `create schema s; create domain s.amount as int; create table s.note (id int primary key, a int, b s.amount, c json, d timestamp, e int[]);
		insert into s.note values (1, 1, 2, '{}', '2026-01-01', '{7}')`)
	tenant := Tenant{DatabaseURL: pgtest.Server(t).URL("postgres", database), Schemas: []string{"s"}, AllowBypassRLS: true, Auth: auth.Options{AnonymousRole: auth.ConnectionRole}}
	_, url := serve(t, Options{Tenants: []Tenant{tenant}, Watch: time.Hour})
	one, many := `{ noteByRowId(rowId: 1) { %s } }`, `{ allNotes { nodes { %s } } }`
	for _, c := range []struct{ ask, field, change, was, is string }{
		{one, "a", `type real using 1.5`, `1`, `1.5`},
		{many, "b", `type real using 2.5`, `2`, `2.5`},
		{one, "c", `type text using 'no json'`, `{}`, `"no json"`},
		{many, "d", `type timestamptz using '2026-01-01 00:00+00'`, `"2026-01-01T00:00:00.000000"`, `"2026-01-01T00:00:00.000000+00:00"`},
		{many, "e", `type real[] using '{0.5}'`, `[7]`, `[0.5]`},
	} {
		query := fmt.Sprintf(c.ask, c.field)
		if status, body := ask(t, url, query); status != 200 || !strings.Contains(body, `"`+c.field+`":`+c.was) {
			t.Fatal(c.field, status, body)
		}
		pgtest.Exec(t, database, `alter table s.note alter column `+c.field+` `+c.change)
		until(t, "the new type is served", func() bool {
			status, body := ask(t, url, query)
			switch {
			case status == 503 && strings.Contains(body, CodeRotating):
				return false
			case status != 200 || !strings.Contains(body, `"`+c.field+`":`+c.is):
				t.Fatalf("%s, read by the former schema: %d %s", c.field, status, body)
			}
			return true
		})
	}
}
