package governor

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leveehq/levee/internal/raceless"
)

// Case O2: near GOMEMLIMIT a server must turn work away rather than spend its processor on collections. The server is a
// process of its own, because the limits are the process's: this test binary, started again.

const (
	spiralGoLimit = 128 * mib
	spiralLimit   = 160 * mib
	spiralCache   = spiralGoLimit * 3 / 10
	spiralRequest = 512 << 10
	spiralHold    = 400 * time.Millisecond
	spiralStep    = 2 * time.Second
	spiralEnv     = "GOVERNOR_TEST_SPIRAL"
)

// spiralSteps are callers at once. About 110 requests fit below the shed mark beside the cache; without a governor the
// last step alone would be twice GOMEMLIMIT.
var spiralSteps = []int{60, 120, 240, 480}

type spiralReport struct {
	Steps        []spiralStepReport
	PeakRSS      int64
	LimitedGCs   uint64
	NormalAfter  time.Duration
	GCShareAfter float64
}

type spiralStepReport struct {
	Callers, Done, Shed int64
	GCShare             float64
}

func TestMain(m *testing.M) {
	if os.Getenv(spiralEnv) != "" {
		if err := json.NewEncoder(os.Stdout).Encode(spiral()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func TestWorkIsShedBeforeTheCollectorTakesTheProcessor(t *testing.T) {
	cmd := exec.Command(raceless.Binary(t))
	cmd.Env = append(os.Environ(), spiralEnv+"=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var r spiralReport
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	t.Logf("%+v", r)
	for _, s := range r.Steps {
		if s.GCShare >= 0.25 {
			t.Errorf("with %d callers collections took %.0f %% of the processor", s.Callers, 100*s.GCShare)
		}
	}
	if first, last := r.Steps[0], r.Steps[len(r.Steps)-1]; first.Shed != 0 || last.Shed == 0 || last.Done == 0 {
		t.Error("want nothing shed with the fewest callers, and some served and some shed with the most")
	}
	if r.PeakRSS > spiralLimit {
		t.Errorf("resident memory rose to %d MiB, limit %d", r.PeakRSS/mib, spiralLimit/mib)
	}
	if r.NormalAfter > 10*time.Second {
		t.Errorf("the level was normal only %v after the load", r.NormalAfter)
	}
	if r.GCShareAfter >= 0.05 {
		t.Errorf("after the load collections still took %.1f %% of the processor", 100*r.GCShareAfter)
	}
}

// spiral is the server and its load.
func spiral() spiralReport {
	debug.SetMemoryLimit(spiralGoLimit)
	debug.SetGCPercent(50)
	g, err := New(Options{Limit: spiralLimit})
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { g.Run(ctx) })
	s := &spiralServer{g: g}
	running.Go(func() { s.keepCache(ctx) })

	var r spiralReport
	for _, callers := range spiralSteps {
		r.Steps = append(r.Steps, s.offer(callers))
	}
	ended := time.Now()
	for g.Level() != Normal && time.Since(ended) < 20*time.Second {
		<-time.After(10 * time.Millisecond)
	}
	r.NormalAfter = time.Since(ended)
	r.GCShareAfter = gcShareDuring(func() { <-time.After(3 * time.Second) })
	stop()
	running.Wait()
	r.PeakRSS, r.LimitedGCs = peakRSS(), newHeapReader().read().LimitedCycle
	return r
}

type spiralServer struct {
	g          *Governor
	done, shed atomic.Int64
	cache      [][]byte
}

// keepCache fills the cache to its cap at level normal and halves it above, as a cache of ours does.
func (s *spiralServer) keepCache(ctx context.Context) {
	const entry = 16 << 10
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		switch full := len(s.cache) >= spiralCache/entry; {
		case s.g.Level() > Normal:
			s.cache = append([][]byte(nil), s.cache[:len(s.cache)/2]...)
		case !full:
			for range 256 {
				s.cache = append(s.cache, make([]byte, entry))
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// offer has so many callers ask again and again for one step.
func (s *spiralServer) offer(callers int) spiralStepReport {
	done, shed := s.done.Load(), s.shed.Load()
	share := gcShareDuring(func() {
		ctx, cancel := context.WithTimeout(context.Background(), spiralStep)
		defer cancel()
		var all sync.WaitGroup
		for range callers {
			all.Go(func() {
				for ctx.Err() == nil {
					s.request()
				}
			})
		}
		all.Wait()
	})
	return spiralStepReport{int64(callers), s.done.Load() - done, s.shed.Load() - shed, share}
}

// request holds memory in small pieces for a while, long against the time that it takes to allocate them even on a busy
// machine, and leaves garbage besides.
func (s *spiralServer) request() {
	if s.g.Level() >= Shed {
		s.shed.Add(1)
		<-time.After(spiralHold)
		return
	}
	const piece = 8 << 10
	held := make([][]byte, 0, spiralRequest/piece)
	for i := range spiralRequest / piece {
		held = append(held, make([]byte, piece))
		if i%4 == 0 {
			_ = append([]byte(nil), held[i]...)
		}
	}
	<-time.After(spiralHold)
	runtime.KeepAlive(held)
	s.done.Add(1)
}

// gcShareDuring is the collector's share of the processor while f runs.
func gcShareDuring(f func()) float64 {
	r := newHeapReader()
	runtime.GC() // the runtime updates the counters at collections
	before := r.read()
	f()
	runtime.GC()
	after := r.read()
	return (after.GCSeconds - before.GCSeconds) / (after.CPUSeconds - before.CPUSeconds)
}

func peakRSS() int64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		panic(err)
	}
	var kib int64
	for _, line := range strings.Split(string(text), "\n") {
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	panic("no VmHWM in /proc/self/status")
}
