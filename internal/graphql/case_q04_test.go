package graphql

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/leveehq/levee/internal/graphql/auth"
	"github.com/leveehq/levee/internal/pglocal/pgtest"
)

const looseRoles = `do $$ begin
	if not exists (select from pg_roles where rolname = 'loose') then create role loose login bypassrls; grant visitor to loose; end if;
	if not exists (select from pg_roles where rolname = 'owner') then create role owner login; grant visitor to owner; end if;
end $$;
alter schema ta owner to owner;
alter table ta.note owner to owner;`

func TestQ4ALoginThatRowLevelSecurityDoesNotBindIsRefusedAndShown(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, notes("ta")+looseRoles)
	for login, why := range map[string]string{"postgres": "is a superuser", "loose": "has BYPASSRLS", "owner": "owns ta.note"} {
		t.Run(login, func(t *testing.T) {
			tenant := visitors(t, database, "ta")
			tenant.DatabaseURL = pgtest.Server(t).URL(login, database)
			c := startCase(t, Options{Tenants: []Tenant{tenant}})
			for range 2 {
				a := c.ask("ta", allNotes, sub(t, "u1"))
				if a.status != http.StatusInternalServerError || a.code() != "UNSAFE_LOGIN" || strings.Contains(a.text, login) {
					t.Errorf("%d %s", a.status, a.text)
				}
			}
			w := c.service.Status().Logins
			if len(w) != 1 || w[0].Tenant != "ta" || w[0].Allowed || !strings.Contains(w[0].Warning, why) {
				t.Errorf("status shows %+v", w)
			}
			if n := strings.Count(c.log.String(), "level=WARN msg=\"graphql login is not bound"); n != 1 {
				t.Errorf("%d warnings in the log", n)
			}
		})
	}
}

func TestQ4AnAllowedLoginIsWarnedOfAndItsRequestsRunAsTheirRole(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, notes("ta")+looseRoles)
	for _, login := range []string{"postgres", "loose", "owner"} {
		t.Run(login, func(t *testing.T) {
			tenant := visitors(t, database, "ta")
			tenant.DatabaseURL, tenant.AllowBypassRLS = pgtest.Server(t).URL(login, database), true
			c := startCase(t, Options{Tenants: []Tenant{tenant}})
			c.sees("ta", []string{"1", "2"}, sub(t, "u1"))
			c.sees("ta", nil)
			w := c.service.Status().Logins
			if len(w) != 1 || !w[0].Allowed || !strings.Contains(c.log.String(), "level=WARN msg=\"graphql login is not bound") {
				t.Errorf("status shows %+v; log: %s", w, c.log)
			}
		})
	}
}

func TestQ4ALoginThatIsSafeIsNotWarnedOf(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, notes("ta"))
	c := startCase(t, Options{Tenants: []Tenant{visitors(t, database, "ta")}})
	c.sees("ta", []string{"1", "2"}, sub(t, "u1"))
	if w := c.service.Status().Logins; len(w) != 0 {
		t.Errorf("status shows %+v", w)
	}
}

func TestQ4ARequestThatCannotTakeItsRoleRunsNothing(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, notes("ta")+looseRoles+`grant insert on ta.note to app; grant usage on schema ta to app; create policy all_of_app on ta.note to app using (true);`)
	tenant := visitors(t, database, "ta")
	tenant.Auth.AnonymousRole = "loose" // which the login has not been granted
	tenant.Auth.DefaultRole = auth.ConnectionRole
	c := startCase(t, Options{Tenants: []Tenant{tenant}})
	const write = `mutation { createNote(input: {note: {rowId: "9", owner: "u1"}}) { clientMutationId } }`
	a := c.ask("ta", write)
	if a.status == http.StatusOK && a.Data["createNote"] != nil || strings.Contains(a.text, "loose") {
		t.Errorf("%d %s", a.status, a.text)
	}
	see := observerOf(t, database)
	if n := see("select count(*) from ta.note"); n != "4" {
		t.Errorf("%s rows: it ran", n)
	}
	if a := c.ask("ta", write, sub(t, "u1")); a.status != http.StatusOK || a.Data["createNote"] == nil || see("select count(*) from ta.note") != "5" {
		t.Errorf("void, since it does not run as the login either: %d %s", a.status, a.text)
	}
}

func TestQ4ALoginWhoseSessionsBeginAsARoleThatRowLevelSecurityDoesNotBindIsRefused(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, notes("ta")+looseRoles+`do $$ begin if not exists (select from pg_roles where rolname = 'starter') then create role starter login noinherit; grant visitor, loose, owner to starter; end if; end $$;`)
	t.Cleanup(func() { pgtest.Exec(t, database, "alter role starter in database "+database+" reset all") })
	tenant := visitors(t, database, "ta")
	tenant.DatabaseURL = pgtest.Server(t).URL("starter", database)
	c := startCase(t, Options{Tenants: []Tenant{tenant}, Watch: 100 * time.Millisecond})
	c.sees("ta", []string{"1", "2"}, sub(t, "u1"))
	for _, role := range []string{"loose", "owner"} {
		pgtest.Exec(t, database, "alter role starter in database "+database+" set role = "+role)
		within(t, 5*time.Second, "it is refused", func() bool { return c.ask("ta", allNotes, sub(t, "u1")).code() == "UNSAFE_LOGIN" })
		pgtest.Exec(t, database, "alter role starter in database "+database+" set role = visitor")
		within(t, 5*time.Second, "it is served", func() bool { return c.ask("ta", allNotes, sub(t, "u1")).status == http.StatusOK })
	}
}
