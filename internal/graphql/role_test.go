package graphql

import (
	"testing"

	"github.com/leveehq/levee/internal/graphql/auth"
	"github.com/leveehq/levee/internal/pglocal/pgtest"
)

// PostgreSQL asks whether these functions may be called only when it plans: it replaces one by its text, and the other by its result.
func TestARoleDoesNotGetFromAPlanWhatOnlyAnotherMayCall(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, `drop role if exists planned_login; drop role if exists planned_one; drop role if exists planned_two;
		create role planned_login login noinherit; create role planned_one; create role planned_two; grant planned_one, planned_two to planned_login;
		create schema s; grant usage on schema s to planned_one, planned_two;
		create function s.word() returns text language sql stable as $$ select 'sesame'::text $$;
		create function s.number() returns int language plpgsql immutable as $$ begin return 7; end $$;
		revoke execute on function s.word(), s.number() from public; grant execute on function s.word(), s.number() to planned_one`)
	tenant := Tenant{DatabaseURL: pgtest.Server(t).URL("planned_login", database), Schemas: []string{"s"},
		Auth: auth.Options{AnonymousRole: "planned_two", Roles: []string{"planned_one", "planned_two"}, TrustedHeaders: true}}
	_, url := serve(t, Options{Tenants: []Tenant{tenant}})
	for _, field := range []string{"word", "number"} {
		query := "{ " + field + " }"
		for range 8 { // from the sixth on, PostgreSQL keeps even plans of statements that have parameters
			if _, body := (recorded{Role: "planned_one"}).send(t, url, byHeaders, &query, nil, nil); pick(body, "data."+field) == nil {
				t.Fatal(body)
			}
			if _, body := (recorded{Role: "planned_two"}).send(t, url, byHeaders, &query, nil, nil); pick(body, "data."+field) != nil || member(body, "errors") == nil {
				t.Fatal(body)
			}
		}
	}
}
