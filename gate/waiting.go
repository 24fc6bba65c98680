package gate

import (
	"context"
	"time"
)

// Waiting is how one caller waits, if it must. The zero value is how Admit does.
type Waiting struct {
	// Wait takes the place of Options.Wait for this caller, shorter or longer; 0 or less keeps that. What large waiters may
	// keep back is reckoned with Options.Wait all the same: one caller's patience must not become the others'.
	Wait time.Duration

	// Tell, unless it is nil, gets the caller's position: after After in the queue (0 or less: as soon as it waits), and then
	// each time that Every has passed since it returned (0 or less: no more). Too short an Every: everybody walks the queue
	// all the time. AdmitWith calls it on the goroutine that waits and holds no lock, so it may ask the gate; but the caller
	// notices neither its grant nor the end of its Wait until it returns, so what it writes to needs a deadline.
	//
	// Position 1 is next. A position is the caller's place in the order in which waiters would go if all had one cost and
	// every key had room: first the one that gathers and those that stepped aside, then the first waiter of each key by
	// whose turn it is, keys at their own limit last, then the second of each, and so on. Where costs differ, it is an
	// estimate. It may rise: the first waiter of a key that comes goes before the second of the others.
	Tell         func(position int)
	After, Every time.Duration
}

// wait is Admit from the queue on. Its timers end with it.
func (g *Gate) wait(ctx context.Context, w *waiter, how Waiting) (*Permit, error) {
	wait := g.o.Wait
	if how.Wait > 0 {
		wait = how.Wait
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	var next *time.Timer
	var due <-chan time.Time // nil, which is never, if there is nobody to tell
	if how.Tell != nil {
		next = time.NewTimer(how.After)
		defer next.Stop()
		due = next.C
	}
	for {
		select {
		case <-w.ready:
		case <-timer.C:
			g.giveUp(w)
		case <-ctx.Done():
			if g.cancel(w) {
				return nil, context.Cause(ctx)
			}
		case <-due:
			if due = nil; g.tell(w, how.Tell) && how.Every > 0 {
				next.Reset(how.Every)
				due = next.C
			}
			continue
		}
		return permitOr(w.permit, w.err)
	}
}

// tell reports whether w still waits.
func (g *Gate) tell(w *waiter, tell func(int)) bool {
	g.mu.Lock()
	waits, n := !w.settled, 0
	if waits {
		n = g.positionLocked(w)
	}
	g.mu.Unlock()
	if waits {
		tell(n)
	}
	return waits
}

// positionLocked is what Waiting.Tell promises. It walks over those before w: a microsecond for a thousand. To keep the order
// up to date instead would cost every caller, for the few that ask, every few seconds.
func (g *Gate) positionLocked(w *waiter) int {
	if w == g.mu.gathering {
		return 1
	}
	aside := g.mu.aside.countTo(w)
	if w.in == &g.mu.aside {
		if gathers := g.mu.gathering; gathers != nil && (gathers.in != w.in || g.mu.aside.countTo(gathers) > aside) {
			aside++ // it goes before those in front of it
		}
		return aside + 1
	}
	return aside + g.aheadInTurnLocked(w) + 1
}

// aheadInTurnLocked counts those in the keys' own queues that go before w: as many of each key as there are before w in its
// own, and one more of the keys whose turn comes before.
func (g *Gate) aheadInTurnLocked(w *waiter) (n int) {
	round := w.key.waiters.countTo(w)
	n = round
	before := true
	look := func(k *keyState) {
		switch {
		case k == w.key:
			before = false
		case before:
			n += k.waiters.countUpTo(round + 1)
		default:
			n += k.waiters.countUpTo(round)
		}
	}
	spent := g.spentLocked()
	for k := g.mu.ring.first; k != nil; k = k.next {
		if k.value != spent {
			look(k.value)
		}
	}
	if spent != nil {
		look(spent)
	}
	for k := g.mu.parked.first; k != nil; k = k.next {
		look(k.value)
	}
	return n
}

// spentLocked is the front of the ring if it has had its turn, and only was not yet moved to the end; else nil.
func (g *Gate) spentLocked() *keyState {
	if g.mu.ring.empty() {
		return nil
	}
	k := g.mu.ring.first.value
	if k.turn && k.credit < g.priceLocked(k.waiters.first.value) {
		return k
	}
	return nil
}
