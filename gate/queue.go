package gate

import (
	"math/bits"
	"time"
)

// keyState exists while its key holds or waits. It is in the ring, in the parked list, or (with no waiter of its own
// queue) in neither.
type keyState struct {
	node[*keyState]
	chain   *keyState // the next in its bucket of the table
	hash    uint64
	name    string
	inUse   int64
	held    int
	waiting int           // in waiters or aside
	waiters list[*waiter] // in the order they came
	turn    bool          // at the front of the ring, and credited for this turn
	credit  int64         // cost it may still be granted in this turn
}

// waiter is a call of Admit in the queue.
type waiter struct {
	node[*waiter]
	permit   *Permit
	key      *keyState
	since    time.Time
	ready    chan struct{} // closed when granted, or shed by Close
	settled  bool          // out of the queue, whichever way
	err      *Shed         // set when settled, if it was shed
	patience time.Duration // how long it may gather next time
	clock    *time.Timer   // runs only while it gathers
	began    time.Time     // of this gathering
}

const maxIdle = 32 // blank key states kept: more than the callers that come and go at one instant

// activeLocked returns k, or a fresh state for a key that has none.
func (g *Gate) activeLocked(k *keyState, hash uint64, name string) *keyState {
	if k != nil {
		return k
	}
	if n := len(g.mu.idle); n > 0 {
		k = g.mu.idle[n-1]
		g.mu.idle = g.mu.idle[:n-1]
	} else {
		k = new(keyState)
		k.value = k
	}
	k.hash, k.name = hash, name
	g.mu.keys.put(k)
	return k
}

// forgetIdleLocked drops k if it neither holds nor waits. The key that is alone after that may use more (PerKey instead
// of PerKeyContended), so it is looked at again.
func (g *Gate) forgetIdleLocked(k *keyState) {
	if k.held > 0 || k.waiting > 0 {
		return
	}
	g.mu.keys.drop(k)
	if len(g.mu.idle) < maxIdle {
		k.name = ""
		g.mu.idle = append(g.mu.idle, k)
	}
	if g.mu.keys.n == 1 && !g.mu.parked.empty() {
		g.placeLocked(g.mu.parked.first.value)
	}
}

// fitsLocked reports room in the gate. An empty gate has room for anything, which is how a cost above the limit is
// served alone.
func (g *Gate) fitsLocked(cost int64) bool {
	return g.mu.held == 0 || cost <= g.mu.limit-g.mu.inUse
}

// keyFitsLocked reports room below k's own limit; a key that holds nothing has room for anything.
func (g *Gate) keyFitsLocked(k *keyState, cost int64) bool {
	limit := g.o.PerKey
	if g.mu.keys.n > 1 {
		limit = g.o.PerKeyContended
	}
	return k.held == 0 || cost <= limit-k.inUse
}

// roomNowLocked reports whether a newcomer may be admitted past the queue: there is room, and nobody waits who is
// entitled to that room. Waiters at their own key's limit are not, nor are those who stepped aside, for as long as the
// others may pass. k is nil for a key that is not active.
func (g *Gate) roomNowLocked(k *keyState, cost int64) bool {
	switch {
	case !g.fitsLocked(cost):
		return false
	case k != nil && (!k.waiters.empty() || !g.keyFitsLocked(k, cost)):
		return false
	case g.mu.queued == 0:
		return true
	case !g.mu.ring.empty() || g.mu.gathering != nil:
		return false
	}
	return g.mu.aside.empty() || g.openLocked()
}

// chargeLocked makes p one of the permits that are out.
func (g *Gate) chargeLocked(p *Permit, k *keyState) {
	p.key = k
	k.inUse += p.cost
	k.held++
	g.mu.inUse += p.cost
	g.mu.held++
	g.mu.admitted++
}

// giveBackLocked undoes chargeLocked, once, and lets the next in.
func (g *Gate) giveBackLocked(p *Permit) {
	k := p.key
	if k == nil {
		return
	}
	p.key = nil
	k.inUse -= p.cost
	k.held--
	g.mu.inUse -= p.cost
	g.mu.held--
	g.forgetIdleLocked(k)
	if g.mu.queued > 0 {
		g.placeLocked(k)
		g.grantLocked()
	}
}

// queueLocked makes w wait.
func (g *Gate) queueLocked(w *waiter, k *keyState) {
	w.key = k
	k.waiting++
	g.mu.queued++
	g.mu.sizes.add(w.permit.cost)
	k.waiters.pushBack(&w.node)
	g.placeLocked(k)
	g.grantLocked()
}

// settleLocked takes w out of the queue. The caller says what becomes of it, and calls forgetIdleLocked if w's key gets
// no permit in exchange.
func (g *Gate) settleLocked(w *waiter) {
	w.settled = true
	w.leave()
	w.key.waiting--
	g.mu.queued--
	g.mu.sizes.remove(w.permit.cost)
	if g.mu.gathering == w {
		g.stopGatheringLocked()
	}
	g.placeLocked(w.key)
}

// leaveLocked takes out a waiter that gets nothing, and lets in those it stood before.
func (g *Gate) leaveLocked(w *waiter) {
	if g.mu.gathering == w {
		g.abandonGatheringLocked()
	}
	g.settleLocked(w)
	g.forgetIdleLocked(w.key)
	g.grantLocked()
}

// placeLocked puts k into the list where it belongs, after its waiters or its use have changed. A key in the ring whose
// own limit is reached is parked when its turn comes.
func (g *Gate) placeLocked(k *keyState) {
	switch {
	case k.waiters.empty():
		g.endTurnLocked(k)
		k.leave()
	case k.in == &g.mu.ring:
	case g.keyFitsLocked(k, k.waiters.first.value.permit.cost):
		k.moveTo(&g.mu.ring)
	case k.in == nil:
		k.moveTo(&g.mu.parked)
	}
}

// endTurnLocked also takes what is left of the turn: a key that is out of the ring saves nothing up.
func (g *Gate) endTurnLocked(k *keyState) {
	k.turn, k.credit = false, 0
}

// sizes knows, to a factor of two, the least and the largest cost that waits.
type sizes struct {
	count [64]int32 // waiters with a cost in (1<<(i-1), 1<<i]
	some  uint64    // bit i is set when count[i] > 0
}

func sizeOf(cost int64) int { return bits.Len64(uint64(cost - 1)) }

func (s *sizes) add(cost int64) {
	i := sizeOf(cost)
	s.count[i]++
	s.some |= 1 << i
}

func (s *sizes) remove(cost int64) {
	i := sizeOf(cost)
	s.count[i]--
	if s.count[i] == 0 {
		s.some &^= 1 << i
	}
}

// least is at most the least cost; it must not be called when nobody waits.
func (s *sizes) least() int64 {
	i := bits.TrailingZeros64(s.some)
	if i == 0 {
		return 1
	}
	return 1<<(i-1) + 1
}

// most is at least the largest cost, and less than twice as much.
func (s *sizes) most() int64 {
	i := bits.Len64(s.some) - 1
	if i >= 63 {
		return 1<<63 - 1
	}
	return 1 << i
}
