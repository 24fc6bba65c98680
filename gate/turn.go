package gate

import "time"

// The share of Options.Wait that a waiter may gather: 1/16 the first time, then twice as long each time, up to 1/4.
// With the pauses of the same length between them all of that fits into one Wait.
const (
	firstPatience = 16
	lastPatience  = 4
)

// grantLocked grants as long as there is room and somebody entitled to it. Everything that can make room or change who
// is entitled ends by calling it: a release, a waiter that leaves, a new limit, a newcomer, the end of a gathering.
func (g *Gate) grantLocked() {
	for g.mu.queued > 0 && g.someoneMayFitLocked() {
		w := g.nextLocked()
		switch {
		case w == nil:
			return
		case g.fitsLocked(w.permit.cost):
			g.grantOneLocked(w)
		case w == g.mu.gathering:
			return
		case w.in == &g.mu.aside || !g.openLocked():
			g.gatherLocked(w)
			return
		case g.anotherFitsLocked(w):
			g.stepAsideLocked(w)
		default:
			return
		}
	}
}

// someoneMayFitLocked is a quick no for the gate that is simply full.
func (g *Gate) someoneMayFitLocked() bool {
	return g.fitsLocked(g.mu.sizes.least())
}

// nextLocked is the waiter whose turn it is, whether or not there is room for it now; nil if all are at their own key's
// limit. It rotates the ring and parks keys on its way.
func (g *Gate) nextLocked() *waiter {
	if w := g.mu.gathering; w != nil {
		if g.keyFitsLocked(w.key, w.permit.cost) {
			return w
		}
		// Another key came, and what w's key may hold shrank: room in the gate no longer helps it.
		g.abandonGatheringLocked()
	}
	if w := g.nextAsideLocked(); w != nil {
		return w
	}
	for !g.mu.ring.empty() {
		k := g.mu.ring.first.value
		w := k.waiters.first.value
		if !g.keyFitsLocked(k, w.permit.cost) {
			g.endTurnLocked(k)
			k.moveTo(&g.mu.parked)
			continue
		}
		if !k.turn {
			turn := min(g.mu.sizes.most(), g.mu.limit)
			k.turn = true
			k.credit = min(k.credit, turn) + turn // what was left of a turn under a higher limit would be many turns now
		}
		if g.priceLocked(w) <= k.credit {
			return w
		}
		k.turn = false
		k.moveTo(&g.mu.ring)
	}
	return nil
}

// nextAsideLocked is the first of those aside that fits or, when nobody is to pass any more, the first that may gather.
func (g *Gate) nextAsideLocked() *waiter {
	if g.mu.aside.empty() {
		return nil
	}
	open := g.openLocked()
	g.returnLocked(open)
	for n := g.mu.aside.first; n != nil; n = n.next {
		w := n.value
		if g.keyFitsLocked(w.key, w.permit.cost) && (!open || g.fitsLocked(w.permit.cost)) {
			return w
		}
	}
	return nil
}

// returnLocked puts those aside that now wait for their own key back to its head: the gate's room is no longer what
// they lack, and the small ones of their own key, which have passed them, would keep that key full for ever.
func (g *Gate) returnLocked(open bool) {
	var before *node[*waiter]
	for n := g.mu.aside.last; n != nil; n = before { // the last first, so that they keep their order
		before = n.prev
		w := n.value
		if !g.keyFitsLocked(w.key, w.permit.cost) && (!open || g.fitsLocked(w.permit.cost)) {
			n.leave()
			w.key.waiters.pushFront(n)
			w.key.credit += g.priceLocked(w)
			g.placeLocked(w.key)
		}
	}
}

// priceLocked is what w takes from its key's turn. What is served alone costs one full gate: no turn is worth more, and
// with a limit lowered to almost nothing it would otherwise take as many rounds as it has units.
func (g *Gate) priceLocked(w *waiter) int64 {
	return min(w.permit.cost, g.mu.limit)
}

// payLocked leaves no debt: only a limit that was raised during the turn can make w dearer than what the turn was worth.
func (g *Gate) payLocked(w *waiter) {
	w.key.credit = max(w.key.credit-g.priceLocked(w), 0)
}

func (g *Gate) grantOneLocked(w *waiter) {
	if w.in != &g.mu.aside { // those aside have paid
		g.payLocked(w)
	}
	g.settleLocked(w)
	w.permit.waited = time.Since(w.since)
	g.mu.waitedFor(w.permit.waited)
	g.chargeLocked(w.permit, w.key)
	close(w.ready)
}

// gatherLocked starts w's clock. Until it ends, nextLocked returns w and nobody else, so all that is released is kept.
func (g *Gate) gatherLocked(w *waiter) {
	g.mu.gathering = w
	w.began = time.Now()
	var clock *time.Timer
	clock = time.AfterFunc(w.patience, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.mu.gathering == w && w.clock == clock {
			g.outOfPatienceLocked(w)
		}
	})
	w.clock = clock
}

// outOfPatienceLocked lets the others pass w, if there are any whom it keeps out; if not, it goes on.
func (g *Gate) outOfPatienceLocked(w *waiter) {
	if !g.anotherFitsLocked(w) {
		w.clock.Reset(w.patience)
		return
	}
	g.stopGatheringLocked()
	g.openForLocked(w.patience)
	w.patience = min(2*w.patience, g.o.Wait/lastPatience)
	if w.in != &g.mu.aside {
		g.stepAsideLocked(w)
	}
	g.grantLocked()
}

// stopGatheringLocked leaves no timer behind: the clock would pin the waiter, and its caller's memory with it.
func (g *Gate) stopGatheringLocked() {
	g.mu.gathering.clock.Stop()
	g.mu.gathering.clock = nil
	g.mu.gathering = nil
}

// abandonGatheringLocked is for a gathering that came to nothing through no fault of the others: they get their pause all
// the same. Else a row of large waiters that come and leave could keep the small ones out for ever.
func (g *Gate) abandonGatheringLocked() {
	g.openForLocked(time.Since(g.mu.gathering.began))
	g.stopGatheringLocked()
}

// stepAsideLocked lets the others pass w, which keeps its claim: it has paid for its turn, and is granted before anybody
// else as soon as it fits.
func (g *Gate) stepAsideLocked(w *waiter) {
	g.payLocked(w)
	w.moveTo(&g.mu.aside)
	g.placeLocked(w.key)
}

// anotherFitsLocked reports whether another waiter could be granted if w stepped aside. It may look at all of them, but
// is asked only when a gathering has failed of late.
func (g *Gate) anotherFitsLocked(w *waiter) bool {
	if g.oneOfLocked(&g.mu.aside, w) {
		return true
	}
	for k := g.mu.ring.first; k != nil; k = k.next {
		if g.oneOfLocked(&k.value.waiters, w) {
			return true
		}
	}
	return false
}

// oneOfLocked reports whether any of l but w fits.
func (g *Gate) oneOfLocked(l *list[*waiter], w *waiter) bool {
	for n := l.first; n != nil; n = n.next {
		cost := n.value.permit.cost
		if n.value != w && g.fitsLocked(cost) && g.keyFitsLocked(n.value.key, cost) {
			return true
		}
	}
	return false
}

// openForLocked lets nobody gather for d from now on.
func (g *Gate) openForLocked(d time.Duration) {
	g.mu.openUntil = time.Now().Add(d)
}

func (g *Gate) openLocked() bool { return time.Now().Before(g.mu.openUntil) }
