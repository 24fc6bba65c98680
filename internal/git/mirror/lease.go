package mirror

import (
	"context"
	"errors"
	"time"

	"github.com/leveehq/levee/internal/git/upstream"
)

// Lease is a mirror in use. What it has is kept until Release, whatever upstream and upkeep do.
type Lease struct {
	Repo       upstream.Repo
	Dir        string
	Generation uint64
	Objects    int64 // about how many the mirror has
	Bytes      int64 // of its packs

	h *handle // nil in a Lease that no Store made
}

type handle struct {
	m    *mirror
	b    *bare
	done func()
}

// Lease waits until the mirror is ready and holds all objects that v advertises, and keeps it from eviction and from pruning
// what it has until Release. progress, which may be nil, gets lines of what is waited for; it is called on this goroutine. A
// nil v is asked for. An error is upstream's *upstream.Failure, a *gate.Shed, ErrNoRoom, context.Cause(ctx), or ErrClosed.
func (s *Store) Lease(ctx context.Context, id upstream.Repo, cred upstream.Credentials, v *View, progress func(string)) (*Lease, error) {
	if v == nil {
		var err error
		if v, err = s.Refs(ctx, id, cred); err != nil {
			return nil, err
		}
	}
	m := s.enter(id)
	defer s.leave(m)
	m.recall()
	for {
		l, t, err := m.leaseOrWait(cred, v)
		if t == nil {
			return l, err
		}
		if err := t.wait(ctx, progress); err != nil {
			return nil, err
		}
		if t.err != nil && (t.cred == cred || !isAccess(t.err)) {
			return nil, t.err
		}
	}
}

// leaseOrWait returns a lease, or the transfer to wait for.
func (m *mirror) leaseOrWait(cred upstream.Credentials, v *View) (*Lease, *transfer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.hasLocked(v.seq) {
		return m.leaseLocked(), nil, nil
	}
	if m.mu.known == nil { // it was evicted and forgotten since
		m.mu.known = &snapshot{refs: v.Refs, seq: v.seq, gen: v.Generation, began: time.Now().Add(-v.Age)}
	}
	t, err := m.syncLocked(cred)
	return nil, t, err
}

func (m *mirror) leaseLocked() *Lease {
	return newLease(&handle{m: m, b: m.mu.bare, done: m.mu.bare.lease()})
}

func newLease(h *handle) *Lease {
	l := &Lease{Repo: h.m.id, Dir: h.b.dir, h: h}
	l.refresh()
	return l
}

// refresh takes over what changes.
func (l *Lease) refresh() {
	b := l.h.b
	b.mu.Lock()
	defer b.mu.Unlock()
	l.Generation, l.Objects, l.Bytes = b.mu.gen, 0, 0
	for _, packs := range [][]*pack{b.mu.packs, b.mu.wants} {
		for _, p := range packs {
			l.Objects += p.objects()
			l.Bytes += p.bytes
		}
	}
}

// wait returns when t has ended, or ctx.
func (t *transfer) wait(ctx context.Context, progress func(string)) error {
	lines, leave := t.listen()
	defer leave()
	for {
		select {
		case <-t.done:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case line := <-lines:
			if progress != nil {
				progress(line)
			}
		}
	}
}

// Hold is another lease of the same, for work that may outlive l. It must be called before l is released.
func (l *Lease) Hold() *Lease {
	again := *l
	if l.h != nil {
		again.h = &handle{m: l.h.m, b: l.h.b, done: l.h.b.lease()}
	}
	return &again
}

// Release may be called twice.
func (l *Lease) Release() {
	if l.h != nil {
		l.h.done()
	}
}

// Suspect says that a child failed on the mirror as if its files were damaged. Files that were cut are found at once, other
// damage by upkeep; a broken mirror is set aside and cloned anew.
func (l *Lease) Suspect(why error) {
	if l.h == nil {
		return
	}
	b := l.h.b
	for _, dir := range []string{b.packDir(), b.wantsDir()} {
		if _, err := openPacks(dir, b.hash); errors.Is(err, errBadPack) {
			l.h.m.dropThis(b, err)
			return
		}
	}
	b.doubt(why)
}

// verifyEvery bounds how often doubts lead to a look at everything.
const verifyEvery = 10 * time.Minute

// doubt has b verified by upkeep.
func (b *bare) doubt(why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Since(b.mu.verified) > verifyEvery {
		b.mu.doubts = why
		b.s.poke()
	}
}

// dropThis is drop, if the mirror has b still.
func (m *mirror) dropThis(b *bare, why error) {
	m.mu.Lock()
	same := m.mu.bare == b
	m.mu.Unlock()
	if same {
		m.drop(why)
	}
}
