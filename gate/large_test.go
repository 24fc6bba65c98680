package gate

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"
)

// stream keeps n callers of one key busy with small costs until ctx ends, and returns a func that tells how many were
// served so far and the longest wait among them.
func stream(ctx context.Context, g *Gate, key string, n int, work time.Duration) func() (served int, longest time.Duration) {
	var mu sync.Mutex
	var count int
	var worst time.Duration
	for i := range n {
		go func() {
			time.Sleep(work * time.Duration(i) / time.Duration(n)) // not all at the same instant
			for ctx.Err() == nil {
				p, err := g.Admit(ctx, key, 1)
				if err != nil {
					return
				}
				mu.Lock()
				count, worst = count+1, max(worst, p.Waited())
				mu.Unlock()
				time.Sleep(work)
				p.Release()
			}
		}()
	}
	return func() (int, time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		return count, worst
	}
}

// O4: sixty seconds of small requests do not starve a large one, in whatever key they are, and they go on after it.
func TestO4AStreamOfSmallOnesDoesNotStarveALargeOne(t *testing.T) {
	for _, key := range []string{"large", "small"} {
		t.Run("in the key "+key, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := mustNew(t, Options{Limit: 8, MaxCost: 20, Queue: 100, Wait: 16 * time.Second})
				ctx, stop := context.WithTimeout(context.Background(), time.Minute)
				defer stop()
				stats := stream(ctx, g, "small", 30, 500*time.Millisecond)
				advance(5 * time.Second)
				for _, cost := range []int64{4, 8, 20} { // half, all, and more than all: served alone
					large := admit(g, key, cost)
					advance(5 * time.Second)
					if !large.admitted() {
						t.Fatalf("cost %d still waits after 5s: %v", cost, large.err)
					}
					if s := g.Stats(); cost >= 8 && s.Held != 1 {
						t.Errorf("cost %d shares the gate with %d others", cost, s.Held-1)
					}
					large.release()
				}
				before, _ := stats()
				advance(5 * time.Second)
				if after, _ := stats(); after-before < 70 { // 8 at a time, twice a second
					t.Errorf("only %d small ones in the five seconds after", after-before)
				}
				<-ctx.Done()
				advance(time.Second)
				wantEmpty(t, g)
			})
		})
	}
}

func TestALargeWaiterIsServedInItsWaitIfPermitsAreHeldForAQuarterOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const wait = 16 * time.Second
		g := mustNew(t, Options{Limit: 8, Queue: 100, Wait: wait})
		ctx, stop := context.WithCancel(context.Background())
		stream(ctx, g, "small", 8, wait/4-time.Millisecond)
		advance(10 * time.Second)
		large := admit(g, "large", 8)
		stream(ctx, g, "small", 8, wait/4-time.Millisecond)
		advance(wait)
		if !large.admitted() {
			t.Fatalf("got %v", large.err)
		}
		// It begins to gather with the first release, of which there are eight in a quarter of the wait, and the third time
		// ends after 1+1+2+2+4 sixteenths.
		if w := large.permit.Waited(); w > wait/4/8+wait*10/16 {
			t.Errorf("waited %v", w)
		}
		large.release()
		stop()
		advance(wait)
		wantEmpty(t, g)
	})
}

// O4: a large waiter behind a permit that is never given back holds up the small ones for its stated bound and no more.
func TestO4OneLargeWaiterStopsSmallOnesForNoMoreThanAQuarterOfItsWait(t *testing.T) {
	for _, key := range []string{"large", "small"} {
		t.Run("in the key "+key, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const wait = 16 * time.Second
				g := mustNew(t, Options{Limit: 8, Queue: 100, Wait: wait})
				stuck := admit(g, "stuck", 1)
				ctx, stop := context.WithCancel(context.Background())
				stats := stream(ctx, g, "small", 20, 100*time.Millisecond)
				advance(time.Second)
				before, _ := stats()
				large := admit(g, key, 8)
				advance(wait)
				var s *Shed
				if !errors.As(large.err, &s) || s.Reason != Timeout {
					t.Fatalf("the large one got %v, want a time-out", large.err)
				}
				after, longest := stats()
				// What queued before the gathering still has its own wait, of less than a second here.
				if longest > wait/4+time.Second {
					t.Errorf("a small one waited %v, the bound is %v", longest, wait/4)
				}
				// It gathers for 1, 2, 4 and the last 2 of 16 seconds; after each the gate must fill up again.
				if all := 7 * 10 * int(wait/time.Second); after-before < all*2/5 {
					t.Errorf("%d small ones passed in %v, want at least two fifths of %d", after-before, wait, all)
				}
				stop()
				advance(time.Second)
				stuck.release()
				wantEmpty(t, g)
			})
		})
	}
}

