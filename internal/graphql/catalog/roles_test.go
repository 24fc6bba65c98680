package catalog

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leveehq/levee/internal/pglocal/pgtest"
)

// The roles of the property below; roles belong to the whole server, so they have names of their own.
var askers = []string{"ask_login", "ask_a", "ask_b", "ask_c", "ask_d"}

// forget makes the roles, and takes away all that an earlier round gave them.
func forget(t testing.TB, database string) {
	pgtest.Exec(t, database, "drop schema if exists a cascade; create schema a")
	for _, role := range askers {
		pgtest.Exec(t, database, fmt.Sprintf(`do $$ begin create role %[1]s login; exception when duplicate_object then null; end $$;
			do $$ declare r record; begin for r in select roleid::regrole as r from pg_auth_members where member = '%[1]s'::regrole loop
				execute format('revoke %%s from %[1]s', r.r); end loop; end $$; alter role %[1]s inherit nosuperuser`, role))
	}
}

// TestPrivilegesAreWhatPostgreSQLSaysOfSomeRole compares what is read with PostgreSQL's own answers about each role that
// requests may run as, for random owners, grants and memberships.
func TestPrivilegesAreWhatPostgreSQLSaysOfSomeRole(t *testing.T) {
	database := pgtest.Database(t)
	forget(t, database)
	super, login := connect(t, "postgres", database), connect(t, "ask_login", database)
	rounds := 0
	rapid.Check(t, func(rt *rapid.T) {
		if rounds++; rounds > 40 {
			return // each round makes tables
		}
		forget(t, database)
		pgtest.Exec(t, database, randomGrants(rt))
		o := Options{Schemas: []string{"a"}, RolesOfLogin: rapid.Bool().Draw(rt, "roles of the login")}
		if rapid.Bool().Draw(rt, "named roles") {
			o.Roles = rapid.SliceOfNDistinct(rapid.SampledFrom(askers), 1, 3, rapid.ID).Draw(rt, "roles")
		}
		c := read(t, login, o)
		for _, k := range c.Classes[1:] {
			want := ask(t, super, o, fmt.Sprintf("has_table_privilege(oid, %d, '%%s')", k.OID), "SELECT", "INSERT", "UPDATE", "DELETE")
			if k.Privileges != want {
				rt.Fatalf("%s: %b, PostgreSQL says %b; %+v", k.Name, k.Privileges, want, o)
			}
			for _, col := range c.Columns[k.Columns.From : k.Columns.From+uint32(k.Columns.N)] {
				want := ask(t, super, o, fmt.Sprintf("has_column_privilege(oid, %d, %d::int2, '%%s')", k.OID, col.Number), "SELECT", "INSERT", "UPDATE")
				var got Privileges
				for flag, p := range map[ColumnFlags]Privileges{CanSelect: Select, CanInsert: Insert, CanUpdate: Update} {
					if col.Flags&flag != 0 {
						got |= p
					}
				}
				if got != want {
					rt.Fatalf("%s.%s: %b, PostgreSQL says %b; %+v", k.Name, col.Name, got, want, o)
				}
			}
		}
		for _, p := range c.Procs {
			if want := ask(t, super, o, fmt.Sprintf("has_function_privilege(oid, %d, '%%s')", p.OID), "EXECUTE") << 4; p.Privileges != want {
				rt.Fatalf("%s: %b, PostgreSQL says %b; %+v", p.Name, p.Privileges, want, o)
			}
		}
	})
}

