package residency

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"
)

// flight is one build and those who wait for it, from the first that asks until it is settled. They may all leave; it
// goes on.
type flight[K comparable, V any] struct {
	node[*flight[K, V]] // in the queue until it begins
	key                 K
	group               string
	ctx                 context.Context // the values of who asked first, and no end
	cancel              context.CancelFunc
	waiters             int
	reserved            int64 // T, charged while Build runs
	transient           bool  // its failure says nothing of the next build
	stale               bool  // evicted while it was being built: for its waiters only
	ready               chan struct{}

	// Set when it is settled.
	settled bool
	entry   *entry[K, V] // leased to each waiter
	err     error
	reason  Reason
}

// takeOffLocked queues a new flight.
func (c *Cache[K, V]) takeOffLocked(ctx context.Context, key K, group string) *flight[K, V] {
	f := &flight[K, V]{key: key, group: group, ctx: context.WithoutCancel(ctx), ready: make(chan struct{})}
	f.value = f
	c.mu.flights[key] = f
	c.mu.queue.pushBack(&f.node)
	c.mu.queued++
	return f
}

// settleLocked tells the waiters how f ended. An entry is leased to all of them here, before any of them wakes: if each
// took its own, the instance could be evicted first, and be built once more for every waiter.
func (c *Cache[K, V]) settleLocked(f *flight[K, V], e *entry[K, V], err error, reason Reason) {
	c.leaveQueueLocked(f)
	if c.mu.flights[f.key] == f {
		delete(c.mu.flights, f.key)
	}
	f.settled, f.entry, f.err, f.reason = true, e, err, reason
	close(f.ready)
}

// leaveQueueLocked leaves no timer for an empty queue.
func (c *Cache[K, V]) leaveQueueLocked(f *flight[K, V]) {
	if f.in == nil {
		return
	}
	f.leave()
	c.mu.queued--
	if c.mu.queue.empty() && c.mu.spacer != nil {
		c.mu.spacer.Stop()
		c.mu.spacer = nil
	}
}

// wait returns what becomes of f, unless the caller's patience ends first.
func (c *Cache[K, V]) wait(ctx context.Context, l *Lease[V], f *flight[K, V]) (*Lease[V], error) {
	since := time.Now()
	patience := time.NewTimer(c.o.WaitTimeout)
	defer patience.Stop()
	select {
	case <-f.ready:
	case <-patience.C:
	case <-ctx.Done():
	}
	err := c.leave(ctx, l, f, time.Since(since))
	if err != nil {
		l.Release() // of one who left as f was settled; else it holds nothing
		return nil, err
	}
	return l, nil
}

// leave ends one caller's wait. A lease that was given stands against the caller's WaitTimeout, but not against its own
// cancellation: it is told that it has left, and a lease it does not know of would leak.
func (c *Cache[K, V]) leave(ctx context.Context, l *Lease[V], f *flight[K, V], waited time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.waiting--
	f.waiters--
	if f.entry != nil {
		l.from, l.value = f.entry, f.entry.value
	}
	switch {
	case ctx.Err() != nil:
		c.mu.canceled++
		return context.Cause(ctx)
	case !f.settled:
		return c.shedLocked(BuildTimeout, f.key, waited, 0)
	case f.reason != "":
		return c.shedLocked(f.reason, f.key, waited, 0)
	case f.err != nil:
		c.mu.failedAnswers++
		return f.err
	}
	c.mu.waited++
	c.mu.waitTime += waited
	return nil
}

// beginLocked gives f a slot and its bytes.
func (c *Cache[K, V]) beginLocked(f *flight[K, V]) {
	c.leaveQueueLocked(f)
	f.reserved = c.mu.peak
	c.mu.buildBytes += f.reserved
	c.mu.running[f.key] = f
	c.mu.builds++
	c.mu.begun++
	ctx, cancel := context.WithTimeout(f.ctx, c.o.BuildMax)
	f.ctx, f.cancel = nil, cancel
	go c.build(ctx, f)
}

// build runs Build and Size, and ends the flight. If ctx ends first, abandon has answered for it. What follows is
// deferred because a callback may end this goroutine.
func (c *Cache[K, V]) build(ctx context.Context, f *flight[K, V]) {
	began := time.Now()
	stop := context.AfterFunc(ctx, func() { c.abandon(f) })
	e := &entry[K, V]{cache: c, key: f.key, group: f.group, size: f.reserved, lastUse: began}
	e.node.value = e
	built, err := false, errExited
	defer func() {
		stop()
		late := ctx.Err() != nil
		f.cancel()
		e.took = time.Since(began)
		c.land(f, e, built, late, err)
	}()
	err = guard("Build", func() (err error) {
		e.value, err = c.o.Build(ctx, f.key)
		return err
	})
	if err != nil {
		return
	}
	built, err = true, errExited
	err = guard("Size", func() error {
		e.size = max(c.o.Size(e.value), 1)
		return nil
	})
}

