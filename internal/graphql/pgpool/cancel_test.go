package pgpool_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/leveehq/levee/internal/graphql/pgpool"
	"github.com/leveehq/levee/internal/pglocal/pgtest"
)

func TestQ14ACallerThatLeavesEndsItsQueryAndTheConnectionStaysGood(t *testing.T) {
	b, d, _ := database(t, pgpool.Options{Budget: 1})
	see := observer(t)
	pid := ask(t, d, "select pg_backend_pid()")[0]
	gone := errors.New("the client has gone")
	ctx, cancel := context.WithCancelCause(context.Background())
	result := make(chan error)
	go func() {
		result <- d.Do(ctx, "key", pgpool.Request{Statements: []pgpool.Statement{text("select pg_sleep(60), set_config('a.b', 'left', false)", nil)}})
	}()
	sleeps := "select count(*) from pg_stat_activity where state = 'active' and query like 'select pg_sleep(60)%'"
	until(t, 5*time.Second, "it sleeps", func() bool { return see(sleeps) == "1" })
	began := time.Now()
	cancel(gone)
	if err := <-result; !errors.Is(err, gone) {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 2*time.Second || see(sleeps) != "0" {
		t.Fatalf("after %v %s still sleep", took, see(sleeps))
	}
	for range 20 { // a cancel request that came late would hit one of these
		if got := ask(t, d, "select pg_backend_pid(), coalesce(current_setting('a.b', true), '')"); got[0] != pid || got[1] != "" {
			t.Fatalf("the connection after: %v, before: %s", got, pid)
		}
	}
	if s := b.Stats(); s.Canceled != 1 || s.Opened != 1 {
		t.Fatalf("%+v", s)
	}
}

// PostgreSQL drops a cancel request that comes between two messages of ours, such as those that begin a statement.
func TestQ14ACallerThatLeavesAsItsStatementBeginsEndsItToo(t *testing.T) {
	b, d, _ := database(t, pgpool.Options{Budget: 1})
	see := observer(t)
	ask(t, d, "select 1")
	for i := range 200 {
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Microsecond+time.Duration(i)*10*time.Microsecond)
		_ = d.Do(ctx, "key", pgpool.Request{Statements: []pgpool.Statement{text("select pg_sleep(60)", nil)}})
		cancel()
	}
	if n := see("select count(*) from pg_stat_activity where state = 'active' and query like 'select pg_sleep(60)%'"); n != "0" || b.Stats().Opened != 1 {
		t.Fatalf("%s go on; the connection was not kept: %+v", n, b.Stats())
	}
}

func TestQ14ATimeoutIsTheRequestsOwnAndNeverRoundsToNone(t *testing.T) {
	_, d, _ := database(t, pgpool.Options{Budget: 1})
	sleep := func(limit time.Duration, seconds float64) (time.Duration, error) {
		began := time.Now()
		err := d.Do(context.Background(), "key", pgpool.Request{Timeout: limit, Statements: []pgpool.Statement{text(fmt.Sprintf("select pg_sleep(%v)", seconds), nil)}})
		return time.Since(began), err
	}
	if took, err := sleep(500*time.Millisecond, 20); code(err) != "57014" || took < 450*time.Millisecond || took > 10*time.Second {
		t.Fatalf("500 ms: %v, %v", took, err)
	}
	if took, err := sleep(400*time.Microsecond, 20); code(err) != "57014" || took > 10*time.Second {
		t.Fatalf("0.4 ms: %v, %v", took, err)
	}
	if _, err := sleep(0, 0.6); err != nil {
		t.Fatalf("the next request has the limit of the former: %v", err)
	}
}

func TestQ14AMutationWhoseCallerLeavesIsWholeOrNotAtAll(t *testing.T) {
	_, d, name := database(t, pgpool.Options{Budget: 1})
	pgtest.Exec(t, name, "create table mark (id int)")
	for i := range 40 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*100*time.Microsecond)
		_ = d.Do(ctx, "key", pgpool.Request{Statements: []pgpool.Statement{
			text(fmt.Sprintf("insert into mark values (%d)", i), nil), text("select pg_sleep(0.001)", nil), text(fmt.Sprintf("insert into mark values (%d)", i), nil)}})
		cancel()
	}
	if got := ask(t, d, "select count(*) from (select id from mark group by id having count(*) <> 2) half"); got[0] != "0" {
		t.Fatalf("%s are half done", got[0])
	}
}

