package residency

import (
	"errors"
	"testing"
	"time"
)

func TestARefreshedInstanceServesUntilItsSuccessorIsThere(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world) {
		held := w.have(t, "a")
		r := w.refresh("a") // takes a second
		hit := w.ask("a")
		if r.over.Load() || hit.err != nil || hit.took != 0 || hit.lease.Value() != held.lease.Value() {
			t.Fatal("the old instance does not serve while the new one is built")
		}
		advance(time.Second)
		if !r.over.Load() || r.err != nil {
			t.Fatalf("refresh has not ended well: %v", r.err)
		}
		fresh := w.ask("a")
		old := held.lease.Value()
		if fresh.took != 0 || fresh.lease.Value() == old || old.closed.Load() != 0 {
			t.Fatal("the new instance has not taken the place, or the old one was closed under its leases")
		}
		held.release()
		hit.release()
		if s := w.Stats(); old.closed.Load() != 1 || s.Evicted[Renewed] != 1 || s.Resident != 1 || s.Charged != 100 {
			t.Errorf("closed %d times: %+v", old.closed.Load(), s)
		}
		fresh.release()
	})
}

func TestARefreshThatFailsLeavesTheInstanceInPlace(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world) {
		w.have(t, "a").release()
		broken := errors.New("broken")
		w.set(func() { w.mu.fails = broken })
		r := w.refresh("a")
		advance(time.Second)
		if !errors.Is(r.err, broken) {
			t.Fatalf("error %v", r.err)
		}
		if again := w.refresh("a"); !again.over.Load() || !errors.Is(again.err, broken) || w.builds() != 1 {
			t.Error("a failure is not remembered")
		}
		hit := w.ask("a")
		if hit.err != nil || hit.took != 0 {
			t.Errorf("the instance does not serve any more: %v", hit.err)
		}
		hit.release()
	})
}

func TestAnEvictionDuringARefreshIsOfBoth(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world) {
		w.have(t, "a").release()
		r := w.refresh("a")
		w.Evict("a")
		next := w.ask("a")
		advance(time.Second)
		if r.err != nil || next.over.Load() {
			t.Fatal("who asked after the eviction has what began before it")
		}
		advance(time.Second)
		if next.err != nil || next.lease.Value() != w.nth(2) {
			t.Fatalf("not the third instance: %v", next.err)
		}
		next.release()
		if s := w.Stats(); s.Resident != 1 || s.Charged != 100 {
			t.Errorf("%+v", s)
		}
	})
}

func TestWithoutRoomForBothARefreshTakesItsOwnIdleInstance(t *testing.T) {
	bubble(t, single, func(t *testing.T, w *world) {
		held := w.have(t, "a")
		w.refresh("a").wantShed(t, Overloaded)
		held.release()
		r := w.refresh("a")
		waiting := w.ask("a")
		advance(time.Second)
		if r.err != nil || waiting.err != nil || w.builds() != 2 {
			t.Fatalf("%v, %v, %d builds", r.err, waiting.err, w.builds())
		}
		waiting.release()
	})
}

func TestAtTheMaximumByNumberARefreshEvictsNobody(t *testing.T) {
	bubble(t, func(o *Options[string, *thing]) { o.MaxInstances = 2 }, func(t *testing.T, w *world) {
		a, b := w.have(t, "a"), w.have(t, "b")
		r := w.refresh("a")
		advance(time.Second)
		if s := w.Stats(); r.err != nil || s.Evicted[Room] != 0 || s.Resident != 2 {
			t.Fatalf("%v: %+v", r.err, s)
		}
		a.release()
		b.release()
	})
}

func TestAKeyWithoutAnInstanceIsNotRefreshed(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world) {
		if r := w.refresh("a"); !r.over.Load() || r.err != nil || w.builds() != 0 {
			t.Fatalf("%v, %d builds", r.err, w.builds())
		}
	})
}
