package gitcases

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/leveehq/levee/internal/e2e/rig"
)

// neitherStarves: a little of one service's work beside ten times what the other has room for, against the same alone.
// Rounds take turns and the best of each counts, as the machine has other things to do.
func neitherStarves(l *Lab) {
	r := l.Up.Deep("deep", l.Size.Commits)
	s := l.serve()
	tips := commits(r, "main")
	rig.NewGitClient(l).Clone(s.URL("deep"), "--bare")
	tip := 0
	next := func() string { tip = (tip + 1) % len(tips); return tips[tip] }

	bazel := func() float64 {
		report := rig.StormAtEase(l, s.Server, "--scenario", "quiet", "--duration", "3s")
		quiet := report.Sections[0]
		for _, p := range report.Problems() {
			l.Error(p)
		}
		if len(quiet.Shed) > 0 {
			l.Errorf("Bazel was shed: %v", quiet.Shed)
		}
		return float64(quiet.Admitted) / quiet.Seconds
	}
	git := func() float64 {
		n, began := 0, time.Now()
		for time.Since(began) < 3*time.Second {
			p, err := rig.Ask{Wants: []string{next()}, Depth: 1}.Get(l.ctx(), s.URL("deep"))
			l.whole("a quiet git client", p, err)
			n++
		}
		return float64(n) / time.Since(began).Seconds()
	}
	best := map[string]float64{}
	for range 2 {
		best["bazel alone"] = max(best["bazel alone"], bazel())
		best["git alone"] = max(best["git alone"], git())
		stop := cloneStorm(l, s, tips)
		best["bazel beside clones"] = max(best["bazel beside clones"], bazel())
		stop()
		stop = writeStorm(l, s)
		best["git beside writes"] = max(best["git beside writes"], git())
		stop()
	}
	l.Logf("per second: %v", best)
	for solo, beside := range map[string]string{"bazel alone": "bazel beside clones", "git alone": "git beside writes"} {
		if best[beside] < best[solo]*share {
			l.Errorf("%s is %.2f of %s", beside, best[beside]/best[solo], solo)
		}
	}
	l.idle(s)
}

// share of what it does alone that a service keeps. Its clients, the load's and the test share the processors with it.
const share = 0.5

func cloneStorm(l *Lab, s *rig.GitServer, tips []string) (stop func()) {
	ctx, cancel := context.WithCancel(l.ctx())
	var all sync.WaitGroup
	for i := range l.Size.Crowd {
		all.Go(func() {
			for n := i; ctx.Err() == nil; n += l.Size.Crowd {
				p, err := rig.Ask{Wants: []string{tips[n%len(tips)]}, Agent: fmt.Sprint("storm/", i)}.Get(ctx, s.URL("deep"))
				if ctx.Err() == nil {
					l.whole("a client of the storm", p, err)
				}
			}
		})
	}
	return func() { cancel(); all.Wait() }
}

func writeStorm(l *Lab, s *rig.GitServer) (stop func()) {
	ended := make(chan error, 1)
	go func() {
		_, err := rig.TryStorm(s.Server, s.GRPC, "--writers", "1000", "--connections", "20", "--blob-size", "256KiB", "--blobs-per-writer", "100000", "--duration", "5s")
		ended <- err
	}()
	l.until("the writes to begin", func() error {
		n, err := s.InUse("write")
		return firstOf(err, no(n > 0, "none is under way"))
	})
	return func() {
		if err := <-ended; err != nil {
			l.Error(err)
		}
	}
}
