package residency

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// model is what the cache must look like from outside. It knows the rules and not the algorithm.
type model struct {
	*world
	o       Options[string, *thing]
	held    []*call
	waiting []*call
	over    uint64         // calls that have returned
	epoch   map[string]int // how often each key was evicted
	asked   map[*call]int  // the epoch of its key when it was asked for
	broken  map[string]bool

	track struct { // written by builds
		sync.Mutex
		began   map[*thing]int // the epoch when its build began
		running map[string]int
		twice   bool
	}
}

var errBroken = errors.New("the model broke it")

func newModel(rt *rapid.T) *model {
	m := &model{epoch: map[string]int{}, asked: map[*call]int{}, broken: map[string]bool{}}
	m.track.began, m.track.running = map[*thing]int{}, map[string]int{}
	m.world = newWorld(rt, func(o *Options[string, *thing]) {
		o.Heap = rapid.Int64Range(200, 700).Draw(rt, "heap")
		o.MaxBuilds = rapid.IntRange(1, 3).Draw(rt, "max builds")
		o.MaxInstances = rapid.IntRange(0, 3).Draw(rt, "max instances")
		o.WaitTimeout = 30 * time.Second
		o.DrainTimeout = time.Hour
		if rapid.Bool().Draw(rt, "expires") {
			o.IdleTTL = 20 * time.Second
		}
		build := o.Build
		o.Build = func(ctx context.Context, key string) (*thing, error) { return m.build(ctx, key, build) }
		m.o = *o
	})
	return m
}

// build notes what builds must never do.
func (m *model) build(
	ctx context.Context, key string, build func(context.Context, string) (*thing, error),
) (*thing, error) {
	m.track.Lock()
	epoch := m.epoch[key]
	broken := m.broken[key]
	m.track.running[key]++
	m.track.twice = m.track.twice || m.track.running[key] > 1
	m.track.Unlock()
	var v *thing
	err := errBroken
	if !broken {
		v, err = build(ctx, key)
	}
	m.track.Lock()
	defer m.track.Unlock()
	m.track.running[key]--
	if err == nil {
		m.track.began[v] = epoch
	}
	return v, err
}

func (m *model) drawKey(rt *rapid.T) string {
	return rapid.SampledFrom([]string{"a1", "a2", "b1", "b2", "c1"}).Draw(rt, "key")
}

// inTheWay is what no new build can make room of, and whether key has an instance that is detached.
func (m *model) inTheWay(key string) (leased, draining int64, own bool) {
	for _, i := range m.Instances() {
		switch {
		case i.State == Resident && i.Leases > 0:
			leased += i.Bytes
		case i.State == Draining:
			draining += i.Bytes
		}
		own = own || i.Key == key && i.State != Resident
	}
	return leased, draining, own
}

// ask leases a key. A shed at once must have had its reason; builds that take no time may have landed meanwhile, so what
// counts is the worst of before and after.
func (m *model) ask(rt *rapid.T) {
	key := m.drawKey(rt)
	_, draining, own := m.inTheWay(key)
	c := m.world.ask(key)
	leased, drainingNow, ownNow := m.inTheWay(key)
	draining, own = max(draining, drainingNow), own || ownNow
	s := m.Stats()
	m.asked[c] = m.epoch[key]
	m.waiting = append(m.waiting, c)
	var shed *Shed
	if !c.over.Load() || !errors.As(c.err, &shed) {
		return
	}
	byNumber := m.o.MaxInstances > 0 && s.Leased >= m.o.MaxInstances
	switch full := leased+draining+s.BuildPeak > m.budget; {
	case shed.Reason == Overloaded && !(leased+s.BuildPeak > m.budget || byNumber):
		rt.Fatalf("overloaded with %d of %d leased", leased, m.budget)
	case shed.Reason == Rotating && !(full && own):
		rt.Fatalf("rotating, with room or without an instance in the way: %+v", s)
	case shed.Reason == Pressure && Level(m.level.Load()) != LevelShed:
		rt.Fatal("pressure without any")
	case shed.Reason == Closed || shed.Reason == TooLarge || shed.Reason == BuildTimeout:
		rt.Fatalf("%v", shed)
	}
}

// refresh renews a key: the bound by number is never in its way.
func (m *model) refresh(rt *rapid.T) {
	key := m.drawKey(rt)
	m.Cache.mu.Lock()
	resident, asked := m.Cache.mu.resident[key] != nil, m.Cache.mu.flights[key] != nil
	m.Cache.mu.Unlock()
	_, draining, _ := m.inTheWay(key)
	c := m.world.refresh(key)
	if !resident && !asked {
		if !c.over.Load() || c.err != nil {
			rt.Fatalf("a key without an instance was refreshed: %v", c.err)
		}
		return
	}
	m.waiting = append(m.waiting, c)
	var shed *Shed
	if resident && c.over.Load() && errors.As(c.err, &shed) && shed.Reason == Overloaded {
		if leased, now, _ := m.inTheWay(key); leased+max(draining, now)+m.Stats().BuildPeak <= m.budget {
			rt.Fatalf("a refresh is overloaded with %d of %d leased", leased, m.budget)
		}
	}
}

// drop takes one of calls out at random.
func drop(rt *rapid.T, calls *[]*call) *call {
	if len(*calls) == 0 {
		return nil
	}
	i := rapid.IntRange(0, len(*calls)-1).Draw(rt, "which")
	c := (*calls)[i]
	*calls = slices.Delete(*calls, i, i+1)
	return c
}

func (m *model) release(rt *rapid.T) {
	if c := drop(rt, &m.held); c != nil {
		c.release()
	}
}