// randomGrants makes two tables and a function, and gives and takes.
func randomGrants(rt *rapid.T) string {
	role := rapid.SampledFrom(append([]string{"public"}, askers...))
	owner := rapid.SampledFrom(append([]string{"postgres"}, askers...))
	var sql strings.Builder
	for _, table := range []string{"t", "u"} {
		fmt.Fprintf(&sql, "create table a.%[1]s(x int, y int); alter table a.%[1]s owner to %[2]s;", table, owner.Draw(rt, "owner"))
	}
	fmt.Fprintf(&sql, "create function a.f() returns int language sql as 'select 1'; alter function a.f() owner to %s;", owner.Draw(rt, "owner"))
	for range rapid.IntRange(0, 12).Draw(rt, "grants") {
		what := rapid.SampledFrom([]string{"all on a.t", "select on a.t", "insert on a.u", "update on a.t", "delete on a.u", "select (x) on a.u",
			"update (x, y) on a.u", "insert (y) on a.t", "all on function a.f()"}).Draw(rt, "what")
		verb := rapid.SampledFrom([]string{"grant %s to %s;", "grant %s to %s;", "revoke %s from %s;"}).Draw(rt, "verb")
		fmt.Fprintf(&sql, verb, what, role.Draw(rt, "whom"))
	}
	for i, member := range askers {
		if rapid.Bool().Draw(rt, "does not inherit") {
			fmt.Fprintf(&sql, "alter role %s noinherit;", member)
		}
		for _, of := range append([]string{"pg_read_all_data", "pg_write_all_data"}, askers[i+1:]...) {
			if rapid.IntRange(0, 5).Draw(rt, "member") == 0 {
				fmt.Fprintf(&sql, "grant %s to %s;", of, member)
			}
		}
	}
	return sql.String()
}

// ask has PostgreSQL tell which of the privileges some role has that counts.
func ask(t testing.TB, super querier, o Options, question string, privileges ...string) (got Privileges) {
	t.Helper()
	roles := "rolname = any($1::text[])"
	if o.RolesOfLogin {
		roles += " or pg_has_role('ask_login', oid, 'member')"
	} else if len(o.Roles) == 0 {
		roles = "rolname = 'ask_login' or rolname = any($1::text[])"
	}
	for i, privilege := range privileges {
		err := super.Query(t.Context(), fmt.Sprintf("select exists (select from pg_roles where (%s) and %s)", roles, fmt.Sprintf(question, privilege)), []string{textArray(o.Roles)}, func(columns [][]byte) error {
			if string(columns[0]) == "t" {
				got |= 1 << i
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return got
}

func TestASuperuserCanDoAll(t *testing.T) {
	database := pgtest.Database(t)
	forget(t, database)
	pgtest.Exec(t, database, "create table a.t(x int); create role ask_super superuser; grant ask_super to ask_a; create function a.f() returns int language sql as 'select 1'; revoke all on function a.f() from public")
	t.Cleanup(func() { pgtest.Exec(t, "postgres", "drop role ask_super") })
	for user, o := range map[string]Options{"postgres": {}, "ask_a": {RolesOfLogin: true}, "ask_b": {Roles: []string{"ask_super"}}} {
		o.Schemas = []string{"a"}
		c := read(t, connect(t, user, database), o)
		if c.Classes[1].Privileges != Select|Insert|Update|Delete || c.Columns[0].Flags&(CanSelect|CanInsert|CanUpdate) != CanSelect|CanInsert|CanUpdate || c.Procs[0].Privileges != Execute {
			t.Errorf("%s with %+v: %b, %b, %b", user, o, c.Classes[1].Privileges, c.Columns[0].Flags, c.Procs[0].Privileges)
		}
	}
}

func TestARoleThatIsNotThereIsNamed(t *testing.T) {
	database := pgtest.Database(t)
	forget(t, database)
	_, err := Read(t.Context(), connect(t, "postgres", database), Options{Schemas: []string{"a"}, Roles: []string{"ask_a", "it's nobody"}})
	if err == nil || !strings.Contains(err.Error(), "'it''s nobody'") || strings.Contains(err.Error(), "ask_a") {
		t.Error(err)
	}
}

func TestALoginOfAThousandTenantsRolesIsReadAtOnce(t *testing.T) {
	database := pgtest.Database(t)
	forget(t, database)
	pgtest.Exec(t, database, "create table a.t(x int); do $$ begin for i in 1..1000 loop execute format('create role ask_tenant_%s; grant ask_tenant_%1$s to ask_a', i); end loop; end $$")
	t.Cleanup(func() {
		pgtest.Exec(t, "postgres", "do $$ begin for i in 1..1000 loop execute format('drop role ask_tenant_%s', i); end loop; end $$")
	})
	start := time.Now()
	read(t, connect(t, "ask_a", database), Options{Schemas: []string{"a"}, RolesOfLogin: true})
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("it took %v", took)
	} else {
		t.Log(took)
	}
}
