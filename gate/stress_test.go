package gate

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// progress ends the process with the stacks of all goroutines if nothing has called the returned func for 30 s. A test
// that hangs says where.
func progress(t *testing.T) (made func()) {
	var last atomic.Int64
	made = func() { last.Store(time.Now().UnixNano()) }
	made()
	done := make(chan struct{})
	var watchdog sync.WaitGroup
	watchdog.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			if time.Since(time.Unix(0, last.Load())) > 30*time.Second {
				stacks := make([]byte, 1<<20)
				os.Stderr.Write(stacks[:runtime.Stack(stacks, true)])
				panic("no progress for 30s")
			}
		}
	})
	t.Cleanup(func() { close(done); watchdog.Wait() })
	return made
}

// stress is what one caller of the stress test does, again and again.
type stress struct {
	g              *Gate
	inUse          *atomic.Int64 // our own sum of what is held
	r              *rand.Rand
	ctx            context.Context
	cancel         context.CancelFunc
	admitted, shed uint64
	canceled       uint64
}

func (s *stress) once(t *testing.T) {
	if s.ctx.Err() != nil {
		s.ctx, s.cancel = context.WithCancel(context.Background())
	}
	key := strconv.Itoa(s.r.IntN(8))
	cost := int64(1 + s.r.IntN(4))
	if s.r.IntN(200) == 0 {
		cost = int64(40 + s.r.IntN(30)) // some above the limit, few above the maximum
	}
	var p *Permit
	var err error
	switch s.r.IntN(16) {
	case 0:
		p, err = s.g.TryAdmit(key, cost)
	case 1, 2: // cancelled at some moment of the wait, or of the grant, or after it
		cancel := s.cancel
		go func() { runtime.Gosched(); cancel() }()
		fallthrough
	default:
		p, err = s.g.Admit(s.ctx, key, cost)
	}
	switch {
	case err == nil:
		s.admitted++
		s.inUse.Add(cost)
		if s.r.IntN(8) == 0 {
			runtime.Gosched()
		}
		s.inUse.Add(-cost)
		p.Release()
		if s.r.IntN(64) == 0 {
			p.Release()
		}
	case errors.Is(err, ErrShed):
		s.shed++
	case err == context.Canceled:
		s.canceled++
	default:
		t.Errorf("unexpected error %v", err)
	}
}

// Ten million admissions by callers who cancel, time out and come back, while the limit changes all the time; three hundred
// thousand with the race detector, a hundred thousand with -short.
func TestTenMillionOperationsLoseNoPermit(t *testing.T) {
	total := 10_000_000
	switch {
	case testing.Short():
		total = 100_000
	case raceEnabled:
		total = 300_000
	}
	const callers = 48
	g := mustNew(t, Options{Limit: 64, PerKey: 48, PerKeyContended: 24, MaxCost: 66, Queue: 48, QueuePerKey: 12, Wait: 200 * time.Microsecond})
	made := progress(t)
	var inUse atomic.Int64
	var left atomic.Int64
	left.Store(int64(total))
	all := make([]stress, callers)
	var running sync.WaitGroup
	for i := range all {
		s := &all[i]
		*s = stress{g: g, inUse: &inUse, r: rand.New(rand.NewPCG(1, uint64(i)))}
		s.ctx, s.cancel = context.WithCancel(context.Background())
		running.Go(func() {
			defer func() { s.cancel() }()
			for n := left.Add(-1); n >= 0; n = left.Add(-1) {
				s.once(t)
				if n%1024 == 0 {
					made()
					g.SetLimit(s.r.Int64N(64)) // a whole one again at the end
				}
			}
		})
	}
	running.Wait()
	if n := inUse.Load(); n != 0 {
		t.Errorf("the test itself lost count: %d", n)
	}
	wantEmpty(t, g)

	var admitted, shed, canceled uint64
	for i := range all {
		admitted, shed, canceled = admitted+all[i].admitted, shed+all[i].shed, canceled+all[i].canceled
	}
	st := g.Stats()
	var counted uint64
	for _, n := range st.Shed {
		counted += n
	}
	if st.Admitted-st.HandedOn != admitted || counted != shed || st.Canceled != canceled || admitted+shed+canceled != uint64(total) {
		t.Errorf("the gate counts %d admitted (%d handed on), %d shed, %d canceled; the callers %d, %d, %d of %d",
			st.Admitted, st.HandedOn, counted, st.Canceled, admitted, shed, canceled, total)
	}
	g.SetLimit(64)
	p, err := g.TryAdmit("k", 64)
	if err != nil {
		t.Fatalf("a cost as large as the limit does not fit the empty gate: %v", err)
	}
	p.Release()
	t.Logf("%d admitted, %d after a wait, %d handed on, %d canceled, shed %v", st.Admitted, st.AdmittedAfterWait, st.HandedOn, st.Canceled, st.Shed)
}

// O4: a hundred thousand requests, cancelled anywhere; then nothing is held and one of full size is admitted in a second.
func TestO4AHundredThousandCancelledRequestsHoldNothing(t *testing.T) {
	g := mustNew(t, Options{Limit: 4, Queue: 100, Wait: time.Minute})
	made := progress(t)
	var running sync.WaitGroup
	for i := range 50 {
		r := rand.New(rand.NewPCG(2, uint64(i)))
		running.Go(func() {
			for range 2000 {
				ctx, cancel := context.WithCancel(context.Background())
				moment := r.IntN(4)
				if moment == 0 {
					go cancel()
				}
				p, err := g.Admit(ctx, strconv.Itoa(i%5), 1+r.Int64N(4))
				if moment == 1 {
					cancel() // while it runs
				}
				if err == nil {
					runtime.Gosched()
					p.Release()
				} else if err != context.Canceled {
					t.Error(err)
				}
				cancel()
				made()
			}
		})
	}
	running.Wait()
	wantEmpty(t, g)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	p, err := g.Admit(ctx, "k", 4)
	if err != nil {
		t.Fatal(err)
	}
	p.Release()
	wantEmpty(t, g)
}
