package graphql

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leveehq/levee/internal/graphql/auth"
	"github.com/leveehq/levee/internal/pglocal/pgtest"
)

// The tests named after cases of docs/cases.md (TestQ…) ask a whole service over HTTP, with PostgreSQL behind it. Their fixture is
// a schema of notes that belong to two owners, and some functions of ill behaviour.

const noteRoles = `do $$ begin
	if not exists (select from pg_roles where rolname = 'visitor') then create role visitor; end if;
	if not exists (select from pg_roles where rolname = 'app') then create role app login noinherit; grant visitor to app; end if;
end $$;`

const noteSchema = `
create schema S;
create table S.note(id bigint primary key, owner text, body text, parent_id bigint references S.note(id));
create index on S.note(parent_id);
alter table S.note enable row level security;
create policy own on S.note using (owner = current_setting('jwt.claims.sub', true));
insert into S.note select i, case when i <= 2 then 'u1' else 'u2' end, 'S', null from generate_series(1, 4) i;
grant usage on schema S to visitor;
grant select, insert, update, delete on S.note to visitor;
create function S.nap(seconds float8) returns int stable language plpgsql as $$ begin perform pg_sleep(seconds); return 1; end $$;
create function S.nap_and_write(seconds float8, row_id bigint) returns int volatile language plpgsql as
	$$ begin insert into S.note values (row_id, 'u1', 'first', null); perform pg_sleep(seconds); insert into S.note values (row_id + 1, 'u1', 'second', null); return 1; end $$;
create function S.set_it(name text, value text) returns text volatile language sql as $$ select set_config(name, value, false) $$;
create function S.who() returns text stable language sql as $$ select session_user || ' ' || current_user || ' ' || coalesce(current_setting('jwt.claims.sub', true), '') || ' ' || coalesce(current_setting('jwt.claims.odd', true), '') $$;
create function S.prepared() returns int stable language sql as $$ select count(*)::int from pg_prepared_statements $$;
create function S.fails(kind text) returns int stable language plpgsql as $$ begin
	case kind
	when 'cast' then return 'the-secret-4711'::int;
	when 'zero' then return 1 / 0;
	when 'raise' then raise exception 'no more than three' using hint = 'ask for two';
	when 'raise own' then raise exception 'own kind' using errcode = 'LV001', hint = 'own hint', detail = 'own detail';
	end case;
	return 0;
end $$;
`

// notes is the fixture's SQL for schemas of these names.
func notes(schemas ...string) string {
	sql := noteRoles
	for _, name := range schemas {
		sql += strings.NewReplacer("S.", name+".", "schema S", "schema "+name, "'S'", "'"+name+"'").Replace(noteSchema)
	}
	return sql
}

// visitors is the fixture's tenant: its login owns nothing, and everybody is a visitor with or without a token.
func visitors(t testing.TB, database, schema string) Tenant {
	return Tenant{
		Name: schema, DatabaseURL: pgtest.Server(t).URL("app", database), Schemas: []string{schema},
		Auth: auth.Options{Secret: testSecret, AllowNoExp: true, AnonymousRole: "visitor", DefaultRole: "visitor"},
	}
}

// caseRig is a service that the clients of a case ask.
type caseRig struct {
	*testing.T
	service *Service
	url     string
	log     *logBuffer
}

func startCase(t *testing.T, o Options) *caseRig {
	t.Helper()
	c := &caseRig{T: t, log: &logBuffer{}}
	o.Logger = slog.New(slog.NewTextHandler(c.log, nil))
	t.Cleanup(func() {
		if t.Failed() {
			log := c.log.String()
			t.Logf("the end of the service's log:\n%s", log[max(0, len(log)-4000):])
		}
	})
	c.service, c.url = serve(t, o)
	return c
}

type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// answered is what a client got.
type answered struct {
	status int
	header http.Header
	text   string
	Data   map[string]any
	Errors []struct {
		Message    string
		Path       []any
		Extensions map[string]any
	}
}

