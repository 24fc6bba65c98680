package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// told is one call of Waiting.Tell.
type told struct {
	position, queued int
	at               time.Time
}

// telling has c note what it is told. It asks the gate each time, which hangs if Tell is called under the lock.
func (c *call) telling(g *Gate) func(int) {
	return func(position int) {
		now := told{position, g.Stats().Queued, time.Now()}
		c.told.Lock()
		defer c.told.Unlock()
		c.told.all = append(c.told.all, now)
	}
}

// heard is what it was told so far.
func (c *call) heard() []told {
	c.told.Lock()
	defer c.told.Unlock()
	return slices.Clone(c.told.all)
}

func TestAWaiterIsToldItsPositionWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := mustNew(t, Options{Limit: 1, Queue: 10, Wait: time.Minute})
		holder := admit(g, "k", 1)
		first := admit(g, "k", 1)
		second := admitWith(g, "k", 1, Waiting{After: 5 * time.Second, Every: 10 * time.Second})
		advance(5*time.Second - 1)
		if early := second.heard(); len(early) != 0 {
			t.Fatalf("told %v before its time", early)
		}
		advance(1)
		advance(10 * time.Second)
		holder.release()
		advance(10 * time.Second)
		first.release()
		second.release()
		advance(time.Minute)
		var got []string
		for _, x := range second.heard() {
			got = append(got, fmt.Sprint(x.position, x.at.Sub(second.came)))
		}
		if want := []string{"2 5s", "2 15s", "1 25s"}; !slices.Equal(got, want) {
			t.Errorf("told %v, want %v", got, want)
		}
		wantEmpty(t, g)
	})
}

func TestOneThatIsAdmittedAtOnceIsToldNothing(t *testing.T) {
	g := mustNew(t, Options{Limit: 1, Queue: 1, Wait: time.Minute})
	p, err := g.AdmitWith(t.Context(), "k", 1, Waiting{Tell: func(int) { t.Error("told") }})
	if err != nil {
		t.Fatal(err)
	}
	p.Release()
	wantEmpty(t, g)
}

func TestWithoutEveryAWaiterIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := mustNew(t, Options{Limit: 1, Queue: 10, Wait: time.Minute})
		holder := admit(g, "k", 1)
		waiter := admitWith(g, "k", 1, Waiting{})
		advance(30 * time.Second)
		if all := waiter.heard(); len(all) != 1 || !all[0].at.Equal(waiter.came) {
			t.Errorf("told %v, want once, as soon as it waits", all)
		}
		holder.release()
		waiter.release()
		wantEmpty(t, g)
	})
}

func TestACallersOwnWaitIsShorterOrLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := mustNew(t, Options{Limit: 1, Queue: 10, Wait: 10 * time.Second})
		holder := admit(g, "k", 1)
		waits := map[time.Duration]*call{0: nil, -time.Second: nil, 50 * time.Millisecond: nil, 10 * time.Minute: nil}
		for d := range waits {
			waits[d] = admitWith(g, "k", 1, Waiting{Wait: d})
		}
		advance(time.Hour)
		for d, c := range waits {
			want := d
			if d <= 0 {
				want = 10 * time.Second
			}
			var s *Shed
			if !errors.As(c.err, &s) || s.Reason != Timeout || s.Waited != want || c.at.Sub(c.came) != want {
				t.Errorf("Wait %v: got %v, want it shed after %v", d, c.err, want)
			}
		}
		holder.release()
		wantEmpty(t, g)
	})
}

func TestAGrantDuringTellIsTakenWhenItReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := mustNew(t, Options{Limit: 1, Queue: 10, Wait: time.Minute})
		holder := admit(g, "k", 1)
		var p *Permit
		var err error
		done := make(chan struct{})
		go func() {
			defer close(done)
			p, err = g.AdmitWith(context.Background(), "k", 1, Waiting{
				Wait:  time.Second,
				Every: time.Second,
				Tell:  func(int) { time.Sleep(time.Hour) }, // far beyond the end of its Wait
			})
		}()
		synctest.Wait()
		holder.release()
		if s := g.Stats(); s.Held != 1 {
			t.Errorf("%d permits are out, want the one that was granted meanwhile", s.Held)
		}
		<-done
		if err != nil {
			t.Fatalf("got %v, though the grant came within its Wait", err)
		}
		if p.Waited() != 0 {
			t.Errorf("waited %v, want the time to the grant", p.Waited())
		}
		p.Release()
		wantEmpty(t, g)
	})
}

// With equal costs and keys that have room, positions are the order of the grants.
func TestPositionsAreTheOrderOfGrants(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rapid.SyncTest(rt, func(rt *rapid.T) {
			g, err := New(Options{Name: "order", Limit: 1, Queue: 10_000, Wait: time.Hour})
			if err != nil {
				rt.Fatal(err)
			}
			held := admit(g, "first", 1)
			var waiting []*call
			come := func(rt *rapid.T) {
				waiting = append(waiting, admit(g, strconv.Itoa(rapid.IntRange(0, 4).Draw(rt, "key")), 1))
			}
			grant := func(rt *rapid.T) {
				next := positions(g)[1]
				held.release()
				i := slices.IndexFunc(waiting, (*call).admitted)
				switch {
				case i < 0 && next == nil:
					held = admit(g, "first", 1)
					return
				case i < 0 || waiting[i].permit != next.permit:
					rt.Fatal("another than that of position 1 was granted")
				}
				held = waiting[i]
				waiting = slices.Delete(waiting, i, i+1)
			}
			rt.Repeat(map[string]func(*rapid.T){"come": come, "come too": come, "grant": grant})
			order := positions(g)
			for n := 1; n <= len(waiting); n++ {
				held.release()
				i := slices.IndexFunc(waiting, func(c *call) bool { return c.admitted() && c.permit == order[n].permit })
				if i < 0 {
					rt.Fatalf("that of position %d of %d was not the %d. to be granted", n, len(waiting), n)
				}
				held = waiting[i]
			}
			held.release()
			wantEmpty(rt, g)
		})
	})
}

// positions is who has which.
func positions(g *Gate) map[int]*waiter {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := map[int]*waiter{}
	see := func(l *list[*waiter]) {
		for n := l.first; n != nil; n = n.next {
			all[g.positionLocked(n.value)] = n.value
		}
	}
	see(&g.mu.aside)
	for _, keys := range []*list[*keyState]{&g.mu.ring, &g.mu.parked} {
		for k := keys.first; k != nil; k = k.next {
			see(&k.value.waiters)
		}
	}
	return all
}

// What one waiter pays when it is told, with many before it: it holds the lock for so long.
func BenchmarkPosition(b *testing.B) {
	for _, waiters := range []int{10, 1000, 100_000} {
		b.Run(fmt.Sprintf("waiters=%d", waiters), func(b *testing.B) {
			g := mustNew(b, Options{Limit: 1, Queue: waiters, Wait: time.Hour})
			var last *waiter
			p, err := g.TryAdmit("holder", 1)
			if err != nil {
				b.Fatal(err)
			}
			for i := range waiters {
				last, _ = g.enter(&Permit{gate: g, cost: 1}, strconv.Itoa(i%100), true)
			}
			for b.Loop() {
				g.mu.Lock()
				g.positionLocked(last)
				g.mu.Unlock()
			}
			g.Close()
			p.Release()
		})
	}
}
