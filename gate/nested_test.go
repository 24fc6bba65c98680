package gate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// O5: with every limit at 1, callers who take one permit after the other all get through, however many they are.
func TestO5WithEveryLimitAtOneEverybodyGetsThrough(t *testing.T) {
	for _, callers := range []int{1, 2, 20} {
		t.Run(fmt.Sprintf("%d callers", callers), func(t *testing.T) {
			made := progress(t)
			gates := make([]*Gate, 5) // disk, memory, a slot for git, one for a build, one for the database
			for i := range gates {
				gates[i] = mustNew(t, Options{Limit: 1, PerKey: 1, PerKeyContended: 1, MaxCost: 1, Queue: callers, QueuePerKey: callers, Wait: time.Minute})
			}
			var all sync.WaitGroup
			for c := range callers {
				all.Go(func() {
					for range 200 {
						var held []*Permit
						for _, g := range gates { // in one order, as whoever needs several must
							p, err := g.Admit(context.Background(), fmt.Sprint(c%3), 1)
							if err != nil {
								t.Error(err)
								return
							}
							held = append(held, p)
						}
						for _, p := range held {
							p.Release()
						}
						made()
					}
				})
			}
			all.Wait()
			for _, g := range gates {
				wantEmpty(t, g)
			}
		})
	}
}

// O5: callers who hold a permit and ask the same gate for another are the classic way to hang for ever. Here each is
// told after its Wait, and when it lets go of the first, the gate is well again.
func TestO5HoldingOneWhileAskingForAnotherEndsWithAShed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const callers = 20
		g := mustNew(t, Options{Limit: callers, Queue: callers, Wait: 10 * time.Second})
		start := time.Now()
		var shed, through atomic.Int64
		var all sync.WaitGroup
		for range callers {
			all.Go(func() {
				first, err := g.Admit(context.Background(), "k", 1)
				if err != nil {
					t.Error(err)
					return
				}
				defer first.Release()
				time.Sleep(time.Second) // until all hold their first
				second, err := g.Admit(context.Background(), "k", 1)
				if err == nil {
					through.Add(1)
					second.Release()
					return
				}
				if s := new(Shed); errors.As(err, &s) && s.Reason == Timeout {
					shed.Add(1)
				}
			})
		}
		all.Wait()
		if s, ok := shed.Load(), through.Load(); s+ok != callers || s == 0 {
			t.Errorf("%d shed and %d through of %d", s, ok, callers)
		}
		if d := time.Since(start); d > 11*time.Second {
			t.Errorf("it took %v, a Wait is 10s", d)
		}
		wantEmpty(t, g)
	})
}
