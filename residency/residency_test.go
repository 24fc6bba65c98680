package residency

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"weak"
)

// bubble runs test in virtual time, in a world that must end empty.
func bubble(t *testing.T, edit func(*Options[string, *thing]), test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, edit)
		test(t, w)
		w.end(t)
	})
}

func TestAThousandCallersOfAColdKeyShareOneBuild(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world) {
		var calls []*call
		for range 1000 {
			calls = append(calls, w.ask("a"))
		}
		w.ask("a").wantShed(t, Overloaded) // the queue is full
		advance(time.Second)
		for _, c := range calls {
			if c.err != nil || c.lease.Value() != calls[0].lease.Value() {
				t.Fatal(c.err)
			}
		}
		if s := w.Stats(); w.builds() != 1 || s.Leased != 1 || s.Waited != 1000 {
			t.Errorf("%d builds, %+v", w.builds(), s)
		}
		for _, c := range calls {
			c.lease.Release()
			c.lease.Release() // harmless
		}
		if all := w.Instances(); len(all) != 1 || all[0].Leases != 0 || all[0].Took != time.Second || all[0].Bytes != 100 {
			t.Errorf("%+v", all)
		}
		if calls[0].lease.Value() != nil {
			t.Error("a released lease pins its instance")
		}
	})
}

func TestTwentyColdKeysAreBuiltOneByOne(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world) {
		var calls []*call
		for i := range 20 {
			calls = append(calls, w.ask(string(rune('a'+i))))
		}
		for i, c := range calls {
			advance(time.Second)
			if !c.over.Load() || c.err != nil {
				t.Fatalf("the key that came as number %d: %v", i, c.err)
			}
			c.release()
		}
		if _, most := w.atOnce(); most != 1 || w.builds() != 20 || w.Stats().Resident != 4 {
			t.Errorf("%d builds at once, %d in all, %+v", most, w.builds(), w.Stats())
		}
	})
}

func TestTheLeastRecentlyUsedIsClosedBeforeTheBuildBegins(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world) {
		for _, key := range []string{"a", "b", "c", "d"} {
			w.have(t, key).release()
		}
		w.have(t, "a").release()
		w.set(func() { w.mu.closing = time.Second })
		e := w.ask("e")
		if s := w.Stats(); s.Closing != 1 || s.Building != 0 || s.Queued != 1 || s.Charged != 400 {
			t.Fatalf("a build beside what is not yet closed: %+v", s)
		}
		advance(time.Second)
		if s := w.Stats(); s.Building != 1 || s.Charged != 400 {
			t.Fatalf("%+v", s)
		}
		advance(time.Second)
		e.release()
		if w.nth(1).closed.Load() != 1 || w.Stats().Evicted[Room] != 1 {
			t.Error("b was not the victim")
		}
	})
}

func TestALeavingWaiterCancelsNothing(t *testing.T) {
	bubble(t, func(o *Options[string, *thing]) { o.WaitTimeout = 500 * time.Millisecond }, func(t *testing.T, w *world) {
		cause := errors.New("hung up")
		left, late := w.ask("a"), w.ask("a")
		left.cancel(cause)
		synctest.Wait()
		if !errors.Is(left.err, cause) || errors.Is(left.err, ErrShed) {
			t.Errorf("the caller's own cancellation is %v", left.err)
		}
		advance(500 * time.Millisecond)
		if shed := late.wantShed(t, BuildTimeout); shed.Waited != 500*time.Millisecond {
			t.Errorf("waited %v", shed.Waited)
		}
		advance(500 * time.Millisecond)
		hit := w.ask("a")
		if hit.err != nil || hit.took != 0 || w.builds() != 1 {
			t.Errorf("the build did not fill the cache: %v", hit.err)
		}
		hit.release()
	})
}

func TestAQueuedBuildGoesOnWhenItsWaitersHaveLeft(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world) {
		a, b := w.ask("a"), w.ask("b")
		b.cancel(nil)
		advance(2 * time.Second)
		a.release()
		if w.Stats().Resident != 2 {
			t.Error("b was not built")
		}
	})
}

func TestALeaseThatRacesWithItsCancelIsGivenBack(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world) {
		a := w.ask("a")
		time.Sleep(time.Second - 1)
		w.Cache.mu.Lock() // the build lands, and the caller leaves, before either is seen
		f := w.Cache.mu.flights["a"]
		w.Cache.mu.Unlock()
		go func() { <-f.ready; a.cancel(nil) }()
		advance(1)
		if a.err == nil {
			a.release()
		}
		if s := w.Stats(); s.Leased != 0 || s.Resident != 1 {
			t.Errorf("%+v", s)
		}
	})
}

func TestAFailureIsAnsweredWithoutASlotForLongerEachTime(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world) {
		broken := errors.New("no such schema")
		w.set(func() { w.mu.fails, w.mu.takes = broken, 0 })
		for _, backoff := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
			before := w.Stats().Begun
			for range 3 {
				if c := w.ask("a"); !errors.Is(c.err, broken) || c.took != 0 {
					t.Fatal(c.err)
				}
			}
			advance(backoff*time.Second - 1)
			w.ask("a")
			if n := w.Stats().Begun - before; n != 1 {
				t.Fatalf("%d builds in a backoff of %ds", n, backoff)
			}
			advance(1)
		}
		w.ask("a")
		w.set(func() { w.mu.fails = nil })
		w.Evict("a") // forgets it
		w.have(t, "a").release()
		if n := w.remembered(); n != 0 {
			t.Error("a success leaves the failure")
		}
	})
}

