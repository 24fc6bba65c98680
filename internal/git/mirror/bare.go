package mirror

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/leveehq/levee/internal/git/upstream"
)

// bare is one repository on disk. A mirror that was evicted or set aside and is cloned anew has another one.
type bare struct {
	s    *Store
	id   upstream.Repo
	dir  string
	hash int // length of an object id

	mu struct { // taken after a mirror's; no I/O under it
		sync.Mutex
		meta       meta
		applied    *snapshot // what its refs are; nil while they are not in memory
		gen        uint64
		packs      []*pack // the largest first; the superfluous are not among them
		wants      []*pack // of what no ref reaches
		suspects   suspects
		bytes      int64
		used       time.Time
		remembered time.Time

		epoch   uint64
		held    map[uint64]int // leases, by the epoch in which they began
		doomed  []doomed
		dropped bool // no mirror's any more; goes with its last lease
		gone    bool

		doubts   error     // why its files should be verified
		verified time.Time // last
		opened   time.Time
		unfolded bool      // packs came that upkeep has not seen
		rest     time.Time // no upkeep before
		yielded  int       // times that upkeep gave way, in a row
	}

	// Taken in this order, and the first before a permit, the second after: whoever has changing may wait for a permit, so
	// nobody who has a permit may wait for it.
	changing sync.Mutex // of refs and of what they reach
	folding  sync.Mutex // of packs into fewer
	reading  sync.Mutex // one reader of the refs after a restart
	noting   sync.Mutex // one writer of meta
}

// doomed are packs to be removed when no lease of their epoch or an earlier one is left.
type doomed struct {
	epoch uint64
	packs []*pack
}

func newBare(s *Store, id upstream.Repo, dir string, m meta) *bare {
	b := &bare{s: s, id: id, dir: dir, hash: hashLen(m.Format)}
	b.mu.meta = m
	b.mu.held = map[uint64]int{}
	b.mu.used = time.Now()
	b.mu.opened = b.mu.used
	return b
}

func (b *bare) objectDir() string { return filepath.Join(b.dir, "objects") }
func (b *bare) packDir() string   { return filepath.Join(b.dir, "objects", "pack") }
func (b *bare) wantsDir() string  { return filepath.Join(b.dir, "wants", "pack") }

// hold keeps b's packs, and b, until the returned function is called, once. The caller has the mirror's lock, or holds b.
func (b *bare) hold() (release func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	epoch := b.mu.epoch
	b.mu.held[epoch]++
	return func() { b.letGo(epoch) }
}

func (b *bare) letGo(epoch uint64) {
	b.mu.Lock()
	if b.mu.held[epoch]--; b.mu.held[epoch] == 0 {
		delete(b.mu.held, epoch)
	}
	b.mu.Unlock()
	b.reap()
}

// lease is hold for a caller, whose use counts for the order of eviction.
func (b *bare) lease() (release func()) {
	b.use()
	letGo := b.hold()
	return sync.OnceFunc(func() {
		b.use()
		letGo()
	})
}

func (b *bare) use() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.used = time.Now()
}

// doom gives packs up that nothing needs any more, but for who has b now. Their names are written down first, so that a
// start after a crash does not find what was in them again.
func (b *bare) doom(packs []*pack) error {
	if err := b.note(func(m *meta) { m.Doomed = b.doomedNames(packs) }); err != nil {
		return err
	}
	b.mu.Lock()
	gone := func(p *pack) bool { return slices.Contains(packs, p) }
	b.mu.packs = slices.DeleteFunc(slices.Clone(b.mu.packs), gone)
	b.mu.wants = slices.DeleteFunc(slices.Clone(b.mu.wants), gone)
	b.mu.doomed = append(b.mu.doomed, doomed{epoch: b.mu.epoch, packs: packs})
	b.mu.epoch++
	b.mu.Unlock()
	b.reap()
	return nil
}

func (b *bare) doomedNames(more []*pack) (names []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range b.mu.doomed {
		more = append(slices.Clone(more), d.packs...)
	}
	for _, p := range more {
		names = append(names, p.name())
	}
	return names
}

