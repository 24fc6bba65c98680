package git

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leveehq/levee/gate"
	"github.com/leveehq/levee/internal/git/upstream"
)

// counters since New. A client cannot make them grow: methods, codes, origins and results are of closed sets, and repositories
// are kept for the busiest ones only.
type counters struct {
	stale                         atomic.Uint64
	clonesServed, clonesAttempted atomic.Uint64
	mu                            struct {
		sync.Mutex
		answers map[answerKey]uint64
		results map[string]uint64
		waits   histogram
		top     busiest
		took    recent // of generations, as who asked for them saw it
	}
}

type answerKey struct {
	method string
	code   int
	origin string
}

func (c *counters) answered(method string, code int, origin string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.answers == nil {
		c.mu.answers = map[answerKey]uint64{}
	}
	c.mu.answers[answerKey{method, code, origin}]++
}

// Results of requests for a pack.
const (
	admitted  = "admitted"
	shed      = "shed"
	cancelled = "cancelled"
	tooLarge  = "too_large"
	failed    = "failed"
)

// result counts what became of a request for a pack, and how long it waited.
func (c *counters) result(err error, waited time.Duration) {
	result := admitted
	switch {
	case err == nil:
	case isTooLarge(err):
		result = tooLarge
	case isShed(err):
		result = shed
	case isCancelled(err):
		result = cancelled
	default:
		result = failed
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.results == nil {
		c.mu.results = map[string]uint64{}
	}
	c.mu.results[result]++
	if result == admitted {
		c.mu.waits.add(waited)
	}
}

func isCancelled(err error) bool { return errors.Is(err, context.Canceled) }

func (c *counters) served(repo upstream.Repo) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.top.add(repo.String())
}

// histogram counts by gate.WaitBounds.
type histogram struct {
	buckets [len(gate.WaitBounds)]uint64 // not cumulative
	count   uint64
	sum     time.Duration
}

func (h *histogram) add(d time.Duration) {
	h.count++
	h.sum += d
	if i := slices.IndexFunc(gate.WaitBounds[:], func(b float64) bool { return d.Seconds() <= b }); i >= 0 {
		h.buckets[i]++
	}
}

// cumulative is as Prometheus and gate.Stats have it.
func (h *histogram) cumulative() []uint64 {
	out := make([]uint64, len(h.buckets))
	sum := uint64(0)
	for i, n := range h.buckets {
		sum += n
		out[i] = sum
	}
	return out
}

// recent keeps the last of many durations.
type recent struct {
	last [128]time.Duration
	n    uint64
}

func (r *recent) add(d time.Duration) {
	r.last[r.n%uint64(len(r.last))] = d
	r.n++
}

func (r *recent) median() time.Duration {
	kept := slices.Clone(r.last[:min(r.n, uint64(len(r.last)))])
	if len(kept) == 0 {
		return 0
	}
	slices.Sort(kept)
	return kept[len(kept)/2]
}

func (c *counters) generated(took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.took.add(took)
}

// Names of repositories come from clients, so only so many are shown, and a few more are counted to find out which.
const (
	shownRepositories   = 20
	countedRepositories = 4 * shownRepositories
)

// busiest finds the most frequent names in bounded memory (the Space-Saving algorithm of Metwally and others): a newcomer
// takes the place and the count of the least frequent one, so a count may be too high by that much and is never too low.
type busiest struct{ n map[string]uint64 }

func (b *busiest) add(name string) {
	if b.n == nil {
		b.n = map[string]uint64{}
	}
	if _, known := b.n[name]; !known && len(b.n) >= countedRepositories {
		least := slices.MinFunc(slices.Collect(maps.Keys(b.n)), func(x, y string) int { return cmp.Compare(b.n[x], b.n[y]) })
		b.n[name] = b.n[least]
		delete(b.n, least)
	}
	b.n[name]++
}

func (b *busiest) list() []RepositoryCount {
	out := make([]RepositoryCount, 0, len(b.n))
	for name, n := range b.n {
		out = append(out, RepositoryCount{name, n})
	}
	slices.SortFunc(out, func(x, y RepositoryCount) int {
		return cmp.Or(cmp.Compare(y.Served, x.Served), cmp.Compare(x.Name, y.Name))
	})
	return out[:min(len(out), shownRepositories)]
}
