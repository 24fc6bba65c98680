package residency

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// tight has room for one instance and one build.
func tight(o *Options[string, *thing]) { o.Heap = 300 }

// single has room for one instance or one build.
func single(o *Options[string, *thing]) { o.Heap = 200 }

func TestAnEvictedInstanceServesItsLeaseAndIsClosedOnceAfterIt(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world) {
		old := w.have(t, "a")
		w.set(func() { w.mu.closing = 10 * time.Second })
		if !w.Evict("a") || w.Evict("a") {
			t.Error("Evict says the wrong thing")
		}
		fresh := w.have(t, "a")
		v := old.lease.Value()
		if fresh.lease.Value() == v || v.closed.Load() != 0 {
			t.Fatal("the new lease is of the old instance, or that is closed")
		}
		old.release() // closes late, beside its successor
		if s := w.Stats(); s.Closing != 1 || s.Charged != 200 {
			t.Errorf("what is being closed must stay charged: %+v", s)
		}
		advance(10 * time.Second)
		if s := w.Stats(); v.closed.Load() != 1 || s.Resident != 1 || s.Charged != 100 {
			t.Errorf("the late close took its successor with it: %+v", s)
		}
		fresh.release()
		again := w.ask("a")
		if again.err != nil || again.took != 0 || w.builds() != 2 {
			t.Error("the successor is not resident")
		}
		again.release()
	})
}

func TestOneFlushedKeyLeavesTheOthers(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world) {
		for _, key := range []string{"a1", "a2", "b1"} {
			w.have(t, key).release()
		}
		w.Evict("a1")
		if s := w.Stats(); s.Resident != 2 || s.Evicted[Asked] != 1 {
			t.Errorf("%+v", s)
		}
		for _, key := range []string{"a2", "b1"} {
			w.have(t, key).release()
		}
		if w.builds() != 3 {
			t.Error("another key was built again")
		}
	})
}

func TestAGroupIsEvictedWithItsBuildsAndNothingElse(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world) {
		for _, key := range []string{"a1", "a2", "b1"} {
			w.have(t, key).release()
		}
		building := w.ask("a3")
		if n := w.EvictGroup("a"); n != 3 {
			t.Errorf("%d were evicted", n)
		}
		if n := w.EvictGroup("none") + w.EvictGroup("a") + w.EvictGroup(""); n != 0 {
			t.Errorf("%d more", n)
		}
		advance(2 * time.Second)
		building.release()
		if s := w.Stats(); s.Resident != 1 || s.Charged != 100 {
			t.Errorf("%+v", s)
		}
		if n := w.EvictWhere(func(key string) bool { return key == "b1" || key == "c1" }); n != 1 {
			t.Errorf("%d were evicted", n)
		}
	})
}

func TestAnInstanceEvictedWhileItIsBuiltGoesOnlyToThoseWhoHadAsked(t *testing.T) {
	bubble(t, func(o *Options[string, *thing]) { o.MaxBuilds = 2 }, func(t *testing.T, w *world) {
		before := w.ask("a")
		w.Evict("a")
		after := w.ask("a")
		if now, _ := w.atOnce(); now != 1 {
			t.Error("a key is built twice at once")
		}
		advance(time.Second)
		if before.err != nil || !before.over.Load() || after.over.Load() {
			t.Fatal("the first must have the old instance, and the second wait")
		}
		advance(time.Second)
		if after.err != nil || after.lease.Value() == before.lease.Value() {
			t.Fatal("what was asked for after the eviction is what was built before")
		}
		before.release()
		after.release()
		if w.builds() != 2 || w.Stats().Resident != 1 {
			t.Errorf("%+v", w.Stats())
		}
	})
}

func TestWithAllLeasedABuildIsShedAndALeaseIsNot(t *testing.T) {
	bubble(t, tight, func(t *testing.T, w *world) {
		a, b := w.have(t, "a"), w.have(t, "b")
		w.ask("c").wantShed(t, Overloaded)
		hit := w.ask("a")
		if hit.err != nil {
			t.Error(hit.err)
		}
		hit.release()
		a.release()
		w.have(t, "c").release()
		b.release()
	})
}

func TestAKeyWhoseOwnInstanceIsInTheWayIsRotating(t *testing.T) {
	bubble(t, single, func(t *testing.T, w *world) {
		a := w.have(t, "a")
		w.Evict("a")
		w.ask("a").wantShed(t, Rotating)
		other := w.ask("b") // waits for the drain, and holds no slot
		if s := w.Stats(); s.Building != 0 || s.Queued != 1 || s.Draining != 1 {
			t.Fatalf("%+v", s)
		}
		a.release()
		advance(time.Second)
		if other.err != nil {
			t.Fatal(other.err)
		}
		other.release()
		w.have(t, "a").release()
	})
}

