package graphql

import (
	"context"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leveehq/levee/internal/pglocal"
)

// crowded is a PostgreSQL of this test's own that has room for twenty connections, and a look at it.
func crowded(t *testing.T) (s *pglocal.Server, see func(sql string) string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "crowded")
	if err != nil {
		t.Fatal(err)
	}
	if s, err = pglocal.New(pglocal.Options{Dir: dir, Settings: map[string]string{"max_connections": "20"}}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.Start(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop(); _ = os.RemoveAll(dir) })
	conn, err := pgconn.Connect(ctx, s.URL("postgres", "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return s, func(sql string) string {
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

// That thirty tenants stay within a budget of fifteen is asked of the command: see internal/e2e/tenants.
func TestQ15AServerWithoutRoomIs503ForTheWholeRequestAndIsNotStormed(t *testing.T) {
	server, see := crowded(t)
	see(notes("ta"))
	tenant := visitors(t, "postgres", "ta")
	tenant.DatabaseURL = server.URL("app", "postgres")
	c := startCase(t, Options{Tenants: []Tenant{tenant}, Connections: 15})
	c.sees("ta", []string{"1", "2"}, sub(t, "u1"))
	c.withoutRoom(server, see, "ta")
}

// withoutRoom has others take all connections of the server, ours too.
func (c *caseRig) withoutRoom(server *pglocal.Server, see func(string) string, tenant string) {
	var taken []*pgconn.PgConn
	defer func() {
		for _, conn := range taken {
			conn.Close(context.Background())
		}
	}()
	take := func() {
		for {
			conn, err := pgconn.Connect(context.Background(), server.URL("postgres", "postgres"))
			if err != nil {
				return
			}
			taken = append(taken, conn)
		}
	}
	see("select pg_terminate_backend(pid) from pg_stat_activity where usename = 'app'")
	within(c.T, 10*time.Second, "there is no room", func() bool {
		take()
		return see("select count(*) from pg_stat_activity where usename = 'app'") == "0" && !c.ok(tenant)
	})
	failures, began := c.service.pool.Stats().Failures, time.Now()
	asked := 0
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for ; time.Since(began) < 2*time.Second; <-tick.C {
		a := c.ask(tenant, `{ a: nap(seconds: 0) allNotes { nodes { rowId } } }`, sub(c.T, "u1"))
		if !a.turnedAway() || a.code() != CodeUnavailable || a.Data != nil {
			c.Errorf("%d %s", a.status, a.text)
		}
		asked++
	}
	if n := c.service.pool.Stats().Failures - failures; n < 1 || n > 2*5 {
		c.Errorf("%d attempts to connect within 2 s, for %d requests", n, asked)
	}
	for _, conn := range taken {
		conn.Close(context.Background())
	}
	taken = nil
	within(c.T, 5*time.Second, "it recovers", func() bool { return c.ok(tenant) })
}

func (c *caseRig) ok(tenant string) bool {
	return c.ask(tenant, allNotes, sub(c.T, "u1")).status == http.StatusOK
}