func TestATransientFailureIsForThoseWhoWaitAlone(t *testing.T) {
	away := errors.New("away")
	transient := func(o *Options[string, *thing]) {
		o.Transient = func(err error) bool { return errors.Is(err, away) }
	}
	bubble(t, transient, func(t *testing.T, w *world) {
		w.set(func() { w.mu.fails = away })
		for range 5 {
			c := w.ask("a")
			advance(time.Second)
			if !c.over.Load() || !errors.Is(c.err, away) {
				t.Fatalf("%v", c.err)
			}
		}
		if s := w.Stats(); s.Begun != 5 || w.remembered() != 0 {
			t.Errorf("remembered %d: %+v", w.remembered(), s)
		}
		w.set(func() { w.mu.fails = nil })
		w.have(t, "a").release()
	})
}

func TestFailuresOfEndlessKeysAreForgotten(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world) {
		w.set(func() { w.mu.fails, w.mu.takes = errors.New("unknown"), 0 })
		for i := range 3 * maxFailures {
			w.ask(fmt.Sprint("k", i))
		}
		if n := w.remembered(); n > maxFailures {
			t.Errorf("%d are remembered", n)
		}
	})
}

func TestBuildMaxEndsABuildAndItsSlot(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		t.Run(fmt.Sprintf("ignored=%v", deaf), func(t *testing.T) {
			bubble(t, func(o *Options[string, *thing]) { o.BuildMax = 5 * time.Second }, func(t *testing.T, w *world) {
				w.set(func() { w.mu.takes, w.mu.deaf = time.Minute, deaf })
				a, b := w.ask("a"), w.ask("b")
				w.set(func() { w.mu.takes = time.Second })
				advance(5 * time.Second)
				a.wantShed(t, BuildTimeout)
				w.ask("a").wantShed(t, BuildTimeout) // backed off
				advance(time.Second)
				if b.err != nil {
					t.Fatal(b.err)
				}
				b.release()
				advance(time.Second)
				want := int64(0)
				if deaf { // the backoff is over, but never two at once
					want = 100
					w.ask("a").wantShed(t, BuildTimeout)
					w.Evict("a")
					w.ask("a").wantShed(t, BuildTimeout)
				}
				if s := w.Stats(); s.BuildBytes != want {
					t.Errorf("%d bytes are charged for builds, want %d", s.BuildBytes, want)
				}
				advance(time.Minute)
				if s := w.Stats(); s.Charged != 100 || s.Resident != 1 {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

func TestAPanicOrAnExitOfACallbackFreesTheSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := Options[string, int]{Name: "test", Heap: 10, BuildPeak: 1}
		o.Build = func(_ context.Context, key string) (int, error) {
			switch key {
			case "panic":
				panic("in Build")
			case "exit":
				runtime.Goexit()
			}
			return len(key), nil
		}
		o.Size = func(n int) int64 {
			if n == len("sizeless") {
				panic("in Size")
			}
			return 1
		}
		o.Close = func(string, int) { panic("in Close") }
		c, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		for key, want := range map[string]string{"panic": "in Build", "exit": "ended its goroutine", "sizeless": "in Size"} {
			if _, err := c.Lease(t.Context(), key); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", key, err)
			}
		}
		l, err := c.Lease(t.Context(), "good")
		if err != nil {
			t.Fatal(err)
		}
		l.Release()
		if err := c.Close(t.Context()); err != nil || c.Stats().Charged != 0 || c.Stats().ClosePanics != 2 {
			t.Errorf("%v, %+v", err, c.Stats())
		}
	})
}

func TestWrongOptionsAreNamed(t *testing.T) {
	_, err := New(Options[string, int]{Heap: 10, Base: 5, BuildPeak: 6, MaxBuilds: -1, WaitTimeout: -1})
	for _, field := range []string{"Name", "Build is nil", "Close", "Size", "BuildPeak 6", "MaxBuilds", "WaitTimeout"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%q is not in %v", field, err)
		}
	}
}

func TestACallerThatHasAlreadyLeftGetsItsCause(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world) {
		w.have(t, "a").release()
		cause := errors.New("left before")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		if l, err := w.Lease(ctx, "a"); !errors.Is(err, cause) || l != nil {
			t.Error(err)
		}
		var none *Lease[*thing]
		none.Release()
	})
}

func TestAShedSaysWhichCacheAndKey(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world) {
		w.level.Store(int64(LevelShed))
		text := w.ask("tenant-7").wantShed(t, Pressure).Error()
		for _, want := range []string{w.Name(), "tenant-7", "pressure", "400"} {
			if !strings.Contains(text, want) {
				t.Errorf("%q is not in %q", want, text)
			}
		}
	})
}

// Handles that are kept, waiters that gave up and timers that were stopped must not keep an instance in memory.
func TestNothingPinsAClosedInstance(t *testing.T) {
	c, err := New(Options[int, *[1 << 20]byte]{
		Name: "test", Heap: 1 << 30, BuildPeak: 1 << 20,
		Build: func(context.Context, int) (*[1 << 20]byte, error) { return new([1 << 20]byte), nil },
		Size:  func(*[1 << 20]byte) int64 { return 1 << 20 },
		Close: func(int, *[1 << 20]byte) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	var kept []*Lease[*[1 << 20]byte]
	var instances []weak.Pointer[[1 << 20]byte]
	for key := range 8 {
		l, err := c.Lease(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		instances = append(instances, weak.Make(l.Value()))
		c.Evict(key)
		l.Release()
		kept = append(kept, l)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	for key, at := range instances {
		if at.Value() != nil {
			t.Errorf("the instance of %d is pinned", key)
		}
	}
	runtime.KeepAlive(kept)
}
