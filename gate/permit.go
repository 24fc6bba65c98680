package gate

import "time"

// Permit is the right to have cost in use until Release. It is allocated anew for each admission: a pool would make a
// second Release, which is harmless here, end the work of a stranger.
type Permit struct {
	gate   *Gate
	key    *keyState // nil when nothing is charged; guarded by gate.mu
	cost   int64
	waited time.Duration
}

// Release gives the cost back and lets the next waiters in. It belongs where the work ends (a handler's return), not
// where the client's context does. It may be called more than once, from any goroutine, and on a nil Permit.
func (p *Permit) Release() {
	if p == nil || p.gate == nil {
		return
	}
	g := p.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	g.giveBackLocked(p)
}

// Cost is what the permit was admitted with; a cost below 1 was counted as 1.
func (p *Permit) Cost() int64 {
	if p == nil {
		return 0
	}
	return p.cost
}

// Waited is the time this admission spent in the queue.
func (p *Permit) Waited() time.Duration {
	if p == nil {
		return 0
	}
	return p.waited
}