func (m *model) cancel(rt *rapid.T) {
	if c := drop(rt, &m.waiting); c != nil {
		c.cancel(nil)
		synctest.Wait()
		m.waiting = append(m.waiting, c)
		if !c.over.Load() || c.err == nil {
			rt.Fatal("a cancelled caller still waits, or was given what it no longer wants")
		}
	}
}

func (m *model) bump(matches func(string) bool) {
	m.track.Lock()
	defer m.track.Unlock()
	for _, key := range []string{"a1", "a2", "b1", "b2", "c1"} {
		if matches(key) {
			m.epoch[key]++
		}
	}
}

func (m *model) evict(rt *rapid.T) {
	key := m.drawKey(rt)
	m.bump(func(k string) bool { return k == key })
	m.Evict(key)
	synctest.Wait()
}

func (m *model) evictMany(rt *rapid.T) {
	in := func(k string) bool { return k[0] == 'a' }
	m.bump(in)
	if rapid.Bool().Draw(rt, "by index") {
		m.EvictGroup("a")
	} else {
		m.EvictWhere(in)
	}
	synctest.Wait()
}

func (m *model) shrink(rt *rapid.T) {
	m.Shrink(rapid.Int64Range(0, 300).Draw(rt, "bytes"))
	synctest.Wait()
}

func (m *model) change(rt *rapid.T) {
	m.level.Store(int64(rapid.SampledFrom([]Level{0, 0, 0, 1, 2}).Draw(rt, "level")))
	key, broken := m.drawKey(rt), rapid.IntRange(0, 3).Draw(rt, "broken") == 0
	m.track.Lock()
	m.broken[key] = broken
	m.track.Unlock()
	size := rapid.Int64Range(1, 100).Draw(rt, "size")
	takes := time.Duration(rapid.Int64Range(0, 3).Draw(rt, "build takes")) * time.Second
	closing := time.Duration(rapid.Int64Range(0, 3).Draw(rt, "close takes")) * time.Second
	m.set(func() { m.mu.size, m.mu.takes, m.mu.closing = size, takes, closing })
}

func (m *model) advance(rt *rapid.T) {
	advance(time.Duration(rapid.Int64Range(1, 5000).Draw(rt, "ms")) * time.Millisecond)
}

// check is what always holds.
func (m *model) check(rt *rapid.T) {
	for _, c := range slices.Clone(m.waiting) {
		if !c.over.Load() {
			continue
		}
		m.over++
		m.waiting = slices.DeleteFunc(m.waiting, func(o *call) bool { return o == c })
		if c.err == nil && c.lease != nil {
			m.held = append(m.held, c)
		}
	}
	leases := map[*thing]int{}
	for _, c := range m.held {
		v := c.lease.Value()
		leases[v]++
		m.track.Lock()
		began := m.track.began[v]
		m.track.Unlock()
		if v.key != c.key || v.closed.Load() != 0 || began < m.asked[c] {
			rt.Fatalf("%s has an instance of %s, closed %d times, of before its eviction: %v",
				c.key, v.key, v.closed.Load(), began < m.asked[c])
		}
	}
	s := m.Stats()
	var charged, listed int64
	m.mu.Lock()
	for _, v := range m.mu.built {
		if n := v.closed.Load(); n > 1 {
			rt.Fatal("closed more than once")
		} else if n == 0 {
			charged += v.size
		}
	}
	most := m.mu.most
	m.mu.Unlock()
	for _, i := range m.Instances() {
		listed += i.Bytes
	}
	if charged != listed || s.Charged != charged+int64(s.Building)*100 || s.Charged > s.Budget {
		rt.Fatalf("%d bytes are built and not closed, %d listed: %+v", charged, listed, s)
	}
	m.track.Lock()
	twice := m.track.twice
	m.track.Unlock()
	if most > m.o.MaxBuilds || twice {
		rt.Fatalf("%d builds at once, one key twice: %v", most, twice)
	}
	if m.o.MaxInstances > 0 && s.Resident+s.Building-m.renewals() > m.o.MaxInstances {
		rt.Fatalf("more than %d instances: %+v", m.o.MaxInstances, s)
	}
	sum := s.Hits + s.Waited + s.Canceled + s.Failed
	for _, n := range s.Shed {
		sum += n
	}
	if sum != m.over || s.Waiting != len(m.waiting) {
		rt.Fatalf("%d calls are over and %d wait: %+v", m.over, len(m.waiting), s)
	}
}

// renewals is how many builds are to take the place of an instance.
func (m *model) renewals() (n int) {
	m.Cache.mu.Lock()
	defer m.Cache.mu.Unlock()
	for key := range m.Cache.mu.running {
		if m.Cache.mu.resident[key] != nil {
			n++
		}
	}
	return n
}

func TestTheCacheKeepsItsRulesInEveryOrderOfEvents(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(*testing.T) {
			m := newModel(rt)
			rt.Repeat(map[string]func(*rapid.T){
				"ask": m.ask, "ask again": m.ask, "ask more": m.ask, "advance": m.advance, "advance more": m.advance,
				"release": m.release, "cancel": m.cancel, "evict": m.evict, "evict many": m.evictMany,
				"shrink": m.shrink, "refresh": m.refresh, "refresh more": m.refresh, "change": m.change, "": m.check,
			})
			for _, c := range m.held {
				c.lease.Release()
			}
			m.held = nil
			advance(m.o.WaitTimeout) // nobody waits for longer, whatever happens
			m.check(rt)
			if len(m.waiting) > 0 {
				rt.Fatalf("%d callers wait for ever", len(m.waiting))
			}
			for _, c := range m.held {
				c.lease.Release()
			}
			m.end(rt)
		})
	})
}
