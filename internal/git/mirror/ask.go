package mirror

import (
	"context"
	"time"

	"github.com/leveehq/levee/internal/git/upstream"
)

// question is one question to upstream for its refs, and the answer for all who wait for it. A caller may wait for one that
// began after it came, or as long before as MaxStaleness allows; so there are at most two: the one that is being asked, and the
// one that begins after it.
type question struct {
	cred  upstream.Credentials
	began time.Time
	done  chan struct{}

	snap *snapshot // these two are set before done is closed
	err  error
}

// ask returns a question that begins, or has begun, no earlier than oldest.
func (m *mirror) ask(oldest time.Time, cred upstream.Credentials) (*question, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.mu.asking
	switch {
	case now == nil:
		q := &question{cred: cred, began: time.Now(), done: make(chan struct{})}
		if err := m.s.spawn(func(ctx context.Context) { m.askAll(ctx, q) }); err != nil {
			return nil, err
		}
		m.mu.users++
		m.mu.asking = q
		return q, nil
	case !now.began.Before(oldest):
		return now, nil
	case m.mu.next == nil:
		m.mu.next = &question{cred: cred, done: make(chan struct{})}
	}
	return m.mu.next, nil
}

// askAll asks q, and those that were put off while it asked.
func (m *mirror) askAll(ctx context.Context, q *question) {
	defer m.s.leave(m)
	for q != nil {
		refs, err := m.s.up.LsRefs(ctx, m.id, q.cred)
		if err == nil {
			err = checkRefs(refs)
		}
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		q = m.answer(q, refs, err)
	}
}

// answer settles q and returns the one to ask next.
func (m *mirror) answer(q *question, refs *upstream.Refs, err error) *question {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer close(q.done)
	if q.err = err; err == nil {
		q.snap = m.learnLocked(refs, q.began)
		// Nobody's wait is a condition for the mirror: whoever asks next finds it on its way.
		if m.behindLocked() {
			_, _ = m.syncLocked(q.cred) // who wants a lease will hear of it
		}
	}
	next := m.mu.next
	m.mu.asking, m.mu.next = next, nil
	if next != nil {
		next.began = time.Now()
	}
	return next
}

// learnLocked makes refs the last that are known.
func (m *mirror) learnLocked(refs *upstream.Refs, began time.Time) *snapshot {
	same := m.mu.known
	if b := m.mu.bare; same == nil && b != nil {
		b.mu.Lock()
		same = b.mu.applied
		b.mu.Unlock()
	}
	if same != nil && sameRefs(same.refs, refs) {
		m.mu.known = same.at(began)
		m.confirmLocked(m.mu.known)
		return m.mu.known
	}
	m.mu.known = &snapshot{refs: refs, seq: m.s.seq.Add(1), gen: m.s.gen.Add(1), began: began}
	return m.mu.known
}

// confirmLocked says that the bare's refs are upstream's still, if they are snap's.
func (m *mirror) confirmLocked(snap *snapshot) {
	b := m.mu.bare
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.applied != nil && b.mu.applied.seq == snap.seq && b.mu.applied.began.Before(snap.began) {
		b.mu.applied = b.mu.applied.at(snap.began)
	}
}

// behindLocked tells whether the mirror lacks what is known.
func (m *mirror) behindLocked() bool { return !m.hasLocked(m.mu.known.seq) }

// hasLocked tells whether the mirror has the refs of seq, or later ones.
func (m *mirror) hasLocked(seq uint64) bool {
	b := m.mu.bare
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.applied != nil && b.mu.applied.seq >= seq
}
