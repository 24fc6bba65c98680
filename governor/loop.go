package governor

import (
	"log/slog"
	"time"
)

// loop is what the governor remembers between two steps. One goroutine owns it.
type loop struct {
	level   Level
	entered time.Time // when level was

	cycles    uint64    // collections seen
	lastGC    time.Time // when cycles was seen to move
	evictedAt uint64    // cycles when evict was entered: shed wants a later one

	limitedCycle uint64    // the last cycle seen with the collector held back
	limitedAt    time.Time // when limitedCycle was seen to move

	good   measurement // the last that could be read
	goodAt time.Time

	gcWindow  gcWindow
	ownGCs    uint64
	ownGCTook time.Duration // the last of them

	longLogged bool // shedding for over a minute was logged
	badLogged  bool // the meter error was logged
}

// step takes one reading, decides and publishes. It may collect, and so may take as long as a collection does.
func (g *Governor) step(now time.Time) {
	r := g.sense(now)
	if r.Level == Shed && g.loop.level < Shed && !g.mayShed() {
		// Evict takes effect before the collection that decides on shed, which may take long.
		g.enter(Evict, now)
		g.collectNow(r)
		now = time.Now()
		r = g.sense(now)
	}
	// A blind governor's floor needs no collection: nothing that one frees could lower it.
	if r.Level > Normal && r.Cause != CauseMeter && now.Sub(g.loop.lastGC) >= g.loop.staleAfter(r.Level) {
		g.collectNow(r)
		now = time.Now()
		r = g.sense(now)
	}
	g.enter(r.Level, now)
	g.publish(r)
	g.report(r)
}

// mayShed says whether a collection has ended since evict was entered. Without one, what was seen may be garbage.
func (g *Governor) mayShed() bool {
	return g.loop.level == Evict && g.loop.cycles > g.loop.evictedAt
}

// enter makes level the one that Level answers. Shed is never entered from normal directly.
func (g *Governor) enter(level Level, now time.Time) {
	if level == g.loop.level {
		return
	}
	if g.loop.level == Normal {
		level = Evict
	}
	if level == Evict {
		g.loop.evictedAt = g.loop.cycles
	}
	g.loop.level, g.loop.entered = level, now
	g.level.Store(int32(level))
}

// staleAfter is the age from which a collection's result says too little. Shed turns work away that might be served
// again, and nobody allocates meanwhile, so there the governor asks sooner, as long as its collections stay below a
// twentieth of the time.
func (l *loop) staleAfter(level Level) time.Duration {
	if level < Shed {
		return staleGC
	}
	return min(max(20*l.ownGCTook, freshGC), staleGC)
}

func (g *Governor) collectNow(r Reading) {
	start := time.Now()
	defer func() { g.loop.ownGCTook = time.Since(start) }()
	if r.UseBytes >= brink(r.Limit) {
		g.giveBack()
	} else {
		g.collect()
	}
	g.loop.ownGCs++
}

func brink(limit int64) int64 { return int64(brinkMark * float64(limit)) }

// sense reads everything once. The level in the answer is what the inputs call for.
func (g *Governor) sense(now time.Time) Reading {
	r := Reading{
		At: now, Scope: g.opts.Scope, EvictMark: g.marks.evict, ShedMark: g.marks.shed, Heap: g.heap(),
	}
	if g.loop.entered.IsZero() {
		g.loop.entered = now
	}
	g.noteHeap(r.Heap, now)
	var charges Charges
	if g.opts.Charges != nil {
		charges = g.opts.Charges()
	}
	g.measure(&r, charges.Kernel, now)
	g.weigh(&r, charges.Go)
	r.Level, r.Cause = g.decide(r, now)
	r.GCShare, r.OwnGCs = g.loop.gcWindow.share(), g.loop.ownGCs
	return r
}

// noteHeap dates what the runtime only counts.
func (g *Governor) noteHeap(h Heap, now time.Time) {
	l := &g.loop
	if h.Cycles != l.cycles || l.lastGC.IsZero() {
		l.cycles, l.lastGC = h.Cycles, now
		l.gcWindow.add(now, h)
	}
	if h.LimitedCycle > l.limitedCycle {
		l.limitedCycle, l.limitedAt = h.LimitedCycle, now
	}
}

// measure fills in use and limit, from the last good measurement while the meter is blind and that one is young.
func (g *Governor) measure(r *Reading, chargedKernel int64, now time.Time) {
	got, err := g.meter.read(g.watched())
	switch {
	case err == nil:
		g.loop.good, g.loop.goodAt = got, now
	case now.Sub(g.loop.goodAt) < blindFor:
		got = g.loop.good
	default:
		got = measurement{limit: g.opts.Limit}
	}
	if err != nil {
		r.Error = err.Error()
	}
	r.Use, r.Limit, r.Group, r.Note = got.use, got.limit, got.group, got.note
	if g.opts.Scope == Process {
		r.Use.Charged = chargedKernel
	}
}

