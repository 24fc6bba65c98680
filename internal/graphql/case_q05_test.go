package graphql

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leveehq/levee/internal/graphql/auth"
	"github.com/leveehq/levee/internal/pglocal/pgtest"
)

const routesTable = `
create table routes(host text primary key, database_url text, schemas text[], anonymous_role text);
do $$ begin
	if not exists (select from pg_roles where rolname = 'guest') then create role guest; end if;
	if not exists (select from pg_roles where rolname = 'app2') then create role app2 login noinherit; grant visitor to app2; end if;
	grant guest to app;
end $$;
grant usage on schema ta, tb to guest; grant select on ta.note to guest;
create policy guests on ta.note to guest using (id = 4);
alter policy own on tb.note using (true);
alter policy own on ta.note to visitor using (id = 1);`

// routed is a service whose tenants are hosts that a table resolves. An answer is believed for ttl.
func routed(t *testing.T, ttl time.Duration, hosts ...string) (c *caseRig, exec func(sql string)) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, notes("ta", "tb")+routesTable)
	for _, host := range hosts {
		pgtest.Exec(t, database, `insert into routes values ('`+host+`', '`+pgtest.Server(t).URL("app", database)+`', '{ta}', 'visitor')`)
	}
	c = startCase(t, Options{Resolver: &Resolver{
		DatabaseURL: pgtest.Server(t).URL("postgres", database), SQL: `select database_url, schemas, anonymous_role from routes where host = $1`, TTL: ttl,
		Auth: auth.Options{Secret: testSecret, AllowNoExp: true, DefaultRole: "visitor"},
	}})
	return c, func(sql string) { pgtest.Exec(t, database, sql) }
}

const whoAndNotes = `{ who allNotes { nodes { rowId body } } }`

// is tells whether an answer to whoAndNotes is of this login and role, with these notes of this schema.
func (a answered) is(who, schema string, ids ...string) bool {
	got, bodies := a.rows()
	said, _ := a.Data["who"].(string)
	return a.status == http.StatusOK && strings.TrimSpace(said) == who && slices.Equal(got, ids) && slices.Equal(bodies, []string{schema})
}

var q5Changes = map[string]struct {
	change string
	is     func(answered) bool
}{
	"schema":         {`update routes set schemas = '{tb}'`, func(a answered) bool { return a.is("app visitor", "tb", "1", "2", "3", "4") }},
	"anonymous role": {`update routes set anonymous_role = 'guest'`, func(a answered) bool { return a.is("app guest", "ta", "4") }},
	"login":          {`update routes set database_url = replace(database_url, 'app@', 'app2@')`, func(a answered) bool { return a.is("app2 visitor", "ta", "1") }},
	"exposed schemas": {`update routes set schemas = '{tb,ta}'`, func(a answered) bool {
		return a.is("app visitor", "tb", "1", "2", "3", "4")
	}},
	"taken away": {`delete from routes`, func(a answered) bool { return a.status == http.StatusNotFound && a.code() == "TENANT_UNKNOWN" }},
}

func TestQ5AChangedRouteIsUsedWhenItsTimeHasPassedAndTheOldInstanceLeavesMemory(t *testing.T) {
	for name, c := range q5Changes {
		t.Run(name, func(t *testing.T) {
			const ttl = 50 * time.Millisecond
			rig, exec := routed(t, ttl, "x.test")
			ask := func() answered { return rig.ask("", whoAndNotes, hosted("X.test:80")) }
			if a := ask(); !a.is("app visitor", "ta", "1") {
				t.Fatalf("before: %d %s", a.status, a.text)
			}
			old := rig.service.cache.Instances()[0].Key
			exec(c.change)
			within(t, 5*time.Second, "the new route is used", func() bool { return c.is(ask()) })
			within(t, 5*time.Second, "the old instance is gone", func() bool {
				for _, in := range rig.service.cache.Instances() {
					if in.Key == old {
						return false
					}
				}
				return true
			})
		})
	}
}

