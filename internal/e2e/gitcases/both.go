package gitcases

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/leveehq/levee/internal/e2e/cases"
	"github.com/leveehq/levee/internal/e2e/rig"
	bspb "google.golang.org/genproto/googleapis/bytestream"
)

// neitherStarves: a little of one service's work beside ten times what the other has room for, against the same alone.
// Rounds take turns and the best of each counts, as the machine has other things to do.
func neitherStarves(l *Lab) {
	r := l.Up.Deep("deep", l.Size.Commits)
	s := l.serve()
	tips := commits(r, "main")
	rig.NewGitClient(l).Clone(s.URL("deep"), "--bare")
	client, tip := cases.Connect(l, s.Server), 0
	bazel := func() {
		b := client.Blob(64 << 10)
		if _, err := client.WriteOnce(l.ctx(), client.UploadName(b), b); err != nil {
			l.Errorf("a quiet Bazel client writes: %v", err)
		}
		got, err := client.ReadOnce(l.ctx(), &bspb.ReadRequest{ResourceName: "blobs/" + cases.Name(b)})
		if err != nil || len(got) != len(b) {
			l.Errorf("a quiet Bazel client reads %d bytes, %v", len(got), err)
		}
	}
	git := func() {
		tip = (tip + 1) % len(tips)
		p, err := rig.Ask{Wants: []string{tips[tip]}, Depth: 1}.Get(l.ctx(), s.URL("deep"))
		l.whole("a quiet git client", p, err)
	}
	best := map[string]float64{}
	measure := func(what string, every time.Duration, once func()) { best[what] = max(best[what], paced(every, once)) }
	for range 1 + l.Size.Rounds/100 {
		measure("bazel alone", 50*time.Millisecond, bazel)
		measure("git alone", 200*time.Millisecond, git)
		stop := cloneStorm(l, s, tips)
		measure("bazel beside clones", 50*time.Millisecond, bazel)
		stop()
		stop = writeStorm(l, s)
		measure("git beside writes", 200*time.Millisecond, git)
		stop()
	}
	l.Logf("calls a second: %v", best)
	for solo, beside := range map[string]string{"bazel alone": "bazel beside clones", "git alone": "git beside writes"} {
		if best[beside] < best[solo]*l.Size.Share {
			l.Errorf("%s is %.2f of %s", beside, best[beside]/best[solo], solo)
		}
	}
	l.idle(s)
}

// paced does the same at every tick for two seconds, and returns how often a second. A tick that comes while it is being
// done is lost.
func paced(every time.Duration, once func()) float64 {
	tick := time.NewTicker(every)
	defer tick.Stop()
	n, began := 0, time.Now()
	for ; time.Since(began) < 2*time.Second; n++ {
		<-tick.C
		once()
	}
	return float64(n) / time.Since(began).Seconds()
}

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
		_, err := rig.TryStorm(s.Server, s.GRPC, "--writers", "1000", "--connections", "20", "--blob-size", "256KiB", "--blobs-per-writer", "100000", "--duration", "3s")
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