// weigh computes the shares. Slack is taken from use because it is either garbage, which the next collection shows, or
// room that the next allocations fill before they ask the kernel for more. What is live is left in: not all of slack
// need be resident, so taking it away blindly could make a full process look empty.
func (g *Governor) weigh(r *Reading, chargedGo int64) {
	r.UseBytes = r.Use.Total()
	r.NetBytes = max(r.UseBytes-r.Heap.Slack, min(r.UseBytes, r.Heap.Live))
	r.UseShare = share(r.NetBytes, r.Limit)
	r.ChargedGo = chargedGo
	heapLimit := r.Heap.Limit
	if heapLimit == 0 {
		heapLimit = r.Limit
	}
	r.HeapShare = share(max(r.Heap.Live, chargedGo), heapLimit)
	r.Share = max(r.UseShare, r.HeapShare)
}

func share(part, whole int64) float64 {
	if whole <= 0 {
		return 1 // a limit of nothing is reached by anything
	}
	return float64(part) / float64(whole)
}

// decide holds the inputs against the marks and then applies the three rules that override them.
func (g *Governor) decide(r Reading, now time.Time) (Level, Cause) {
	level, cause := g.marks.level(g.loop.level, r.Share), CauseNone
	if level > Normal {
		cause = CauseUse
		if r.HeapShare >= r.UseShare {
			cause = CauseHeap
		}
	}
	// The limiter alone proves nothing: in a nearly idle process our own collections can be all there is for the
	// runtime to count, and it then holds them back at any heap size.
	limited := !g.loop.limitedAt.IsZero() && now.Sub(g.loop.limitedAt) < limiterFor
	if limited && level == Evict && r.Share >= g.marks.evict {
		return Shed, CauseLimiter
	}
	if level == Normal && r.UseBytes >= brink(r.Limit) {
		return Evict, CauseBrink
	}
	if level == Normal && r.Error != "" {
		return Evict, CauseMeter
	}
	return level, cause
}

func (g *Governor) publish(r Reading) {
	r.Level, r.Since = g.loop.level, g.loop.entered
	g.reading.Store(&r)
}

// report logs what an operator must learn from the log, once per occurrence.
func (g *Governor) report(r Reading) {
	l := &g.loop
	switch {
	case l.level == Shed && !l.longLogged && r.At.Sub(l.entered) > time.Minute:
		l.longLogged = true
		g.opts.Logger.Warn("memory pressure: shedding for over a minute", slog.String("cause", string(r.Cause)),
			slog.Any("reading", r))
	case l.level != Shed && l.longLogged:
		l.longLogged = false
		g.opts.Logger.Info("memory pressure: no longer shedding", slog.Any("pressure", l.level))
	}
	switch {
	case r.Error != "" && !l.badLogged:
		l.badLogged = true
		g.opts.Logger.Warn("memory meter cannot be read; caches are kept small until it can",
			slog.String("error", r.Error), slog.Any("pressure", l.level))
	case r.Error == "" && l.badLogged:
		l.badLogged = false
		g.opts.Logger.Info("memory meter can be read again")
	}
}

// gcWindow computes the collector's share of the CPU between the newest collection and one half a minute older. The
// runtime updates both counters at collections only.
type gcWindow struct{ points []gcPoint }

type gcPoint struct {
	at      time.Time
	gc, cpu float64
}

const gcWindowSpan = 30 * time.Second

// add records a collection, at most one a second: the window is bounded whatever the rate of collections.
func (w *gcWindow) add(now time.Time, h Heap) {
	p := gcPoint{at: now, gc: h.GCSeconds, cpu: h.CPUSeconds}
	if n := len(w.points); n > 1 && now.Sub(w.points[n-2].at) < time.Second {
		w.points[n-1] = p
	} else {
		w.points = append(w.points, p)
	}
	drop := 0
	for drop < len(w.points)-2 && now.Sub(w.points[drop+1].at) > gcWindowSpan {
		drop++
	}
	w.points = append(w.points[:0], w.points[drop:]...)
}

func (w *gcWindow) share() float64 {
	if len(w.points) < 2 {
		return 0
	}
	first, last := w.points[0], w.points[len(w.points)-1]
	if last.cpu <= first.cpu {
		return 0
	}
	return max((last.gc-first.gc)/(last.cpu-first.cpu), 0)
}
