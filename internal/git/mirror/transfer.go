package mirror

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/leveehq/levee/gate"
	"github.com/leveehq/levee/internal/git/upstream"
)

// transfer brings a mirror to what is known, for all who wait for it. It belongs to none of them: it is made with the
// credentials of the one who led it here, and goes on when that one leaves.
type transfer struct {
	cred upstream.Credentials
	done chan struct{}
	err  error // set before done is closed

	mu struct { // no other lock is taken under it
		sync.Mutex
		listeners map[chan string]struct{}
	}
}

// syncLocked returns the transfer that is under way, or starts one. For a while after one has failed here, and not upstream,
// its error is all there is.
func (m *mirror) syncLocked(cred upstream.Credentials) (*transfer, error) {
	if m.mu.syncing != nil {
		return m.mu.syncing, nil
	}
	if m.mu.err != nil && time.Now().Before(m.mu.pause) {
		return nil, m.mu.err
	}
	t := newTransfer(cred)
	if err := m.s.spawn(func(ctx context.Context) { m.sync(ctx, t) }); err != nil {
		return nil, err
	}
	m.mu.users++
	m.beginLocked(t)
	return t, nil
}

func newTransfer(cred upstream.Credentials) *transfer {
	t := &transfer{cred: cred, done: make(chan struct{})}
	t.mu.listeners = map[chan string]struct{}{}
	return t
}

func (m *mirror) beginLocked(t *transfer) {
	m.mu.syncing, m.mu.cloning = t, m.mu.bare == nil
}

// mostMoves is how often upstream's refs may move between question and fetch before that is an error.
const mostMoves = 3

// sync is t, and those that follow it because more became known meanwhile: who waits for t is not to wait for them.
func (m *mirror) sync(ctx context.Context, t *transfer) {
	defer m.s.leave(m)
	for t != nil {
		err := m.bring(ctx, t)
		for moves := 0; kindOf(err) == upstream.NotOurRef && moves < mostMoves; moves++ {
			if err = m.askAgain(ctx, t); err == nil {
				err = m.bring(ctx, t)
			}
		}
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		t = m.settle(t, err)
	}
	m.s.poke()
}

