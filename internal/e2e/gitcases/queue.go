package gitcases

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leveehq/levee/internal/e2e/rig"
)

// distinct are asks for the whole history of a repository, each up to another commit.
func distinct(r *rig.Repo, n int) (asks []rig.Ask) {
	for _, tip := range commits(r, "main")[:n] {
		asks = append(asks, rig.Ask{Wants: []string{tip}})
	}
	return asks
}

// warm waits until there is a mirror: with a short wait set, nobody waits for one.
func (l *Lab) warm(s *rig.GitServer, r *rig.Repo) {
	l.Helper()
	l.until("a mirror of "+r.Name, func() error {
		return wholeOrNot(l, rig.Ask{Wants: commits(r, "main")[:1], Depth: 1}, s.URL(r.Name))
	})
}

// queued waits until so many wait for a permit to make a pack.
func (l *Lab) queued(s *rig.GitServer, n int) {
	l.Helper()
	l.until(fmt.Sprint(n, " to be in the queue"), func() error {
		got, err := s.Queued("git_packs")
		return firstOf(err, no(got == n, "%d are", got))
	})
}

// fairBetweenRepositories: with two permits for each repository, 25 clones of one never delay the first two of another.
func fairBetweenRepositories(l *Lab) {
	const crowdOfA = 25
	a, b := l.Up.Deep("a", l.Size.Commits), l.Up.Deep("b", l.Size.Commits)
	s := l.serve("--git-per-repository", "2", "--git-total", "8", "--memory-limit", "2GiB")
	client := rig.NewGitClient(l)
	for _, name := range []string{"a", "b"} {
		client.Clone(s.URL(name), "--bare", "--depth=1")
	}
	held, before := s.Spy.Hold("pack-objects"), len(s.Spy.Packs())
	var all sync.WaitGroup
	clone := func(name string, asks []rig.Ask) {
		for _, ask := range asks {
			all.Go(func() { p, err := ask.Get(l.ctx(), s.URL(name)); l.whole(name, p, err) })
		}
	}
	clone("a", distinct(a, crowdOfA))
	l.making(s, before, 2)
	l.asking(s, crowdOfA)
	clone("b", distinct(b, 2))
	l.within(10*time.Second, "both clones of b to be made while those of a wait", func() error {
		got := len(s.Spy.Packs()) - before
		return no(got == 4, "%d packs are being made", got)
	})
	held.Release()
	all.Wait()
	l.idle(s)
}

// shedBeforeAnyByte: those for whom there is no room in time are told so, in each of the ways there are.
func shedBeforeAnyByte(l *Lab) {
	r := l.Up.Deep("r", l.Size.Commits)
	asks := distinct(r, 3)
	for _, way := range []struct {
		name  string
		flags []string
		depth int
		shed  func(p *rig.Pack) error
	}{
		{"by status", []string{"--git-wait", "900ms", "--git-silent-wait", "900ms", "--git-queue-notice-after", "800ms", "--git-shed-as", "http"}, 1, byStatus},
		{"by ERR", []string{"--git-wait", "900ms", "--git-silent-wait", "900ms", "--git-queue-notice-after", "800ms", "--git-shed-as", "err"}, 1, byERR},
		{"after notices", []string{"--git-wait", "900ms", "--git-silent-wait", "500ms", "--git-queue-notice-after", "100ms"}, 0, byBand3},
	} {
		s := l.serve(append(way.flags, "--git-per-repository", "1", "--git-total", "1")...)
		l.warm(s, r)
		held, before := s.Spy.Hold("pack-objects"), len(s.Spy.Packs())
		first := make(chan error, 1)
		go func() { first <- wholeOrNot(l, asks[0], s.URL("r")) }()
		l.making(s, before, 1)
		for _, ask := range asks[1:] {
			ask.Depth = way.depth * 1000 // with a depth there is a section before the pack: such a client cannot be told
			p, err := ask.Get(l.ctx(), s.URL("r"))
			if err == nil {
				err = firstOf(way.shed(p), no(p.Size == 0, "%d bytes of a pack", p.Size))
			}
			if err != nil {
				l.Errorf("%s: %v", way.name, err)
			}
		}
		held.Release()
		if err := <-first; err != nil {
			l.Errorf("%s: the one that was being served: %v", way.name, err)
		}
		l.idle(s)
	}
}

