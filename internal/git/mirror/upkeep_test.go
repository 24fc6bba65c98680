package mirror

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leveehq/levee/gate"
	"github.com/leveehq/levee/internal/git/child"
	"github.com/leveehq/levee/internal/git/upstream"
)

func TestG16UpkeepFetchesAndClonesAtTheSameTime(t *testing.T) {
	w := newOrigin(t)
	for range 5 {
		w.commit("main")
	}
	h := hostOf(w)
	s := openStore(t, options(t), h)
	running(t, s)
	lease(t, s, repoA).Release()
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { // upkeep, without rest
		for ctx.Err() == nil {
			m := s.enter(repoA)
			b, release := m.held()
			if err := b.fold(ctx, m); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
			if err := b.repack(ctx, m); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
			release()
			s.leave(m)
		}
	})
	for i := range 3 {
		all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				cloneOnce(t, s, filepath.Join(t.TempDir(), fmt.Sprint(i, "-", n)))
			}
		})
	}
	most := 0
	for n := range 60 {
		switch n % 5 {
		case 3:
			w.git("reset", "-q", "--hard", "HEAD~1")
		case 4:
			w.git("push", "-q", "--force", "origin", fmt.Sprintf("HEAD~%d:refs/heads/b%d", n%3, n%7))
		}
		w.commit("main")
		l := lease(t, s, repoA)
		most = max(most, packsOf(t, l.Dir))
		l.Release()
	}
	stop()
	all.Wait()
	l := lease(t, s, repoA)
	sameRefsAs(t, l, w.origin)
	fsck(t, l)
	if most > mostPacks {
		t.Errorf("there were %d packs at once", most)
	}
}

// cloneOnce is what a server does for a client.
func cloneOnce(t *testing.T, s *Store, dir string) {
	v, err := s.Refs(t.Context(), repoA, nobody)
	if err != nil {
		t.Error(err)
		return
	}
	l, err := s.Lease(t.Context(), repoA, nobody, v, nil)
	if err != nil {
		t.Error(err)
		return
	}
	defer l.Release()
	if out, err := tryGit("", "clone", "-q", "--mirror", "file://"+l.Dir, dir); err != nil {
		t.Errorf("clone: %v\n%s", err, out)
	}
	if out, err := tryGit(dir, "fsck", "--connectivity-only"); err != nil {
		t.Errorf("fsck: %v\n%s", err, out)
	}
}

func TestPacksAreFoldedAndTheirNumberIsBounded(t *testing.T) {
	w := newOrigin(t)
	w.commit("main")
	s := openStore(t, options(t), hostOf(w))
	l := lease(t, s, repoA)
	for range mostPacks + 5 { // without upkeep
		w.commit("main")
		l.Release()
		l = lease(t, s, repoA)
		if n := packsOf(t, l.Dir); n > mostPacks+1 {
			t.Fatalf("%d packs", n)
		}
	}
	m := s.enter(repoA)
	defer s.leave(m)
	must(t, l.h.b.fold(t.Context(), m))
	l.Release()
	if n := packsOf(t, l.Dir); n > 4 {
		t.Errorf("%d packs after upkeep", n)
	}
	fsck(t, l)
	git(t, l.Dir, "multi-pack-index", "verify")
	git(t, l.Dir, "commit-graph", "verify")
	if out := git(t, l.Dir, "rev-list", "--test-bitmap", "HEAD"); !strings.Contains(out, "OK!") {
		t.Error(out)
	}
}

func TestRollUpLeavesAGeometricProgression(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		objects := rapid.SliceOfN(rapid.Int64Range(1, 1<<40), 0, 60).Draw(t, "objects")
		sortInts(objects)
		n := rollUp(objects)
		if n == 1 {
			t.Fatal("one pack is made of one pack")
		}
		sum := int64(0)
		for _, o := range objects[:n] {
			sum += o
		}
		for _, o := range objects[n:] {
			if sum > 0 && o < growth*sum {
				t.Fatalf("%d beside %d that are smaller", o, sum)
			}
			sum += o
		}
	})
}

func sortInts(list []int64) {
	for i := range list {
		for j := i; j > 0 && list[j] < list[j-1]; j-- {
			list[j], list[j-1] = list[j-1], list[j]
		}
	}
}

func TestUpkeepGivesWayToAFetch(t *testing.T) {
	w := newOrigin(t)
	w.commit("main")
	o := options(t)
	s := openStore(t, o, hostOf(w))
	l := lease(t, s, repoA)
	hold, err := o.Gate.Admit(t.Context(), "x", o.Budget.Bytes)
	must(t, err)
	began := make(chan struct{})
	ended := make(chan error)
	go func() {
		ended <- s.interruptibly(t.Context(), l.h.b, func(ctx context.Context) error {
			close(began)
			<-ctx.Done()
			return context.Cause(ctx)
		})
	}()
	<-began
	w.commit("main")
	got := make(chan error)
	go func() {
		l, err := s.Lease(t.Context(), repoA, nobody, nil, nil)
		if err == nil {
			l.Release()
		}
		got <- err
	}()
	if err := <-ended; !errors.Is(err, errYield) {
		t.Error(err)
	}
	hold.Release()
	must(t, <-got)
}

