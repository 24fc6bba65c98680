package gate

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestAWaiterThatCancelsWakesTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := mustNew(t, Options{Limit: 4, Queue: 10, Wait: time.Minute})
		holder := admit(g, "k", 3)
		large := admit(g, "k", 4)
		small := admit(g, "k", 1)
		if large.done() || small.done() {
			t.Fatal("admitted out of order or without room")
		}
		large.cancel(nil)
		synctest.Wait()
		if !small.admitted() {
			t.Fatal("the waiter behind the one that left still waits, with room for it")
		}
		small.release()
		holder.release()
		wantEmpty(t, g)
	})
}

func TestCancellationReturnsTheCallersOwnCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := mustNew(t, Options{Limit: 1, Queue: 1, Wait: time.Minute})
		holder := admit(g, "k", 1)
		waiter := admit(g, "k", 1)
		cause := errors.New("the client hung up")
		waiter.cancel(cause)
		synctest.Wait()
		if waiter.err != cause || errors.Is(waiter.err, ErrShed) {
			t.Errorf("got %v, want the cause of the cancellation and not a shed", waiter.err)
		}
		holder.release()
		if s := g.Stats(); s.Canceled != 1 || s.Admitted != 1 {
			t.Errorf("%d canceled and %d admitted, want 1 and 1", s.Canceled, s.Admitted)
		}
		wantEmpty(t, g)
	})
}

func TestAContextThatIsDoneFailsAtOnceEvenWithRoom(t *testing.T) {
	g := mustNew(t, Options{Limit: 1})
	cause := errors.New("too late")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	if p, err := g.Admit(ctx, "k", 1); p != nil || err != cause {
		t.Errorf("got %v, %v; want no permit and the cause", p, err)
	}
	if s := g.Stats(); s.Canceled != 1 || s.Admitted != 0 {
		t.Errorf("%d canceled and %d admitted, want 1 and 0", s.Canceled, s.Admitted)
	}
	wantEmpty(t, g)
}

func TestWaitingTooLongIsAShedAndNotACancellation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := mustNew(t, Options{Name: "write", Limit: 8, Queue: 5, Wait: 7 * time.Second})
		holder := admit(g, "a", 6)
		late := admit(g, "b", 3)
		advance(7*time.Second - 1)
		if late.done() {
			t.Fatal("shed before its time")
		}
		advance(1)
		var s *Shed
		if !errors.As(late.err, &s) || !errors.Is(late.err, ErrShed) {
			t.Fatalf("got %v, want a *Shed", late.err)
		}
		if errors.Is(late.err, context.DeadlineExceeded) || errors.Is(late.err, context.Canceled) {
			t.Error("our time-out looks like the caller's own")
		}
		want := Shed{Gate: "write", Reason: Timeout, Key: "b", Cost: 3, InUse: 6, Limit: 8, Waited: 7 * time.Second, RetryAfter: s.RetryAfter}
		if *s != want {
			t.Errorf("got  %+v\nwant %+v", *s, want)
		}
		for _, word := range []string{"write", "timeout", `"b"`, "6 of 8", "7s"} {
			if !strings.Contains(s.Error(), word) {
				t.Errorf("%q does not name %s", s.Error(), word)
			}
		}
		holder.release()
		wantEmpty(t, g)
	})
}

func TestEveryReasonToShed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pressed := false
		g := mustNew(t, Options{Limit: 2, MaxCost: 3, Queue: 2, QueuePerKey: 1, Wait: time.Second, Pressure: func() bool { return pressed }})
		holder := admit(g, "a", 2)
		first := admit(g, "a", 1)
		wantShed := func(want Reason, err error) {
			t.Helper()
			var s *Shed
			if !errors.As(err, &s) || s.Reason != want {
				t.Errorf("got %v, want a shed with reason %s", err, want)
			}
		}
		try := func(cost int64) error { _, err := g.TryAdmit("a", cost); return err }
		wantShed(KeyQueueFull, admit(g, "a", 1).err)
		second := admit(g, "b", 1)
		wantShed(QueueFull, admit(g, "c", 1).err)
		wantShed(Busy, try(1))
		wantShed(TooLarge, try(4))
		wantShed(TooLarge, admit(g, "d", 4).err)
		pressed = true
		wantShed(Pressure, admit(g, "d", 1).err)
		wantShed(Pressure, try(1))
		holder.release()
		if !first.admitted() || !second.admitted() {
			t.Error("pressure kept waiters from their grant")
		}
		pressed = false
		third := admit(g, "c", 1)
		advance(time.Second)
		wantShed(Timeout, third.err)
		g.Close()
		wantShed(Closed, admit(g, "c", 1).err)
		first.release()
		second.release()
		s := g.Stats()
		want := map[Reason]uint64{KeyQueueFull: 1, QueueFull: 1, Busy: 1, TooLarge: 2, Pressure: 2, Timeout: 1, Closed: 1}
		for _, r := range Reasons() {
			if s.Shed[r] != want[r] {
				t.Errorf("%d shed as %s, want %d", s.Shed[r], r, want[r])
			}
		}
		wantEmpty(t, g)
	})
}

