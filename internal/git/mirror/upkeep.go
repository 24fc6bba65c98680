package mirror

import (
	"context"
	"errors"
	"time"

	"github.com/leveehq/levee/gate"
)

// upkeepRun is what can be ended for the sake of somebody who waits.
type upkeepRun struct {
	b      *bare
	cancel context.CancelCauseFunc
}

var errYield = errors.New("upkeep gave way to a fetch")

const (
	// mostYields is how often upkeep of one mirror gives way in a row: on a busy server it would never be done otherwise.
	mostYields = 3

	// restFactor keeps upkeep of a mirror below a tenth of the time, leastRest from following every fetch of a busy one.
	restFactor = 10
	leastRest  = 2 * time.Second

	// repackEvery is how often all is packed anew for the sake of a few suspects, manySuspects how many are worth it earlier.
	repackEvery  = 24 * time.Hour
	manySuspects = mostSuspects / 4

	// repackRest is how long after a repack the next may be, whatever is suspect.
	repackRest = time.Hour

	// mostWants is how many packs of objects that no ref reaches are kept. They are dropped all together.
	mostWants = 32
)

// interrupt ends what upkeep does, for somebody who waits for a permit.
func (s *Store) interrupt() {
	r := s.background.Load()
	if r == nil {
		return
	}
	r.b.mu.Lock()
	patient := r.b.mu.yielded < mostYields
	r.b.mu.Unlock()
	if patient {
		r.cancel(errYield)
	}
}

// upkeep looks after all mirrors, one at a time.
func (s *Store) upkeep(ctx context.Context) {
	for _, m := range s.all() {
		if ctx.Err() != nil {
			return
		}
		s.tend(ctx, m)
	}
	_ = s.makeRoom(0) // who needs the room will say so
}

// tend does what is due for one mirror.
func (s *Store) tend(ctx context.Context, m *mirror) {
	b, release := m.held()
	defer release()
	if b == nil {
		return
	}
	b.touch(false)
	what := b.due(time.Now())
	if what == nil {
		return
	}
	began := time.Now()
	err := s.interruptibly(ctx, b, func(ctx context.Context) error { return what(ctx, m) })
	took := time.Since(began)
	b.mu.Lock()
	b.mu.rest = time.Now().Add(max(restFactor*took, leastRest))
	if errors.Is(err, errYield) {
		b.mu.yielded++
	} else {
		b.mu.yielded = 0
	}
	b.mu.Unlock()
	b.weigh()
	if err != nil && ctx.Err() == nil && !errors.Is(err, errYield) && !errors.Is(err, gate.ErrShed) {
		s.log.Warn("upkeep of a mirror failed; it is served as it is", "repo", m.id.String(), "error", err)
	}
}

func (s *Store) interruptibly(ctx context.Context, b *bare, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.background.Store(&upkeepRun{b: b, cancel: cancel})
	defer s.background.Store(nil)
	return f(ctx)
}

// due is what b needs now, if anything: first what others wait for.
func (b *bare) due(now time.Time) func(ctx context.Context, m *mirror) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	sinceRepack := now.Sub(b.mu.meta.Packed)
	s := b.mu.suspects
	switch {
	case b.mu.doubts != nil:
		return b.verify
	case now.Before(b.mu.rest):
		return nil
	case b.mu.unfolded:
		return b.fold
	case (s.all || len(s.list) > manySuspects || len(b.mu.wants) > mostWants) && (sinceRepack > repackRest || !b.mu.meta.Repacked):
		return b.repack
	case !s.none() && sinceRepack > repackEvery:
		return b.repack
	}
	return nil
}

// touch writes down that b was used, for the order of eviction after a restart: at most once a minute, unless now.
func (b *bare) touch(now bool) {
	b.mu.Lock()
	used := b.mu.used
	due := used.After(b.mu.touched) && (now || time.Since(b.mu.touched) > time.Minute)
	if due {
		b.mu.touched = used
	}
	b.mu.Unlock()
	if due {
		setUsed(b.dir, used)
	}
}
