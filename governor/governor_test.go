package governor

import (
	"strings"
	"testing"
	"time"
)

// Case O1, first half: a healthy server that reads a lot must never look full.
func TestPageCacheAndReclaimableSlabAreNeverPressure(t *testing.T) {
	onMachine(t, Group, func(m *machine) {
		m.set(func() { m.mu.live, m.mu.cache, m.mu.slab = 100*mib, 800*mib, 120*mib })
		m.pass(time.Hour)
		m.want(Normal, CauseNone)
		if since := time.Since(m.g.Reading().Since); since < time.Hour || since > time.Hour+time.Second {
			t.Errorf("the level was entered %v ago, want since the start", since)
		}
		if n := len(m.collections()); n != 0 {
			t.Errorf("the governor collected %d times at level normal", n)
		}
	})
}

// Case O1, second half.
func TestRealLoadShedsAndEndsWithinTenSecondsOfItsEnd(t *testing.T) {
	onMachine(t, Group, func(m *machine) {
		m.set(func() { m.mu.other, m.mu.cache = 972*mib, 40*mib }) // 95 %
		m.want(Shed, CauseUse)
		m.pass(10 * time.Minute)
		m.want(Shed, CauseUse)
		m.set(func() { m.mu.other = 20 * mib })
		m.want(Normal, CauseNone)
	})
}

// Nobody allocates in a server that sheds everything, so no collection would come by itself.
func TestALoadOnTheHeapEndsWithoutAnybodyAllocating(t *testing.T) {
	onMachine(t, Process, func(m *machine) {
		m.set(func() { m.mu.live = 700 * mib; m.runtimeCollects() })
		m.want(Shed, CauseHeap)
		m.mu.Lock()
		m.mu.garbage, m.mu.live = m.mu.live, 50*mib
		m.mu.Unlock()
		ended := time.Now()
		for m.g.Level() != Normal {
			m.pass(interval)
			if time.Since(ended) > 10*time.Second {
				m.want(Normal, CauseNone)
			}
		}
	})
}

func TestAHeapThatWaitsForItsCollectionIsNotPressure(t *testing.T) {
	onMachine(t, Process, func(m *machine) {
		m.set(func() { m.mu.live, m.mu.garbage = 100*mib, 650*mib; m.mu.liveSeen = 100 * mib })
		m.pass(time.Minute)
		m.want(Normal, CauseNone)
	})
}

func TestGarbageIsCollectedBeforeAnythingIsShed(t *testing.T) {
	onMachine(t, Process, func(m *machine) {
		m.set(func() { m.mu.live = 700 * mib; m.mu.liveSeen = 700 * mib; m.mu.live = 100 * mib })
		if len(m.collections()) != 1 || m.collections()[0] != Evict {
			t.Fatalf("levels at own collections: %v, want one at evict", m.collections())
		}
		m.want(Normal, CauseNone)
	})
}

func TestACollectionSeparatesEvictFromShed(t *testing.T) {
	onMachine(t, Process, func(m *machine) {
		m.set(func() { m.mu.live = 500 * mib; m.runtimeCollects() })
		m.want(Evict, CauseHeap)
		m.set(func() { m.mu.other = 400 * mib }) // use is at 0.88 now, and no collection since
		m.want(Shed, CauseUse)
		if len(m.collections()) != 1 || m.collections()[0] != Evict {
			t.Fatalf("levels at own collections: %v, want one at evict", m.collections())
		}
	})
}

func TestALevelHoldsUntilItsShareHasFallenWellBelowItsMark(t *testing.T) {
	onMachine(t, Process, func(m *machine) {
		share := func(percent int64) {
			m.set(func() { m.mu.other = testLimit * percent / 100; m.runtimeCollects() })
			m.set(m.runtimeCollects)
		}
		for _, step := range []struct {
			percent int64
			level   Level
		}{{59, Normal}, {61, Evict}, {74, Evict}, {76, Shed}, {71, Shed}, {69, Evict}, {76, Shed}, {56, Evict}, {54, Normal}} {
			share(step.percent)
			if got := m.g.Level(); got != step.level {
				t.Fatalf("at %d %%: %v, want %v", step.percent, got, step.level)
			}
		}
	})
}