func TestAnUpkeepThatHasNoMemoryLeavesTheMirrorServing(t *testing.T) {
	w := newOrigin(t)
	w.commit("main")
	o := options(t)
	h := hostOf(w)
	run, err := child.New(child.Options{})
	must(t, err)
	s, err := open(o, h, failing{run, "multi-pack-index"})
	must(t, err)
	defer s.Close()
	l := lease(t, s, repoA)
	fsck(t, l)
}

// failing fails one subcommand.
type failing struct {
	runner
	what string
}

func (f failing) Run(ctx context.Context, c child.Cmd) (child.Usage, error) {
	if c.Args[0] == f.what {
		return child.Usage{}, &child.ExitError{Args: f.what, Status: 128, OutOfMemory: true}
	}
	return f.runner.Run(ctx, c)
}

func TestALockOfAChildThatWasKilledIsNotLeft(t *testing.T) {
	w := newOrigin(t)
	w.commit("main")
	run, err := child.New(child.Options{})
	must(t, err)
	k := &killing{runner: run, what: "multi-pack-index"}
	s, err := open(options(t), hostOf(w), k)
	must(t, err)
	defer s.Close()
	l := lease(t, s, repoA)
	k.armed.Store(true)
	p, err := s.quietPermit(t.Context(), repoA)
	must(t, err)
	defer p.Release()
	must(t, p.derive(t.Context(), l.h.b, false))
	pack := filepath.Join(l.Dir, "objects", "pack")
	if _, err := os.Stat(filepath.Join(pack, "multi-pack-index.lock")); err == nil {
		t.Error("the lock is left")
	}
	if _, err := os.Stat(filepath.Join(pack, "multi-pack-index")); err != nil {
		t.Errorf("the next one was not written: %v", err)
	}
}

// killing has one subcommand killed once when it is armed, in the middle of its work.
type killing struct {
	runner
	what  string
	armed atomic.Bool
}

func (k *killing) Run(ctx context.Context, c child.Cmd) (use child.Usage, err error) {
	if c.Args[0] == k.what && k.armed.Swap(false) {
		err = os.WriteFile(filepath.Join(c.Dir, "objects", "pack", k.what+".lock"), nil, 0o600)
		return use, errors.Join(err, &child.ExitError{Args: k.what, Signal: "SIGKILL", OutOfMemory: true})
	}
	return k.runner.Run(ctx, c)
}

func TestWithOneChildAtATimeNothingStandsStill(t *testing.T) {
	var dirs = map[upstream.Repo]string{}
	var works []*work
	for i := range 4 {
		w := newOrigin(t)
		w.commit("main")
		works = append(works, w)
		dirs[upstream.Repo{Host: "h", Path: fmt.Sprint(i)}] = w.origin
	}
	o := options(t)
	g, err := gate.New(gate.Options{Name: "git_mirrors", Limit: o.Budget.Bytes, Queue: 1000, Wait: time.Minute})
	must(t, err)
	o.Gate = g
	s := openStore(t, o, newHost(dirs))
	running(t, s)
	var all sync.WaitGroup
	for id := range dirs {
		for range 3 {
			all.Go(func() {
				for range 5 {
					l, err := s.Lease(t.Context(), id, nobody, nil, nil)
					if err != nil {
						t.Error(err)
						return
					}
					l.Release()
				}
			})
		}
	}
	for range 5 {
		for _, w := range works {
			w.git("reset", "-q", "--hard")
			w.commit("main")
		}
	}
	all.Wait()
}

func TestListsOfRefsLeaveMemoryAndComeBack(t *testing.T) {
	w := newOrigin(t)
	o := options(t)
	o.RefBytes = 1
	h := hostOf(w)
	s := openStore(t, o, h)
	l, old := forced(t, s, w)
	m := l.h.m
	m.remember(l.h.b, true)
	s.forgetRefs()
	if n, _ := m.refsInMemory(); n == 0 {
		t.Error("they were forgotten, and a lease is out")
	}
	l.Release()
	until(t, "nobody is inside", func() bool { m.mu.Lock(); defer m.mu.Unlock(); return m.mu.users == 0 })
	s.forgetRefs()
	if n, _ := m.refsInMemory(); n != 0 {
		t.Errorf("%d bytes are left", n)
	}
	prune(t, w.origin)
	next := lease(t, s, repoA)
	sameRefsAs(t, next, w.origin)
	if missing := ensure(t, next, nobody, old...); len(missing) != len(old) {
		t.Errorf("suspects were forgotten for good: missing are %v", missing)
	}
	if _, fetched := h.counts(); fetched > 10 {
		t.Errorf("%d fetches", fetched)
	}
}