// code is that of the first error, "" without one.
func (a answered) code() string {
	if len(a.Errors) == 0 {
		return ""
	}
	code, _ := a.Errors[0].Extensions["code"].(string)
	return code
}

// turnedAway tells whether the answer is a shed that says so.
func (a answered) turnedAway() bool {
	after, err := strconv.Atoi(a.header.Get("Retry-After"))
	return a.status == http.StatusServiceUnavailable && err == nil && after >= 1 && a.code() != ""
}

// with changes a request before it is sent.
type with func(*http.Request)

func sub(t testing.TB, name string) with {
	return func(r *http.Request) { byToken(t)(r.Header, "", map[string]string{"sub": name}) }
}

func headed(name, value string) with { return func(r *http.Request) { r.Header.Set(name, value) } }

func hosted(name string) with { return func(r *http.Request) { r.Host = name } }

// try sends a query to a tenant ("" is that of /graphql itself).
func (c *caseRig) try(ctx context.Context, tenant, query string, change ...with) (a answered, err error) {
	body, err := json.Marshal(map[string]string{"query": query})
	if err != nil {
		return a, err
	}
	url := c.url
	if tenant != "" {
		url += "/" + tenant
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return a, err
	}
	r.Header.Set("Content-Type", "application/json")
	for _, ch := range change {
		ch(r)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return a, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return a, err
	}
	a.status, a.header, a.text = response.StatusCode, response.Header, string(text)
	if err := json.Unmarshal(text, &a); err != nil {
		return a, fmt.Errorf("%d %.200s: %w", response.StatusCode, text, err)
	}
	return a, nil
}

// ask is try for those who expect an answer. It may be called from any goroutine.
func (c *caseRig) ask(tenant, query string, change ...with) answered {
	c.Helper()
	a, err := c.try(c.Context(), tenant, query, change...)
	if err != nil {
		c.Error(err)
	}
	return a
}

const allNotes = `{ allNotes { nodes { rowId body } } }`

// rows are the ids of the notes in an answer to allNotes, and their bodies, each once.
func (a answered) rows() (ids, bodies []string) {
	list, _ := a.Data["allNotes"].(map[string]any)
	nodes, _ := list["nodes"].([]any)
	for _, n := range nodes {
		node := n.(map[string]any)
		ids = append(ids, node["rowId"].(string))
		if body := node["body"].(string); !slices.Contains(bodies, body) {
			bodies = append(bodies, body)
		}
	}
	return ids, bodies
}

// sees holds that a request answers 200 with the notes of these ids and no others.
func (c *caseRig) sees(tenant string, want []string, change ...with) {
	c.Helper()
	a := c.ask(tenant, allNotes, change...)
	if ids, _ := a.rows(); a.status != http.StatusOK || len(a.Errors) > 0 || !slices.Equal(ids, want) {
		c.Errorf("%d: got rows %v, want %v: %.300s", a.status, ids, want, a.text)
	}
}

// observer is the superuser's look at the server, beside the service's.
func observer(t testing.TB) func(sql string) string { return observerOf(t, "postgres") }

func observerOf(t testing.TB, database string) func(sql string) string {
	t.Helper()
	conn, err := pgconn.Connect(context.Background(), pgtest.Server(t).URL("postgres", database))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return func(sql string) string {
		t.Helper()
		r, err := conn.Exec(context.Background(), sql).ReadAll()
		if err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		if len(r) == 0 || len(r[0].Rows) == 0 {
			return ""
		}
		return string(r[0].Rows[0][0])
	}
}

// connectionsTo counts the service's connections to a database.
func connectionsTo(database, more string) string {
	return fmt.Sprintf("select count(*) from pg_stat_activity where datname = '%s' and usename = 'app' %s", database, more)
}

// within waits for a condition.
func within(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(limit); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("after %v not yet: %s", limit, what)
		}
	}
}
