package gitcases

import (
	"context"
	"os"
	"strings"
	"sync"

	"github.com/leveehq/levee/internal/e2e/rig"
)

// asking waits until so many requests for Git are under way.
func (l *Lab) asking(s *rig.GitServer, n int) {
	l.Helper()
	l.until("requests to be under way", func() error {
		got, err := s.InUse("git_requests")
		if err != nil {
			return err
		}
		return no(int(got) >= n, "%v are", got)
	})
}

// making waits until so many packs were begun since there were before.
func (l *Lab) making(s *rig.GitServer, before, n int) {
	l.Helper()
	l.until("packs to be begun", func() error {
		got := len(s.Spy.Packs()) - before
		return no(got >= n, "%d are", got)
	})
}

// equalClones: byte-equal but for agent and progress, and among them one that reads slowly and one that leaves.
func equalClones(l *Lab) {
	big := l.Up.Big("big", l.Size.Big)
	s := l.serve()
	rig.NewGitClient(l).Clone(s.URL("big"), "--bare") // the mirror is ready
	before := len(s.Spy.Packs())
	ask := rig.Ask{Wants: []string{big.Git("rev-parse", "main")}, Depth: 1}

	held := s.Spy.Hold("pack-objects")
	var all sync.WaitGroup
	leaving, leave := context.WithCancel(l.ctx())
	all.Go(func() { ask.Get(leaving, s.URL("big")) }) // its error is its own
	l.making(s, before, 1)
	sums := make([]string, l.Size.Crowd)
	for i := range sums {
		own := ask
		own.Agent, own.Quiet = []string{"git/2.39.5", "git/2.54.0", "jgit/6"}[i%3], i%2 == 0
		all.Go(func() {
			p, err := own.Get(l.ctx(), s.URL("big"))
			if l.whole("an equal clone", p, err) {
				sums[i] = p.Sum
			}
		})
	}
	slow, endSlow := context.WithCancel(l.ctx())
	slowEnded := make(chan error, 1)
	go func() { slowEnded <- slowly(slow, ask, s.URL("big")) }()
	l.asking(s, 1+len(sums)+1)
	leave()
	held.Release()
	all.Wait()
	if n := len(s.Spy.Packs()) - before; n != 1 {
		l.Errorf("%d packs were made", n)
	}
	for _, sum := range sums {
		if sum != sums[0] {
			l.Errorf("packs %s and %s", sum, sums[0])
		}
	}
	l.until("the slow reader to hold no permit", func() error {
		heavy, err := s.InUse("git_packs")
		return firstOf(err, no(heavy == 0, "%v in use", heavy))
	})
	select {
	case err := <-slowEnded:
		l.Errorf("the slow reader has ended: %v", err)
	default:
	}
	endSlow()
	<-slowEnded
	realClonesShare(l, s, big)
	l.idle(s)
}

func slowly(ctx context.Context, ask rig.Ask, url string) error {
	ask.Window = 4 << 10
	p, err := ask.Send(ctx, url)
	if err != nil {
		return err
	}
	defer p.Close()
	return p.Drain(ctx, 10_000)
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// realClonesShare: git's own clones share as well, a push is seen by the next, and other requests have packs of their own.
func realClonesShare(l *Lab, s *rig.GitServer, big *rig.Repo) {
	before := len(s.Spy.Packs())
	crowd(4, func(int) { rig.NewGitClient(l).Clone(s.URL("big"), "--bare", "--depth=1") })
	if n := len(s.Spy.Packs()) - before; n > 1 {
		l.Errorf("%d packs were made for equal clones by git", n)
	}
	pushed := big.Commit("main", "new", "new\n")
	client := rig.NewGitClient(l)
	if got := client.In(client.Clone(s.URL("big"), "--bare", "--depth=1"), "rev-parse", "HEAD"); got != pushed {
		l.Errorf("a clone after a push has %s, pushed was %s", got, pushed)
	}
	seen := map[string]rig.Ask{}
	for _, a := range []rig.Ask{{}, {Depth: 1}, {Depth: 2}, {Filter: "blob:none"}, {Depth: 1, Filter: "blob:none"}, {Haves: []string{big.Git("rev-parse", "main~1")}}} {
		a.Wants = []string{pushed}
		p, err := a.Get(l.ctx(), s.URL("big"))
		if !l.whole("another clone", p, err) {
			continue
		}
		if other, ok := seen[p.Sum]; ok {
			l.Errorf("%+v and %+v got the same pack", a, other)
		}
		seen[p.Sum] = a
	}
}

// spoolBudget: what is spooled for distinct requests stays within its budget, and all are served.
func spoolBudget(l *Lab) {
	big := l.Up.Big("big", l.Size.Big)
	budget := l.Size.Big * 3 / 2
	s := l.serve("--git-spool-size", bytes(budget))
	rig.NewGitClient(l).Clone(s.URL("big"), "--bare")
	most := int64(0)
	for _, tip := range commits(big, "main") {
		for range 2 {
			p, err := rig.Ask{Wants: []string{tip}}.Get(l.ctx(), s.URL("big"))
			l.whole("a distinct clone", p, err)
			most = max(most, spooled(l, s))
		}
	}
	l.Logf("at most %d KiB were spooled of %d", most>>10, budget>>10)
	if most > budget {
		l.Error("that is more than its budget")
	}
	if most == 0 {
		l.Error("nothing was spooled")
	}
	l.idle(s)
}

// spooled is what the server keeps for Git besides its mirrors.
func spooled(l *Lab, s *rig.GitServer) (n int64) {
	mirrors := s.Mirrors()
	for _, path := range s.Files() {
		ofMirror := false
		for _, m := range mirrors {
			ofMirror = ofMirror || strings.HasPrefix(path, m+"/")
		}
		if info, err := os.Stat(path); err == nil && !ofMirror {
			n += info.Size()
		}
	}
	return n
}

// firstClones: twenty at once on a cold mirror, one more while the first transfer runs, and one that is killed.
func firstClones(l *Lab) {
	l.Up.R40("r40")
	s := l.serve()
	l.Up.Break(rig.Fault{Match: rig.Call.Transfer, StallAfter: 1})
	const first = 20
	var all sync.WaitGroup
	clone := func(ctx context.Context, i int) {
		client := rig.NewGitClient(l).Nice()
		dir := client.Dir()
		out, err := client.Run(ctx, "clone", "--quiet", s.URL("r40"), dir)
		switch {
		case ctx.Err() != nil: // killed
		case err != nil:
			l.Errorf("client %d: %v\n%s", i, err, out)
		case client.In(dir, "rev-list", "--count", "HEAD") != "1" || len(strings.Fields(client.In(dir, "tag"))) != 40:
			l.Errorf("client %d has not all", i)
		}
	}
	killed, kill := context.WithCancel(l.ctx())
	all.Go(func() { clone(killed, 0) })
	for i := 1; i < first; i++ {
		all.Go(func() { clone(l.ctx(), i) })
	}
	l.asking(s, first)
	all.Go(func() { clone(l.ctx(), first) })
	l.asking(s, first+1)
	kill()
	l.Up.Mend()
	all.Wait()
	if n := l.Up.Count(rig.Call.Transfer); n != 1 {
		l.Errorf("upstream transferred %d times", n)
	}
	l.idle(s)
}
