package mirror

import (
	"bufio"
	"context"
	"errors"
	"io/fs"
	"sync"
	"time"

	"github.com/leveehq/levee/internal/git/upstream"
)

// mirror is what is known of one upstream repository.
type mirror struct {
	s  *Store
	id upstream.Repo

	mu struct { // taken after the store's, before a bare's; no I/O under it
		sync.Mutex
		users   int   // calls and jobs inside
		bare    *bare // nil: nothing to serve
		cloning bool
		broken  error // why the last bare was set aside; nil when there is another
		err     error // of the last sync

		failures int       // of ours, in a row
		pause    time.Time // no sync before: upstream would send again what we could not keep

		known        *snapshot // upstream's last word in this process
		asking, next *question
		syncing      *transfer
		flights      map[string]*flight // by object
	}
}

// held is the mirror's bare, held, or nil.
func (m *mirror) held() (b *bare, release func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.bare == nil {
		return nil, func() {}
	}
	return m.mu.bare, m.mu.bare.hold()
}

// install makes b the mirror's.
func (m *mirror) install(b *bare) {
	m.mu.Lock()
	old := m.mu.bare
	m.mu.bare, m.mu.broken = b, nil
	m.mu.Unlock()
	if old != nil {
		old.drop()
	}
}

// drop gives the mirror's bare up, if there is one; why is nil if nothing is wrong with it.
func (m *mirror) drop(why error) bool {
	m.mu.Lock()
	b := m.mu.bare
	m.mu.bare = nil
	if b != nil {
		m.mu.broken = why
	}
	m.mu.Unlock()
	if b == nil {
		return false
	}
	if why != nil {
		m.s.log.Warn("a mirror is broken; it is set aside and will be cloned anew", "repo", m.id.String(), "error", why)
	}
	b.drop()
	m.s.forget(m)
	return true
}

// forget is leave for somebody who did not enter.
func (s *Store) forget(m *mirror) {
	m.mu.Lock()
	m.mu.users++
	m.mu.Unlock()
	s.leave(m)
}

// remember writes down what is not worth a write every time: when b was used, for the order of eviction after a restart, and
// when upstream last confirmed its refs. It does at most once a minute, unless now.
func (m *mirror) remember(b *bare, now bool) {
	b.mu.Lock()
	used, applied, noted := b.mu.used, b.mu.applied, b.mu.meta.Asked
	due := now || time.Since(b.mu.remembered) > time.Minute
	if due {
		b.mu.remembered = time.Now()
	}
	b.mu.Unlock()
	if !due {
		return
	}
	if applied != nil && applied.began.After(noted) {
		if err := b.note(func(*meta) {}); err != nil {
			m.s.log.Warn("a mirror's last question to upstream could not be noted", "repo", m.id.String(), "error", err)
		}
	}
	setUsed(b.dir, used)
}

func (m *mirror) info() Info {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := Info{Repo: m.id.String(), State: Empty}
	if m.mu.err != nil {
		i.Error = m.mu.err.Error()
	}
	if m.mu.known != nil {
		i.LastAsked = m.mu.known.began
	}
	switch {
	case m.mu.bare != nil:
		i.State = Ready
		m.mu.bare.describe(&i)
	case m.mu.cloning:
		i.State = Cloning
	case m.mu.broken != nil:
		i.State, i.Error = Broken, m.mu.broken.Error()
	}
	return i
}

func (b *bare) describe(i *Info) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i.Bytes, i.Packs, i.Generation, i.LastUse = b.mu.bytes, len(b.mu.packs)+len(b.mu.wants), b.mu.gen, b.mu.used
	for _, n := range b.mu.held {
		i.Leases += n
	}
	if i.LastAsked.Before(b.mu.meta.Asked) {
		i.LastAsked = b.mu.meta.Asked
	}
}

// View is what a mirror's refs are for a caller.
type View struct {
	Refs       *upstream.Refs
	Generation uint64        // changes whenever refs or served objects change
	Age        time.Duration // since upstream was asked
	Stale      error         // why upstream could not be asked, if it is served within grace; nil is fresh

	seq uint64
}