func (c *Cache[K, V]) land(f *flight[K, V], e *entry[K, V], built, late bool, err error) {
	level, transient := c.o.Level(), err != nil && c.o.Transient(err)
	c.mu.Lock()
	defer c.mu.Unlock()
	f.transient = transient
	c.mu.builds--
	c.mu.buildTime += e.took
	c.landLocked(f, e, built, late, err)
	c.pumpLocked(level)
	c.reportGoneLocked()
}

// landLocked exchanges f's reservation for its instance, if there is one. Those nobody can have are closed at once.
func (c *Cache[K, V]) landLocked(f *flight[K, V], e *entry[K, V], built, late bool, err error) {
	lost := !c.giveUpSlotLocked(f)
	if lost {
		delete(c.mu.lost, f.key)
		c.mu.lostBytes -= f.reserved
	}
	switch {
	case lost: // abandon has settled it
	case c.mu.closed:
		c.failLocked(f, nil, Closed)
	case err != nil && late:
		c.failLocked(f, nil, BuildTimeout)
	case err != nil:
		c.failLocked(f, err, "")
	case e.size > c.budget:
		c.failLocked(f, nil, TooLarge)
	default:
		c.installLocked(f, e)
		return
	}
	if built {
		e.state = Draining
		c.mu.drainingBytes += e.size
		c.detachedLocked(e)
		c.closeLocked(e)
	}
}

// giveUpSlotLocked reports whether f still had its slot.
func (c *Cache[K, V]) giveUpSlotLocked(f *flight[K, V]) bool {
	if c.mu.running[f.key] != f {
		return false
	}
	delete(c.mu.running, f.key)
	c.mu.buildBytes -= f.reserved
	c.mu.lastBuild = time.Now()
	return true
}

// installLocked makes e resident, in the place of the one that it renews, and leases it to f's waiters. If f is stale its
// waiters, who asked before the eviction, get what they asked for, and nobody else does.
func (c *Cache[K, V]) installLocked(f *flight[K, V], e *entry[K, V]) {
	c.mu.built++
	c.mu.sizes[c.mu.built%uint64(len(c.mu.sizes))] = e.size
	c.mu.peak = max(c.o.BuildPeak, slices.Max(c.mu.sizes[:]))
	e.leases = f.waiters
	c.mu.residentBytes += e.size
	e.state = Resident
	if e.leases == 0 {
		c.mu.idle.pushBack(&e.node)
		c.mu.idleBytes += e.size
	}
	if f.stale {
		c.detachLocked(e, Asked)
	} else {
		c.forgetFailureLocked(f.key)
		if old := c.mu.resident[f.key]; old != nil {
			c.detachLocked(old, Renewed)
		}
		c.mu.resident[f.key] = e
		c.indexLocked(e)
	}
	c.settleLocked(f, e, nil, "")
	c.evictUntilLocked(c.chargedLocked() - c.budget) // it may be larger than what was reserved for it
}

// failLocked settles f and begins the key's backoff; a stale failure says nothing about the key any more, a
// transient one never did.
func (c *Cache[K, V]) failLocked(f *flight[K, V], err error, reason Reason) {
	c.mu.buildsFailed++
	if !f.stale && !f.transient && !c.mu.closed {
		c.failedLocked(f.key, err, reason)
	}
	c.settleLocked(f, nil, err, reason)
}

// abandon is called when f's context has ended and Build has not returned. Its slot goes to the next; its bytes stay
// charged and its key is not built again until it returns: builds that never do are bounded by the budget.
func (c *Cache[K, V]) abandon(f *flight[K, V]) {
	level := c.o.Level()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.giveUpSlotLocked(f) {
		return
	}
	c.mu.lost[f.key] = struct{}{}
	c.mu.lostBytes += f.reserved
	reason := BuildTimeout
	if c.mu.closed {
		reason = Closed
	}
	c.failLocked(f, nil, reason)
	c.pumpLocked(level)
}

// errExited is of a callback that called runtime.Goexit.
var errExited = errors.New("residency: a callback ended its goroutine")

// guard turns a panic of a callback into an error: it runs on our goroutine, where the caller's own recovery does not
// reach, and would end the process.
func guard(what string, call func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("residency: %s panicked: %v\n%s", what, p, debug.Stack())
		}
	}()
	return call()
}
