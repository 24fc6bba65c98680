package governor

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// interval between two readings. A reading costs tens of microseconds; a slower one lets a fast server allocate a
	// quarter of a small limit unseen.
	interval = 250 * time.Millisecond

	// staleGC is the age from which a collection's result no longer says what is live, while the level is above normal.
	staleGC = 2 * time.Second

	// freshGC is the least such age, for a heap that is cheap to collect, while the level is shed.
	freshGC = 2 * interval

	// blindFor is how long the last good measurement stands in for a meter that cannot be read. Longer would keep a
	// server at shed for ever on a figure nobody can check; evict, the floor of a blind governor, stays.
	blindFor = 10 * time.Second

	// limiterFor is how long a collector that held itself back counts as still doing so.
	limiterFor = 10 * time.Second
)

// Options of a Governor. Limit is required; the zero value of everything else is right.
type Options struct {
	// Limit is the memory in bytes that use is measured against. In Group scope the group's own limit, read anew each
	// time, may lower it.
	Limit int64

	// Scope is whose memory counts: see Process and Group. With Group and no control group in sight every reading is a
	// meter error.
	Scope Scope

	// EvictMark and ShedMark are the shares of the limit at which those levels start; 0 means 0.60 and 0.75. Too low
	// wastes memory that was paid for; too high comes after the collector's cliff near 0.8, when shedding no longer
	// helps. Evict must be below shed, and above the hysteresis of 0.05.
	EvictMark, ShedMark float64

	// Charges tells bytes charged to accounts, which are known at once and exactly, before any meter sees them.
	// Nil means none. It is called four times a second.
	Charges func() Charges

	// FS is the file system, rooted at "/", whose /proc and /sys are read. Nil is this machine's.
	FS fs.FS

	// Logger is told of meter errors and of shedding that lasts over a minute, once each. Nil is slog.Default.
	Logger *slog.Logger
}

// Charges are bytes charged to accounts.
type Charges struct {
	Go     int64 // to accounts that live on the Go heap; counts like a live heap
	Kernel int64 // to accounts of the kernel's, such as socket buffers; counts as use in Process scope, where no meter sees it
}

// validate fills defaults in.
func (o *Options) validate() error {
	if o.EvictMark == 0 {
		o.EvictMark = defaultEvictMark
	}
	if o.ShedMark == 0 {
		o.ShedMark = defaultShedMark
	}
	switch {
	case o.Limit <= 0:
		return fmt.Errorf("governor: limit is %d bytes, must be above 0", o.Limit)
	case !(o.EvictMark > hysteresis && o.EvictMark < o.ShedMark && o.ShedMark < 1):
		return fmt.Errorf("governor: evict mark %v and shed mark %v must satisfy %v < evict < shed < 1",
			o.EvictMark, o.ShedMark, hysteresis)
	case o.Scope != Process && o.Scope != Group:
		return fmt.Errorf("governor: unknown scope %d", o.Scope)
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	o.FS = orRoot(o.FS)
	return nil
}

func orRoot(fsys fs.FS) fs.FS {
	if fsys == nil {
		return os.DirFS("/")
	}
	return fsys
}

// Governor turns readings into a level. New makes one, Run drives it, and everything else may be called from anywhere.
type Governor struct {
	level   atomic.Int32
	reading atomic.Pointer[Reading]

	opts  Options
	marks marks
	meter meter

	// Seams: the runtime, as tests replace it.
	heap     func() Heap
	collect  func() // a full collection
	giveBack func() // a full collection that also returns free memory to the kernel

	loop loop // owned by the goroutine in Run

	mu struct {
		sync.Mutex
		children map[*int]struct{} // watched pids, by handle: the same pid may be watched twice
	}
}

// New checks o and starts nothing. Until Run has read for the first time, the level is normal.
func New(o Options) (*Governor, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	g := &Governor{
		opts:     o,
		marks:    marks{evict: o.EvictMark, shed: o.ShedMark},
		meter:    meter{fsys: o.FS, scope: o.Scope, limit: o.Limit},
		heap:     newHeapReader().read,
		collect:  runtime.GC,
		giveBack: debug.FreeOSMemory,
	}
	g.mu.children = make(map[*int]struct{})
	g.reading.Store(&Reading{Scope: o.Scope, Limit: o.Limit, EvictMark: o.EvictMark, ShedMark: o.ShedMark})
	return g, nil
}

// Level is the pressure level now: one atomic load.
func (g *Governor) Level() Level { return Level(g.level.Load()) }

// Reading is the last reading, from which the level came.
func (g *Governor) Reading() Reading { return *g.reading.Load() }

// Watch counts the process pid, and what it starts, as part of our use until stop is called. In Group scope
// the group's counters hold them anyway. Stop is idempotent; a process that ends by itself counts as nothing.
func (g *Governor) Watch(pid int) (stop func()) {
	handle := &pid
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.children[handle] = struct{}{}
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.mu.children, handle)
	}
}

func (g *Governor) watched() []int {
	g.mu.Lock()
	defer g.mu.Unlock()
	pids := make([]int, 0, len(g.mu.children))
	for p := range g.mu.children {
		pids = append(pids, *p)
	}
	return pids
}

// Run reads until ctx is done and then returns nil, leaving the level as it was. It may be called once.
func (g *Governor) Run(ctx context.Context) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		g.step(time.Now())
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}
