package gate

import (
	"maps"
	"time"
)

// WaitBounds are the upper bounds, in seconds, of Stats.WaitBuckets. They are the same for every gate, so that one
// dashboard fits all.
var WaitBounds = [...]float64{0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 600}

// Stats is a snapshot, taken under one lock: its numbers belong together. Every call of Admit or TryAdmit that has
// returned is counted once in Admitted + Canceled + the sum of Shed, except that a grant whose caller had just left is
// in Admitted, in Canceled and in HandedOn.
type Stats struct {
	Name              string
	InUse, Limit      int64
	Held              int // permits out
	Queued            int // waiters now
	QueueLimit        int
	Keys              int               // active keys (holding or waiting)
	Admitted          uint64            // since New
	AdmittedAfterWait uint64            // through the queue, however short the wait
	HandedOn          uint64            // granted while the caller was leaving, and passed to the next
	WaitSeconds       float64           // total time waited by admitted ones
	WaitBuckets       []uint64          // cumulative counts per WaitBounds, admitted after a wait or at once
	Canceled          uint64            // the caller's own context ended it
	Shed              map[Reason]uint64 // every Reason is present
}

// counters are what Stats adds up since New.
type counters struct {
	admitted, afterWait, handedOn, canceled uint64
	waited                                  time.Duration
	waits                                   [len(WaitBounds)]uint64 // after a wait, not cumulative; beyond the last bound in none
	shed                                    map[Reason]uint64
}

func newCounters() counters {
	c := counters{shed: make(map[Reason]uint64, len(Reasons()))}
	for _, r := range Reasons() {
		c.shed[r] = 0
	}
	return c
}

// waitedFor counts one admission after a wait of d.
func (c *counters) waitedFor(d time.Duration) {
	c.afterWait++
	c.waited += d
	for i, bound := range WaitBounds {
		if d.Seconds() <= bound {
			c.waits[i]++
			return
		}
	}
}

// Stats costs a few small allocations, however many keys there are.
func (g *Gate) Stats() Stats {
	buckets := make([]uint64, len(WaitBounds))
	g.mu.Lock()
	defer g.mu.Unlock()
	// Those admitted at once have waited less than any bound.
	sum := g.mu.admitted - g.mu.afterWait
	for i, n := range g.mu.waits {
		sum += n
		buckets[i] = sum
	}
	return Stats{
		Name: g.o.Name, InUse: g.mu.inUse, Limit: g.mu.limit,
		Held: g.mu.held, Queued: g.mu.queued, QueueLimit: g.o.Queue, Keys: g.mu.keys.n,
		Admitted: g.mu.admitted, AdmittedAfterWait: g.mu.afterWait, HandedOn: g.mu.handedOn,
		WaitSeconds: g.mu.waited.Seconds(), WaitBuckets: buckets,
		Canceled: g.mu.canceled, Shed: maps.Clone(g.mu.shed),
	}
}
