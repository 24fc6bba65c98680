package residency

import (
	"sync/atomic"
	"time"
)

// Lease is the right to use an instance until Release. It is allocated anew each time: a pool would make a second
// Release, which is harmless here, end the use of a stranger.
type Lease[V any] struct {
	from     releaser
	value    V
	released atomic.Bool
}

// releaser is an *entry; Lease does not know the type of its key.
type releaser interface{ release() }

// Value is the instance, and the zero V after Release. Options.DrainTimeout after the instance was evicted it may be a
// closed one.
func (l *Lease[V]) Value() V { return l.value }

// Release ends the use; belongs where the work ends, deferred. It may be called more than once, from any goroutine, and
// on a nil Lease, but not beside a call of Value.
func (l *Lease[V]) Release() {
	if l == nil || l.from == nil || l.released.Swap(true) {
		return
	}
	var zero V
	l.value = zero // a handle that somebody keeps must not pin the instance
	l.from.release()
}

func (e *entry[K, V]) release() {
	c, now := e.cache, time.Now()
	c.mu.Lock()
	c.giveBackLocked(e, now)
	waiting := !c.mu.queue.empty()
	c.mu.Unlock()
	if waiting {
		c.pump() // what has become idle may be the room that somebody waits for
	}
}

// takeLocked adds a lease of a resident e.
func (c *Cache[K, V]) takeLocked(e *entry[K, V], n int) {
	if n > 0 && e.leases == 0 {
		e.leave()
		c.mu.idleBytes -= e.size
	}
	e.leases += n
}

// giveBackLocked undoes takeLocked for one lease. A drained instance is closed; one that DrainTimeout has closed already
// is past caring.
func (c *Cache[K, V]) giveBackLocked(e *entry[K, V], now time.Time) {
	e.leases--
	e.lastUse = now
	if e.leases > 0 {
		return
	}
	switch e.state {
	case Resident:
		c.mu.idle.pushBack(&e.node)
		c.mu.idleBytes += e.size
		c.expireLocked(now)
	case Draining:
		c.closeLocked(e)
	}
}
