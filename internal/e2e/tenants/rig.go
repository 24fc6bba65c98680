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

// schema is each tenant's, where T is its name. Notes and functions answer with that.
const schema = `
	create role T login noinherit;
	grant visitor to T;
	create schema T;
	create table T.note (id bigint primary key, body text not null);
	insert into T.note select i, 'T' from generate_series(1, 3) i;
	create table T.written (key text not null);
	create function T.nap(seconds float8) returns text stable language plpgsql as $$ begin perform pg_sleep(seconds); return 'T'; end $$;
	create function T.note_write(key text) returns text volatile security definer language plpgsql as $$ begin
		perform pg_sleep(0.004); insert into T.written values (key); perform pg_sleep(0.004); return 'T'; end $$;
	grant usage on schema T to visitor;
	grant select on T.note to visitor;`

func name(tenant int) string { return fmt.Sprintf("t%02d", tenant) }

// cluster is a PostgreSQL server with a schema and a login for each tenant. Connections are the login's, so they are shared as little as
// if each had a database of its own, which takes longer to make.
type cluster struct{ *pglocal.Server }

// newCluster has few more connections than the budget: what goes beyond it would be told by PostgreSQL as well. It keeps what it has
// committed when it is killed.
func newCluster(t testing.TB) *cluster {
	t.Helper()
	dir, err := os.MkdirTemp("", "tenants")
	if err != nil {
		t.Fatal(err)
	}
	s, err := pglocal.New(pglocal.Options{Dir: dir, Settings: map[string]string{"max_connections": "20", "superuser_reserved_connections": "3", "autovacuum": "off",
		"synchronous_commit": "on", "full_page_writes": "on"}})
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{s}
	c.start(t)
	t.Cleanup(func() { c.Stop(); _ = os.RemoveAll(dir) })
	sql := "create role visitor;"
	for i := range count {
		sql += strings.ReplaceAll(schema, "T", name(i))
	}
	c.exec(t, sql)
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

func (c *cluster) exec(t testing.TB, sql string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgconn.Connect(ctx, c.URL("postgres", "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, sql).ReadAll(); err != nil {
		t.Fatal(err)
	}
}

// serve starts the command over all of them.
func (c *cluster) serve(t testing.TB, perDatabase int) *rig.Server {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "graphql {\n  connections = %d\n  connections_per_database = %d\n  wait = %q\n  anonymous_role = \"visitor\"\n", budget, perDatabase, wait)
	for i := range count {
		fmt.Fprintf(&b, "  tenant %q {\n    database_url = %q\n    schemas = [%q]\n  }\n", name(i), c.URL(name(i), "postgres"), name(i))
	}
	b.WriteString("}\n")
	file := filepath.Join(t.TempDir(), "levee.hcl")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return rig.Start(t, t.TempDir(), "--config", file, "--memory-limit", "1GiB")
}
