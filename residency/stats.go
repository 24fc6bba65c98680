package residency

import (
	"maps"
	"time"
)

// State is where an instance is between its build and its end.
type State string

const (
	Resident State = "resident" // leased, or ready to be
	Draining State = "draining" // detached, and still leased
	Closing  State = "closing"  // its Close has been called
)

// Cause says why an instance was detached. The set is closed, so it may label a metric.
type Cause string

const (
	Room    Cause = "room"    // a build needed its bytes
	Idle    Cause = "idle"    // not leased for IdleTTL
	Shrunk  Cause = "shrunk"  // by Shrink
	Asked   Cause = "asked"   // by Evict, EvictWhere or EvictGroup
	Renewed Cause = "renewed" // its successor was there, by Refresh
	AtClose Cause = "closed"  // by Cache.Close
)

// Causes returns all of them, for those who must name every series before it has a value.
func Causes() []Cause { return []Cause{Room, Idle, Shrunk, Asked, Renewed, AtClose} }

// Stats is a snapshot, taken under one lock: its numbers belong together. Every call of Lease that has returned, and
// every one of Refresh that asked for a build, is counted once in Hits + Waited + Canceled + Failed + the sum of Shed.
type Stats struct {
	Name                                       string
	Budget                                     int64 // Heap - Base
	Charged                                    int64 // of it; the sum of the next four
	ResidentBytes, DrainingBytes, ClosingBytes int64
	BuildBytes                                 int64 // BuildPeak for each build, those that ignore their end included
	BuildPeak                                  int64 // T, raised by instances that were larger
	Capacity                                   int   // R, the instances of mean size that fit
	Resident, Leased, Draining, Closing        int   // instances; Leased is the part of Resident in use
	Building, Queued, Waiting                  int   // builds that hold a slot, those that do not yet, callers

	Hits, Waited, Canceled, Failed uint64 // leases at once, after a wait; callers that left; errors of Build
	Begun, Built, BuildsFailed     uint64 // builds
	DrainTimeouts                  uint64 // instances closed with leases out
	ClosePanics                    uint64
	BuildSeconds, WaitSeconds      float64           // of all builds; of leases after a wait
	Evicted                        map[Cause]uint64  // every Cause is present
	Shed                           map[Reason]uint64 // every Reason is present
}

// counters are what Stats adds up since New.
type counters struct {
	hits, waited, canceled, failedAnswers uint64
	begun, built, buildsFailed            uint64
	drainTimeouts, closePanics            uint64
	buildTime, waitTime                   time.Duration
	evicted                               map[Cause]uint64
	shed                                  map[Reason]uint64
}

func newCounters() counters {
	c := counters{evicted: map[Cause]uint64{}, shed: map[Reason]uint64{}}
	for _, cause := range Causes() {
		c.evicted[cause] = 0
	}
	for _, r := range Reasons() {
		c.shed[r] = 0
	}
	return c
}

// Stats looks at every instance, for as long as that takes.
func (c *Cache[K, V]) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := &c.mu
	s := Stats{
		Name: c.o.Name, Budget: c.budget, Charged: c.chargedLocked(),
		ResidentBytes: m.residentBytes, DrainingBytes: m.drainingBytes, ClosingBytes: m.closingBytes,
		BuildBytes: m.buildBytes + m.lostBytes, BuildPeak: m.peak, Capacity: c.capacityLocked(),
		Resident: len(m.resident), Building: len(m.running), Queued: m.queued, Waiting: m.waiting,
		Hits: m.hits, Waited: m.waited, Canceled: m.canceled, Failed: m.failedAnswers,
		Begun: m.begun, Built: m.built, BuildsFailed: m.buildsFailed,
		DrainTimeouts: m.drainTimeouts, ClosePanics: m.closePanics,
		BuildSeconds: m.buildTime.Seconds(), WaitSeconds: m.waitTime.Seconds(),
		Evicted: maps.Clone(m.evicted), Shed: maps.Clone(m.shed),
	}
	for e := range m.detached {
		if e.state == Draining {
			s.Draining++
		} else {
			s.Closing++
		}
	}
	for _, e := range m.resident {
		if e.leases > 0 {
			s.Leased++
		}
	}
	return s
}

// Instance is what there is to say of one.
type Instance[K comparable] struct {
	Key     K
	State   State
	Bytes   int64
	Leases  int
	LastUse time.Time     // when a lease was last given back, or its build began
	Took    time.Duration // its build
}

// Instances lists all of them at one moment, detached ones too, in no order.
func (c *Cache[K, V]) Instances() []Instance[K] {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]Instance[K], 0, len(c.mu.resident)+len(c.mu.detached))
	add := func(e *entry[K, V]) {
		all = append(all, Instance[K]{e.key, e.state, e.size, e.leases, e.lastUse, e.took})
	}
	for _, e := range c.mu.resident {
		add(e)
	}
	for e := range c.mu.detached {
		add(e)
	}
	return all
}