// A row of large waiters, each of which leaves while it gathers, must not do together what one of them may not.
func TestLargeWaitersThatComeAndLeaveDoNotStopTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := mustNew(t, Options{Limit: 8, Queue: 100, Wait: 16 * time.Second})
		stuck := admit(g, "stuck", 1)
		ctx, stop := context.WithCancel(context.Background())
		stats := stream(ctx, g, "small", 20, 100*time.Millisecond)
		advance(time.Second)
		before, _ := stats()
		var row []*call // two at any time
		for range 200 {
			row = append(row, admit(g, "large", 8))
			advance(150 * time.Millisecond)
			if n := len(row); n > 1 {
				row[n-2].cancel(nil)
				synctest.Wait()
			}
		}
		row[len(row)-1].cancel(nil)
		after, _ := stats()
		if all := 7 * 10 * 30; after-before < all*2/5 {
			t.Errorf("%d small ones passed in 30s, want at least two fifths of %d", after-before, all)
		}
		stop()
		advance(time.Second)
		stuck.release()
		wantEmpty(t, g)
	})
}

func TestAWaiterThatSteppedAsideIsServedFirstWhenItFits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const wait = 16 * time.Second
		g := mustNew(t, Options{Limit: 4, Queue: 100, Wait: wait})
		stuck := admit(g, "stuck", 2)
		large := admit(g, "k", 4)
		small := admit(g, "k", 1)
		if small.done() {
			t.Fatal("passed before the large one had its chance")
		}
		advance(wait/16 - 1)
		if small.done() {
			t.Fatal("passed before the time")
		}
		advance(1)
		if !small.admitted() {
			t.Fatal("a sixteenth of the wait is over")
		}
		next := admit(g, "other", 1)
		if !next.admitted() {
			t.Fatal("for as long again nobody gathers, so a newcomer that fits is admitted")
		}
		small.release()
		next.release()
		advance(wait / 16)
		later := admit(g, "other", 1)
		if later.done() {
			t.Fatal("the large one gathers again")
		}
		stuck.release()
		if !large.admitted() || later.done() {
			t.Fatal("the gate is empty and the large one is first")
		}
		large.release()
		if !later.admitted() {
			t.Fatal("not woken")
		}
		later.release()
		wantEmpty(t, g)
	})
}

func TestAWaiterThatKeepsOutNobodyKeepsItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const wait = 16 * time.Second
		g := mustNew(t, Options{Limit: 8, Queue: 100, Wait: wait})
		stuck := admit(g, "stuck", 3)
		// Of 5, a 6 does not fit; that the others would not fit either is more than the gate knows at first sight.
		a1, a2, a3 := admit(g, "a", 6), admit(g, "a", 6), admit(g, "a", 6)
		advance(wait / 4)
		small := admit(g, "d", 1)
		if small.done() {
			t.Fatal("passed before the one whose turn it is had its chance")
		}
		advance(wait / 16)
		if !small.admitted() {
			t.Fatal("the clock must run on for those who come later")
		}
		small.release()
		quiet := admit(g, "quiet", 6)
		stuck.release()
		for i, next := range []*call{a1, a2, quiet, a3} { // all of a's aside would be before the quiet one
			if !next.admitted() {
				t.Fatalf("number %d has lost its turn", i)
			}
			next.release()
		}
		wantEmpty(t, g)
	})
}

func TestALimitFarBelowTheCostsDoesNotMakeTurnsEndless(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := mustNew(t, Options{Limit: 1 << 62, Queue: 100, Wait: time.Minute})
		calls := []*call{admit(g, "a", 1<<62), admit(g, "b", 1<<61), admit(g, "c", 1<<62)}
		g.SetLimit(1)
		for i, c := range calls {
			if !c.admitted() {
				t.Fatalf("number %d is not served", i)
			}
			c.release()
		}
		wantEmpty(t, g)
	})
}

