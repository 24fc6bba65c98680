package pgpool

import (
	"cmp"
	"slices"
)

// cause is why a connection was closed.
type cause int

const (
	causeIdle     cause = iota // nobody used it for Options.IdleTime
	causeRoom                  // to make room for another database
	causeReleased              // the last handle on its database was closed
	causeLost                  // it broke, or a canceled request did not end in time
	causeReset                 // its session could not be reset
	causeShutdown
	causes
)

var causeNames = [causes]string{"idle", "room", "released", "lost", "reset", "shutdown"}

// Stats is a snapshot.
type Stats struct {
	Budget  int `json:"budget"`
	Open    int `json:"open"`    // connections, with those being made and those being closed
	Idle    int `json:"idle"`    // those that nobody uses
	InUse   int `json:"in_use"`  // requests that hold a permit
	Waiting int `json:"waiting"` // requests that wait for one

	Opened   uint64            `json:"opened"`    // since New
	Closed   map[string]uint64 `json:"closed"`    // by cause; every cause is present
	Failures uint64            `json:"failures"`  // connections that could not be made
	FastFail uint64            `json:"fast_fail"` // requests turned away because the last attempt to connect failed just now
	Requests uint64            `json:"requests"`
	Repeated uint64            `json:"repeated"` // on a fresh connection, or with a statement prepared anew
	Canceled uint64            `json:"canceled"` // requests that PostgreSQL was asked to end

	// Databases are those with most connections, at most 20.
	Databases []DatabaseStats `json:"databases,omitempty"`
}

// DatabaseStats is the part of one database.
type DatabaseStats struct {
	Name string `json:"name"`
	Open int    `json:"open"`
	Idle int    `json:"idle"`
	Down bool   `json:"down,omitempty"` // the last attempt to connect failed
}

const topDatabases = 20

// Stats costs a few small allocations and a look at every database.
func (b *Budget) Stats() Stats {
	g := b.gate.Stats()
	s := Stats{
		Budget: b.o.Budget, InUse: int(g.InUse), Waiting: g.Queued,
		Opened: b.count.opened.Load(), Failures: b.count.failures.Load(), FastFail: b.count.fastFail.Load(),
		Requests: b.count.requests.Load(), Repeated: b.count.repeated.Load(), Canceled: b.count.canceled.Load(),
		Closed: make(map[string]uint64, causes),
	}
	for i, name := range causeNames {
		s.Closed[name] = b.count.closed[i].Load()
	}
	b.mu.Lock()
	s.Open, s.Idle = b.mu.open, b.mu.idle
	for _, p := range b.mu.pools {
		if p.open > 0 || p.fails > 0 {
			s.Databases = append(s.Databases, DatabaseStats{Name: p.name, Open: p.open, Idle: len(p.idle), Down: p.fails > 0})
		}
	}
	b.mu.Unlock()
	slices.SortFunc(s.Databases, func(x, y DatabaseStats) int {
		return cmp.Or(cmp.Compare(y.Open, x.Open), cmp.Compare(x.Name, y.Name))
	})
	s.Databases = s.Databases[:min(len(s.Databases), topDatabases)]
	return s
}