func byStatus(p *rig.Pack) error {
	after, err := strconv.Atoi(p.Header.Get("Retry-After"))
	return firstOf(err, no(p.Status == http.StatusTooManyRequests && after >= 1 && p.Text != "", "%d, Retry-After %d, %q", p.Status, after, p.Text))
}

func byERR(p *rig.Pack) error {
	return no(p.Status == http.StatusOK && p.Refused != "", "%d, %q", p.Status, p.Refused)
}

func byBand3(p *rig.Pack) error {
	told := slices.ContainsFunc(p.Notices, func(n string) bool { return strings.Contains(n, "queued, position") })
	return no(p.Status == http.StatusOK && told && p.Fatal != "", "%d, told %q, then %q", p.Status, p.Notices, p.Fatal)
}

// placeInTheQueue: a person sees it, and then has his clone.
func placeInTheQueue(l *Lab) {
	r := l.Up.Deep("r", l.Size.Commits)
	s := l.serve("--git-per-repository", "1", "--git-total", "1", "--git-queue-notice-after", "100ms")
	rig.NewGitClient(l).Git("ls-remote", s.URL("r"))
	held := s.Spy.Hold("pack-objects")
	ended := make(chan error, 1)
	go func() { ended <- wholeOrNot(l, distinct(r, 2)[1], s.URL("r")) }()
	l.making(s, 0, 1)
	client := rig.NewGitClient(l)
	dir := client.Dir()
	clone := client.Start(l.ctx(), "clone", "--progress", s.URL("r"), dir)
	l.until("the clone to be told", func() error {
		return no(strings.Contains(clone.Output(), "remote: queued, position 1"), "the terminal shows %q", clone.Output())
	})
	held.Release()
	out, err := clone.Wait()
	if err := firstOf(err, <-ended); err != nil {
		l.Errorf("%v\n%s", err, out)
	}
	l.Logf("the terminal shows:\n%s", strings.ReplaceAll(out, "\r", "\n"))
	client.In(dir, "fsck", "--connectivity-only")
	l.idle(s)
}

// byCost: with limits of one and the permit taken, what is cheap goes on, and what is not waits whatever it says it has.
func byCost(l *Lab) {
	r := l.Up.Deep("deep", l.Size.Commits)
	s := l.serve("--git-per-repository", "1", "--git-total", "1")
	client := rig.NewGitClient(l)
	partial := client.Clone(s.URL("deep"), "--filter=blob:none", "--no-checkout")
	local := client.Clone(s.URL("deep"), "--bare")
	held, before := s.Spy.Hold("pack-objects"), len(s.Spy.Packs())
	asks := distinct(r, 5)
	first := make(chan error, 1)
	go func() { first <- wholeOrNot(l, asks[1], s.URL("deep")) }()
	l.making(s, before, 1)
	held.Close() // it alone is held

	tip := r.Commit("main", "a0/b0/c0", "newer\n")
	took := timed(func() {
		client.In(partial, "checkout", "--quiet", "main~1")
		client.In(partial, "blame", "a0/b0/c0")
		client.In(local, "fetch", "--quiet", "origin", "main")
		client.Git("ls-remote", s.URL("deep"))
	})
	l.Logf("%d lazy and incremental fetches beside a clone that holds the only permit took %s", len(s.Spy.Packs())-before-1, took)

	// 1500 wants and one have that nobody has, a negotiation that has given up, and a clone by hash.
	var wants []string
	for _, line := range strings.Split(r.Git("rev-list", "--objects", "main~1"), "\n")[:1500] {
		wants = append(wants, line[:40])
	}
	heavy := []rig.Ask{
		{Wants: wants, Haves: []string{strings.Repeat("1", 40)}, Gzip: true},
		{Wants: []string{tip}, Haves: []string{strings.Repeat("2", 40)}},
		{Wants: []string{r.Git("rev-parse", "main~3")}},
	}
	var began atomic.Int64
	var all sync.WaitGroup
	quick := len(s.Spy.Packs())
	for _, ask := range heavy {
		all.Go(func() { p, err := ask.Get(l.ctx(), s.URL("deep")); began.Add(1); l.whole("a heavy one", p, err) })
	}
	l.queued(s, len(heavy))
	if n := len(s.Spy.Packs()) - quick; n != 0 || began.Load() != 0 {
		l.Errorf("%d of the heavy ones were begun beside the one that holds the permit", n)
	}
	held.Release()
	all.Wait()
	if err := <-first; err != nil {
		l.Error(err)
	}
	p, err := rig.Ask{Wants: []string{tip}, Depth: 1}.Get(l.ctx(), s.URL("deep"))
	l.whole("a shallow clone", p, err)
	l.idle(s)
}

