package residency

import (
	"context"
	"sync"
	"time"
)

// spacing is the pause between two builds at LevelEvict: time for a collection to show what the last one left.
const spacing = time.Second

// Cache keeps instances of V by key. Its methods may be called from any goroutine.
type Cache[K comparable, V any] struct {
	o      Options[K, V] // with defaults
	budget int64         // Heap - Base

	mu struct {
		sync.Mutex
		counters
		closed bool
		gone   chan struct{} // made by Close, closed when nothing is left

		resident map[K]*entry[K, V]
		groups   map[string]map[*entry[K, V]]struct{} // of resident ones, those without a group left out
		idle     list[*entry[K, V]]                   // resident and unleased, the least recently used first
		detached map[*entry[K, V]]struct{}            // draining or closing
		rotating map[K]int                            // how many detached ones a key has

		flights map[K]*flight[K, V] // what a Lease of that key joins
		queue   list[*flight[K, V]] // flights whose build has not begun, in the order they came
		queued  int                 // in queue
		running map[K]*flight[K, V] // builds that hold a slot
		lost    map[K]struct{}      // keys with a build that has lost its slot and not returned
		builds  int                 // calls of Build or Size that have not returned, also without a slot
		waiting int                 // callers

		failures map[K]*failure[K]
		failed   list[*failure[K]] // the oldest first

		peak      int64     // T: BuildPeak, or the largest of sizes
		sizes     [64]int64 // of the last instances built; one that was large must not keep its room free for ever
		lastBuild time.Time
		spacer    *time.Timer // at most one, while builds are spaced and some wait

		// What is charged: each instance is in one of the first three, each build in one of the last two.
		residentBytes, drainingBytes, closingBytes int64
		idleBytes                                  int64 // the part of residentBytes that may be evicted
		buildBytes                                 int64 // T for each build that holds a slot
		lostBytes                                  int64 // T for each build that ignores the end of its context
	}
}

// entry is one instance, from the end of its build to the return of Close.
type entry[K comparable, V any] struct {
	node[*entry[K, V]] // in idle, or in none
	cache              *Cache[K, V]
	key                K
	group              string
	value              V
	size               int64
	state              State
	leases             int
	took               time.Duration // its build
	lastUse            time.Time
	drain              *time.Timer // while it drains
}

// New validates o; an error names the fields that contradict each other. It starts nothing. Goroutines exist only while
// a build or a Close runs, one for each.
func New[K comparable, V any](o Options[K, V]) (*Cache[K, V], error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	c := &Cache[K, V]{o: o.withDefaults(), budget: o.Heap - o.Base}
	c.mu.counters = newCounters()
	c.mu.resident = map[K]*entry[K, V]{}
	c.mu.groups = map[string]map[*entry[K, V]]struct{}{}
	c.mu.detached = map[*entry[K, V]]struct{}{}
	c.mu.rotating = map[K]int{}
	c.mu.flights = map[K]*flight[K, V]{}
	c.mu.running = map[K]*flight[K, V]{}
	c.mu.lost = map[K]struct{}{}
	c.mu.failures = map[K]*failure[K]{}
	c.mu.peak = o.BuildPeak
	return c, nil
}

// Name is Options.Name.
func (c *Cache[K, V]) Name() string { return c.o.Name }

// Lease returns a lease of key's instance, which it builds if there is none. Its error is a *Shed, context.Cause(ctx),
// or what Build returned, this time or so recently that it is not asked again. With an error nothing is leased; a build
// that was asked for goes on and fills the cache all the same. A ctx that is already done fails at once.
func (c *Cache[K, V]) Lease(ctx context.Context, key K) (*Lease[V], error) {
	// Made outside the lock: an allocation may have to help the collector.
	l := new(Lease[V])
	if ctx.Err() != nil {
		c.mu.Lock()
		c.mu.canceled++
		c.mu.Unlock()
		return nil, context.Cause(ctx)
	}
	c.mu.Lock()
	hit := c.hitLocked(l, key)
	c.mu.Unlock()
	if hit {
		return l, nil
	}
	return c.leaseCold(ctx, l, key)
}

// hitLocked leases a resident instance to l.
func (c *Cache[K, V]) hitLocked(l *Lease[V], key K) bool {
	e := c.mu.resident[key]
	if e == nil {
		return false
	}
	c.takeLocked(e, 1)
	l.from, l.value = e, e.value
	c.mu.hits++
	return true
}

// leaseCold joins the flight of key, or begins one, and waits for it.
func (c *Cache[K, V]) leaseCold(ctx context.Context, l *Lease[V], key K) (*Lease[V], error) {
	group, level := c.o.Group(key), c.o.Level()
	c.mu.Lock()
	if c.hitLocked(l, key) { // built meanwhile
		c.mu.Unlock()
		return l, nil
	}
	f, err := c.joinLocked(ctx, key, group, level)
	c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return c.wait(ctx, l, f)
}

// joinLocked makes the caller one of the waiters of key's flight.
func (c *Cache[K, V]) joinLocked(ctx context.Context, key K, group string, level Level) (*flight[K, V], error) {
	f := c.mu.flights[key]
	if c.mu.closed {
		return nil, c.shedLocked(Closed, key, 0, 0)
	}
	if c.mu.waiting >= c.o.Queue || f == nil && c.mu.queued >= c.o.Queue {
		return nil, c.shedLocked(Overloaded, key, 0, 0)
	}
	if f == nil {
		if err := c.backedOffLocked(key); err != nil {
			return nil, err
		}
		if _, lost := c.mu.lost[key]; lost {
			return nil, c.shedLocked(BuildTimeout, key, 0, 0)
		}
		if level >= LevelShed {
			return nil, c.shedLocked(Pressure, key, 0, 0)
		}
		c.expireLocked(time.Now())
		f = c.takeOffLocked(ctx, key, group)
	}
	f.waiters++
	c.mu.waiting++
	c.pumpLocked(level)
	if f.in == &c.mu.queue {
		// What leased instances make impossible is said at once and not after a wait for the slot.
		if _, reason := c.roomLocked(f); reason != "" {
			c.settleLocked(f, nil, nil, reason)
		}
	}
	return f, nil
}
