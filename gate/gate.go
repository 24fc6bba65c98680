package gate

import (
	"context"
	"sync"
	"time"
)

// Gate admits callers until their costs add up to its limit. Its methods may be called from any goroutine.
type Gate struct {
	o Options // with defaults; only the limit changes after New

	mu struct {
		sync.Mutex
		counters
		limit, inUse int64
		held, queued int
		closed       bool

		keys table       // active ones only
		idle []*keyState // a few blank ones to use again: the first admission of a key allocates only its Permit

		ring   list[*keyState] // keys whose first waiter waits for room in the gate; the front has its turn
		parked list[*keyState] // keys whose first waiter waits for room below its own key's limit
		aside  list[*waiter]   // waiters that had their turn, did not fit in time, and let the others pass

		sizes     sizes     // of all waiters
		gathering *waiter   // the one that keeps back room others could use, with its clock running
		openUntil time.Time // nobody may gather before this
	}
}

// New validates o; an error names the fields that contradict each other. It starts nothing, and a gate needs no Close to
// be collected.
func New(o Options) (*Gate, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	g := &Gate{o: o.withDefaults()}
	g.mu.limit = o.Limit
	g.mu.keys = newTable()
	g.mu.counters = newCounters()
	return g, nil
}

// Name is Options.Name.
func (g *Gate) Name() string { return g.o.Name }

// Admit returns a permit, a *Shed, or context.Cause(ctx); with an error the gate is as if the call had not been. It
// waits only if there is no room, and no longer than Options.Wait. A ctx that is already done fails at once, even if
// there is room. A cost below 1 counts as 1, so that a slip in the caller's arithmetic cannot make room.
func (g *Gate) Admit(ctx context.Context, key string, cost int64) (*Permit, error) {
	return g.AdmitWith(ctx, key, cost, Waiting{})
}

// AdmitWith is Admit for a caller that waits in its own way.
func (g *Gate) AdmitWith(ctx context.Context, key string, cost int64, how Waiting) (*Permit, error) {
	if ctx.Err() != nil {
		g.mu.Lock()
		g.mu.canceled++
		g.mu.Unlock()
		return nil, context.Cause(ctx)
	}
	// The permit is made outside the lock: an allocation may have to help the collector.
	p := &Permit{gate: g, cost: max(cost, 1)}
	w, err := g.enter(p, key, g.o.Queue > 0)
	if w == nil {
		return permitOr(p, err)
	}
	return g.wait(ctx, w, how)
}

// TryAdmit never blocks and never queues; it does not overtake waiters that only wait for room in the gate. Its error is
// always a *Shed.
func (g *Gate) TryAdmit(key string, cost int64) (*Permit, error) {
	p := &Permit{gate: g, cost: max(cost, 1)}
	_, err := g.enter(p, key, false)
	return permitOr(p, err)
}

// permitOr keeps a nil *Shed from becoming an error that is not nil.
func permitOr(p *Permit, shed *Shed) (*Permit, error) {
	if shed != nil {
		return nil, shed
	}
	return p, nil
}

// enter charges p at once, or sheds it, or (with queue) returns the waiter it has become.
func (g *Gate) enter(p *Permit, key string, queue bool) (*waiter, *Shed) {
	pressure := g.o.Pressure != nil && g.o.Pressure()
	hash := g.mu.keys.hash(key)
	g.mu.Lock()
	defer g.mu.Unlock()
	k := g.mu.keys.get(hash, key)
	switch {
	case g.mu.closed:
		return nil, g.shedLocked(Closed, key, p.cost, 0)
	case p.cost > g.maxCostLocked():
		return nil, g.shedLocked(TooLarge, key, p.cost, 0)
	case pressure:
		return nil, g.shedLocked(Pressure, key, p.cost, 0)
	case g.roomNowLocked(k, p.cost):
		g.chargeLocked(p, g.activeLocked(k, hash, key))
		return nil, nil
	case !queue:
		return nil, g.shedLocked(Busy, key, p.cost, 0)
	case k != nil && k.waiting >= g.o.QueuePerKey && g.o.QueuePerKey < g.o.Queue:
		return nil, g.shedLocked(KeyQueueFull, key, p.cost, 0)
	case g.mu.queued >= g.o.Queue:
		return nil, g.shedLocked(QueueFull, key, p.cost, 0)
	}
	w := &waiter{permit: p, since: time.Now(), ready: make(chan struct{}), patience: g.o.Wait / firstPatience}
	w.value = w
	g.queueLocked(w, g.activeLocked(k, hash, key))
	if w.settled { // it had its turn before those who are there
		return nil, nil
	}
	return w, nil
}

func (g *Gate) maxCostLocked() int64 {
	if g.o.MaxCost > 0 {
		return g.o.MaxCost
	}
	return g.mu.limit
}

// giveUp sheds w, whose Wait is over. If the grant was faster, it stands: there is a permit and somebody who wants it.
func (g *Gate) giveUp(w *waiter) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if w.settled {
		return
	}
	// Described before it leaves, which lets others in: it is to say what stood in its way.
	w.err = g.shedLocked(Timeout, w.key.name, w.permit.cost, time.Since(w.since))
	w.err.Queued--
	g.leaveLocked(w)
}

// cancel takes w, whose caller has left, out of the queue. If the grant was faster, it is handed on to the next: the
// caller is told that it has left, and a permit it was not told of would leak. Only if Close was faster does cancel
// report false: that shed is counted and stands.
func (g *Gate) cancel(w *waiter) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case !w.settled:
		g.leaveLocked(w)
	case w.err != nil:
		return false
	default:
		g.mu.handedOn++
		g.giveBackLocked(w.permit)
	}
	g.mu.canceled++
	return true
}

// SetLimit changes the limit; below 1 counts as 1. A limit below what is in use takes nothing back: nothing is granted
// until enough was released.
func (g *Gate) SetLimit(n int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.limit = max(n, 1)
	if !g.mu.ring.empty() {
		g.endTurnLocked(g.mu.ring.first.value) // it was worth something else
	}
	g.grantLocked()
}

// Close sheds all waiters and every later admission with reason Closed. Permits that are out stay good. It may be called
// more than once.
func (g *Gate) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.closed = true
	for g.mu.queued > 0 {
		w := g.someWaiterLocked()
		key := w.key.name
		g.settleLocked(w)
		g.forgetIdleLocked(w.key)
		w.err = g.shedLocked(Closed, key, w.permit.cost, time.Since(w.since))
		close(w.ready)
	}
}

// someWaiterLocked is any one; there must be one.
func (g *Gate) someWaiterLocked() *waiter {
	switch {
	case !g.mu.aside.empty():
		return g.mu.aside.first.value
	case !g.mu.ring.empty():
		return g.mu.ring.first.value.waiters.first.value
	}
	return g.mu.parked.first.value.waiters.first.value
}
