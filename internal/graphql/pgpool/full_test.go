package pgpool_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leveehq/levee/gate"
	"github.com/leveehq/levee/internal/graphql/pgpool"
)

// fill takes the connections that a server has, but for so many.
func fill(t *testing.T, url string, leave int) (free func()) {
	t.Helper()
	var taken []*pgconn.PgConn
	for {
		c, err := pgconn.Connect(context.Background(), url)
		if err != nil {
			break
		}
		taken = append(taken, c)
	}
	free = func() {
		for _, c := range taken {
			c.Close(context.Background())
			<-c.CleanupDone()
		}
		taken = nil
	}
	t.Cleanup(free)
	for _, c := range taken[:leave] {
		c.Close(context.Background())
		<-c.CleanupDone()
	}
	taken = taken[leave:]
	return free
}

func TestQ15AServerWithoutRoomMakesRequestsUnavailableAndIsNotStormed(t *testing.T) {
	s := private(t, map[string]string{"max_connections": "10", "superuser_reserved_connections": "0"})
	b := rig(t, pgpool.Options{Budget: 8})
	var tries atomic.Int64
	d := open(t, b, counted(t, s, &tries))
	free := fill(t, s.URL("postgres", "postgres"), 0)
	began := time.Now()
	requests := 0
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for ; time.Since(began) < 3*time.Second; <-tick.C {
		_, err := try(d, "select 1")
		var gone *pgpool.Unavailable
		if !errors.As(err, &gone) || gone.Ran || code(err) != "53300" {
			t.Fatalf("a full server: %v", err)
		}
		requests++
	}
	if n := tries.Load(); n < 3 || n > 3*5 {
		t.Errorf("%d attempts for %d requests in 3 s", n, requests)
	}
	free()
	until(t, 5*time.Second, "it recovers", func() bool { _, err := try(d, "select 1"); return err == nil })
	t.Logf("%d attempts for %d requests", tries.Load(), requests)
}

func TestQ15RequestsTakeTurnsOnTheConnectionsThatAFullServerHasLeft(t *testing.T) {
	s := private(t, map[string]string{"max_connections": "10", "superuser_reserved_connections": "0"})
	b := rig(t, pgpool.Options{Budget: 8, Wait: 10 * time.Second})
	var tries atomic.Int64
	d := open(t, b, counted(t, s, &tries))
	fill(t, s.URL("postgres", "postgres"), 2)
	until(t, 5*time.Second, "there is room", func() bool { _, err := try(d, "select 1"); return err == nil })
	began, before, was := time.Now(), tries.Load(), b.Stats()
	var all sync.WaitGroup
	for range 12 {
		all.Go(func() {
			for range 10 {
				if _, err := try(d, "select pg_sleep(0.02)"); err != nil {
					t.Errorf("with connections of ours: %v", err)
				}
			}
		})
	}
	all.Wait()
	seconds := int64(time.Since(began)/time.Second) + 1
	if n := tries.Load() - before; n > 4*seconds {
		t.Errorf("%d attempts in %d s", n, seconds)
	}
	if st := b.Stats(); st.Failures == was.Failures || st.FastFail != was.FastFail || st.Open > 2 {
		t.Errorf("%+v", st)
	}
}

func TestQ15ARequestThatNoConnectionOfAFullServerComesFreeForIsShedInTime(t *testing.T) {
	s := private(t, map[string]string{"max_connections": "10", "superuser_reserved_connections": "0"})
	d := open(t, rig(t, pgpool.Options{Budget: 8, Wait: 300 * time.Millisecond}), s.URL("postgres", "postgres"))
	fill(t, s.URL("postgres", "postgres"), 1)
	until(t, 5*time.Second, "there is room", func() bool { _, err := try(d, "select 1"); return err == nil })
	var sleeper sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	sleeps := make(chan struct{})
	sleeper.Go(func() {
		begin := text("select 1", nil)
		begin.Each = func([][]byte) error { close(sleeps); return nil }
		_ = d.Do(ctx, "key", pgpool.Request{Statements: []pgpool.Statement{begin, text("select repeat('x', 100000)", nil), text("select pg_sleep(20)", nil)}})
	})
	<-sleeps
	began := time.Now()
	_, err := try(d, "select 1")
	var shed *gate.Shed
	if took := time.Since(began); !errors.As(err, &shed) || took < 250*time.Millisecond || took > 2*time.Second {
		t.Errorf("after %v: %v", took, err)
	}
	cancel()
	sleeper.Wait()
}

func TestQ15AnIdleConnectionToAnotherDatabaseMakesRoomOnAFullServer(t *testing.T) {
	s := private(t, map[string]string{"max_connections": "10", "superuser_reserved_connections": "0"})
	b := rig(t, pgpool.Options{Budget: 8})
	first, second := open(t, b, s.URL("postgres", "postgres")), open(t, b, s.URL("postgres", "template1"))
	ask(t, first, "select 1")
	fill(t, s.URL("postgres", "postgres"), 0)
	for range 3 {
		ask(t, second, "select 1")
		ask(t, first, "select 1")
	}
	if st := b.Stats(); st.Open != 1 || st.Closed["room"] != 6 {
		t.Fatalf("%+v", st)
	}
}
