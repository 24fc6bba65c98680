package residency

import (
	"context"
	"time"
)

// Evict detaches key's instance, also while it is leased, and returns without waiting for its drain: who leases key from
// now on gets a new one. An instance that is being built goes to those who have asked for it, and to nobody else. The
// memory of a failed build goes too. It reports whether there was an instance or a build.
func (c *Cache[K, V]) Evict(key K) bool {
	level := c.o.Level()
	c.mu.Lock()
	defer c.mu.Unlock()
	found := c.evictLocked(key)
	c.pumpLocked(level)
	return found
}

// EvictWhere is Evict for every key of which where is true, and returns how many there were. It looks at all keys; where
// is called outside the lock, so a key that comes meanwhile may be missed.
func (c *Cache[K, V]) EvictWhere(where func(key K) bool) int {
	c.mu.Lock()
	keys := make(map[K]struct{}, len(c.mu.resident)+len(c.mu.running)+len(c.mu.failures))
	for key := range c.mu.resident {
		keys[key] = struct{}{}
	}
	for key := range c.mu.running {
		keys[key] = struct{}{}
	}
	for key := range c.mu.failures {
		keys[key] = struct{}{}
	}
	c.mu.Unlock()
	n := 0
	for key := range keys {
		if where(key) && c.Evict(key) {
			n++
		}
	}
	return n
}

// EvictGroup is Evict for every instance and build whose Options.Group is group, at one moment, and returns how many
// there were. It looks at those only: when a database is lost, each of its requests notices and calls this. The empty
// group is none.
func (c *Cache[K, V]) EvictGroup(group string) int {
	if group == "" {
		return 0
	}
	level := c.o.Level()
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for key, f := range c.mu.running {
		if f.group == group && !f.stale {
			c.evictLocked(key)
			n++
		}
	}
	for e := range c.mu.groups[group] {
		c.detachLocked(e, Asked)
		n++
	}
	c.pumpLocked(level)
	return n
}

// Shrink evicts idle instances, the least recently used first, until it has detached at least so many bytes or none is
// left, and returns the bytes it has detached. What has been idle for IdleTTL goes in any case. Bytes are free when
// Close returns.
func (c *Cache[K, V]) Shrink(bytes int64) int64 {
	level := c.o.Level()
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.mu.residentBytes
	c.expireLocked(time.Now())
	for before-c.mu.residentBytes < bytes && !c.mu.idle.empty() {
		c.detachLocked(c.mu.idle.first.value, Shrunk)
	}
	detached := before - c.mu.residentBytes
	c.pumpLocked(level)
	return detached
}

// Close sheds all waiters and every later lease with reason Closed, ends the builds' contexts, and detaches every
// instance; leases that are out stay good until DrainTimeout. It returns nil when each instance's Close has returned and
// no build is left, or context.Cause(ctx) if that ends first, when the rest goes on without it. It may be called again.
func (c *Cache[K, V]) Close(ctx context.Context) error {
	for _, cancel := range c.closeIntake() {
		cancel() // outside the lock: contexts that were made from it may be anybody's
	}
	select {
	case <-c.mu.gone: // set once, by the first closeIntake
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// closeIntake returns what ends the builds that run.
func (c *Cache[K, V]) closeIntake() []context.CancelFunc {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.closed {
		return nil
	}
	c.mu.closed = true
	c.mu.gone = make(chan struct{})
	for !c.mu.queue.empty() {
		c.settleLocked(c.mu.queue.first.value, nil, nil, Closed)
	}
	var cancels []context.CancelFunc
	for _, f := range c.mu.running {
		cancels = append(cancels, f.cancel)
	}
	for _, e := range c.mu.resident {
		c.detachLocked(e, AtClose)
	}
	clear(c.mu.failures)
	c.mu.failed = list[*failure[K]]{}
	c.reportGoneLocked()
	return cancels
}

func (c *Cache[K, V]) reportGoneLocked() {
	if !c.mu.closed || len(c.mu.resident) > 0 || len(c.mu.detached) > 0 || c.mu.builds > 0 {
		return
	}
	select {
	case <-c.mu.gone:
	default:
		close(c.mu.gone)
	}
}

func (c *Cache[K, V]) evictLocked(key K) bool {
	c.forgetFailureLocked(key)
	found := false
	if f := c.mu.running[key]; f != nil && !f.stale {
		f.stale, found = true, true
		if c.mu.flights[key] == f {
			delete(c.mu.flights, key)
		}
	}
	if e := c.mu.resident[key]; e != nil {
		c.detachLocked(e, Asked)
		found = true
	}
	return found
}

// indexLocked adds a resident e to its group.
func (c *Cache[K, V]) indexLocked(e *entry[K, V]) {
	if e.group == "" {
		return
	}
	if c.mu.groups[e.group] == nil {
		c.mu.groups[e.group] = map[*entry[K, V]]struct{}{}
	}
	c.mu.groups[e.group][e] = struct{}{}
}

// detachLocked takes e out of the cache, by identity: its key may have a successor.
func (c *Cache[K, V]) detachLocked(e *entry[K, V], why Cause) {
	c.mu.evicted[why]++
	if c.mu.resident[e.key] == e {
		delete(c.mu.resident, e.key)
	}
	if of := c.mu.groups[e.group]; of != nil {
		delete(of, e)
		if len(of) == 0 {
			delete(c.mu.groups, e.group)
		}
	}
	if e.leases == 0 {
		e.leave()
		c.mu.idleBytes -= e.size
	}
	c.mu.residentBytes -= e.size
	c.mu.drainingBytes += e.size
	e.state = Draining
	c.detachedLocked(e)
	if e.leases == 0 {
		c.closeLocked(e)
		return
	}
	e.drain = time.AfterFunc(c.o.DrainTimeout, func() { c.drainedTooLong(e) })
}

// detachedLocked notes that e's key rotates until e is closed.
func (c *Cache[K, V]) detachedLocked(e *entry[K, V]) {
	c.mu.detached[e] = struct{}{}
	c.mu.rotating[e.key]++
}

func (c *Cache[K, V]) drainedTooLong(e *entry[K, V]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.state == Draining {
		c.mu.drainTimeouts++
		c.closeLocked(e)
	}
}

// closeLocked ends a drain. Only a draining e gets here and it leaves that state here, so Close is called once.
func (c *Cache[K, V]) closeLocked(e *entry[K, V]) {
	if e.drain != nil {
		e.drain.Stop()
		e.drain = nil
	}
	e.state = Closing
	c.mu.drainingBytes -= e.size
	c.mu.closingBytes += e.size
	go c.close(e)
}

// close calls Options.Close, and then e costs nothing any more, even if that has panicked.
func (c *Cache[K, V]) close(e *entry[K, V]) {
	err := errExited
	defer func() { c.closed(e, err) }()
	err = guard("Close", func() error {
		c.o.Close(e.key, e.value)
		return nil
	})
}

func (c *Cache[K, V]) closed(e *entry[K, V], err error) {
	level := c.o.Level()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.mu.closePanics++
	}
	var zero V
	e.value = zero // a handle that somebody keeps must not pin it
	c.mu.closingBytes -= e.size
	delete(c.mu.detached, e)
	if c.mu.rotating[e.key]--; c.mu.rotating[e.key] == 0 {
		delete(c.mu.rotating, e.key)
	}
	c.pumpLocked(level)
	c.reportGoneLocked()
}
