package levee

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

const (
	// defaultGCPercent makes the heap grow by half between collections, not by the whole. The live heap is planned to stay
	// below 0.55 of GOMEMLIMIT, so either fits; half leaves a resident size closer to what is live, for a collector that
	// runs twice as often on a heap kept small.
	defaultGCPercent = 50

	// garbageFloor, in bytes, may lie about however little is live. Half of a live heap of 5 MiB is collected after a hundred requests,
	// and takes a seventh of the processor's time. The plan has room for it: what it sets aside for garbage is sized for the
	// largest live heap, and a small one leaves most of that unused.
	garbageFloor = 12 << 20

	// maxGCPercent bounds what a live heap that grows at once can become before the pacer has seen it.
	maxGCPercent = 400
)

// paced tells whether GOGC is ours to move: not if the caller or the environment has chosen one.
func (k *Kernel) paced() bool {
	_, fromEnv := os.LookupEnv("GOGC")
	return k.opts.GCPercent == 0 && !fromEnv
}

// setCollector overrides a GOMEMLIMIT of the environment, whose value the plan knows nothing of.
func (k *Kernel) setCollector(goMemLimit int64) {
	switch {
	case k.opts.GCPercent != 0:
		debug.SetGCPercent(k.opts.GCPercent)
	case k.paced():
		debug.SetGCPercent(defaultGCPercent)
	}
	debug.SetMemoryLimit(goMemLimit)
}

// pacer moves GOGC after each collection, so that there is room for floor bytes of garbage or for half of what is live, whichever
// is more.
type pacer struct {
	floor int64

	mu struct {
		sync.Mutex
		stopped bool
		percent int
		samples []metrics.Sample
	}
}

// pacerMetrics are what GOGC is a percentage of.
var pacerMetrics = []string{"/gc/heap/live:bytes", "/gc/scan/stack:bytes", "/gc/scan/globals:bytes"}

// startPacer paces until stop is called, which leaves GOGC at its default.
func startPacer(floor int64) (stop func()) {
	p := &pacer{floor: floor}
	p.mu.percent = defaultGCPercent
	p.mu.samples = make([]metrics.Sample, len(pacerMetrics))
	for i, name := range pacerMetrics {
		p.mu.samples[i].Name = name
	}
	p.pace()
	return p.stop
}

func (p *pacer) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.stopped = true
	debug.SetGCPercent(defaultGCPercent)
}

// canary is not reachable: the next collection finds it. It has a pointer, for small objects without one are kept in groups.
type canary struct{ _ *canary }

// pace sets GOGC for the next collection and has itself called after that.
func (p *pacer) pace() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.stopped {
		return
	}
	metrics.Read(p.mu.samples)
	var base int64
	for i := range p.mu.samples {
		base += int64(p.mu.samples[i].Value.Uint64())
	}
	if want := gcPercent(base, p.floor); worthSetting(p.mu.percent, want) {
		p.mu.percent = want
		debug.SetGCPercent(want)
	}
	runtime.AddCleanup(new(canary), (*pacer).pace, p)
}

// gcPercent of base bytes is floor, within bounds.
func gcPercent(base, floor int64) int {
	if base <= 0 { // before the first collection
		return defaultGCPercent
	}
	return int(min(max(floor*100/base, defaultGCPercent), maxGCPercent))
}

// worthSetting spares what would change little, for setting GOGC stops the world for a moment. A heap that has become large gets what
// it was planned with, however little that changes.
func worthSetting(now, want int) bool {
	return abs(want-now) > now/8 || want == defaultGCPercent && now != want
}

func abs(n int) int { return max(n, -n) }
