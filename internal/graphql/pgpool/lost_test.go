package pgpool_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leveehq/levee/gate"
	"github.com/leveehq/levee/internal/graphql/pgpool"
	"github.com/leveehq/levee/internal/pglocal"
	"github.com/leveehq/levee/internal/pglocal/pgtest"
)

func TestADeadIdleConnectionIsReplacedWithoutAnError(t *testing.T) {
	b, d, _ := database(t, pgpool.Options{Budget: 3})
	see := observer(t)
	for range 5 {
		pid := ask(t, d, "select pg_backend_pid()")[0]
		see("select pg_terminate_backend(" + pid + ", 5000)")
		if got := ask(t, d, "select pg_backend_pid()")[0]; got == pid {
			t.Fatal("the dead have answered")
		}
	}
	if s := b.Stats(); s.Closed["lost"] != 5 || s.Open != 1 {
		t.Fatalf("%+v", s)
	}
}

func TestAnIdempotentRequestIsRepeatedOnAFreshConnection(t *testing.T) {
	b, d, name := database(t, pgpool.Options{Budget: 2})
	pgtest.Exec(t, name, "create table fuse (id int); insert into fuse values (1)")
	// It ends its own session, unless that was done before; what it did first is not undone by that.
	pgtest.Exec(t, name, `create function burn() returns text language plpgsql as $$ declare n int; begin
		if nextval('burnt') = 1 then perform pg_terminate_backend(pg_backend_pid()); perform pg_sleep(5); end if; return 'ash'; end $$; create sequence burnt`)
	var out []string
	r := pgpool.Request{Idempotent: true, Statements: []pgpool.Statement{text("select burn()", &out)}}
	if err := d.Do(context.Background(), "key", r); err != nil || !slices.Equal(out, []string{"ash"}) {
		t.Fatalf("%v, %v", out, err)
	}
	if s := b.Stats(); s.Repeated != 1 {
		t.Fatalf("%+v", s)
	}
}

// private is a server of this test's own, to be killed.
func private(t *testing.T, settings map[string]string) *pglocal.Server {
	t.Helper()
	dir, err := os.MkdirTemp("", "pool")
	if err != nil {
		t.Fatal(err)
	}
	s, err := pglocal.New(pglocal.Options{Dir: dir, Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.Start(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop(); _ = os.RemoveAll(dir) })
	return s
}

// counted passes connections on to a server, and counts them.
func counted(t *testing.T, s *pglocal.Server, n *atomic.Int64) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			n.Add(1)
			all.Go(func() { pass(from, fmt.Sprintf("127.0.0.1:%d", s.Port())) })
		}
	})
	t.Cleanup(func() { l.Close(); all.Wait() })
	return fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable", l.Addr())
}

func pass(from net.Conn, address string) {
	defer from.Close()
	to, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer to.Close()
	var both sync.WaitGroup
	both.Go(func() { _, _ = to.(*net.TCPConn).ReadFrom(from); _ = to.(*net.TCPConn).CloseWrite() })
	_, _ = from.(*net.TCPConn).ReadFrom(to)
	from.Close()
	both.Wait()
}

func TestAServerThatIsKilledAndStartedAgainUnderLoadIsUsedAgainWithinFiveSeconds(t *testing.T) {
	s := private(t, nil)
	b := rig(t, pgpool.Options{Budget: 8})
	d := open(t, b, s.URL("postgres", "postgres"))
	ctx, cancel := context.WithCancel(context.Background())
	var good, bad, slowest atomic.Int64
	var load sync.WaitGroup
	for i := range 16 {
		load.Go(func() {
			for ctx.Err() == nil {
				began := time.Now()
				_, err := try(d, "select 1 from pg_sleep(0.002)")
				slowest.Store(max(slowest.Load(), int64(time.Since(began))))
				var gone *pgpool.Unavailable
				var shed *gate.Shed
				switch {
				case err == nil:
					good.Add(1)
				case errors.As(err, &gone), errors.As(err, &shed):
					bad.Add(1)
					select { // a client that is told to come back later
					case <-time.After(5 * time.Millisecond):
					case <-ctx.Done():
					}
				default:
					t.Errorf("client %d: %v", i, err)
					return
				}
			}
		})
	}
	for _, end := range []func(){s.Kill, s.Stop} {
		before := good.Load()
		until(t, 10*time.Second, "it works", func() bool { return good.Load() > before+50 })
		end()
		failed := bad.Load()
		until(t, 5*time.Second, "requests fail", func() bool { return bad.Load() > failed+50 })
		starting, done := context.WithTimeout(context.Background(), time.Minute)
		if err := s.Start(starting); err != nil {
			t.Fatal(err)
		}
		done()
		before = good.Load()
		until(t, 5*time.Second, "it recovers", func() bool { return good.Load() > before+50 })
	}
	cancel()
	load.Wait()
	t.Logf("%d good, %d failed, the slowest took %v; %+v", good.Load(), bad.Load(), time.Duration(slowest.Load()), b.Stats())
	if slow := time.Duration(slowest.Load()); slow > 3*time.Second {
		t.Errorf("a request took %v", slow)
	}
}

func TestADatabaseThatDoesNotExistIsUnavailableAndHoldsNobodyUp(t *testing.T) {
	b, d, _ := database(t, pgpool.Options{Budget: 1})
	wrong := open(t, b, "postgres://postgres:secret@127.0.0.1:"+fmt.Sprint(pgtest.Server(t).Port())+"/no_such?sslmode=disable")
	_, err := try(wrong, "select 1")
	var gone *pgpool.Unavailable
	if !errors.As(err, &gone) || code(err) != "3D000" {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("postgres@127.0.0.1:%d/no_such", pgtest.Server(t).Port()); wrong.Name() != want {
		t.Fatal(wrong.Name())
	}
	ask(t, d, "select 1")
	if s := b.Stats(); s.Failures != 1 || s.Open != 1 || !slices.ContainsFunc(s.Databases, func(d pgpool.DatabaseStats) bool { return d.Down }) {
		t.Fatalf("%+v", s)
	}
}