func TestTheGovernorCollectsEveryTwoSecondsWhileAboveNormal(t *testing.T) {
	onMachine(t, Process, func(m *machine) {
		m.set(func() { m.mu.live = 500 * mib; m.runtimeCollects() })
		m.want(Evict, CauseHeap)
		m.pass(20 * time.Second)
		if n := len(m.collections()); n < 9 || n > 10 {
			t.Errorf("%d collections of its own in 20 s, want one every 2 s", n)
		}
		if got := m.g.Reading().OwnGCs; got != uint64(len(m.collections())) {
			t.Errorf("the reading counts %d own collections of %d", got, len(m.collections()))
		}
	})
}

func TestTheGovernorCollectsSoonerWhileItSheds(t *testing.T) {
	for took, want := range map[time.Duration]int{
		time.Millisecond:       27, // every half second, and a tick
		50 * time.Millisecond:  16, // a twentieth of the time: every second, and a tick
		500 * time.Millisecond: 8,  // every two seconds, as at any level above normal
	} {
		onMachine(t, Process, func(m *machine) {
			m.set(func() { m.mu.gcTakes = took; m.mu.live = 700 * mib; m.runtimeCollects() })
			m.pass(20 * time.Second)
			if n := len(m.collections()); n < want-1 || n > want+2 {
				t.Errorf("%d collections of %v in 20 s at shed, want about %d", n, took, want)
			}
		})
	}
}

func TestAMeterErrorCountsAsEvictAndSaysSo(t *testing.T) {
	for _, scope := range []Scope{Group, Process} {
		onMachine(t, scope, func(m *machine) {
			m.set(func() { m.mu.broken = true })
			m.want(Evict, CauseMeter)
			if got := m.g.Reading().Error; !strings.Contains(got, "cannot read line") {
				t.Errorf("error %q", got)
			}
			m.pass(time.Hour)
			m.want(Evict, CauseMeter)
			if n := len(m.collections()); n != 0 {
				t.Errorf("%d collections for an error that none can mend", n)
			}
			m.set(func() { m.mu.broken = false })
			m.want(Normal, CauseNone)
			if n := strings.Count(m.logged(), "memory meter"); n != 2 {
				t.Errorf("the log has %d lines about the meter, want its failure and its return:\n%s", n, m.logged())
			}
		})
	}
}

func TestABlindGovernorHoldsShedForTenSecondsOnly(t *testing.T) {
	onMachine(t, Group, func(m *machine) {
		m.set(func() { m.mu.other = 900 * mib })
		m.want(Shed, CauseUse)
		m.set(func() { m.mu.broken = true })
		m.pass(9 * time.Second)
		m.want(Shed, CauseUse)
		m.pass(time.Second)
		m.want(Evict, CauseMeter)
	})
}

func TestSheddingForOverAMinuteIsLoggedOnceWithItsInputs(t *testing.T) {
	onMachine(t, Group, func(m *machine) {
		m.set(func() { m.mu.other = 900 * mib })
		m.pass(59 * time.Second)
		if m.logged() != "" {
			t.Errorf("logged within the minute: %s", m.logged())
		}
		m.pass(10 * time.Minute)
		m.set(func() { m.mu.other = 0 })
		got := m.logged()
		if strings.Count(got, "shedding for over a minute") != 1 || !strings.Contains(got, "cause=use") ||
			strings.Count(got, "no longer shedding") != 1 {
			t.Errorf("log:\n%s", got)
		}
	})
}

func TestACollectorThatHoldsItselfBackAboveEvictMeansShed(t *testing.T) {
	onMachine(t, Process, func(m *machine) {
		m.set(func() { m.mu.live = 500 * mib; m.runtimeCollects() })
		m.want(Evict, CauseHeap)
		m.set(func() { m.mu.limitedCycle = m.mu.cycles; m.runtimeCollects() })
		m.want(Shed, CauseLimiter)
		m.pass(limiterFor + staleGC)
		m.want(Evict, CauseHeap)
	})
}

