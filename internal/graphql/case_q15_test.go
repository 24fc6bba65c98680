package graphql

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"sync"
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

func TestQ15ThirtyTenantsStayWithinTheBudgetAndAServerWithoutRoomIs503(t *testing.T) {
	const budget, databases, schemas = 15, 6, 5
	server, see := crowded(t)
	var o Options
	o.Connections, o.ConnectionsPerDatabase, o.Wait = budget, 10, 20*time.Second
	for i := range databases {
		name := fmt.Sprintf("db%d", i)
		see("create database " + name)
		conn, err := pgconn.Connect(t.Context(), server.URL("postgres", name))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(t.Context())
		for j := range schemas {
			schema := fmt.Sprintf("s%d", j)
			if _, err := conn.Exec(t.Context(), notes(schema)).ReadAll(); err != nil {
				t.Fatal(err)
			}
			tenant := visitors(t, name, schema)
			tenant.Name, tenant.DatabaseURL = name+schema, server.URL("app", name)
			o.Tenants = append(o.Tenants, tenant)
		}
		conn.Close(t.Context())
	}
	c := startCase(t, o)
	done := make(chan struct{})
	var all sync.WaitGroup
	for _, tenant := range o.Tenants {
		for range 3 {
			all.Go(func() {
				for range 4 {
					c.sees(tenant.Name, []string{"1", "2"}, sub(t, "u1"))
				}
			})
		}
	}
	go func() { all.Wait(); close(done) }()
	most := 0
	within(t, 60*time.Second, "all are answered", func() bool {
		n, err := strconv.Atoi(see("select count(*) from pg_stat_activity where usename = 'app'"))
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, n)
		select {
		case <-done:
			return true
		default:
			return false
		}
	})
	if most > budget || most < budget/2 {
		t.Errorf("PostgreSQL saw %d connections of a budget of %d", most, budget)
	}
	c.withoutRoom(server, see, o.Tenants[0].Name)
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
