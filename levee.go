package levee

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/leveehq/levee/gate"
	"github.com/leveehq/levee/governor"
)

// Options of a Kernel. The zero value is right for a server that has its machine's or its container's memory for itself.
type Options struct {
	// MemoryLimit in bytes. 0 takes the control group's limit, else the lesser of a quarter of the machine's memory and
	// 4 GiB. Set, it is a promise about this process and its children alone, whatever else runs in the same control group;
	// it must not pass what the control group or the machine has.
	MemoryLimit int64

	// GCPercent is GOGC. 0 means 50, or as much as leaves room for 12 MiB of garbage beside a small live heap, unless the
	// environment variable GOGC is set, which then stays. Lower gives a smaller resident size for more CPU; higher the reverse, until GOMEMLIMIT binds. Negative turns collections by
	// growth off and leaves them to GOMEMLIMIT.
	GCPercent int

	// EvictMark and ShedMark are the governor's marks as shares of the limit; 0 means 0.60 and 0.75. See
	// governor.Options.
	EvictMark, ShedMark float64

	// Version is shown in Status.
	Version string

	// Logger is for what an operator must learn. Nil is slog.Default.
	Logger *slog.Logger

	// FS is the file system, rooted at "/", whose /proc and /sys are read. Nil is this machine's.
	FS fs.FS
}

// Kernel owns the plan, the gates and the governor of one process. Register lines and gates, then Start, then Run.
// Its methods may be called from anywhere at any time, unless they say otherwise.
type Kernel struct {
	opts  Options
	limit limit
	gov   *governor.Governor
	born  time.Time

	// mu guards what is registered. It is never held while a registered function runs.
	mu struct {
		sync.Mutex
		started     bool
		lines       []Line
		gates       []*gate.Gate
		sections    map[string]func() any
		warnings    []string
		descriptors []Descriptors
	}
}

// New finds the memory limit and starts nothing.
func New(o Options) (*Kernel, error) {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	lim, err := findLimit(o.MemoryLimit, o.FS)
	if err != nil {
		return nil, err
	}
	k := &Kernel{opts: o, limit: lim, born: time.Now()}
	k.gov, err = governor.New(governor.Options{
		Limit: lim.bytes, Scope: lim.scope(), EvictMark: o.EvictMark, ShedMark: o.ShedMark,
		Charges: k.charges, FS: o.FS, Logger: o.Logger,
	})
	if err != nil {
		return nil, err
	}
	k.mu.sections = make(map[string]func() any)
	k.mu.lines = baseLines()
	k.mu.descriptors = []Descriptors{baseDescriptors}
	return k, nil
}

// Limit is the memory limit in bytes that was given or found.
func (k *Kernel) Limit() int64 { return k.limit.bytes }

// AddLine registers a line of the plan. It panics on what only a programmer can get wrong: an account registered twice,
// a line without account, unit or kind, a negative figure, or a line that comes after Start, which has proved the
// plan without it.
func (k *Kernel) AddLine(l Line) {
	if err := l.validate(); err != nil {
		panic(err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.mu.started {
		panic("levee: line " + l.Account + " added after Start")
	}
	if l.Account == collectorAccount || l.Account == marginAccount ||
		slices.ContainsFunc(k.mu.lines, func(o Line) bool { return o.Account == l.Account }) {
		panic("levee: line " + l.Account + " added twice")
	}
	k.mu.lines = append(k.mu.lines, l)
}

// NewGate makes a gate that appears in Status and metrics. With shedOnPressure it sheds new admissions while the level
// is shed, besides what o.Pressure says itself. What the gate's limit may cost is a line of the plan, which the caller
// adds: only the caller knows the price of a unit.
func (k *Kernel) NewGate(o gate.Options, shedOnPressure bool) (*gate.Gate, error) {
	if shedOnPressure {
		own := o.Pressure
		o.Pressure = func() bool { return k.Level() >= governor.Shed || own != nil && own() }
	}
	g, err := gate.New(o)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if slices.ContainsFunc(k.mu.gates, func(other *gate.Gate) bool { return other.Name() == o.Name }) {
		return nil, fmt.Errorf("gate %q exists already", o.Name)
	}
	k.mu.gates = append(k.mu.gates, g)
	return g, nil
}

// AddStatus adds a service's section to Status, under services.<name>. f is called for each snapshot, from any
// goroutine, and its answer must marshal to JSON. A name registered twice panics.
func (k *Kernel) AddStatus(name string, f func() any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, ok := k.mu.sections[name]; ok {
		panic("levee: status section " + name + " added twice")
	}
	k.mu.sections[name] = f
}

// Warn adds a standing warning to Status, for example about a public listener without authentication, and logs it. The
// same text counts once.
func (k *Kernel) Warn(text string) {
	k.mu.Lock()
	known := slices.Contains(k.mu.warnings, text)
	if !known {
		k.mu.warnings = append(k.mu.warnings, text)
	}
	k.mu.Unlock()
	if !known {
		k.opts.Logger.Warn(text)
	}
}

// WatchChild counts the process pid, and what it starts, as part of our use until stop is called. A child's memory is
// planned by a line of KindChildren; this is how the governor learns what it really takes.
func (k *Kernel) WatchChild(pid int) (stop func()) { return k.gov.Watch(pid) }

// Level is the governor's level: one atomic load.
func (k *Kernel) Level() governor.Level { return k.gov.Level() }

// Start proves that the plan fits the limit and that there are descriptors enough, and then sets the soft descriptor
// limit, GOGC and GOMEMLIMIT. A plan that does not fit is a *PlanError, which says what to lower. After an error nothing
// is changed but, at most, the soft descriptor limit. Start may succeed once.
func (k *Kernel) Start() error {
	if err := k.limit.check(); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.mu.started {
		return errors.New("levee: started already")
	}
	plan := k.planLocked()
	if err := plan.Check(); err != nil {
		return err
	}
	if err := raiseDescriptors(k.mu.descriptors); err != nil {
		return err
	}
	k.setCollector(plan.GoMemLimit)
	k.mu.started = true
	return nil
}

// Run drives the governor and the collector until ctx is done, and then returns nil.
func (k *Kernel) Run(ctx context.Context) error {
	if k.paced() {
		plan := k.Plan()
		defer startPacer(min(garbageFloor, (plan.GoMemLimit-plan.GoLive)/2))()
	}
	return k.gov.Run(ctx)
}

// charges adds up, for the governor, what lines say is in use.
func (k *Kernel) charges() governor.Charges {
	var c governor.Charges
	for _, l := range k.registeredLines() {
		if l.InUse == nil {
			continue
		}
		switch l.Kind {
		case KindGo:
			c.Go = add(c.Go, l.InUse())
		case KindKernel:
			c.Kernel = add(c.Kernel, l.InUse())
		}
	}
	return c
}

func (k *Kernel) registeredLines() []Line {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.mu.lines)
}
