package residency

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// thing is an instance that knows what became of it.
type thing struct {
	key    string
	size   int64
	closed atomic.Int32
}

// world is what stands around a cache: how builds behave, and what has been built and closed.
type world struct {
	*Cache[string, *thing]
	level atomic.Int64
	mu    struct {
		sync.Mutex
		size    int64         // of the next instances
		takes   time.Duration // a build
		closing time.Duration // a Close
		fails   error
		deaf    bool // builds ignore their context
		built   []*thing
		running int
		most    int // builds at once
	}
}

// newWorld has room for three instances and one build of 100 bytes each, unless edit says otherwise.
func newWorld(tb fataler, edit func(*Options[string, *thing])) *world {
	tb.Helper()
	w := &world{}
	w.mu.size, w.mu.takes = 100, time.Second
	o := Options[string, *thing]{
		Name: "test", Build: w.build, Close: w.close, Size: func(v *thing) int64 { return v.size },
		Group: func(key string) string { return key[:1] },
		Heap:  500, Base: 100, BuildPeak: 100,
		Level: func() Level { return Level(w.level.Load()) },
	}
	if edit != nil {
		edit(&o)
	}
	c, err := New(o)
	if err != nil {
		tb.Fatal(err)
	}
	w.Cache = c
	return w
}

// set changes how the world behaves from now on.
func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

func (w *world) build(ctx context.Context, key string) (*thing, error) {
	w.mu.Lock()
	w.mu.running++
	w.mu.most = max(w.mu.most, w.mu.running)
	takes, fails, deaf, size := w.mu.takes, w.mu.fails, w.mu.deaf, w.mu.size
	w.mu.Unlock()
	if deaf {
		ctx = context.WithoutCancel(ctx)
	}
	if takes > 0 {
		timer := time.NewTimer(takes)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			fails = ctx.Err()
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.running--
	if fails != nil {
		return nil, fails
	}
	v := &thing{key: key, size: size}
	w.mu.built = append(w.mu.built, v)
	return v, nil
}

func (w *world) close(_ string, v *thing) {
	w.mu.Lock()
	takes := w.mu.closing
	w.mu.Unlock()
	if takes > 0 {
		time.Sleep(takes)
	}
	v.closed.Add(1)
}

// builds is how many builds have succeeded.
func (w *world) builds() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.mu.built)
}

// atOnce is how many builds run, and how many ever did together.
func (w *world) atOnce() (now, most int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.running, w.mu.most
}

// remembered is the number of keys whose failure is.
func (w *world) remembered() int {
	w.Cache.mu.Lock()
	defer w.Cache.mu.Unlock()
	return len(w.Cache.mu.failures)
}

// nth is the instance that was built as number i, from 0.
func (w *world) nth(i int) *thing {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.built[i]
}

// end closes the cache and wants each instance closed once, and nothing left.
func (w *world) end(tb fataler) {
	tb.Helper()
	if err := w.Close(context.Background()); err != nil {
		tb.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, v := range w.mu.built {
		if n := v.closed.Load(); n != 1 {
			tb.Fatalf("an instance of %s was closed %d times", v.key, n)
		}
	}
	s := w.Stats()
	if s.Charged != 0 || s.Resident+s.Draining+s.Closing+s.Building+s.Queued+s.Waiting != 0 {
		tb.Fatalf("something is left: %+v", s)
	}
	w.Cache.mu.Lock()
	defer w.Cache.mu.Unlock()
	m := &w.Cache.mu
	if len(m.rotating)+len(m.detached)+len(m.groups)+len(m.flights)+len(m.running)+len(m.lost)+len(m.failures) != 0 ||
		m.idleBytes != 0 || m.spacer != nil || !m.idle.empty() || !m.queue.empty() || !m.failed.empty() {
		tb.Fatal("the cache counts nothing but remembers something")
	}
}

// call is one Lease or Refresh on its own goroutine. Its result may be read once it is done.
type call struct {
	key    string
	cancel context.CancelCauseFunc
	over   atomic.Bool // set last
	lease  *Lease[*thing]
	err    error
	took   time.Duration
}

// ask starts a call inside a bubble and returns when everything is at rest again.
func (w *world) ask(key string) *call {
	return start(key, w.Lease)
}

// refresh is ask for Refresh: the call has no lease.
func (w *world) refresh(key string) *call {
	return start(key, func(ctx context.Context, key string) (*Lease[*thing], error) { return nil, w.Refresh(ctx, key) })
}

func start(key string, what func(context.Context, string) (*Lease[*thing], error)) *call {
	c := &call{key: key}
	ctx, cancel := context.WithCancelCause(context.Background())
	c.cancel = cancel
	began := time.Now()
	go func() {
		c.lease, c.err = what(ctx, key)
		c.took = time.Since(began)
		c.over.Store(true)
	}()
	synctest.Wait()
	return c
}

// have leases key and lets time pass until it is there.
func (w *world) have(tb fataler, key string) *call {
	tb.Helper()
	c := w.ask(key)
	for range 100 {
		if c.over.Load() {
			break
		}
		advance(100 * time.Millisecond)
	}
	if !c.over.Load() || c.err != nil {
		tb.Fatalf("no lease of %s: %v", key, c.err)
	}
	return c
}

func (c *call) release() {
	c.lease.Release()
	synctest.Wait()
}

// wantShed wants c to have been shed with reason r.
func (c *call) wantShed(tb fataler, r Reason) *Shed {
	tb.Helper()
	var shed *Shed
	if !c.over.Load() || !errors.As(c.err, &shed) || shed.Reason != r || !errors.Is(c.err, ErrShed) {
		tb.Fatalf("%s: done %v, error %v; want a shed, %s", c.key, c.over.Load(), c.err, r)
	}
	if shed.RetryAfter < time.Second || shed.RetryAfter%time.Second != 0 {
		tb.Fatalf("RetryAfter is %v", shed.RetryAfter)
	}
	return shed
}

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
