package mirror

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leveehq/levee/internal/git/child"
	"github.com/leveehq/levee/internal/git/upstream"
)

// noisy fills a repository with bytes that do not compress.
func (w *work) noisy(bytes int) {
	w.t.Helper()
	f, err := os.Create(filepath.Join(w.dir, "noise"))
	must(w.t, err)
	_, err = io.CopyN(f, rand.NewChaCha8([32]byte{byte(w.n)}), int64(bytes))
	must(w.t, errors.Join(err, f.Close()))
	w.git("add", "noise")
	w.commit("main")
}

func TestTheLeastRecentlyUsedMirrorGivesWay(t *testing.T) {
	dirs := map[upstream.Repo]string{}
	id := func(name string) upstream.Repo { return upstream.Repo{Host: "h", Path: name} }
	for _, name := range []string{"a", "b", "c", "d"} {
		w := newOrigin(t)
		w.noisy(1 << 20)
		dirs[id(name)] = w.origin
	}
	o := options(t)
	o.MaxBytes = 4 << 20
	s := openStore(t, o, newHost(dirs))
	for _, name := range []string{"a", "b", "c"} {
		lease(t, s, id(name)).Release()
	}
	held := lease(t, s, id("a")) // b is the oldest now
	lease(t, s, id("d")).Release()
	names := func() (all string) {
		for _, i := range s.List() {
			all += i.Repo + " "
		}
		return all
	}
	if got := names(); got != "h/a h/c h/d " {
		t.Errorf("left are %s", got)
	}
	s.o.MaxBytes = 1 << 20
	if err := s.makeRoom(0); !errors.Is(err, ErrNoRoom) {
		t.Error(err)
	}
	if got := names(); got != "h/a " {
		t.Errorf("left are %s, and a is leased", got)
	}
	held.Release()
	must(t, s.makeRoom(0))
	if got := names(); got != "" || len(entriesOf(t, s.mirrorsDir())) != 0 {
		t.Errorf("left are %s", got)
	}
}

func TestARepositoryThatIsTooLargeIsAClearError(t *testing.T) {
	w := newOrigin(t)
	w.noisy(4 << 20)
	o := options(t)
	o.MaxBytes = 2 << 20
	s := openStore(t, o, hostOf(w))
	_, err := s.Lease(t.Context(), repoA, nobody, nil, nil)
	if !errors.Is(err, ErrNoRoom) || !strings.Contains(err.Error(), "git.max_size") {
		t.Errorf("%v", err)
	}
}

func TestWhatCannotBeKeptIsNotFetchedAgainAndAgain(t *testing.T) {
	w := newOrigin(t)
	w.commit("main")
	o := options(t)
	h := hostOf(w)
	run, err := child.New(child.Options{})
	must(t, err)
	s, err := open(o, h, failing{run, "index-pack"})
	must(t, err)
	defer s.Close()
	for range 5 {
		v, err := s.Refs(t.Context(), repoA, nobody) // refs can be shown
		must(t, err)
		if _, err = s.Lease(t.Context(), repoA, nobody, v, nil); !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), "git.memory") {
			t.Errorf("%v", err)
		}
	}
	if _, fetched := h.counts(); fetched != 1 {
		t.Errorf("%d fetches", fetched)
	}
	m := s.all()[0]
	m.mu.Lock()
	m.mu.pause = time.Now()
	m.mu.Unlock()
	until(t, "its failure is forgotten", func() bool {
		s.upkeep(t.Context())
		return len(s.all()) == 0
	})
}

func TestOnlyTheLatestOfWhatWasFetchedByNameIsKept(t *testing.T) {
	w := newOrigin(t)
	w.commit("main")
	o := options(t)
	o.MaxStaleness = time.Hour
	s := openStore(t, o, hostOf(w))
	l := lease(t, s, repoA)
	var hidden []string
	for i := range mostWants + 3 {
		name := w.git("commit-tree", "-m", fmt.Sprint(i), "-p", "HEAD", "HEAD^{tree}")
		w.git("push", "-q", "origin", name+":refs/x/y")
		git(t, w.origin, "update-ref", "-d", "refs/x/y")
		if missing := ensure(t, l, nobody, name); len(missing) > 0 {
			t.Fatal(missing)
		}
		hidden = append(hidden, name)
	}
	if !has(t, l.Dir, hidden[0]) {
		t.Error("what a lease has was dropped")
	}
	l.Release()
	for i, name := range hidden {
		if got, want := has(t, l.Dir, name), i >= 3; got != want {
			t.Errorf("number %d: %v", i, got)
		}
	}
	l = lease(t, s, repoA)
	ensure(t, l, nobody, hidden...)
	if !has(t, l.Dir, hidden[0]) {
		t.Error("it was not fetched again")
	}
}

func TestAnEvictedMirrorGoesWithItsLastLease(t *testing.T) {
	w := newOrigin(t)
	w.commit("main")
	s := openStore(t, options(t), hostOf(w))
	l := lease(t, s, repoA)
	other := l.Hold()
	if !s.Evict(repoA) || s.Evict(repoA) || s.Evict(upstream.Repo{Host: "x"}) {
		t.Error("Evict says the wrong thing")
	}
	l.Release()
	l.Release()
	fsck(t, other)
	next := lease(t, s, repoA)
	if next.Dir == other.Dir {
		t.Error("the evicted one came back")
	}
	other.Release()
	if _, err := os.Stat(other.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
	fsck(t, next)
}