func TestAGateWithoutAQueueShedsAtOnce(t *testing.T) {
	g := mustNew(t, Options{Limit: 1})
	p, err := g.Admit(t.Context(), "k", 1)
	if err != nil {
		t.Fatal(err)
	}
	var s *Shed
	if _, err := g.Admit(t.Context(), "k", 1); !errors.As(err, &s) || s.Reason != Busy {
		t.Errorf("got %v, want it shed as busy", err)
	}
	p.Release()
	wantEmpty(t, g)
}

func TestTryAdmitDoesNotOvertake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := mustNew(t, Options{Limit: 4, Queue: 4, Wait: time.Minute})
		holder := admit(g, "a", 3)
		waiter := admit(g, "a", 2)
		if _, err := g.TryAdmit("b", 1); err == nil {
			t.Error("it took the room that a waiter gathers")
		}
		waiter.cancel(nil)
		synctest.Wait()
		p, err := g.TryAdmit("b", 1)
		if err != nil {
			t.Errorf("nobody waits and there is room: %v", err)
		}
		p.Release()
		holder.release()
		wantEmpty(t, g)
	})
}

func TestReleaseTwiceGivesBackOnce(t *testing.T) {
	g := mustNew(t, Options{Limit: 2})
	a, _ := g.TryAdmit("k", 1)
	b, _ := g.TryAdmit("k", 1)
	a.Release()
	a.Release()
	if s := g.Stats(); s.InUse != 1 || s.Held != 1 {
		t.Errorf("%d in use by %d permits, want 1 by 1", s.InUse, s.Held)
	}
	b.Release()
	var none *Permit
	none.Release()
	new(Permit).Release()
	if none.Cost() != 0 || none.Waited() != 0 {
		t.Error("a nil permit has a cost or a wait")
	}
	wantEmpty(t, g)
}

func TestACostBelowOneCountsAsOne(t *testing.T) {
	g := mustNew(t, Options{Limit: 2})
	for _, cost := range []int64{0, -1 << 62} {
		p, err := g.TryAdmit("k", cost)
		if err != nil || p.Cost() != 1 {
			t.Fatalf("cost %d: got a permit of %d, %v", cost, p.Cost(), err)
		}
		defer p.Release()
	}
	if s := g.Stats(); s.InUse != 2 {
		t.Errorf("%d in use, want 2", s.InUse)
	}
}

func TestALimitBelowWhatIsInUseTakesNothingBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := mustNew(t, Options{Limit: 4, Queue: 4, Wait: time.Minute})
		a, b := admit(g, "a", 2), admit(g, "b", 2)
		c, d := admit(g, "c", 1), admit(g, "c", 3)
		g.SetLimit(1)
		if s := g.Stats(); s.InUse != 4 || s.Limit != 1 {
			t.Fatalf("%d in use under a limit of %d, want 4 under 1", s.InUse, s.Limit)
		}
		a.release()
		if c.done() {
			t.Fatal("granted above the limit")
		}
		b.release()
		if !c.admitted() || d.done() {
			t.Fatal("the new limit has room for one")
		}
		c.release()
		if !d.admitted() {
			t.Error("a waiter that is now above the limit must be served alone")
		}
		g.SetLimit(-5)
		if g.Stats().Limit != 1 {
			t.Error("a limit below 1 must count as 1")
		}
		g.SetLimit(5)
		e := admit(g, "e", 2)
		if !e.admitted() {
			t.Error("the raised limit has room")
		}
		d.release()
		e.release()
		wantEmpty(t, g)
	})
}

func TestRaisingTheLimitWakesWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := mustNew(t, Options{Limit: 1, Queue: 4, Wait: time.Minute})
		a, b, c := admit(g, "a", 1), admit(g, "b", 1), admit(g, "c", 1)
		g.SetLimit(3)
		synctest.Wait()
		if !b.admitted() || !c.admitted() {
			t.Error("there is room and they wait")
		}
		a.release()
		b.release()
		c.release()
		wantEmpty(t, g)
	})
}

func TestCloseShedsWaitersAndKeepsPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := mustNew(t, Options{Limit: 4, PerKey: 3, Queue: 9, Wait: time.Minute})
		a, b := admit(g, "a", 3), admit(g, "b", 1)
		waiters := []*call{admit(g, "a", 1), admit(g, "a", 1), admit(g, "b", 1), admit(g, "c", 3), admit(g, "c", 1)}
		advance(time.Second)
		g.Close()
		g.Close()
		synctest.Wait()
		for _, w := range waiters {
			var s *Shed
			if !errors.As(w.err, &s) || s.Reason != Closed || s.Waited != time.Second {
				t.Errorf("got %v, want it shed as closed after 1s", w.err)
			}
		}
		if s := g.Stats(); s.Held != 2 || s.Keys != 2 {
			t.Errorf("%d permits of %d keys are out, want 2 of 2", s.Held, s.Keys)
		}
		a.release()
		b.release()
		wantEmpty(t, g)
	})
}

func TestRetryAfterIsWholeSecondsWithJitter(t *testing.T) {
	for _, wait := range []time.Duration{0, time.Millisecond, 2 * time.Second, 10 * time.Second, 10 * time.Minute} {
		seen := map[time.Duration]bool{}
		for range 1000 {
			d := retryAfter(wait)
			if d < time.Second || d > 30*time.Second || d%time.Second != 0 {
				t.Fatalf("wait %v: retry after %v", wait, d)
			}
			seen[d] = true
		}
		if len(seen) < 2 {
			t.Errorf("wait %v: all are told %v", wait, seen)
		}
	}
}

func TestContradictionsAreErrorsThatNameBothFields(t *testing.T) {
	for _, c := range []struct {
		o     Options
		names []string
	}{
		{Options{Limit: 1}, []string{"Name"}},
		{Options{Name: "x"}, []string{"Limit"}},
		{Options{Name: "x", Limit: -1}, []string{"Limit"}},
		{Options{Name: "x", Limit: 1, PerKey: -1}, []string{"PerKey"}},
		{Options{Name: "x", Limit: 1, PerKeyContended: -1}, []string{"PerKeyContended"}},
		{Options{Name: "x", Limit: 1, MaxCost: -1}, []string{"MaxCost"}},
		{Options{Name: "x", Limit: 1, Queue: -1}, []string{"Queue"}},
		{Options{Name: "x", Limit: 1, QueuePerKey: -1}, []string{"QueuePerKey"}},
		{Options{Name: "x", Limit: 1, Wait: -1}, []string{"Wait"}},
		{Options{Name: "x", Limit: 1, PerKey: 2}, []string{"PerKey 2", "Limit 1"}},
		{Options{Name: "x", Limit: 9, PerKey: 2, PerKeyContended: 3}, []string{"PerKeyContended 3", "PerKey 2"}},
		{Options{Name: "x", Limit: 2, PerKeyContended: 3}, []string{"PerKeyContended 3", "Limit 2"}},
		{Options{Name: "x", Limit: 2, Queue: 1, QueuePerKey: 2, Wait: 1}, []string{"QueuePerKey 2", "Queue 1"}},
		{Options{Name: "x", Limit: 2, Queue: 1}, []string{"Queue", "Wait"}},
		{Options{Name: "x", Limit: 2, Wait: 1}, []string{"Queue", "Wait"}},
	} {
		g, err := New(c.o)
		if err == nil || g != nil {
			t.Errorf("%+v was accepted", c.o)
			continue
		}
		for _, name := range c.names {
			if !strings.Contains(err.Error(), name) {
				t.Errorf("%q does not name %s", err, name)
			}
		}
	}
	if _, err := New(Options{Name: "x", Limit: -1, Queue: 1}); strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("want both faults at once, got %q", err)
	}
}

func TestWaitsAreCountedInTheHistogram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := mustNew(t, Options{Limit: 1, Queue: 4, Wait: time.Hour})
		a := admit(g, "k", 1)
		b := admit(g, "k", 1)
		advance(3 * time.Second)
		a.release()
		if b.permit.Waited() != 3*time.Second || a.permit.Waited() != 0 {
			t.Errorf("waited %v and %v, want 3s and 0", b.permit.Waited(), a.permit.Waited())
		}
		c := admit(g, "k", 1)
		advance(20 * time.Minute)
		b.release()
		c.release()
		s := g.Stats()
		if s.Admitted != 3 || s.AdmittedAfterWait != 2 || s.WaitSeconds != 1203 {
			t.Errorf("%d admitted, %d after a wait, %v s; want 3, 2, 1203", s.Admitted, s.AdmittedAfterWait, s.WaitSeconds)
		}
		for i, bound := range WaitBounds {
			want := uint64(1)
			if bound >= 3 {
				want = 2
			}
			if s.WaitBuckets[i] != want {
				t.Errorf("bucket %v: %d, want %d", bound, s.WaitBuckets[i], want)
			}
		}
		wantEmpty(t, g)
	})
}
