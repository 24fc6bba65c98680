package residency

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// Callers, evictions and cancellations on real processors: nobody ever holds a closed instance, and nothing is left.
func TestUnderStressNoLeaseIsOfAClosedInstance(t *testing.T) {
	w := newWorld(t, func(o *Options[string, *thing]) { o.MaxBuilds = 2 })
	w.set(func() { w.mu.takes = 0 })
	keys := []string{"a1", "a2", "b1", "b2", "c1", "c2", "d1", "d2"}
	var all sync.WaitGroup
	var served, shed, canceled, refreshed atomic.Uint64
	const callers, rounds = 16, 1000
	for i := range callers {
		r := rand.New(rand.NewPCG(uint64(i), 1))
		all.Go(func() {
			for range rounds {
				key := keys[r.IntN(len(keys))]
				ctx, cancel := context.WithCancel(context.Background())
				switch r.IntN(40) {
				case 0:
					w.Evict(key)
				case 1:
					w.EvictGroup(key[:1])
				case 2:
					w.Shrink(100)
				case 3:
					w.EvictWhere(func(k string) bool { return k == key })
				case 8:
					refreshed.Add(1)
					_ = w.Refresh(context.Background(), key) // counted as a wait, a shed, or not at all
				case 4, 5, 6, 7:
					go func() { runtime.Gosched(); cancel() }()
				}
				l, err := w.Lease(ctx, key)
				switch {
				case err == nil:
					served.Add(1)
					runtime.Gosched()
					if v := l.Value(); v.key != key || v.closed.Load() != 0 {
						t.Errorf("%s has an instance of %s, closed %d times", key, v.key, v.closed.Load())
					}
					l.Release()
				case errors.Is(err, ErrShed):
					shed.Add(1)
				case errors.Is(err, context.Canceled):
					canceled.Add(1)
				default:
					t.Error(err)
				}
				cancel()
			}
		})
	}
	all.Wait()
	s := w.Stats()
	sum := served.Load() + shed.Load() + canceled.Load()
	leased, most := s.Hits+s.Waited, served.Load()+refreshed.Load()
	if leased < served.Load() || leased > most || s.Canceled != canceled.Load() || sum != callers*rounds {
		t.Errorf("served %d, shed %d, cancelled %d: %+v", served.Load(), shed.Load(), canceled.Load(), s)
	}
	if _, most := w.atOnce(); most > 2 {
		t.Errorf("%d builds at once", most)
	}
	w.end(t)
}
