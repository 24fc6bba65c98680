package git

import (
	"github.com/leveehq/levee/internal/git/mirror"
	"github.com/leveehq/levee/internal/git/packs"
	"github.com/leveehq/levee/internal/git/upstream"
)

// Status is a snapshot, for the admin listener and for metrics.
type Status struct {
	Answers []Answer          `json:"answers"`
	Results map[string]uint64 `json:"results"` // of requests for a pack: admitted, shed, too_large, cancelled, failed
	Waits   Waits             `json:"waits"`   // of the admitted ones
	Packs   PackStatus        `json:"packs"`

	// MedianGeneration is of the last generations, in seconds, without what they waited; for levee check.
	MedianGeneration float64 `json:"median_generation_seconds"`
	Generations      uint64  `json:"generations_measured"`

	MirrorStates map[mirror.State]int `json:"mirror_states"`
	MirrorBytes  int64                `json:"mirror_bytes"`
	MirrorMax    int64                `json:"mirror_max_bytes"`

	UpstreamRequests uint64                   `json:"upstream_requests"`
	UpstreamFailures map[upstream.Kind]uint64 `json:"upstream_failures"`

	Stale           uint64            `json:"stale"` // answers given while upstream could not be asked
	ClonesServed    uint64            `json:"clones_served"`
	ClonesAttempted uint64            `json:"clones_attempted"`
	Busiest         []RepositoryCount `json:"busiest"`
}

// PackStatus is packs.Stats with names for JSON.
type PackStatus struct {
	Generations uint64 `json:"generations"`
	Generating  int    `json:"generating"` // now
	Hits        uint64 `json:"hits"`
	Coalesced   uint64 `json:"coalesced"`
	Rounds      uint64 `json:"rounds"`
	Detached    uint64 `json:"detached"`
	Spooled     int    `json:"spooled"` // packs on disk
	SpoolBytes  int64  `json:"spool_bytes"`
	MaxBytes    int64  `json:"spool_max_bytes"`
	TableBytes  int64  `json:"table_bytes"`
}

func packStatus(s packs.Stats) PackStatus {
	return PackStatus{
		Generations: s.Generations, Generating: s.Generating, Hits: s.Hits, Coalesced: s.Coalesced, Rounds: s.Rounds, Detached: s.Detached,
		Spooled: s.Packs, SpoolBytes: s.SpoolBytes, MaxBytes: s.MaxBytes, TableBytes: s.TableBytes,
	}
}

// Answer is the number of requests that were answered alike.
type Answer struct {
	Method string `json:"method"` // info-refs, ls-refs, fetch, …
	Code   int    `json:"code"`   // HTTP status; 499 if the client left
	Origin string `json:"origin"` // ours, upstream
	Count  uint64 `json:"count"`
}

// Waits is a histogram by gate.WaitBounds.
type Waits struct {
	Count   uint64   `json:"count"`
	Seconds float64  `json:"seconds"`
	Buckets []uint64 `json:"buckets"` // cumulative
}

// RepositoryCount is one of the busiest repositories, by requests that got a pack.
type RepositoryCount struct {
	Name   string `json:"name"`
	Served uint64 `json:"served"`
}

// Status may be called at any time, from any goroutine.
func (s *Service) Status() Status {
	st := Status{
		Results: map[string]uint64{admitted: 0, shed: 0, tooLarge: 0, cancelled: 0, failed: 0}, MirrorStates: map[mirror.State]int{},
		Stale: s.count.stale.Load(), ClonesServed: s.count.clonesServed.Load(), ClonesAttempted: s.count.clonesAttempted.Load(),
		MirrorMax: s.opt.MaxSize,
	}
	s.countersInto(&st)
	for _, state := range []mirror.State{mirror.Empty, mirror.Cloning, mirror.Ready, mirror.Broken} {
		st.MirrorStates[state] = 0
	}
	if s.store == nil { // not open
		return st
	}
	for _, m := range s.store.List() {
		st.MirrorStates[m.State]++
		st.MirrorBytes += m.Bytes
	}
	st.Packs = packStatus(s.cache.Stats())
	u := s.client.Stats()
	st.UpstreamRequests, st.UpstreamFailures = u.Requests, u.Failures
	return st
}

func (s *Service) countersInto(st *Status) {
	c := &s.count
	c.mu.Lock()
	defer c.mu.Unlock()
	st.Answers = make([]Answer, 0, len(c.mu.answers))
	for k, n := range c.mu.answers {
		st.Answers = append(st.Answers, Answer{k.method, k.code, k.origin, n})
	}
	for result, n := range c.mu.results {
		st.Results[result] = n
	}
	st.Waits = Waits{c.mu.waits.count, c.mu.waits.sum.Seconds(), c.mu.waits.cumulative()}
	st.Busiest = c.mu.top.list()
	st.MedianGeneration, st.Generations = c.mu.took.median().Seconds(), c.mu.took.n
}
