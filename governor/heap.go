package governor

import (
	"math"
	"runtime/metrics"
)

// Heap is what the Go runtime says about its memory. It contains no figure that saw-tooths between collections except
// Slack, which exists to be taken away from figures that do.
type Heap struct {
	Live         int64   `json:"live_bytes"`        // found live by the last collection
	Slack        int64   `json:"slack_bytes"`       // held from the kernel, but garbage, not yet known to live, or free for the next allocation
	Limit        int64   `json:"gomemlimit_bytes"`  // GOMEMLIMIT; 0 = not set
	GOGC         int64   `json:"gogc_percent"`      // growth from one collection to the next; very large = not set
	Cycles       uint64  `json:"gc_cycles"`         // collections completed
	LimitedCycle uint64  `json:"gc_limited_cycle"`  // the last cycle in which the collector held itself back; 0 = never
	GCSeconds    float64 `json:"gc_cpu_seconds"`    // CPU spent in collections, idle-time marking left out
	CPUSeconds   float64 `json:"total_cpu_seconds"` // CPU there was, idle included; updated by collections
}

// heapReader reads runtime/metrics into one reused slice. It is not for concurrent use: the governor's loop owns it.
type heapReader struct{ samples []metrics.Sample }

// The order of heapMetrics is the order in which heapReader.read takes them.
var heapMetrics = []string{
	"/gc/heap/live:bytes",
	"/memory/classes/heap/objects:bytes",
	"/memory/classes/heap/unused:bytes",
	"/memory/classes/heap/free:bytes",
	"/gc/gomemlimit:bytes",
	"/gc/cycles/total:gc-cycles",
	"/gc/limiter/last-enabled:gc-cycle",
	"/cpu/classes/gc/total:cpu-seconds",
	"/cpu/classes/gc/mark/idle:cpu-seconds",
	"/cpu/classes/total:cpu-seconds",
	"/gc/gogc:percent",
}

func newHeapReader() *heapReader {
	r := &heapReader{samples: make([]metrics.Sample, len(heapMetrics))}
	for i, name := range heapMetrics {
		r.samples[i].Name = name
	}
	return r
}

func (r *heapReader) read() Heap {
	metrics.Read(r.samples)
	h := Heap{
		Live:         r.bytes(0),
		Limit:        r.bytes(4),
		GOGC:         r.bytes(10),
		Cycles:       r.samples[5].Value.Uint64(),
		LimitedCycle: r.samples[6].Value.Uint64(),
		GCSeconds:    r.samples[7].Value.Float64() - r.samples[8].Value.Float64(),
		CPUSeconds:   r.samples[9].Value.Float64(),
	}
	// Unused is room inside spans that hold live objects. It cannot be given back, but the next allocations go there
	// first: counting it as use would keep a fragmented heap at shed with nothing left to free.
	h.Slack = max(r.bytes(1)-h.Live, 0) + r.bytes(2) + r.bytes(3)
	if h.Limit == math.MaxInt64 {
		h.Limit = 0
	}
	return h
}

func (r *heapReader) bytes(i int) int64 {
	return int64(min(r.samples[i].Value.Uint64(), math.MaxInt64))
}
