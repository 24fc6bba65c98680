package tenants

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

const connections = "select count(*) from pg_stat_activity where usename like 't__'"

// watch counts the command's connections for a tenant, or with "" for all, every few milliseconds, on a connection of its own that is
// made again when the server comes back. It ends when told, with the largest number and how often it looked.
func (c *cluster) watch(t testing.TB, tenant string) (end func() (most, looks int)) {
	t.Helper()
	sql := connections
	if tenant != "" {
		sql += fmt.Sprintf(" and usename = '%s'", tenant)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var most, looks int
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(3 * time.Millisecond)
		defer tick.Stop()
		var conn *pgconn.PgConn
		for {
			select {
			case <-ctx.Done():
				if conn != nil {
					conn.Close(context.Background())
				}
				return
			case <-tick.C:
			}
			var n int
			if conn, n = look(ctx, conn, c.URL("postgres", "postgres"), sql); n >= 0 {
				most, looks = max(most, n), looks+1
			}
		}
	})
	end = sync.OnceValues(func() (int, int) { cancel(); done.Wait(); return most, looks })
	t.Cleanup(func() { end() })
	return end
}

// look is -1 while there is no server.
func look(ctx context.Context, conn *pgconn.PgConn, url, sql string) (*pgconn.PgConn, int) {
	if conn == nil || conn.IsClosed() {
		var err error
		if conn, err = pgconn.Connect(ctx, url); err != nil {
			return nil, -1
		}
	}
	r, err := conn.Exec(ctx, sql).ReadAll()
	if err != nil || len(r) == 0 {
		return conn, -1
	}
	n, err := strconv.Atoi(string(r[0].Rows[0][0]))
	if err != nil {
		return conn, -1
	}
	return conn, n
}

// watchFor is a number that PostgreSQL knows, at the time of the call.
func (c *cluster) watchFor(t testing.TB, sql string) func() int {
	t.Helper()
	var conn *pgconn.PgConn
	t.Cleanup(func() {
		if conn != nil {
			conn.Close(context.Background())
		}
	})
	return func() (n int) {
		conn, n = look(context.Background(), conn, c.URL("postgres", "postgres"), sql)
		return n
	}
}
