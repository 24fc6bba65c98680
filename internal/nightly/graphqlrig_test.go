package nightly

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leveehq/levee/internal/e2e/rig"
	"github.com/leveehq/levee/internal/pglocal"
)

// farm is a PostgreSQL server with a schema t0, t1, … for each tenant, all in one database unless they are added apart.
type farm struct {
	*pglocal.Server
	config strings.Builder
}

func newFarm(t *testing.T) *farm {
	t.Helper()
	dir, err := os.MkdirTemp("", "farm")
	if err != nil {
		t.Fatal(err)
	}
	s, err := pglocal.New(pglocal.Options{Dir: dir, Settings: map[string]string{"max_connections": "100", "max_locks_per_transaction": "1024"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.Start(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop(); _ = os.RemoveAll(dir) })
	f := &farm{Server: s}
	f.exec(t, "postgres", "create role visitor; create role app login noinherit; grant visitor to app")
	return f
}

func (f *farm) exec(t *testing.T, database, sql string) {
	t.Helper()
	conn, err := pgconn.Connect(t.Context(), f.URL("postgres", database))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	if _, err := conn.Exec(t.Context(), sql).ReadAll(); err != nil {
		t.Fatal(err)
	}
}

// add makes a tenant of so many tables. Its notes say whose they are.
func (f *farm) add(t *testing.T, database, name string, tables int) {
	t.Helper()
	sql := strings.ReplaceAll(`create schema S; grant usage on schema S to visitor;
		create table S.note(id bigint primary key, body text);
		insert into S.note select i, 'S' from generate_series(1, 3) i;
		create function S.nap(seconds float8) returns int stable language plpgsql as $$ begin perform pg_sleep(seconds); return 1; end $$;
		do $$ begin for i in 2..NUMBER loop
			execute format('create table S.thing_%s(id bigint primary key, note_id bigint references S.note, title text not null, state text, score int, at timestamptz)', i);
			execute format('create index on S.thing_%s(note_id)', i);
		end loop; end $$;
		grant select on all tables in schema S to visitor;`, "S", name)
	f.exec(t, database, strings.ReplaceAll(sql, "NUMBER", fmt.Sprint(tables)))
	fmt.Fprintf(&f.config, "  tenant %q {\n    database_url = %q\n    schemas = [%q]\n  }\n", name, f.URL("app", database), name)
}

func tenantNames(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("t%d", i))
	}
	return names
}

// serve starts the command with these settings of graphql and these flags.
func (f *farm) serve(t *testing.T, settings string, flags ...string) *rig.Server {
	t.Helper()
	file := filepath.Join(t.TempDir(), "levee.hcl")
	text := "graphql {\n  anonymous_role = \"visitor\"\n" + settings + "\n" + f.config.String() + "}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return rig.Start(t, t.TempDir(), append([]string{"--config", file}, flags...)...)
}

var graphqlClient = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 600}, Timeout: 200 * time.Second}

// graphqlAnswer is what a client got: Code is "" or that of a 503 which says when to come back.
type graphqlAnswer struct {
	Code string
	Text string
	Took time.Duration
}

const itsNotes = `{ allNotes { nodes { body } } }`

// askTenant sends a query. All else than a 200 without errors and a proper shed is an error, and so are the notes of others.
func askTenant(s *rig.Server, tenant, query string) (a graphqlAnswer, err error) {
	body, err := json.Marshal(map[string]string{"query": query})
	if err != nil {
		return a, err
	}
	began := time.Now()
	response, err := graphqlClient.Post("http://"+s.HTTP+"/graphql/"+tenant, "application/json", bytes.NewReader(body))
	if err != nil {
		return a, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return a, err
	}
	a.Took, a.Text = time.Since(began), string(text)
	var in struct {
		Data   map[string]any
		Errors []struct{ Extensions struct{ Code string } }
	}
	err = json.Unmarshal(text, &in)
	switch {
	case err != nil:
	case response.StatusCode == http.StatusServiceUnavailable && response.Header.Get("Retry-After") != "" && len(in.Errors) == 1 && in.Errors[0].Extensions.Code != "":
		a.Code = in.Errors[0].Extensions.Code
		return a, nil
	case response.StatusCode != http.StatusOK || len(in.Errors) > 0:
		err = fmt.Errorf("an error")
	case query == itsNotes && strings.Count(a.Text, `"body":"`+tenant+`"`) != 3, strings.Count(a.Text, `"body"`) != strings.Count(a.Text, `"body":"`+tenant+`"`):
		err = fmt.Errorf("the rows of others")
	}
	if err != nil {
		err = fmt.Errorf("%s: %w: %d %.300s", tenant, err, response.StatusCode, text)
	}
	return a, err
}

// graphqlStatus is what /status shows of the service.
type graphqlStatus struct {
	Tenants []struct {
		Tenant       string  `json:"tenant"`
		Bytes        int64   `json:"bytes"`
		BuildSeconds float64 `json:"build_seconds"`
	} `json:"tenants"`
	Instances struct {
		Budget   int64             `json:"budget_bytes"`
		Charged  int64             `json:"charged_bytes"`
		Capacity int               `json:"capacity"`
		Resident int               `json:"resident"`
		Draining int               `json:"draining"`
		Closing  int               `json:"closing"`
		Building int               `json:"building"`
		Begun    uint64            `json:"builds_begun"`
		Failed   uint64            `json:"builds_failed"`
		Evicted  map[string]uint64 `json:"evicted"`
	} `json:"instances"`
	Connections struct {
		Open int `json:"open"`
	} `json:"connections"`
}

func statusOf(t *testing.T, s *rig.Server) graphqlStatus {
	t.Helper()
	var st struct {
		Services struct {
			GraphQL graphqlStatus `json:"graphql"`
		} `json:"services"`
	}
	if err := s.Status(&st); err != nil {
		t.Fatal(err)
	}
	return st.Services.GraphQL
}

// latencies may be added to from any goroutine.
type latencies struct {
	mu struct {
		sync.Mutex
		all []time.Duration
	}
}

func (l *latencies) add(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.all = append(l.mu.all, d)
}

func (l *latencies) p99() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.mu.all) == 0 {
		return 0
	}
	slices.Sort(l.mu.all)
	return l.mu.all[len(l.mu.all)*99/100]
}

func (l *latencies) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.mu.all)
}
