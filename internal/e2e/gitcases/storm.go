package gitcases

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/leveehq/levee/internal/e2e/rig"
)

// stormOfClones: clones with different wants, from one address, on a cold mirror.
func stormOfClones(l *Lab) {
	big, other := l.Up.Big("big", l.Size.Big), l.Up.R40("other")
	s := l.serve("--git-per-repository", "2", "--git-total", "4")
	tips := commits(big, "main")
	watcher := rig.NewGitClient(l)
	local := watcher.Clone(l.Up.URL("big"), "--bare")
	l.Up.Forget()

	stop := rig.WatchTree(s.PID())
	var refs, fetches []time.Duration
	quick := l.during(func() {
		refs = append(refs, timed(func() { watcher.Git("ls-remote", s.URL("big")) }))
		if s.Spy.Packs() == nil {
			return // the mirror is cold still
		}
		big.Commit("side", "file", strconv.Itoa(len(refs)))
		fetches = append(fetches, timed(func() { watcher.In(local, "fetch", "--quiet", s.URL("big"), "side") }))
	})
	crowd(l.Size.Crowd, func(i int) {
		switch {
		case i == 0: // a second address and a second repository, amid the others
			p, err := rig.Ask{Wants: tips[:1], From: "127.0.0.2"}.Get(l.ctx(), s.URL("big"))
			l.whole("the second address", p, err)
			tip := other.Git("rev-parse", "main")
			p, err = rig.Ask{Wants: []string{tip}, From: "127.0.0.2"}.Get(l.ctx(), s.URL("other"))
			l.whole("the second repository", p, err)
		case i%5 == 0:
			client := rig.NewGitClient(l).Nice()
			client.In(client.Clone(s.URL("big"), "--bare"), "fsck", "--connectivity-only")
		default:
			p, err := rig.Ask{Wants: tips[i%len(tips):][:1], Quiet: true}.Get(l.ctx(), s.URL("big"))
			l.whole(fmt.Sprint("client ", i), p, err)
		}
	})
	quick()
	tree := stop()
	l.Logf("%d clones: %d packs made, %d at once; ls-remote p90 %s, fetch p90 %s (%d of each)", l.Size.Crowd,
		len(s.Spy.Packs()), tree.Most["pack-objects"], quantile(refs, 0.9), quantile(fetches, 0.9), len(fetches))
	if n := tree.Most["pack-objects"]; n > 2+1+1 { // two of big, one of other, one of a quick fetch
		l.Errorf("%d pack-objects at once", n)
	}
	if n := l.Up.Count(func(c rig.Call) bool { return c.Clone() && c.Repo == "big" }); n != 1 {
		l.Errorf("upstream was cloned from %d times", n)
	}
	for what, took := range map[string][]time.Duration{"ls-remote": refs, "an incremental fetch": fetches} {
		if p90 := quantile(took, 0.9); p90 > 2*time.Second {
			l.Errorf("%s: %s in 9 of 10", what, p90)
		}
	}
	seenBy(l, s, "big")
	l.idle(s)
}

// seenBy: who asked for what stands in the log, and the repository in the metrics.
func seenBy(l *Lab, s *rig.GitServer, repo string) {
	l.Helper()
	_, metrics, _, err := s.Get("/metrics")
	if err != nil || !strings.Contains(metrics, `"`+l.Up.Addr+"/"+repo+`"`) {
		l.Errorf("no series has the repository's name, %v", err)
	}
	for _, want := range []string{l.Up.Addr + "/" + repo, "127.0.0.1", "git/2."} {
		if !strings.Contains(s.AllLog(), want) {
			l.Errorf("the log does not have %q", want)
		}
	}
}

// during repeats what is given until the func returned is called, which waits for its end.
func (l *Lab) during(once func()) (stop func()) {
	ctx, cancel := context.WithCancel(l.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			once()
		}
	})
	return func() { cancel(); wg.Wait() }
}

func timed(do func()) time.Duration {
	began := time.Now()
	do()
	return time.Since(began)
}

// coldBurst: full clones of two repositories that nobody has asked for before.
func coldBurst(l *Lab) {
	names := []string{"one", "two"}
	for i, name := range names {
		l.Up.Deep(name, l.Size.Commits+i)
	}
	s := l.serve()
	crowd(l.Size.Crowd, func(i int) {
		client := rig.NewGitClient(l).Nice()
		dir := client.Clone(s.URL(names[i%2]), "--bare")
		if n := client.In(dir, "rev-list", "--count", "--all"); n != strconv.Itoa(l.Size.Commits+i%2) {
			l.Errorf("a clone of %s has %s commits", names[i%2], n)
		}
		client.In(dir, "fsck", "--connectivity-only")
	})
	for _, name := range names {
		if n := l.Up.Count(func(c rig.Call) bool { return c.Transfer() && c.Repo == name }); n != 1 {
			l.Errorf("%s was transferred %d times", name, n)
		}
	}
	l.Logf("%d packs made for %d clones", len(s.Spy.Packs()), l.Size.Crowd)
	if n := len(s.Spy.Packs()); n > len(names) {
		l.Errorf("%d packs were made for equal clones of %d repositories", n, len(names))
	}
	l.idle(s)
}

// healthInAStorm: probes are answered with all permits taken and more clones than there is room for.
func healthInAStorm(l *Lab) {
	big := l.Up.Big("big", l.Size.Big)
	s := l.serve("--git-per-repository", "1", "--git-total", "1")
	tips := commits(big, "main")
	var live, metrics []time.Duration
	probes := l.during(func() {
		for page, all := range map[string]*[]time.Duration{"/livez": &live, "/metrics": &metrics} {
			code, _, took, err := s.Get(page)
			if *all = append(*all, took); err != nil || code != 200 {
				l.Errorf("%s: %d, %v", page, code, err)
			}
		}
		<-time.After(moment)
	})
	crowd(l.Size.Crowd, func(i int) {
		p, err := rig.Ask{Wants: tips[i%len(tips):][:1]}.Get(l.ctx(), s.URL("big"))
		l.whole(fmt.Sprint("client ", i), p, err)
	})
	probes()
	l.Logf("%d probes: /livez %s in half, %s in 19 of 20; /metrics %s", len(live), quantile(live, 0.5), quantile(live, 0.95), quantile(metrics, 0.95))
	if len(live) < 5 || quantile(live, 0.5) > 100*time.Millisecond || quantile(live, 0.95) > time.Second {
		l.Error("/livez is slow, or was not asked")
	}
	if quantile(metrics, 0.95) > time.Second {
		l.Error("/metrics is slow")
	}
	l.idle(s)
}