// view is what to show of snap. The caller has m's lock.
func (m *mirror) viewLocked(snap *snapshot, stale error) *View {
	v := &View{Refs: snap.refs, Generation: snap.gen, Age: time.Since(snap.began), Stale: stale, seq: snap.seq}
	if b := m.mu.bare; b != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.mu.applied != nil && b.mu.applied.seq == snap.seq {
			v.Generation = b.mu.gen
		}
	}
	return v
}

// Refs are upstream's, asked within MaxStaleness (single-flight). They are known before the mirror has their objects.
// The first call for a repository starts its clone, whoever gives up waiting. An error is upstream's *upstream.Failure,
// context.Cause(ctx), or ErrClosed.
func (s *Store) Refs(ctx context.Context, id upstream.Repo, cred upstream.Credentials) (*View, error) {
	oldest := time.Now().Add(-s.o.MaxStaleness)
	m := s.enter(id)
	defer s.leave(m)
	return s.refsSince(ctx, m, cred, oldest)
}

// refsSince is Refs of no earlier than oldest.
func (s *Store) refsSince(ctx context.Context, m *mirror, cred upstream.Credentials, oldest time.Time) (*View, error) {
	m.recall()
	for {
		if v := m.fresh(oldest); v != nil {
			return v, nil
		}
		q, err := m.ask(oldest, cred)
		if err != nil {
			return nil, err
		}
		select {
		case <-q.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		switch {
		case q.err == nil:
			return m.viewOf(q.snap)
		case q.cred == cred || !isAccess(q.err):
			return m.inGrace(q.err)
		}
		// Somebody else's credentials were turned away. Ours were not tried.
	}
}

// viewOf is the view of what upstream has just said. Where only its refs can be had and not its objects, it is asked for both: what
// it advertises (to v0, that its history is cut) belongs to what it then sends.
func (m *mirror) viewOf(snap *snapshot) (*View, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if kindOf(m.mu.err) == upstream.Unsupported && m.behindLocked() {
		return nil, m.mu.err
	}
	return m.viewLocked(snap, nil), nil
}

// fresh is a view that is not older than oldest, or nil.
func (m *mirror) fresh(oldest time.Time) *View {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.known == nil || m.mu.known.began.Before(oldest) || kindOf(m.mu.err) == upstream.Unsupported {
		return nil
	}
	return m.viewLocked(m.mu.known, nil)
}

// inGrace is the view of what the mirror has, if err says nothing against it but that upstream could not be asked.
func (m *mirror) inGrace(err error) (*View, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.mu.bare
	if b == nil || !isOutage(err) {
		return nil, err
	}
	b.mu.Lock()
	applied := b.mu.applied
	b.mu.Unlock()
	if applied == nil || time.Since(applied.began) > m.s.o.Grace {
		return nil, err
	}
	return m.viewLocked(applied, err), nil
}

// recall reads what a restart has left on disk, so that there is something to compare upstream's answer with.
func (m *mirror) recall() {
	b, release := m.held()
	defer release()
	if b == nil {
		return
	}
	if _, err := b.refs(); isDamage(err) {
		m.drop(err)
	}
}

// isDamage tells of errors that say that a mirror's files are not what they were, rather than that they cannot be read now.
func isDamage(err error) bool {
	return errors.Is(err, errBadPack) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, bufio.ErrTooLong) || kindOf(err) == upstream.Malformed
}

// dropIfBad gives b up if err says that it is damaged.
func (m *mirror) dropIfBad(b *bare, err error) {
	if errors.Is(err, errBadPack) {
		m.dropThis(b, err)
	}
}

func kindOf(err error) upstream.Kind {
	var f *upstream.Failure
	if errors.As(err, &f) {
		return f.Kind
	}
	return ""
}

// isAccess tells of failures that others' credentials may not meet.
func isAccess(err error) bool {
	k := kindOf(err)
	return k == upstream.Unauthorized || k == upstream.NotFound
}

func isOutage(err error) bool {
	switch kindOf(err) {
	case upstream.RateLimited, upstream.Unavailable, upstream.Stalled, upstream.Truncated:
		return true
	}
	return false
}
