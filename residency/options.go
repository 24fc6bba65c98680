package residency

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

// Level is how far memory pressure has gone, as Options.Level reports it.
type Level int

const (
	LevelNormal Level = iota // builds begin as soon as there is room
	LevelEvict               // builds are spaced: one at a time, and none within a second of the last one's end
	LevelShed                // no build begins; instances that are resident are leased as ever
)

// Options of a Cache. Build, Close, Size, Heap and BuildPeak must be set; the zero value of every other field is safe.
// No func is ever called under the cache's lock.
type Options[K comparable, V any] struct {
	// Name appears in every Shed and in Stats. It may label a metric, so it should come from code, not from a client.
	Name string

	// Build makes the instance of a key. Its context carries the values of whoever asked first and ends only by
	// BuildMax or Cache.Close. A Build that ignores that end loses its slot and its waiters; until it returns its
	// BuildPeak stays charged and its key is shed as BuildTimeout, and what it returns is closed. A panic in it is an
	// error like any other.
	Build func(ctx context.Context, key K) (V, error)

	// Transient tells which errors of Build are not the key's own but those of what it is built from, which cannot be
	// reached for the moment: they are the answer of those who wait, and whoever asks next has another build. Build should
	// then fail fast by itself, as each of them takes its slot. Nil: none; every failure is remembered for a while.
	Transient func(err error) bool

	// Close ends an instance: once, when it is out of the cache and its last lease has been released or DrainTimeout
	// has passed. Its bytes stay charged until Close returns, so one that never does takes room for ever.
	Close func(key K, value V)

	// Size is the bytes that an instance holds, counted once, after its build; what it may grow by later belongs in it.
	// Too low: the plan does not fit. Too high: fewer instances are kept than would fit. Below 1 counts as 1.
	Size func(value V) int64

	// Group names what instances have in common (the database behind them), so that EvictGroup finds them in an index
	// and not by a scan. Nil means that there are no groups.
	Group func(key K) string

	// Heap is H, the bytes of heap that this cache and what stands beside it may have. Too low: instances are rebuilt
	// again and again. Too high: the plan that it comes from does not fit.
	Heap int64

	// Base is B, the part of Heap that is in use without any instance. Heap - Base is the budget.
	Base int64

	// BuildPeak is T, the measured peak of one build; at most the budget. An instance that turns out larger raises it
	// for the next 64 builds. Too low: builds exceed the plan. Too high: that much room is kept free for a build that
	// never needs it.
	BuildPeak int64

	// Instance is I, the bytes expected of one instance; 0 means BuildPeak. It is used only until the first instance
	// has been measured, to bound how many builds begin before that.
	Instance int64

	// MaxInstances bounds the resident instances and running builds by number; 0 means that only bytes bound them.
	MaxInstances int

	// MaxBuilds is how many builds run at once, of different keys; 0 means 1. Too low: a crowd of cold keys waits for
	// long. Too high: each has room for its BuildPeak kept free, which instances lose.
	MaxBuilds int

	// Queue bounds the callers that wait and, as a build goes on when they have left, the builds that have not begun;
	// 0 means 1000. Too low: sheds in every cold start. Too high: waiters' own memory outgrows its line in the plan.
	Queue int

	// WaitTimeout is how long one caller waits; 0 means 180 s. It ends nothing but that wait. Too low: callers leave
	// and return for a build that has not ended. Too high: they sit there when they could be told to come back.
	WaitTimeout time.Duration

	// BuildMax is the longest time of one build, not counting its wait; 0 means 10 min. Too low: slow builds never
	// succeed. Too high: one that hangs holds its slot, and with MaxBuilds 1 all others, for as long.
	BuildMax time.Duration

	// DrainTimeout is how long a detached instance waits for its leases before Close is called all the same; 0 means
	// 60 s. It should exceed the longest use. Too low: uses fail midway. Too high: a lost lease holds bytes as long.
	DrainTimeout time.Duration

	// IdleTTL evicts what was not leased for that long; 0 means never. No timer stands behind it: it is applied when a
	// lease is given back, when a build is asked for, and by Shrink, so call Shrink(0) now and then if all may be idle.
	IdleTTL time.Duration

	// Level is asked before a build is queued and again when it may begin; it should be no more than an atomic load.
	// Nil means LevelNormal.
	Level func() Level
}

// validate returns every contradiction, each naming the fields that make it.
func (o *Options[K, V]) validate() error {
	var errs []error
	bad := func(wrong bool, format string, a ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf("residency %q: "+format, append([]any{o.Name}, a...)...))
		}
	}
	bad(o.Name == "", "Name is empty; give it one, sheds and metrics are told apart by it")
	bad(o.Build == nil, "Build is nil")
	bad(o.Close == nil, "Close is nil; give it one that does nothing if there is nothing to close")
	bad(o.Size == nil, "Size is nil; instances are kept by their bytes")
	bad(o.Base < 0, "Base is %d; it must not be negative", o.Base)
	bad(o.BuildPeak < 1, "BuildPeak is %d; it must be at least 1", o.BuildPeak)
	bad(o.BuildPeak > 0 && o.BuildPeak > o.Heap-max(o.Base, 0),
		"BuildPeak %d is above Heap %d - Base %d; raise Heap or lower the others", o.BuildPeak, o.Heap, o.Base)
	bad(o.Instance < 0, "Instance is %d; it must not be negative", o.Instance)
	bad(o.MaxInstances < 0, "MaxInstances is %d; it must not be negative", o.MaxInstances)
	bad(o.MaxBuilds < 0, "MaxBuilds is %d; it must not be negative", o.MaxBuilds)
	bad(o.Queue < 0, "Queue is %d; it must not be negative", o.Queue)
	bad(o.WaitTimeout < 0, "WaitTimeout is %v; it must not be negative", o.WaitTimeout)
	bad(o.BuildMax < 0, "BuildMax is %v; it must not be negative", o.BuildMax)
	bad(o.DrainTimeout < 0, "DrainTimeout is %v; it must not be negative", o.DrainTimeout)
	bad(o.IdleTTL < 0, "IdleTTL is %v; it must not be negative", o.IdleTTL)
	return errors.Join(errs...)
}

// withDefaults resolves the zero values.
func (o Options[K, V]) withDefaults() Options[K, V] {
	or := func(d, otherwise time.Duration) time.Duration {
		if d == 0 {
			return otherwise
		}
		return d
	}
	if o.Instance == 0 {
		o.Instance = o.BuildPeak
	}
	if o.MaxInstances == 0 {
		o.MaxInstances = math.MaxInt
	}
	if o.MaxBuilds == 0 {
		o.MaxBuilds = 1
	}
	if o.Queue == 0 {
		o.Queue = 1000
	}
	o.WaitTimeout = or(o.WaitTimeout, 180*time.Second)
	o.BuildMax = or(o.BuildMax, 10*time.Minute)
	o.DrainTimeout = or(o.DrainTimeout, time.Minute)
	if o.Level == nil {
		o.Level = func() Level { return LevelNormal }
	}
	if o.Transient == nil {
		o.Transient = func(error) bool { return false }
	}
	if o.Group == nil {
		o.Group = func(K) string { return "" }
	}
	return o
}