// permits: held until the pack is made, released on every way out.
func permits(l *Lab) {
	r := l.Up.Big("big", l.Size.Big)
	s := l.serve("--git-per-repository", "1", "--git-total", "1", "--git-wait", "2s", "--git-silent-wait", "1s", "--git-queue-notice-after", "1900ms")
	l.warm(s, r)
	asks := distinct(r, 5)
	held, before := s.Spy.Hold("pack-objects"), len(s.Spy.Packs())
	slow, leave := context.WithCancel(l.ctx())
	slowEnded := make(chan error, 1)
	go func() { slowEnded <- slowly(slow, asks[0], s.URL("big")) }()
	l.making(s, before, 1)
	if n, err := s.InUse("git_packs"); err != nil || n == 0 {
		l.Errorf("while a pack is made %v is in use, %v", n, err)
	}
	// One that waits too long, and one that leaves the queue.
	if p, err := asks[1].Get(l.ctx(), s.URL("big")); err != nil || p.Size != 0 || p.Whole() == nil {
		l.Errorf("who waited too long got %+v, %v", p, err)
	}
	waiting, cancel := context.WithCancel(l.ctx())
	gone := make(chan error, 1)
	go func() { _, err := asks[2].Get(waiting, s.URL("big")); gone <- err }()
	l.queued(s, 1)
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		l.Errorf("who left the queue got %v", err)
	}
	l.queued(s, 0)
	held.Release()
	l.until("the permit to be free while a slow client reads", func() error {
		n, err := s.InUse("git_packs")
		return firstOf(err, no(n == 0, "%v in use", n))
	})
	select {
	case err := <-slowEnded:
		l.Errorf("the slow client has ended: %v", err)
	default:
	}
	leave() // in mid-stream
	<-slowEnded
	// And one that leaves while its pack is made, alone.
	held = s.Spy.Hold("pack-objects")
	before = len(s.Spy.Packs())
	alone, cancel := context.WithCancel(l.ctx())
	go func() { asks[3].Get(alone, s.URL("big")); gone <- nil }()
	l.making(s, before, 1)
	cancel()
	<-gone
	held.Release()
	l.idle(s)
	p, err := asks[4].Get(l.ctx(), s.URL("big"))
	l.whole("the next", p, err)
	l.idle(s)
}

// cheapShed: what it takes to turn a clone away, while the only permit is taken and nobody may wait.
func cheapShed(l *Lab) {
	const sheds, silent = 60, 50 * time.Millisecond
	r := l.Up.Deep("r", l.Size.Commits)
	s := l.serve("--git-per-repository", "1", "--git-total", "1", "--git-wait", "60ms", "--git-silent-wait", silent.String(), "--git-queue-notice-after", "55ms")
	asks := distinct(r, 2)
	l.warm(s, r)
	before := len(s.Spy.Packs())
	held := s.Spy.Hold("pack-objects")
	first := make(chan error, 1)
	go func() { first <- wholeOrNot(l, asks[0], s.URL("r")) }()
	l.making(s, before, 1)
	children := len(s.Spy.Calls("upload-pack", "pack-objects"))
	ask := asks[1]
	ask.Depth = 1000
	hints := map[string]int{}
	var took []time.Duration
	for range sheds {
		began := time.Now()
		p, err := ask.Get(l.ctx(), s.URL("r"))
		took = append(took, time.Since(began)-silent)
		if err == nil {
			err = byStatus(p)
		}
		if err != nil {
			l.Fatal(err)
		}
		hints[p.Header.Get("Retry-After")]++
	}
	l.Logf("besides the wait a shed takes %s in half, %s in 9 of 10; Retry-After %v", quantile(took, 0.5), quantile(took, 0.9), hints)
	if len(hints) < 2 {
		l.Error("all are told to come again at the same moment")
	}
	if p90 := quantile(took, 0.9); p90 > 50*time.Millisecond { // upstream is asked whether he may read, too
		l.Errorf("a shed takes %s in 9 of 10", p90)
	}
	if n := len(s.Spy.Calls("upload-pack", "pack-objects")) - children; n != 0 {
		l.Errorf("%d packs were planned or begun for those who were shed", n)
	}
	held.Release()
	if err := <-first; err != nil {
		l.Error(err)
	}
	l.idle(s)
}
