package gate

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// fleet is one key's callers: each admits, works, thinks, and begins again, as in the tests of fair queuing elsewhere.
type fleet struct {
	callers int
	cost    int64
	work    time.Duration
	think   time.Duration
}

// simulate runs the fleets against g for d of virtual time and returns the cost x time each was served. Every duration
// has some jitter from a fixed seed, so that no two events fall together and each run is the same.
func simulate(t *testing.T, g *Gate, fleets []fleet, d time.Duration) []float64 {
	t.Helper()
	var mu sync.Mutex
	served := make([]float64, len(fleets))
	ctx, stop := context.WithTimeout(context.Background(), d)
	defer stop()
	var all sync.WaitGroup
	for i, f := range fleets {
		for c := range f.callers {
			r := rand.New(rand.NewPCG(uint64(i), uint64(c)))
			jitter := func(d time.Duration) time.Duration {
				return time.Duration(float64(d)*(0.8+0.4*r.Float64())) + time.Duration(r.IntN(1000))
			}
			all.Go(func() {
				time.Sleep(jitter(f.work))
				for {
					p, err := g.Admit(ctx, strconv.Itoa(i), f.cost)
					if err != nil {
						return
					}
					work := jitter(f.work)
					time.Sleep(work)
					mu.Lock()
					served[i] += float64(f.cost) * work.Seconds()
					mu.Unlock()
					p.Release()
					time.Sleep(jitter(f.think))
				}
			})
		}
	}
	all.Wait()
	return served
}

// jain is 1 when all shares are equal and 1/n when one has everything.
func jain(shares []float64) float64 {
	var sum, squares float64
	for _, x := range shares {
		sum += x
		squares += x * x
	}
	return sum * sum / (float64(len(shares)) * squares)
}

func TestTwoHundredCallersTakeNoMoreThanTwo(t *testing.T) {
	second := time.Second
	for _, c := range []struct {
		name       string
		limit      int64
		hot, quiet fleet
	}{
		{"without thinking", 10, fleet{200, 1, second, 0}, fleet{2, 1, second, 0}},
		{"thinking half as long as working", 5, fleet{200, 1, second, second / 2}, fleet{2, 1, second, second / 2}},
		{"thinking as long as working", 5, fleet{200, 1, second, second}, fleet{2, 1, second, second}},
		{"with a hot key of small costs", 12, fleet{200, 1, second, second / 2}, fleet{2, 3, second, second / 2}},
		{"with a hot key of large costs", 12, fleet{200, 3, second, second / 2}, fleet{4, 1, second, second / 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := mustNew(t, Options{Limit: c.limit, Queue: 1000, Wait: time.Hour})
				fleets := []fleet{c.hot}
				for range 9 {
					fleets = append(fleets, c.quiet)
				}
				got := simulate(t, g, fleets, 10*time.Minute)
				if index := jain(got); index < 0.98 {
					t.Errorf("Jain index %.3f, want at least 0.98; served %.0f", index, got)
				} else {
					t.Logf("Jain index %.4f; served %.0f", index, got)
				}
				wantEmpty(t, g)
			})
		})
	}
}
