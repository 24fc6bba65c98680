package tenants

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leveehq/levee/internal/e2e/rig"
	"github.com/leveehq/levee/internal/pglocal"
)

const (
	count  = 30
	budget = 15
	wait   = time.Second // graphql.wait
)

// schema is each tenant's. Its functions answer with the name of the database that they run in, and so do its notes.
const schema = `
	create role visitor;
	create role app login noinherit;
	grant visitor to app;
	create database pattern;`

const pattern = `
	create schema api;
	create table api.note (id bigint primary key, body text not null);
	create table api.written (at timestamptz default now());
	create function api.nap(seconds float8) returns text stable language plpgsql as $$ begin perform pg_sleep(seconds); return current_database(); end $$;
	create function api.note_write() returns text volatile security definer language sql as $$ insert into api.written default values; select current_database()::text $$;
	grant usage on schema api to visitor;
	grant select on api.note to visitor`

func name(tenant int) string { return fmt.Sprintf("t%02d", tenant) }

// cluster is a PostgreSQL server with a database for each tenant.
type cluster struct{ *pglocal.Server }

// newCluster has few more connections than the budget: what goes beyond it would be told by PostgreSQL as well.
func newCluster(t testing.TB) *cluster {
	t.Helper()
	dir, err := os.MkdirTemp("", "tenants")
	if err != nil {
		t.Fatal(err)
	}
	s, err := pglocal.New(pglocal.Options{Dir: dir, Settings: map[string]string{"max_connections": "20", "superuser_reserved_connections": "3", "autovacuum": "off"}})
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{s}
	c.start(t)
	t.Cleanup(func() { c.Stop(); _ = os.RemoveAll(dir) })
	c.exec(t, "postgres", schema)
	c.exec(t, "pattern", pattern)
	for i := range count {
		c.exec(t, "postgres", "create database "+name(i)+" template pattern ")
		c.exec(t, name(i), "insert into api.note select i, current_database() from generate_series(1, 3) i")
	}
	return c
}

func (c *cluster) start(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) exec(t testing.TB, database, sql string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgconn.Connect(ctx, c.URL("postgres", database))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	for _, statement := range strings.Split(sql, ";\n") { // some do not run beside others
		if _, err := conn.Exec(ctx, statement).ReadAll(); err != nil {
			t.Fatal(err)
		}
	}
}

// serve starts the command over all of them.
func (c *cluster) serve(t testing.TB, perDatabase int) *rig.Server {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "graphql {\n  connections = %d\n  connections_per_database = %d\n  wait = %q\n  anonymous_role = \"visitor\"\n", budget, perDatabase, wait)
	for i := range count {
		fmt.Fprintf(&b, "  tenant %q {\n    database_url = %q\n    schemas = [\"api\"]\n  }\n", name(i), c.URL("app", name(i)))
	}
	b.WriteString("}\n")
	file := filepath.Join(t.TempDir(), "levee.hcl")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return rig.Start(t, t.TempDir(), "--config", file, "--memory-limit", "1GiB")
}