// askAgain learns what upstream advertises now.
func (m *mirror) askAgain(ctx context.Context, t *transfer) error {
	q, err := m.ask(time.Now(), t.cred)
	if err != nil {
		return err
	}
	select {
	case <-q.done:
		return q.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// settle ends t, and returns the one that follows it, if there is something to bring still.
func (m *mirror) settle(t *transfer, err error) *transfer {
	m.mu.Lock()
	defer m.mu.Unlock()
	t.err, m.mu.err = err, err
	m.mu.syncing, m.mu.cloning = nil, false
	m.pauseLocked(err)
	close(t.done)
	if err != nil || !m.behindLocked() {
		return nil
	}
	next := newTransfer(t.cred)
	m.beginLocked(next)
	return next
}

// What fails here (a full disk, too little memory) fails again, and has cost upstream a transfer.
const (
	leastPause    = 5 * time.Second
	mostPause     = time.Minute
	tooLargePause = 10 * time.Minute
)

func (m *mirror) pauseLocked(err error) {
	if kindOf(err) == upstream.Unsupported { // nor does that change soon
		m.mu.failures, m.mu.pause = 0, time.Now().Add(mostPause)
		return
	}
	if err == nil || kindOf(err) != "" || errors.Is(err, gate.ErrShed) {
		m.mu.failures, m.mu.pause = 0, time.Time{}
		return
	}
	pause := min(leastPause<<min(m.mu.failures, 10), mostPause)
	if errors.Is(err, ErrTooLarge) {
		pause = tooLargePause
	}
	m.mu.pause = time.Now().Add(pause)
	m.mu.failures++
}

// bring makes the mirror's refs the known ones.
func (m *mirror) bring(ctx context.Context, t *transfer) error {
	m.mu.Lock()
	target := m.mu.known
	m.mu.Unlock()
	b, release := m.held()
	defer release()
	if b != nil && b.hash != hashLen(target.refs.ObjectFormat) {
		m.drop(fmt.Errorf("upstream's repository has another object format now: %s", target.refs.ObjectFormat))
		b = nil
	}
	if b == nil {
		return m.clone(ctx, t, target)
	}
	err := m.fetch(ctx, t, b, target)
	if errors.Is(err, errBadPack) {
		m.drop(err)
		return nil // and the next turn clones
	}
	return err
}

// clone makes a mirror in work/ and moves it to its place when it is ready.
func (m *mirror) clone(ctx context.Context, t *transfer, target *snapshot) (err error) {
	work, err := m.s.newWork()
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	dir := filepath.Join(work, "repository")
	format := target.refs.ObjectFormat
	if err := errors.Join(makeRepository(dir, format), writeRefs(dir, &upstream.Refs{})); err != nil {
		return err
	}
	b := newBare(m.s, m.id, dir, meta{Version: metaVersion, Host: m.id.Host, Path: m.id.Path, Format: format})
	if tips := oids(target.refs); len(tips) > 0 {
		if err := m.receiveFirst(ctx, t, b, target, tips); err != nil {
			return err
		}
	} else if err := writeRefs(dir, target.refs); err != nil {
		return err
	}
	err = b.note(func(n *meta) {
		n.Settled, n.Asked, n.Packed, n.Links = true, target.began, time.Now(), symrefs(target.refs)
	})
	if err != nil {
		return err
	}
	b.mu.applied, b.mu.gen = target, target.gen
	b.dir = filepath.Join(m.s.mirrorsDir(), dirName(m.id, m.s.seq.Add(1)))
	if err := os.Rename(dir, b.dir); err != nil {
		return err
	}
	if b.mu.packs, err = openPacks(b.packDir(), b.hash); err != nil {
		m.s.discard(b.dir)
		return err
	}
	b.weigh()
	m.install(b)
	m.log("cloned", b)
	return nil
}

// receiveFirst fills b, and indexes it: a clone without bitmap costs so much to serve that it is not ready without.
func (m *mirror) receiveFirst(ctx context.Context, t *transfer, b *bare, target *snapshot, tips []string) error {
	in, err := m.s.receive(ctx, m.id, t.cred, upstream.Fetch{Wants: tips, Progress: t.tell})
	if err != nil {
		return err
	}
	defer in.discard()
	t.tell("indexing")
	p, err := m.s.patientPermit(ctx, m.id)
	if err != nil {
		return err
	}
	defer p.Release()
	if err := in.index(ctx, p, b, tips); err != nil {
		return err
	}
	if err := b.add(in); err != nil {
		return err
	}
	if err := writeRefs(b.dir, target.refs); err != nil {
		return err
	}
	t.tell("making bitmaps")
	return p.derive(ctx, b, true)
}

// fetch brings what is missing, and then moves the refs.
func (m *mirror) fetch(ctx context.Context, t *transfer, b *bare, target *snapshot) error {
	b.changing.Lock()
	defer b.changing.Unlock()
	from, err := b.refs()
	if err != nil {
		return err
	}
	c := compare(from.refs, target.refs)
	packs, _ := b.live()
	missing, err := absent(packs, c.added)
	if err != nil {
		return err
	}
	in, err := m.receiveMore(ctx, t, b, missing, haves(from.refs, c))
	if err != nil {
		return err
	}
	defer in.discard()
	if len(c.added)+len(c.lost) == 0 {
		return m.apply(ctx, nil, b, nil, target, c)
	}
	p, err := m.s.patientPermit(ctx, m.id)
	if err != nil {
		return err
	}
	defer p.Release()
	if err := in.index(ctx, p, b, c.added); err != nil {
		b.doubt(err)
		return err
	}
	if err := m.apply(ctx, p, b, in, target, c); err != nil {
		return errors.Join(err, b.suspect(suspects{all: true})) // refs may be half moved
	}
	return p.bound(ctx, b)
}

// receiveMore is nothing if nothing is missing.
func (m *mirror) receiveMore(ctx context.Context, t *transfer, b *bare, missing, haves []string) (*incoming, error) {
	if len(missing) == 0 {
		return nil, nil
	}
	return m.s.receive(ctx, m.id, t.cred, upstream.Fetch{Wants: missing, Haves: haves, Progress: t.tell})
}

// apply moves b's refs to target. From the moment they may be half moved until suspects are listed, the disk says so.
func (m *mirror) apply(ctx context.Context, p *permit, b *bare, in *incoming, target *snapshot, c change) error {
	if err := b.note(func(n *meta) { n.Settled = false }); err != nil {
		return err
	}
	if err := b.add(in); err != nil {
		return err
	}
	if err := writeRefs(b.dir, target.refs); err != nil {
		return err
	}
	if err := p.findSuspects(ctx, b, c.lost); err != nil {
		return err
	}
	err := b.note(func(n *meta) { n.Settled, n.Asked, n.Links = true, target.began, symrefs(target.refs) })
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.known.seq == target.seq {
		target = m.mu.known // confirmed since
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.applied, b.mu.gen, b.mu.unfolded = target, m.s.gen.Add(1), true
	return nil
}

// add moves what came into b.
func (b *bare) add(in *incoming) error {
	p, err := in.land(b, b.packDir())
	if err != nil || p == nil {
		return err
	}
	b.mu.Lock()
	b.mu.packs = append(append([]*pack(nil), b.mu.packs...), p)
	sortPacks(b.mu.packs)
	b.mu.Unlock()
	b.weigh()
	return nil
}

// mostHaves is how many tips upstream is told of: those that moved, then others. Each costs it a lookup, and too few cost a
// larger pack.
const mostHaves = 1000

func haves(r *upstream.Refs, c change) []string {
	list := append([]string(nil), c.lost...)
	seen := map[string]bool{}
	for _, o := range list {
		seen[o] = true
	}
	for _, o := range oids(r) {
		if len(list) >= mostHaves {
			return list[:mostHaves]
		}
		if !seen[o] {
			list = append(list, o)
		}
	}
	return list
}

func (m *mirror) log(what string, b *bare) {
	b.mu.Lock()
	defer b.mu.Unlock()
	m.s.log.Info("a mirror was "+what, "repo", m.id.String(), "bytes", b.mu.bytes, "packs", len(b.mu.packs), "refs", len(b.mu.applied.refs.List))
}

// listen returns lines of what t does, until leave. A listener that does not keep up misses lines: it must not hold up t.
func (t *transfer) listen() (lines <-chan string, leave func()) {
	c := make(chan string, 8)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.listeners[c] = struct{}{}
	return c, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.mu.listeners, c)
	}
}

func (t *transfer) tell(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for c := range t.mu.listeners {
		select {
		case c <- line:
		default:
		}
	}
}
