package levee

import (
	"fmt"
	"math"
)

// Kind of memory a plan line stands for.
type Kind string

const (
	KindGo       Kind = "go"       // live Go heap and stacks; the sum must stay <= 0.55 x GOMEMLIMIT
	KindKernel   Kind = "kernel"   // socket buffers, dirty pages
	KindOffHeap  Kind = "offheap"  // mmap, cgo, binary, threads
	KindChildren Kind = "children" // child processes
)

// Line of the plan: Units x PerUnit bytes. PerUnit is a measured figure; a test holds it.
type Line struct {
	Account string       `json:"account"` // unique, snake_case: "streams", "write", "index", ...
	Kind    Kind         `json:"kind"`
	Units   int64        `json:"units"`
	Unit    string       `json:"unit"`           // what is counted: "stream", "blob", "connection", "byte"
	PerUnit int64        `json:"per_unit_bytes"` // bytes
	Setting string       `json:"setting"`        // the setting that lowers it, as the operator writes it: "bazel.max_streams"
	Note    string       `json:"note"`           // one sentence
	InUse   func() int64 `json:"-"`              // bytes charged now, nil if not counted
}

func (l Line) validate() error {
	switch {
	case l.Account == "" || l.Unit == "":
		return fmt.Errorf("levee: line %+q of unit %+q needs an account and a unit", l.Account, l.Unit)
	case l.Units < 0 || l.PerUnit < 0:
		return fmt.Errorf("levee: line %s has %d units of %d bytes", l.Account, l.Units, l.PerUnit)
	}
	switch l.Kind {
	case KindGo, KindKernel, KindOffHeap, KindChildren:
		return nil
	}
	return fmt.Errorf("levee: line %s has unknown kind %q", l.Account, l.Kind)
}

// Bytes is Units x PerUnit, or the largest int64 if that is more: a setting with too many noughts must not fit by
// overflowing.
func (l Line) Bytes() int64 {
	if l.PerUnit > 0 && l.Units > math.MaxInt64/l.PerUnit {
		return math.MaxInt64
	}
	return l.Units * l.PerUnit
}

// add adds figures that are not negative, up to the largest int64.
func add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

const (
	// liveShare is how much of GOMEMLIMIT may be live. The cost of a collection is flat up to 0.60, doubles by 0.80, and
	// past that the collector is held back and the process passes its limit. Measured plans come out up to 14 % low, and
	// 0.55 x 1.09 is 0.60.
	liveShare = 0.55

	// One part in marginParts of the limit is the margin. A process whose GOMEMLIMIT binds was measured to stay 1.3 to
	// 5.5 % below it, so none of the margin is for Go's own overshoot. It is for what has no account: page tables (one part in
	// 512 of what is mapped), the kernel stacks of threads that block in the file system (16 KiB each, 8 MiB for 500),
	// unreclaimable slab, and the error of lines measured one at a time.
	marginParts = 20

	collectorAccount = "collector"
	marginAccount    = "margin"
)

// What any process of ours costs before the first request. The levee command with all its libraries idles at 17.6 MiB off
// the heap and 6.3 MiB of Go memory; the rest is for the threads of a busy one.
// TestTheBaseLinesCoverAnIdleProcess holds the figures.
const (
	processBytes = 24 << 20
	runtimeBytes = 8 << 20
)

func baseLines() []Line {
	return []Line{{
		Account: "runtime", Kind: KindGo, Units: 1, Unit: "process", PerUnit: runtimeBytes,
		Note: "What packages allocate when they are initialised, stacks, and the runtime's own tables.",
	}, {
		Account: "process", Kind: KindOffHeap, Units: 1, Unit: "process", PerUnit: processBytes,
		Note: "The binary's pages, threads and page tables.",
	}}
}

// PlannedLine is a line with its figures worked out.
type PlannedLine struct {
	Line
	Bytes      int64  `json:"bytes"`
	InUseBytes *int64 `json:"in_use_bytes,omitempty"` // nil if the line does not count
}

// Plan is the arithmetic of the memory limit at one moment. Its lines add up to the limit, if it fits.
type Plan struct {
	Limit       int64         `json:"limit_bytes"`
	Source      LimitSource   `json:"limit_source"`
	GoMemLimit  int64         `json:"gomemlimit_bytes"`  // limit - children - kernel - off-heap - margin; below 0 if these do not fit
	GoLive      int64         `json:"go_live_bytes"`     // all lines of KindGo but the collector
	GoLiveMost  int64         `json:"go_live_max_bytes"` // 0.55 x GOMEMLIMIT
	Fits        bool          `json:"fits"`
	Needed      int64         `json:"needed_bytes,omitempty"` // the least limit that fits, if whoever knows how lines grow with it has set it
	Lines       []PlannedLine `json:"lines"`
	Descriptors []Descriptors `json:"descriptors"`
}

// Plan works the plan out from the lines registered so far. It reads in-use figures but changes nothing.
func (k *Kernel) Plan() Plan {
	k.mu.Lock()
	p := k.planLocked()
	k.mu.Unlock()
	for i, l := range p.Lines {
		if l.InUse != nil {
			n := l.InUse()
			p.Lines[i].InUseBytes = &n
		}
	}
	return p
}

// planLocked leaves the in-use figures out, because no lock of ours is held while a registered function runs.
func (k *Kernel) planLocked() Plan {
	p := newPlan(k.limit.bytes, k.mu.lines)
	p.Source = k.limit.source
	p.Descriptors = append(p.Descriptors, k.mu.descriptors...)
	return p
}

// newPlan does the arithmetic. Lines keep their order within a kind.
func newPlan(limit int64, lines []Line) Plan {
	margin := Line{
		Account: marginAccount, Kind: KindOffHeap, Units: limit / marginParts, Unit: "byte", PerUnit: 1,
		Note: "What has no account: the kernel's tables and stacks, slab, errors of measurement.",
	}
	fixed := margin.Bytes()
	p := Plan{Limit: limit}
	for _, l := range lines {
		if l.Kind == KindGo {
			p.GoLive = add(p.GoLive, l.Bytes())
		} else {
			fixed = add(fixed, l.Bytes())
		}
	}
	p.GoMemLimit = limit - fixed
	p.GoLiveMost = max(int64(liveShare*float64(p.GoMemLimit)), 0)
	p.Fits = p.GoMemLimit > 0 && p.GoLive <= p.GoLiveMost
	collector := Line{
		Account: collectorAccount, Kind: KindGo, Units: max(p.GoMemLimit-p.GoLive, 0), Unit: "byte", PerUnit: 1,
		Note: "Garbage, and the room that lets the collector find it without haste.",
	}
	p.addKind(KindGo, append(append([]Line(nil), lines...), collector))
	for _, kind := range []Kind{KindKernel, KindChildren, KindOffHeap} {
		p.addKind(kind, lines)
	}
	p.addKind(KindOffHeap, []Line{margin})
	return p
}

func (p *Plan) addKind(kind Kind, lines []Line) {
	for _, l := range lines {
		if l.Kind == kind {
			p.Lines = append(p.Lines, PlannedLine{Line: l, Bytes: l.Bytes()})
		}
	}
}

// Check returns nil if the plan fits, else a *PlanError.
func (p Plan) Check() error {
	if p.Fits {
		return nil
	}
	return &PlanError{Plan: p}
}
