package graphql

import (
	"fmt"
	"strings"
	"testing"

	"github.com/leveehq/levee/internal/graphql/auth"
	"github.com/leveehq/levee/internal/pglocal/pgtest"
)

// looks writes down who looks: in a view, and in a policy; the second hides that it may not.
const looks = `do $$ begin create role looks_login login noinherit; exception when duplicate_object then null; end $$;
	do $$ begin create role looks_visitor; exception when duplicate_object then null; end $$; grant looks_visitor to looks_login;
	create schema s; grant usage on schema s to looks_visitor; create table public.look (at text);
	create function public.looked(at text) returns boolean language plpgsql security definer as $$ begin insert into public.look values (at); return true; end $$;
	create function public.peeked(at text) returns boolean language plpgsql security definer as $$ begin
		insert into public.look values (at); return true; exception when others then return true; end $$;
	create table s.thing (id int primary key); insert into s.thing values (1), (2);
	create view s.seen as select id from s.thing where public.looked('seen');
	create table s.secret (id int primary key); insert into s.secret values (1);
	alter table s.secret enable row level security; create policy p on s.secret using (public.peeked('secret'));
	grant select on all tables in schema s to looks_visitor`

func looksTenant(t *testing.T) (database string, tenant Tenant) {
	database = pgtest.Database(t)
	pgtest.Exec(t, database, looks)
	return database, Tenant{Name: "looks", DatabaseURL: pgtest.Server(t).URL("looks_login", database), Schemas: []string{"s"},
		Auth: auth.Options{Secret: testSecret, AnonymousRole: "looks_visitor", DefaultRole: "looks_visitor"}}
}

func TestAQueryThatWritesIsServedAndSaidOnce(t *testing.T) {
	database, tenant := looksTenant(t)
	c := startCase(t, Options{Tenants: []Tenant{tenant}})
	see := observerOf(t, database)
	for i := range 3 {
		if a := c.ask("looks", "{ allThings { nodes { rowId } } allSeens { nodes { rowId } } }"); len(a.Errors) > 0 || strings.Count(a.text, `"rowId"`) != 4 {
			t.Fatal(a.text)
		}
		if got := see("select count(*) from look"); got != fmt.Sprint(2*(i+1)) {
			t.Fatalf("%s looks were written down after %d", got, i+1)
		}
	}
	if n := strings.Count(c.log.String(), "a query writes"); n != 1 {
		t.Errorf("it is said %d times", n)
	}
	if !strings.Contains(c.log.String(), "looked(text)") {
		t.Error("the log does not have the function")
	}
}

func TestQueriesReadOnlyUnlessTheyMayWrite(t *testing.T) {
	for _, writing := range []bool{false, true} {
		t.Run(fmt.Sprint(writing), func(t *testing.T) {
			database, tenant := looksTenant(t)
			c := startCase(t, Options{Tenants: []Tenant{tenant}, WritingQueries: writing})
			see := observerOf(t, database)
			if a := c.ask("looks", "{ allSecrets { nodes { rowId } } }"); len(a.Errors) > 0 || !strings.Contains(a.text, `"rowId":1`) {
				t.Fatal(a.text)
			}
			if got := see("select count(*) > 0 from look"); (got == "t") != writing {
				t.Errorf("written down: %s", got)
			}
			if strings.Contains(c.log.String(), "a query writes") {
				t.Error("nothing was refused")
			}
		})
	}
}

func TestAQueryThatIsRefusedWhateverMayBeWrittenSaysNothingOfOthers(t *testing.T) {
	database, tenant := looksTenant(t)
	pgtest.Exec(t, database, `create function s.refuse() returns int language plpgsql stable as $$ begin raise 'not me' using errcode = '25006'; end $$`)
	c := startCase(t, Options{Tenants: []Tenant{tenant}, ShowErrors: true})
	if a := c.ask("looks", "{ refuse allThings { nodes { rowId } } }"); len(a.Errors) != 1 || !strings.Contains(a.text, "not me") || strings.Count(a.text, `"rowId"`) != 2 {
		t.Fatal(a.text)
	}
	if strings.Contains(c.log.String(), "a query writes") {
		t.Error(c.log.String())
	}
}
