package pgpool_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/leveehq/levee/internal/graphql/pgpool"
	"github.com/leveehq/levee/internal/pglocal/pgtest"
)

// silence accepts connections and says nothing.
func silence(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		var held []net.Conn
		for {
			c, err := l.Accept()
			if err != nil {
				break
			}
			held = append(held, c)
		}
		for _, c := range held {
			c.Close()
		}
	})
	t.Cleanup(func() { l.Close(); all.Wait() })
	return "postgres://postgres@" + l.Addr().String() + "/postgres?sslmode=disable"
}

func TestAServerThatDoesNotAnswerHoldsNobodyLongerThanTheWait(t *testing.T) {
	b := rig(t, pgpool.Options{Budget: 4, Wait: 300 * time.Millisecond, ConnectTimeout: 3 * time.Second})
	d := open(t, b, silence(t))
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			began := time.Now()
			_, err := try(d, "select 1")
			var gone *pgpool.Unavailable
			if took := time.Since(began); !errors.As(err, &gone) || took > 1500*time.Millisecond {
				t.Errorf("after %v: %v", took, err)
			}
		})
	}
	all.Wait()
	ctx, cancel := context.WithCancel(context.Background())
	left := make(chan error, 1)
	go func() {
		left <- d.Do(ctx, "key", pgpool.Request{Statements: []pgpool.Statement{text("select 1", nil)}})
	}()
	until(t, time.Second, "it waits", func() bool { return b.Stats().InUse == 1 })
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that left: %v", err)
	}
	if s := b.Stats(); s.InUse != 0 || s.Open != 1 {
		t.Errorf("%+v", s)
	}
}

func TestAConnectionThatComesWhenItsRequestHasLeftIsKept(t *testing.T) {
	b := rig(t, pgpool.Options{Budget: 2})
	d := open(t, b, pgtest.Server(t).URL("postgres", "postgres"))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for range 20 {
		left, leave := context.WithTimeout(context.Background(), 500*time.Microsecond)
		_ = d.Do(left, "key", pgpool.Request{Statements: []pgpool.Statement{text("select 1", nil)}})
		leave()
	}
	if err := d.Do(ctx, "key", pgpool.Request{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	until(t, 5*time.Second, "what was begun is idle", func() bool { s := b.Stats(); return s.Open > 0 && s.Idle == s.Open })
	if s := b.Stats(); s.Failures != 0 || s.Opened > 2 {
		t.Errorf("%+v", s)
	}
	ask(t, d, "select 1")
}