func TestABuildThatNeedsADrainEvictsOnlyWhenItHasEnded(t *testing.T) {
	bubble(t, func(o *Options[string, *thing]) { o.Heap = 400 }, func(t *testing.T, w *world) {
		a := w.have(t, "a")
		w.have(t, "b").release()
		w.Evict("a")
		w.set(func() { w.mu.size, w.mu.takes = 100, time.Second })
		w.Cache.mu.Lock()
		w.Cache.mu.sizes[0], w.Cache.mu.peak = 300, 300 // as if a had been larger
		w.Cache.mu.Unlock()
		c := w.ask("c")
		if s := w.Stats(); s.Resident != 1 || s.Queued != 1 {
			t.Fatalf("%+v", s)
		}
		a.release()
		advance(time.Second)
		if c.err != nil {
			t.Fatal(c.err)
		}
		c.release()
	})
}

func TestALeaseGivenBackIsRoomForABuildThatWaitsForADrain(t *testing.T) {
	bubble(t, tight, func(t *testing.T, w *world) {
		a, b := w.have(t, "a"), w.have(t, "b")
		w.Evict("a")
		c := w.ask("c")
		b.release()
		advance(time.Second)
		if !c.over.Load() || c.err != nil {
			t.Fatal("it still waits for the drain")
		}
		c.release()
		a.release()
	})
}

func TestADrainIsBounded(t *testing.T) {
	bubble(t, single, func(t *testing.T, w *world) {
		a := w.have(t, "a")
		v := a.lease.Value()
		w.Evict("a")
		advance(time.Minute)
		if v.closed.Load() != 1 || w.Stats().DrainTimeouts != 1 || w.Stats().Charged != 0 {
			t.Errorf("%+v", w.Stats())
		}
		b := w.have(t, "b")
		a.release() // late, and harmless
		b.release()
	})
}

func TestADrainThatEndsLeavesNoTimer(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world) {
		a := w.have(t, "a")
		e := a.lease.from.(*entry[string, *thing])
		pins := func() (drain, value bool) {
			w.Cache.mu.Lock()
			defer w.Cache.mu.Unlock()
			return e.drain != nil, e.value != nil
		}
		w.Evict("a")
		if drain, _ := pins(); !drain {
			t.Fatal("the drain has no bound")
		}
		a.release()
		if drain, value := pins(); drain || value {
			t.Error("a closed instance is pinned")
		}
	})
}

func TestShrinkTakesTheOldestIdleAndNoMore(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world) {
		a := w.have(t, "a")
		w.have(t, "b").release()
		w.have(t, "c").release()
		if n := w.Shrink(1); n != 100 {
			t.Errorf("%d bytes", n)
		}
		if n := w.Shrink(1 << 40); n != 100 || w.Stats().Resident != 1 {
			t.Errorf("%d bytes, %+v", n, w.Stats())
		}
		if w.Shrink(1) != 0 {
			t.Error("a leased instance was taken")
		}
		a.release()
	})
}

func TestIdleOnesExpireWithoutATimer(t *testing.T) {
	bubble(t, func(o *Options[string, *thing]) { o.IdleTTL = time.Minute }, func(t *testing.T, w *world) {
		w.have(t, "a").release()
		kept := w.have(t, "b")
		advance(time.Hour)
		if n := w.Shrink(0); n != 100 {
			t.Errorf("%d bytes expired", n)
		}
		kept.release()
		advance(59 * time.Second)
		if w.Shrink(0) != 0 {
			t.Error("it had been idle for less than IdleTTL")
		}
		w.have(t, "c").release()
		advance(time.Second)
		w.have(t, "c").release()
		if s := w.Stats(); s.Evicted[Idle] != 2 || s.Resident != 1 {
			t.Errorf("%+v", s)
		}
	})
}

func TestKeysThatComeAndGoLeaveNothing(t *testing.T) {
	bubble(t, tight, func(t *testing.T, w *world) {
		w.set(func() { w.mu.takes = 0 })
		for i := range 2000 {
			key := string(rune('a'+i%26)) + string(rune(i))
			w.have(t, key).release()
			w.Evict(key)
			synctest.Wait()
		}
		if s := w.Stats(); s.Resident != 0 || s.Charged != 0 || s.Evicted[Asked] != 2000 {
			t.Errorf("%+v", s)
		}
	})
}

func TestCloseShedsWaitersEndsBuildsAndWaitsForLeases(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world) {
		a := w.have(t, "a")
		w.set(func() { w.mu.takes = time.Hour })
		building, queued := w.ask("b"), w.ask("c")
		late, gone := errors.New("no time left"), make(chan error, 1)
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, late)
		defer cancel()
		if err := w.Close(ctx); !errors.Is(err, late) {
			t.Error(err)
		}
		building.wantShed(t, Closed)
		queued.wantShed(t, Closed)
		w.ask("a").wantShed(t, Closed)
		go func() { gone <- w.Close(context.Background()) }()
		advance(time.Second)
		if a.lease.Value().closed.Load() != 0 {
			t.Error("closed under a lease")
		}
		a.release()
		if err := <-gone; err != nil {
			t.Error(err)
		}
	})
}
