package residency

import (
	"testing"
	"time"
)

func TestAnInstanceLargerThanTheBudgetIsShedByName(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world) {
		w.set(func() { w.mu.size = 401 })
		c := w.ask("huge")
		advance(time.Second)
		if shed := c.wantShed(t, TooLarge); shed.Key != "huge" || shed.Budget != 400 {
			t.Errorf("%v", shed)
		}
		w.ask("huge").wantShed(t, TooLarge)
		w.set(func() { w.mu.size = 100 })
		w.have(t, "small").release()
		if s := w.Stats(); s.Begun != 2 || s.Charged != 100 || s.BuildPeak != 100 {
			t.Errorf("%+v", s)
		}
	})
}

func TestAnInstanceLargerThanItsReservationPushesIdleOnesOut(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world) {
		w.have(t, "a").release()
		w.have(t, "b").release()
		w.set(func() { w.mu.size = 300 })
		large := w.have(t, "c")
		if s := w.Stats(); s.Charged != 400 || s.Resident != 2 || s.BuildPeak != 300 {
			t.Errorf("%+v", s)
		}
		large.release()
		w.set(func() { w.mu.size, w.mu.takes = 10, 0 })
		for range 64 {
			w.have(t, "d").release()
			w.Evict("d")
		}
		if peak := w.Stats().BuildPeak; peak != 100 {
			t.Errorf("one large instance keeps %d bytes free for ever", peak)
		}
	})
}

func TestCapacityIsWhatTheFormulaSays(t *testing.T) {
	for _, c := range []struct {
		heap, base, peak, instance int64
		maxCount, want             int
	}{
		{1000, 200, 100, 100, 0, 8},  // min(8, 7+1)
		{1000, 200, 400, 100, 0, 5},  // min(8, 4+1)
		{1000, 200, 400, 100, 3, 3},  // the operator's maximum
		{1000, 200, 800, 2000, 0, 1}, // never below one
	} {
		w := newWorld(t, func(o *Options[string, *thing]) {
			o.Heap, o.Base, o.BuildPeak, o.Instance, o.MaxInstances = c.heap, c.base, c.peak, c.instance, c.maxCount
		})
		if got := w.Stats().Capacity; got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

func TestUntilOneIsMeasuredNoMoreThanTheCapacityIsBuilt(t *testing.T) {
	bubble(t, func(o *Options[string, *thing]) { o.MaxBuilds, o.Instance = 4, 200 }, func(t *testing.T, w *world) {
		var calls []*call
		for _, key := range []string{"a", "b", "c", "d"} {
			calls = append(calls, w.ask(key))
		}
		if s := w.Stats(); s.Building != 2 || s.Capacity != 2 {
			t.Fatalf("%+v", s)
		}
		advance(2 * time.Second)
		for _, c := range calls {
			if c.err != nil {
				t.Fatal(c.err)
			}
			c.release()
		}
	})
}

func TestTheMaximumByNumberIsKept(t *testing.T) {
	bubble(t, func(o *Options[string, *thing]) { o.MaxInstances = 2 }, func(t *testing.T, w *world) {
		a, b := w.have(t, "a"), w.have(t, "b")
		w.ask("c").wantShed(t, Overloaded)
		a.release()
		c := w.have(t, "c")
		if s := w.Stats(); s.Resident != 2 || s.Evicted[Room] != 1 {
			t.Errorf("%+v", s)
		}
		b.release()
		c.release()
	})
}

func TestPressureShedsBuildsAndLeasesWhatThereIs(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world) {
		w.have(t, "a").release()
		building, queued := w.ask("b"), w.ask("c")
		w.level.Store(int64(LevelShed))
		w.ask("d").wantShed(t, Pressure)
		hit := w.ask("a")
		if hit.err != nil {
			t.Error(hit.err)
		}
		hit.release()
		advance(time.Second)
		queued.wantShed(t, Pressure) // looked at again when its turn came
		if building.err != nil {
			t.Error("a build that runs is not revoked:", building.err)
		}
		building.release()
	})
}

func TestUnderPressureBuildsAreSpaced(t *testing.T) {
	bubble(t, func(o *Options[string, *thing]) { o.MaxBuilds = 4 }, func(t *testing.T, w *world) {
		w.level.Store(int64(LevelEvict))
		a, b := w.ask("a"), w.ask("b")
		advance(1999 * time.Millisecond)
		if !a.over.Load() || w.Stats().Begun != 1 {
			t.Fatalf("%+v", w.Stats())
		}
		advance(time.Millisecond)
		if w.Stats().Begun != 2 {
			t.Fatal("the pause has no end")
		}
		advance(time.Second)
		a.release()
		b.release()
	})
}

// Two keys take turns where only one fits: each request costs at most its own build, and none waits for a second.
func TestAtCapacityOneNoRequestCostsTwoBuilds(t *testing.T) {
	bubble(t, single, func(t *testing.T, w *world) {
		for range 50 {
			a, b := w.ask("a"), w.ask("b")
			again := w.ask("a")
			advance(time.Second)
			if a.err != nil || again.err != nil {
				t.Fatal(a.err, again.err)
			}
			b.wantShed(t, Overloaded) // its turn came while a was leased
			a.release()
			again.release()
			w.have(t, "b").release()
		}
		if s := w.Stats(); s.Built != 100 || s.Evicted[Room] != 99 {
			t.Errorf("%+v", s)
		}
	})
}
