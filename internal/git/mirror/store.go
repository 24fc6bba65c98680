package mirror

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leveehq/levee/internal/git/upstream"
)

// Store is safe for concurrent use.
type Store struct {
	o    Options
	log  *slog.Logger
	up   asker
	run  runner
	lock *os.File

	// base is of all work that is not one caller's: questions, clones, fetches, upkeep.
	base context.Context
	end  context.CancelCauseFunc

	seq      atomic.Uint64 // numbers snapshots and directories
	gen      atomic.Uint64 // of all mirrors together, so that a mirror made anew repeats none
	incoming atomic.Int64  // bytes in work/ that are on their way in
	leaving  atomic.Int64  // bytes of mirrors that are given up and still leased
	wake     chan struct{} // tells Run that a mirror wants upkeep

	background atomic.Pointer[upkeepRun] // what Run does now, if it may be interrupted

	life struct { // no other lock is taken under it
		sync.Mutex
		closed bool
		jobs   sync.WaitGroup
	}
	mu struct { // taken before a mirror's
		sync.Mutex
		mirrors map[upstream.Repo]*mirror
	}
}

// Open reads what is in o.Dir, and repairs it; it does not ask upstream.
func Open(o Options) (*Store, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	return open(o, o.Upstream, o.Runner)
}

func open(o Options, up asker, run runner) (*Store, error) {
	if o.Grace == 0 {
		o.Grace = defaultGrace
	}
	if o.RefBytes == 0 {
		o.RefBytes = defaultRefBytes
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, err
	}
	o.Dir = dir
	s := &Store{o: o, log: o.Logger, up: up, run: run, wake: make(chan struct{}, 1)}
	s.mu.mirrors = map[upstream.Repo]*mirror{}
	if s.lock, err = lockDir(o.Dir); err != nil {
		return nil, err
	}
	if err := s.load(); err != nil {
		s.lock.Close()
		return nil, err
	}
	s.base, s.end = context.WithCancelCause(context.Background())
	return s, nil
}

// upkeepEvery is how often Run looks round without being woken.
const upkeepEvery = 10 * time.Second

// Run does maintenance and eviction until ctx ends; then it closes the store.
func (s *Store) Run(ctx context.Context) error {
	defer s.Close()
	tick := time.NewTicker(upkeepEvery)
	defer tick.Stop()
	for {
		s.upkeep(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
		case <-tick.C:
		}
	}
}

// Close ends what is under way, and waits for it. Run does it, too; a store that is not run needs it.
func (s *Store) Close() {
	s.life.Lock()
	was := s.life.closed
	s.life.closed = true
	s.life.Unlock()
	s.end(ErrClosed)
	s.life.jobs.Wait()
	if was {
		return
	}
	for _, m := range s.all() {
		if b, release := m.held(); b != nil {
			m.remember(b, true)
			release()
		}
	}
	s.lock.Close()
}

// spawn starts a job of the store's.
func (s *Store) spawn(job func(ctx context.Context)) error {
	s.life.Lock()
	defer s.life.Unlock()
	if s.life.closed {
		return ErrClosed
	}
	s.life.jobs.Go(func() { job(s.base) })
	return nil
}

func (s *Store) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// enter finds or makes the entry of id, and keeps it until leave.
func (s *Store) enter(id upstream.Repo) *mirror {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.mu.mirrors[id]
	if m == nil {
		m = &mirror{s: s, id: id}
		s.mu.mirrors[id] = m
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.users++
	return m
}

// leave forgets a mirror of which there is nothing to know: names that upstream does not have would pile up otherwise. That
// its clone failed is worth knowing for as long as it is not tried again.
func (s *Store) leave(m *mirror) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.users--
	if m.mu.users == 0 && m.mu.bare == nil {
		m.mu.known = nil
	}
	if m.mu.users == 0 && m.mu.bare == nil && m.mu.broken == nil && !time.Now().Before(m.mu.pause) {
		delete(s.mu.mirrors, m.id)
	}
}

func (s *Store) all() []*mirror {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*mirror, 0, len(s.mu.mirrors))
	for _, m := range s.mu.mirrors {
		all = append(all, m)
	}
	return all
}

// List is sorted by name.
func (s *Store) List() []Info {
	var list []Info
	for _, m := range s.all() {
		if i := m.info(); i.State != Empty {
			list = append(list, i)
		}
	}
	slices.SortFunc(list, func(a, b Info) int { return cmp.Compare(a.Repo, b.Repo) })
	return list
}

// Evict removes a mirror when its leases are released; false if there is none.
func (s *Store) Evict(id upstream.Repo) bool {
	s.mu.Lock()
	m := s.mu.mirrors[id]
	s.mu.Unlock()
	return m != nil && m.drop(nil)
}