// A nearly idle process can be held back by nothing but its own forced collections.
func TestACollectorThatHoldsItselfBackIsNoPressureByItself(t *testing.T) {
	onMachine(t, Process, func(m *machine) {
		m.set(func() { m.mu.live = 50 * mib; m.runtimeCollects(); m.mu.limitedCycle = m.mu.cycles })
		m.want(Normal, CauseNone)
	})
}

// GOMEMLIMIT keeps our garbage in bounds, but knows nothing of a neighbour in the same group.
func TestGarbageThatWouldGetTheGroupKilledIsGivenBack(t *testing.T) {
	onMachine(t, Group, func(m *machine) {
		m.set(func() { m.mu.other, m.mu.live, m.mu.garbage, m.mu.liveSeen = 250*mib, 50*mib, 690*mib, 50*mib })
		m.want(Evict, CauseBrink)
		m.pass(staleGC)
		m.want(Normal, CauseNone)
		m.set(func() {
			if m.mu.givenBack != 1 {
				t.Errorf("memory was given back %d times, want once", m.mu.givenBack)
			}
		})
	})
}

func TestChargesCountBeforeAnyMeterSeesThem(t *testing.T) {
	onMachine(t, Process, func(m *machine) {
		m.set(func() { m.mu.charges.Go = goLimit * 62 / 100 })
		m.want(Evict, CauseHeap)
		m.set(func() { m.mu.charges = Charges{Kernel: testLimit * 62 / 100} })
		m.want(Evict, CauseUse)
	})
	onMachine(t, Group, func(m *machine) { // whose meter sees the kernel's part itself
		m.set(func() { m.mu.charges = Charges{Kernel: testLimit * 62 / 100} })
		m.want(Normal, CauseNone)
	})
}

func TestAChildAndItsChildrenCountWhileWatched(t *testing.T) {
	onMachine(t, Process, func(m *machine) {
		m.set(func() {
			m.mu.children["proc/41/status"] = "RssAnon:\t409600 kB\n"
			m.mu.children["proc/41/task/41/children"] = "42 43 "
			m.mu.children["proc/42/status"] = "RssAnon:\t409600 kB\n"
			m.mu.children["proc/43/status"] = "State:\tZ (zombie)\n"
		})
		m.want(Normal, CauseNone)
		stop := m.g.Watch(41)
		m.g.Watch(44) // gone already
		m.pass(interval)
		m.want(Shed, CauseUse)
		if got := m.g.Reading().Use.Anon; got != 800*mib {
			t.Errorf("anonymous memory %d, want that of both", got)
		}
		stop()
		stop()
		m.pass(interval)
		m.want(Normal, CauseNone)
	})
}

func TestALimitLoweredWhileRunningCounts(t *testing.T) {
	onMachine(t, Group, func(m *machine) {
		m.set(func() { m.mu.other = 400 * mib })
		m.want(Normal, CauseNone)
		m.set(func() { m.mu.limit = 500 * mib })
		m.want(Shed, CauseUse)
		m.set(func() { m.mu.limit = 8 << 30 })
		m.want(Normal, CauseNone)
		if got := m.g.Reading().Limit; got != testLimit {
			t.Errorf("limit %d: a plan proved for 1 GiB must not use more", got)
		}
	})
}

func TestOptionsThatContradictEachOtherAreRefused(t *testing.T) {
	for _, o := range []Options{
		{},
		{Limit: -1},
		{Limit: 1, EvictMark: 0.8},
		{Limit: 1, EvictMark: 0.04},
		{Limit: 1, ShedMark: 1},
		{Limit: 1, EvictMark: 0.7, ShedMark: 0.7},
		{Limit: 1, Scope: 7},
	} {
		if g, err := New(o); err == nil {
			t.Errorf("%+v made %v", o, g)
		}
	}
}

func TestLevelCostsNoAllocation(t *testing.T) {
	g, err := New(Options{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { _ = g.Level() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkLevel(b *testing.B) {
	g, err := New(Options{Limit: 1})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		_ = g.Level()
	}
}

func BenchmarkStep(b *testing.B) {
	g, err := New(Options{Limit: 1 << 40})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		g.step(time.Now())
	}
}
