package gate

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// mustNew is for options that are known to be right.
func mustNew(tb testing.TB, o Options) *Gate {
	tb.Helper()
	if o.Name == "" {
		o.Name = "test"
	}
	g, err := New(o)
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

// call is one Admit on its own goroutine. Its result may be read once it is done.
type call struct {
	key  string
	cost int64
	how  Waiting // as AdmitWith got it
	told struct {
		sync.Mutex
		all []told
	}
	cancel context.CancelCauseFunc
	over   atomic.Bool // set last
	permit *Permit
	err    error
	came   time.Time
	at     time.Time // when it returned
}

// admit starts a call inside a bubble and returns when everything is at rest again.
func admit(g *Gate, key string, cost int64) *call {
	return start(&call{key: key, cost: cost}, func(ctx context.Context) (*Permit, error) {
		return g.Admit(ctx, key, cost)
	})
}

// admitWith is admit for one that waits in its own way, and notes what it is told.
func admitWith(g *Gate, key string, cost int64, how Waiting) *call {
	c := &call{key: key, cost: cost, how: how}
	how.Tell = c.telling(g)
	return start(c, func(ctx context.Context) (*Permit, error) {
		return g.AdmitWith(ctx, key, cost, how)
	})
}

func start(c *call, ask func(context.Context) (*Permit, error)) *call {
	c.came = time.Now()
	ctx, cancel := context.WithCancelCause(context.Background())
	c.cancel = cancel
	go func() {
		c.permit, c.err = ask(ctx)
		c.at = time.Now()
		c.over.Store(true)
	}()
	synctest.Wait()
	return c
}

func (c *call) done() bool     { return c.over.Load() }
func (c *call) admitted() bool { return c.done() && c.err == nil }

// release gives back and returns when everything is at rest again.
func (c *call) release() {
	c.permit.Release()
	synctest.Wait()
}

// advance lets virtual time pass.
func advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// fataler is a *testing.T or a *rapid.T.
type fataler interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

// wantEmpty is how every test of permits ends: nothing is held, nobody waits, no key is remembered.
func wantEmpty(tb fataler, g *Gate) {
	tb.Helper()
	s := g.Stats()
	if s.InUse != 0 || s.Held != 0 || s.Queued != 0 || s.Keys != 0 {
		tb.Fatalf("the gate is not empty: %d in use by %d permits, %d waiters, %d keys", s.InUse, s.Held, s.Queued, s.Keys)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.keys.n != 0 || !g.mu.ring.empty() || !g.mu.parked.empty() || !g.mu.aside.empty() || g.mu.gathering != nil {
		tb.Fatal("the gate counts nothing but remembers something")
	}
	if g.mu.sizes != (sizes{}) {
		tb.Fatalf("sizes of waiters that are gone: %+v", g.mu.sizes)
	}
	if len(g.mu.keys.buckets) != minBuckets || len(g.mu.idle) > maxIdle {
		tb.Fatalf("%d buckets and %d blank keys are left", len(g.mu.keys.buckets), len(g.mu.idle))
	}
}

// waitUntil polls for what another goroutine does in real time.
func waitUntil(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	poll := time.NewTicker(200 * time.Microsecond)
	defer poll.Stop()
	for deadline := time.Now().Add(30 * time.Second); !ok(); <-poll.C {
		if time.Now().After(deadline) {
			tb.Fatalf("after 30s still not true: %s", what)
		}
	}
}
