package mirror

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/leveehq/levee/gate"
)

// upkeepRun is what can be ended for the sake of somebody who waits.
type upkeepRun struct {
	b      *bare
	cancel context.CancelCauseFunc
}

var (
	errYield   = errors.New("upkeep gave way to a fetch")
	errLongAgo = errors.New("it is long since everything was read")
)

const (
	// mostYields is how often upkeep of one mirror gives way in a row: on a busy server it would never be done otherwise.
	mostYields = 3

	// restFactor keeps upkeep of a mirror below a tenth of the time, leastRest from following every fetch of a busy one.
	restFactor = 10
	leastRest  = 2 * time.Second
	failedRest = 5 * time.Minute // what failed would fail again

	// repackEvery is how often all is packed anew for the sake of a few suspects, manySuspects how many are worth it earlier.
	repackEvery  = 24 * time.Hour
	manySuspects = mostSuspects / 4

	// scrubEvery is how often everything is read for its own sake: pack-objects copies what it can without a look at it, so a
	// byte that has turned in the middle of a pack is for clients to find, who tell nobody.
	scrubEvery = 24 * time.Hour

	// repackRest is how long after a repack the next may be, whatever is suspect.
	repackRest = time.Hour
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
	s.forgetRefs()
}

// forgetRefs drops lists of refs from memory, of mirrors that nobody uses, until all fit Options.RefBytes: the least recently
// used first. They are read again when they are needed.
func (s *Store) forgetRefs() {
	type list struct {
		m     *mirror
		used  time.Time
		bytes int64
	}
	var lists []list
	total := int64(0)
	for _, m := range s.all() {
		if bytes, used := m.refsInMemory(); bytes > 0 {
			lists = append(lists, list{m, used, bytes})
			total += bytes
		}
	}
	slices.SortFunc(lists, func(a, b list) int { return a.used.Compare(b.used) })
	for _, l := range lists {
		if total <= s.o.RefBytes {
			return
		}
		if l.m.forgetRefs() {
			total -= l.bytes
		}
	}
}

func (m *mirror) refsInMemory() (bytes int64, used time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if b := m.mu.bare; b != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		bytes, used = int64(len(b.mu.suspects.list))*suspectBytes, b.mu.used
		if b.mu.applied != nil {
			bytes += b.mu.applied.bytes()
		}
	}
	if m.mu.known != nil {
		bytes += m.mu.known.bytes()
	}
	return bytes, used
}

// forgetRefs reports whether nobody used them.
func (m *mirror) forgetRefs() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.mu.bare
	if b == nil || m.mu.users > 0 {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.mu.held) > 0 || b.mu.applied == nil || b.mu.applied.began.After(b.mu.meta.Asked) {
		return false // in use, or what is only in memory is written down first; see remember
	}
	m.mu.known, b.mu.applied, b.mu.suspects.list = nil, nil, nil
	return true
}

// tend does what is due for one mirror.
func (s *Store) tend(ctx context.Context, m *mirror) {
	b, release := m.held()
	defer release()
	if b == nil {
		s.forget(m)
		return
	}
	m.remember(b, false)
	what := b.due(time.Now())
	if what == nil {
		return
	}
	began := time.Now()
	err := s.interruptibly(ctx, b, func(ctx context.Context) error { return what(ctx, m) })
	took := time.Since(began)
	failed := err != nil && ctx.Err() == nil && !errors.Is(err, errYield) && !errors.Is(err, gate.ErrShed)
	b.settleUpkeep(took, failed, errors.Is(err, errYield))
	b.weigh()
	if failed {
		s.log.Warn("upkeep of a mirror failed; it is served as it is", "repo", m.id.String(), "error", err)
	}
}

func (b *bare) settleUpkeep(took time.Duration, failed, yielded bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	rest := max(restFactor*took, leastRest)
	if failed {
		rest = max(rest, failedRest)
	}
	b.mu.rest = time.Now().Add(rest)
	b.mu.yielded++
	if !yielded {
		b.mu.yielded = 0
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
	case (s.all || s.n > manySuspects) && (sinceRepack > repackRest || !b.mu.meta.Repacked):
		return b.repack
	case !s.none() && sinceRepack > repackEvery:
		return b.repack
	case now.Sub(b.mu.verified) > scrubEvery && now.Sub(b.mu.opened) > scrubEvery:
		b.mu.doubts = errLongAgo
		return b.verify
	}
	return nil
}