func TestALimitThatGoesUpAndDownLeavesNoDebt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const wait, huge = 16 * time.Second, 1 << 60
		g := mustNew(t, Options{Limit: 8, MaxCost: huge, Queue: 100, Wait: wait})
		stuck := admit(g, "stuck", 1)
		calls := []*call{stuck, admit(g, "k", huge), admit(g, "k", 1), admit(g, "other", huge-1)}
		g.SetLimit(huge) // what the first of k gathers for has become dearer than its turn was
		advance(wait / 16)
		g.SetLimit(1) // turns are worth 1 now: a debt would take as many as it has units
		for len(calls) > 0 {
			i := slices.IndexFunc(calls, (*call).admitted)
			if i < 0 {
				t.Fatalf("%d wait at an empty gate", len(calls))
			}
			calls[i].release()
			calls = slices.Delete(calls, i, i+1)
		}
		wantEmpty(t, g)
	})
}

func TestAWaiterThatSteppedAsideIsNotStarvedByItsOwnKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const wait = 16 * time.Second
		g := mustNew(t, Options{Limit: 8, PerKey: 5, Queue: 100, Wait: wait})
		stuck := admit(g, "stuck", 5)
		large := admit(g, "k", 4)
		ctx, stop := context.WithCancel(context.Background())
		stats := stream(ctx, g, "k", 20, 100*time.Millisecond)
		advance(wait/16 + time.Millisecond)
		if n, _ := stats(); n == 0 && g.Stats().Held < 2 || large.done() {
			t.Fatal("the small ones pass after a sixteenth of the wait")
		}
		stuck.release() // now the gate has room, and only its own key is in its way
		advance(100 * time.Millisecond)
		if !large.admitted() {
			t.Fatal("the small ones of its key still pass it")
		}
		large.release()
		stop()
		advance(time.Second)
		wantEmpty(t, g)
	})
}

func TestALargeWaiterWhoseKeyBecomesContendedStopsGathering(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := mustNew(t, Options{Limit: 8, PerKeyContended: 4, Queue: 100, Wait: time.Minute})
		a, b := admit(g, "hot", 3), admit(g, "hot", 4)
		large := admit(g, "hot", 5)
		small := admit(g, "hot", 1)
		if large.done() || small.done() {
			t.Fatal("no room, or out of order")
		}
		other := admit(g, "other", 1)
		if !other.admitted() {
			t.Fatal("the hot key may not have the room it gathers now, so another must get it")
		}
		a.release()
		b.release()
		if !large.admitted() || small.done() {
			t.Fatal("the key holds nothing, so its large one goes")
		}
		other.release()
		if !small.admitted() {
			t.Fatal("alone again with room, and not woken")
		}
		large.release()
		small.release()
		wantEmpty(t, g)
	})
}

func TestNoTimerOutlivesItsWaiter(t *testing.T) {
	g := mustNew(t, Options{Limit: 4, Queue: 10, Wait: time.Hour})
	holder, err := g.TryAdmit("k", 2)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	left := make(chan error)
	for i, cost := range []int64{4, 1} {
		go func() { _, err := g.Admit(ctx, "k", cost); left <- err }()
		waitUntil(t, "the waiter is in the queue", func() bool { return g.Stats().Queued == i+1 })
	}
	g.mu.Lock()
	w := weak.Make(g.mu.gathering)
	g.mu.Unlock()
	if w.Value() == nil {
		t.Fatal("the large waiter keeps out the small one and no clock runs")
	}
	cancel()
	<-left
	<-left
	waitUntil(t, "nothing, such as a timer of an hour, refers to the waiter that left", func() bool {
		runtime.GC()
		return w.Value() == nil
	})
	holder.Release()
	wantEmpty(t, g)
}

// O4: a cost above everything is answered at once, and one that was stopped anywhere leaves nothing behind.
func TestO4ACostAboveTheMaximumIsShedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := mustNew(t, Options{Limit: 4, Queue: 10, Wait: time.Minute})
		c := admit(g, "k", 10)
		var s *Shed
		if !errors.As(c.err, &s) || s.Reason != TooLarge || s.Waited != 0 {
			t.Errorf("got %v, want it shed at once as too large", c.err)
		}
		g = mustNew(t, Options{Limit: 4, MaxCost: 10, Queue: 10, Wait: time.Minute})
		c = admit(g, "k", 10)
		if !c.admitted() {
			t.Errorf("got %v, want it served alone", c.err)
		}
		c.release()
		wantEmpty(t, g)
	})
}
