package tenants

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// writtenAsTold compares what the clients of a load, which has ended, were told of their mutations with what is in the tables: what was
// answered without an error is there once, what was turned away is not, and what is unknown is there once or not.
func (c *cluster) writtenAsTold(t testing.TB, l *load) {
	t.Helper()
	there := c.written(t)
	var done, refused, lost, lostButDone int
	for key, a := range l.mu.told {
		n := there[key]
		switch a.code {
		case "":
			done++
			if n != 1 {
				t.Errorf("a mutation that was answered is there %d times: %+v", n, a)
			}
		case unknown:
			lost++
			lostButDone += n
			if n > 1 {
				t.Errorf("a mutation was repeated %d times: %+v", n, a)
			}
		default:
			refused++
			if n != 0 {
				t.Errorf("a mutation that was turned away is there %d times: %+v", n, a)
			}
		}
	}
	t.Logf("mutations: %d done, %d turned away, %d unknown of which %d were done", done, refused, lost, lostButDone)
	if done == 0 {
		t.Error("no mutation was answered")
	}
}

// written is how often each key is in the tables of all tenants.
func (c *cluster) written(t testing.TB) map[string]int {
	t.Helper()
	var all []string
	for i := range count {
		all = append(all, "select key from "+name(i)+".written")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgconn.Connect(ctx, c.URL("postgres", "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	r := conn.ExecParams(ctx, strings.Join(all, " union all "), nil, nil, nil, nil).Read()
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	there := map[string]int{}
	for _, row := range r.Rows {
		there[string(row[0])]++
	}
	return there
}
