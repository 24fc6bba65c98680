package governor

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"
)

const (
	testLimit = 1 << 30
	goLimit   = 800 << 20
	mib       = 1 << 20
)

// machine is a pretended one: a version 2 container of 1 GiB with our process in it, whose Go heap behaves as the
// runtime's does, and a clock that the test moves.
type machine struct {
	t *testing.T
	g *Governor

	mu struct {
		sync.Mutex
		live, garbage int64 // of the Go heap, in truth
		liveSeen      int64 // by the last collection
		cycles        uint64
		gcTakes       time.Duration // by the clock, per own collection
		limitedCycle  uint64
		other         int64 // anonymous memory that is not our heap
		cache, slab   int64 // clean page cache, reclaimable slab
		limit         int64 // memory.max
		broken        bool  // memory.stat cannot be read
		children      map[string]string
		charges       Charges
		collections   []Level // the level at the time of each own collection
		givenBack     int
		log           strings.Builder
	}
}

// onMachine runs f beside a governor that has read once.
func onMachine(t *testing.T, scope Scope, f func(m *machine)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := &machine{t: t}
		m.mu.limit = testLimit
		m.mu.children = map[string]string{}
		g, err := New(Options{
			Limit: testLimit, Scope: scope, FS: m, Logger: slog.New(slog.NewTextHandler(m, nil)),
			Charges: func() Charges { m.mu.Lock(); defer m.mu.Unlock(); return m.mu.charges },
		})
		if err != nil {
			t.Fatal(err)
		}
		m.g = g
		g.heap = m.heap
		g.collect = func() { m.collect(false) }
		g.giveBack = func() { m.collect(true) }
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- g.Run(ctx) }()
		synctest.Wait()
		f(m)
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// set changes the machine and lets the governor see it.
func (m *machine) set(change func()) {
	m.mu.Lock()
	change()
	m.mu.Unlock()
	m.pass(interval)
}

// pass lets virtual time go by.
func (m *machine) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (m *machine) want(level Level, cause Cause) {
	m.t.Helper()
	r := m.g.Reading()
	if got := m.g.Level(); got != level || r.Level != level || r.Cause != cause {
		m.t.Fatalf("level %v, cause %q; want %v, %q (reading %+v)", got, r.Cause, level, cause, r)
	}
}

func (m *machine) collect(giveBack bool) {
	m.mu.Lock()
	takes := m.mu.gcTakes
	m.mu.Unlock()
	time.Sleep(takes)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.collections = append(m.mu.collections, m.g.Level())
	m.mu.liveSeen = m.mu.live
	m.mu.cycles++
	m.mu.garbage = 0
	if giveBack {
		m.mu.givenBack++
	}
}

// Write makes the machine the governor's log.
func (m *machine) Write(line []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.log.Write(line)
}

func (m *machine) logged() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.log.String()
}

// collections are the levels at which the governor collected by itself so far.
func (m *machine) collections() []Level {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.mu.collections)
}

// runtimeCollects is a collection that the runtime starts by itself.
func (m *machine) runtimeCollects() {
	m.mu.liveSeen, m.mu.garbage = m.mu.live, 0
	m.mu.cycles++
}

func (m *machine) heap() Heap {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Heap{
		Live: m.mu.liveSeen, Slack: max(m.mu.live+m.mu.garbage-m.mu.liveSeen, 0), Limit: goLimit,
		Cycles: m.mu.cycles, LimitedCycle: m.mu.limitedCycle,
	}
}

// Open makes the machine a file system.
func (m *machine) Open(name string) (fs.File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	anon := m.mu.live + m.mu.garbage + m.mu.other
	files := fstest.MapFS{
		"proc/self/cgroup":         file("0::/\n"),
		"proc/self/mountinfo":      file("1 2 0:3 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n"),
		"proc/self/status":         file(fmt.Sprintf("RssAnon:\t%d kB\nThreads:\t1\n", anon>>10)),
		"sys/fs/cgroup/memory.max": file(fmt.Sprintln(m.mu.limit)),
		"sys/fs/cgroup/memory.stat": file(fmt.Sprintf("anon %d\nfile %d\nactive_file %d\nslab_reclaimable %d\n",
			anon, m.mu.cache, m.mu.cache, m.mu.slab)),
	}
	for path, text := range m.mu.children {
		files[path] = file(text)
	}
	if m.mu.broken {
		files["sys/fs/cgroup/memory.stat"] = file("what is this\n")
		files["proc/self/status"] = file("RssAnon:\tmuch\n")
	}
	return files.Open(name)
}

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