func TestAnErrorOfTheCallersOwnEndsALargeAnswerAndKeepsTheConnection(t *testing.T) {
	b, d, _ := database(t, pgpool.Options{Budget: 1})
	enough := errors.New("enough")
	rows := 0
	err := d.Do(context.Background(), "key", pgpool.Request{Statements: []pgpool.Statement{{
		SQL:  "select repeat('x', 1000) from generate_series(1, 10000000)",
		Each: func([][]byte) error { rows++; return enough },
	}}})
	if !errors.Is(err, enough) || rows != 1 {
		t.Fatalf("%v after %d rows", err, rows)
	}
	ask(t, d, "select 1")
	if s := b.Stats(); s.Opened != 1 {
		t.Fatalf("%+v", s)
	}
}

func TestAMessageAboveTheLimitIsNotRead(t *testing.T) {
	b, d, _ := database(t, pgpool.Options{Budget: 1, MaxMessage: 1 << 20})
	var grown []int64
	one := func(size int) error {
		return d.Do(context.Background(), "key", pgpool.Request{
			Grow: func(n int64) error { grown = append(grown, n); return nil },
			Statements: []pgpool.Statement{{SQL: fmt.Sprintf("select repeat('x', %d)", size), Each: func(v [][]byte) error {
				if len(v[0]) != size {
					t.Errorf("%d bytes instead of %d", len(v[0]), size)
				}
				return nil
			}}},
		})
	}
	for _, size := range []int{10, 20_000, 60_000, 100_000, 1 << 19} {
		if err := one(size); err != nil {
			t.Fatal(err)
		}
	}
	if len(grown) != 2 || grown[0] < 100_000 || grown[1] < 1<<19 {
		t.Fatalf("Grow was called with %v", grown)
	}
	var large *pgpool.TooLarge
	if err := one(8 << 20); !errors.As(err, &large) || large.Declared < 8<<20 || large.Limit != 1<<20 {
		t.Fatal(err)
	}
	if err := one(10); err != nil || b.Stats().Opened != 1 {
		t.Fatalf("%v, %+v", err, b.Stats())
	}
	full := errors.New("no room for that")
	err := d.Do(context.Background(), "key", pgpool.Request{Grow: func(int64) error { return full },
		Statements: []pgpool.Statement{{SQL: "select repeat('x', 100000)", Each: func([][]byte) error { return nil }}}})
	if !errors.Is(err, full) {
		t.Fatal(err)
	}
	if err := one(10); err != nil {
		t.Fatal(err)
	}
}

func TestALargeRequestIsWrittenWhileItsAnswerIsRead(t *testing.T) {
	_, d, _ := database(t, pgpool.Options{Budget: 1, MaxMessage: 64 << 20})
	large := make([]byte, 12<<20)
	for i := range large {
		large[i] = 'x'
	}
	var r pgpool.Request
	got := 0
	for range 3 {
		r.Statements = append(r.Statements, pgpool.Statement{SQL: "select $1::text", Params: [][]byte{large}, Each: func(v [][]byte) error { got += len(v[0]); return nil }})
	}
	if err := d.Do(context.Background(), "key", r); err != nil || got != 3*len(large) {
		t.Fatalf("%d bytes, %v", got, err)
	}
}

func TestAPanicOfTheCallersGivesEverythingBack(t *testing.T) {
	b, d, _ := database(t, pgpool.Options{Budget: 1})
	func() {
		defer func() { _ = recover() }()
		_ = d.Do(context.Background(), "key", pgpool.Request{Statements: []pgpool.Statement{{SQL: "select 1", Each: func([][]byte) error { panic("mine") }}}})
	}()
	if s := b.Stats(); s.InUse != 0 || s.Open != 0 {
		t.Fatalf("%+v", s)
	}
	ask(t, d, "select 1")
}