// reap removes what nobody holds any more.
func (b *bare) reap() {
	b.mu.Lock()
	oldest := b.mu.epoch
	for e := range b.mu.held {
		oldest = min(oldest, e)
	}
	var gone []*pack
	b.mu.doomed = slices.DeleteFunc(b.mu.doomed, func(d doomed) bool {
		if d.epoch < oldest {
			gone = append(gone, d.packs...)
		}
		return d.epoch < oldest
	})
	remove := b.mu.dropped && !b.mu.gone && len(b.mu.held) == 0
	b.mu.gone = b.mu.gone || remove
	weight := b.mu.bytes
	b.mu.Unlock()
	for _, p := range gone {
		removePack(p.base)
	}
	switch {
	case remove:
		b.s.discard(b.dir)
		b.s.leaving.Add(-weight)
	case len(gone) > 0:
		b.weigh()
	}
}

// removePack removes the index first: git looks for packs by it.
func removePack(base string) {
	for _, ext := range []string{".idx", ".rev", ".bitmap", ".mtimes", ".keep", ".pack"} {
		os.Remove(base + ext)
	}
}

// drop gives b up; it goes with its last lease. The mark outlives a crash.
func (b *bare) drop() {
	if err := os.WriteFile(filepath.Join(b.dir, droppedFile), nil, 0o600); err != nil && !errors.Is(err, fs.ErrNotExist) {
		b.s.log.Warn("a mirror that is given up could not be marked as such", "repo", b.id.String(), "error", err)
	}
	b.mu.Lock()
	b.s.leaving.Add(b.mu.bytes)
	b.mu.dropped = true
	b.mu.Unlock()
	b.reap()
}

// discard removes a directory. It leaves its place at once, so that a crash in between leaves it where starts clean up.
func (s *Store) discard(dir string) {
	work, err := s.newWork()
	if err == nil {
		defer os.RemoveAll(work)
		err = os.Rename(dir, filepath.Join(work, "gone"))
	}
	if err != nil {
		s.log.Warn("a directory could not be moved out of the way; it is removed where it is", "dir", dir, "error", err)
		os.RemoveAll(dir)
	}
}

// weigh counts b's bytes.
func (b *bare) weigh() {
	n := diskBytes(b.dir)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.dropped {
		return // its weight was written down
	}
	b.mu.bytes = n
}

func diskBytes(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil // it has just gone
		}
		if i, err := e.Info(); err == nil && i.Mode().IsRegular() {
			n += i.Size()
		}
		return nil
	})
	return n
}

// refs are those b has. They are read, with the suspects, when they are first needed after a restart or after forget.
func (b *bare) refs() (*snapshot, error) {
	b.reading.Lock()
	defer b.reading.Unlock()
	b.mu.Lock()
	applied, m := b.mu.applied, b.mu.meta
	b.mu.Unlock()
	if applied != nil {
		return applied, nil
	}
	r, err := readRefs(b.dir, m.Format, m.Links)
	if err != nil {
		return nil, err
	}
	list, err := readSuspects(b.dir, b.hash)
	if err != nil {
		return nil, err
	}
	applied = &snapshot{refs: r, seq: b.s.seq.Add(1), gen: b.s.gen.Add(1), began: m.Asked}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.applied, b.mu.gen, b.mu.suspects = applied, applied.gen, list
	return applied, nil
}

// live are the packs that count, and those of wants. The caller holds b.
func (b *bare) live() (packs, wants []*pack) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.packs, b.mu.wants
}

// note changes meta, on disk first.
func (b *bare) note(change func(m *meta)) error {
	b.noting.Lock()
	defer b.noting.Unlock()
	b.mu.Lock()
	m := b.mu.meta
	if a := b.mu.applied; a != nil && a.began.After(m.Asked) {
		m.Asked = a.began
	}
	b.mu.Unlock()
	change(&m)
	if err := m.write(b.dir); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.meta = m
	return nil
}
