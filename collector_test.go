package levee

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
)

func TestASmallHeapHasRoomForGarbageAndALargeOneForHalfOfItself(t *testing.T) {
	for _, c := range []struct {
		base, floor int64
		want        int
	}{
		{0, 12 * mib, 50},
		{1 * mib, 12 * mib, 400},
		{4 * mib, 12 * mib, 300},
		{12 * mib, 12 * mib, 100},
		{24 * mib, 12 * mib, 50},
		{4096 * mib, 12 * mib, 50},
		{4 * mib, 0, 50},
		{4 * mib, -mib, 50},
	} {
		if got := gcPercent(c.base, c.floor); got != c.want {
			t.Errorf("%d bytes, floor %d: GOGC %d, want %d", c.base, c.floor, got, c.want)
		}
	}
}

func TestGOGCStaysIfLittleWouldChangeButReturnsToItsDefault(t *testing.T) {
	for _, c := range []struct {
		now, want int
		set       bool
	}{
		{300, 310, false},
		{300, 290, false},
		{300, 200, true},
		{50, 50, false},
		{50, 55, false},
		{55, 50, true},
		{400, 50, true},
	} {
		if got := worthSetting(c.now, c.want); got != c.set {
			t.Errorf("from %d to %d: %v", c.now, c.want, got)
		}
	}
}

func TestTheCollectorIsPacedWhileTheKernelRuns(t *testing.T) {
	keepCollector(t)
	k := newKernel(t, Options{MemoryLimit: 512 * mib, FS: container("max", 0)})
	if err := k.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- k.Run(ctx) }()
	collectUntil(t, "a small heap has its room", func(percent int) bool { return percent > 100 })
	big := make([]byte, 64*mib)
	collectUntil(t, "a large one has half of itself", func(percent int) bool { return percent == defaultGCPercent })
	runtime.KeepAlive(big)
	collectUntil(t, "it is small again", func(percent int) bool { return percent > 100 })
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got := debug.SetGCPercent(100); got != defaultGCPercent {
		t.Errorf("GOGC %d after the end", got)
	}
}

func TestAGOGCOfTheOperatorsStays(t *testing.T) {
	keepCollector(t)
	t.Setenv("GOGC", "70")
	debug.SetGCPercent(70)
	k := newKernel(t, Options{MemoryLimit: 512 * mib, FS: container("max", 0)})
	if err := k.Start(); err != nil {
		t.Fatal(err)
	}
	if k.paced() {
		t.Error("it is paced in spite of GOGC in the environment")
	}
	if got := debug.SetGCPercent(100); got != 70 {
		t.Errorf("GOGC %d, want 70", got)
	}
	if newKernel(t, Options{MemoryLimit: 512 * mib, FS: container("max", 0), GCPercent: 80}).paced() {
		t.Error("it is paced in spite of Options.GCPercent")
	}
}

// collectUntil collects until GOGC is as it should be. The pacer hears of a collection a moment after it.
func collectUntil(t *testing.T, what string, ok func(percent int) bool) {
	t.Helper()
	now := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	for range 10_000 {
		runtime.GC()
		if metrics.Read(now); ok(int(now[0].Value.Uint64())) {
			return
		}
		runtime.Gosched()
	}
	t.Fatalf("%s: GOGC stays at %d", what, now[0].Value.Uint64())
}
