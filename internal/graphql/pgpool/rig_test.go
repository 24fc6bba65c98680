package pgpool_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/goleak"

	"github.com/leveehq/levee/internal/graphql/pgpool"
	"github.com/leveehq/levee/internal/pglocal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// rig is a budget and its goroutine, which end with the test.
func rig(t testing.TB, o pgpool.Options) *pgpool.Budget {
	t.Helper()
	leaks := []goleak.Option{goleak.IgnoreCurrent(), // and a server that the test starts again
		goleak.IgnoreAnyFunction("github.com/leveehq/levee/internal/pglocal.(*Server).launch.func1"),
		goleak.IgnoreAnyFunction("os/exec.(*Cmd).writerDescriptor.func1")}
	b, err := pgpool.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() { _ = b.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		run.Wait()
		closing, done := context.WithTimeout(context.Background(), 5*time.Second)
		defer done()
		if err := b.Close(closing); err != nil {
			t.Errorf("close: %v: %+v", err, b.Stats())
		}
		goleak.VerifyNone(t, leaks...)
	})
	return b
}

func open(t testing.TB, b *pgpool.Budget, url string) *pgpool.Database {
	t.Helper()
	d, err := b.Database(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

// database makes an empty one and returns a budget's handle on it and its name.
func database(t testing.TB, o pgpool.Options) (*pgpool.Budget, *pgpool.Database, string) {
	t.Helper()
	name := pgtest.Database(t)
	b := rig(t, o)
	return b, open(t, b, pgtest.Server(t).URL("postgres", name)), name
}

func text(sql string, out *[]string, params ...string) pgpool.Statement {
	s := pgpool.Statement{SQL: sql, TextResults: true}
	for _, p := range params {
		s.Params = append(s.Params, []byte(p))
	}
	if out != nil {
		s.Each = func(row [][]byte) error {
			for _, v := range row {
				if v == nil {
					*out = append(*out, "NULL")
					continue
				}
				*out = append(*out, string(v))
			}
			return nil
		}
	}
	return s
}

func ask(t testing.TB, d *pgpool.Database, sql string, settings ...pgpool.Setting) []string {
	t.Helper()
	out, err := try(d, sql, settings...)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return out
}

func try(d *pgpool.Database, sql string, settings ...pgpool.Setting) ([]string, error) {
	var out []string
	err := d.Do(context.Background(), "key", pgpool.Request{Settings: settings, Statements: []pgpool.Statement{text(sql, &out)}})
	return out, err
}

// tryReading is try as a request that only reads.
func tryReading(d *pgpool.Database, sql string, settings ...pgpool.Setting) ([]string, error) {
	var out []string
	err := d.Do(context.Background(), "key", pgpool.Request{Settings: settings, ReadOnly: true, Statements: []pgpool.Statement{text(sql, &out)}})
	return out, err
}

func askReading(t testing.TB, d *pgpool.Database, sql string, settings ...pgpool.Setting) []string {
	t.Helper()
	out, err := tryReading(d, sql, settings...)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return out
}

func code(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// observer is a connection of the superuser's beside the budget's.
func observer(t testing.TB) func(sql string) string {
	t.Helper()
	c, err := pgconn.Connect(context.Background(), pgtest.Server(t).URL("postgres", "postgres")+"&application_name=observer")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	return func(sql string) string {
		t.Helper()
		r, err := c.Exec(context.Background(), sql).ReadAll()
		if err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		if len(r) == 0 || len(r[0].Rows) == 0 {
			return ""
		}
		return string(r[0].Rows[0][0])
	}
}

func number(t testing.TB, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// until waits for a condition.
func until(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(limit); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("after %v not yet: %s", limit, what)
		}
	}
}