func TestQ5AFlushIsAcknowledgedWhenTheNextRequestUsesTheNewRoute(t *testing.T) {
	for _, name := range []string{"schema", "taken away"} {
		c := q5Changes[name]
		t.Run(name, func(t *testing.T) {
			rig, exec := routed(t, time.Hour, "x.test")
			ask := func() answered { return rig.ask("", whoAndNotes, hosted("x.test")) }
			if a := ask(); !a.is("app visitor", "ta", "1") {
				t.Fatalf("before: %d %s", a.status, a.text)
			}
			ended := make(chan answered)
			go func() { ended <- rig.ask("", `{ nap(seconds: 0.4) who }`, hosted("x.test")) }()
			within(t, 10*time.Second, "one naps on the old route", func() bool { return rig.service.pool.Stats().InUse == 1 })
			exec(c.change)
			if a := ask(); !a.is("app visitor", "ta", "1") {
				t.Errorf("void: the change was seen before its time: %d %s", a.status, a.text)
			}
			admin := httptest.NewServer(rig.service.Admin())
			defer admin.Close()
			response, err := http.Post(admin.URL+"/graphql/flush?tenant=x.test", "", nil)
			if err != nil || response.StatusCode != http.StatusOK {
				t.Fatal(response, err)
			}
			if a := ask(); !c.is(a) {
				t.Errorf("after: %d %s", a.status, a.text)
			}
			if a := <-ended; a.status != http.StatusOK || len(a.Errors) > 0 || !strings.HasPrefix(a.Data["who"].(string), "app visitor") {
				t.Errorf("the one in flight: %d %s", a.status, a.text)
			}
			within(t, 5*time.Second, "the old instance is gone", func() bool {
				st := rig.service.Status().Instances
				return st.Draining+st.Closing == 0 && st.Resident <= 1
			})
		})
	}
}

func TestQ5EqualRoutesShareAnInstanceUntilTheLastLeaves(t *testing.T) {
	rig, exec := routed(t, 20*time.Millisecond, "x.test", "y.test")
	for _, host := range []string{"x.test", "y.test", "x.test"} {
		if a := rig.ask("", whoAndNotes, hosted(host)); !a.is("app visitor", "ta", "1") {
			t.Fatalf("%s: %d %s", host, a.status, a.text)
		}
	}
	if st := rig.service.Status().Instances; st.Built != 1 || st.Resident != 1 {
		t.Errorf("%+v", st)
	}
	moved := func(host string) func() bool {
		return func() bool {
			return rig.ask("", whoAndNotes, hosted(host)).is("app visitor", "tb", "1", "2", "3", "4")
		}
	}
	exec(`update routes set schemas = '{tb}' where host = 'x.test'`)
	within(t, 5*time.Second, "x.test has moved", moved("x.test"))
	if a := rig.ask("", whoAndNotes, hosted("y.test")); !a.is("app visitor", "ta", "1") {
		t.Errorf("y.test: %d %s", a.status, a.text)
	}
	if st := rig.service.Status().Instances; st.Built != 2 || st.Resident != 2 {
		t.Errorf("%+v", st)
	}
	exec(`update routes set schemas = '{tb}'`)
	within(t, 5*time.Second, "y.test has moved", moved("y.test"))
	within(t, 5*time.Second, "one instance is left", func() bool { return rig.service.Status().Instances.Resident == 1 })
}

func TestQ5HeadersFromOutsideChangeNothing(t *testing.T) {
	rig, exec := routed(t, time.Hour, "x.test", "y.test")
	exec(`update routes set schemas = '{tb}' where host = 'y.test'`)
	for _, name := range []string{"X-Forwarded-Host", "X-Forwarded-Server", "X-Original-Host", "X-Host", "X-Tenant", "X-Tenant-Id", "X-Schema", "X-Schemata", "X-Database", "X-Api-Name"} {
		for _, value := range []string{"y.test", "tb"} {
			if a := rig.ask("", whoAndNotes, hosted("x.test"), headed(name, value)); !a.is("app visitor", "ta", "1") {
				t.Errorf("%s: %s: %d %s", name, value, a.status, a.text)
			}
		}
	}
	for name, value := range map[string]string{"Forwarded": "host=y.test", "X-Role": "guest", "X-Claim-Sub": "u1"} {
		if a := rig.ask("", whoAndNotes, hosted("x.test"), headed(name, value)); !a.is("app visitor", "ta", "1") {
			t.Errorf("%s: %s: %d %s", name, value, a.status, a.text)
		}
	}
	if a := rig.ask("", whoAndNotes, hosted("y.test")); !a.is("app visitor", "tb", "1", "2", "3", "4") {
		t.Errorf("void: %d %s", a.status, a.text)
	}
}
