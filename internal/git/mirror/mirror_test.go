package mirror

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leveehq/levee/internal/git/upstream"
)

func TestG4FirstClonesAtTheSameMomentAreOneTransfer(t *testing.T) {
	w := newOrigin(t)
	w.commit("main")
	for i := range 40 {
		w.git("tag", "-a", "-m", "t", "t"+strconv.Itoa(i))
	}
	w.git("push", "-q", "--tags", "origin")
	h := hostOf(w)
	go1, waiting := make(chan struct{}), 0
	var mu sync.Mutex
	h.set(func(ctx context.Context, what string, _ upstream.Credentials) error {
		if what == "fetch" {
			<-go1
		}
		return nil
	})
	o := options(t)
	o.MaxStaleness = time.Hour
	s := openStore(t, o, h)
	leaving, leave := context.WithCancelCause(t.Context())
	gone := errors.New("the client left")
	errs := make(chan error, 22)
	one := func(ctx context.Context) error {
		v, err := s.Refs(ctx, repoA, nobody)
		if err != nil {
			return err
		}
		mu.Lock()
		waiting++
		mu.Unlock()
		l, err := s.Lease(ctx, repoA, nobody, v, nil)
		if err != nil {
			return err
		}
		defer l.Release()
		sameRefsAs(t, l, w.origin)
		return nil
	}
	go func() { errs <- one(leaving) }() // the first
	until(t, "the first waits", func() bool { mu.Lock(); defer mu.Unlock(); return waiting == 1 })
	for range 21 {
		go func() { errs <- one(t.Context()) }()
	}
	until(t, "all wait", func() bool { mu.Lock(); defer mu.Unlock(); return waiting == 22 })
	leave(gone)
	if err := <-errs; !errors.Is(err, gone) {
		t.Errorf("who left got %v", err)
	}
	close(go1)
	for range 21 {
		must(t, <-errs)
	}
	if asked, fetched := h.counts(); asked != 1 || fetched != 1 {
		t.Errorf("upstream was asked %d times and fetched from %d times", asked, fetched)
	}
}

func TestAMirrorIsReadyWithBitmapCommitGraphAndMultiPackIndex(t *testing.T) {
	w := newOrigin(t)
	for range 20 {
		w.commit("main")
	}
	s := openStore(t, options(t), hostOf(w))
	l := lease(t, s, repoA)
	for _, pattern := range []string{"pack/multi-pack-index", "pack/multi-pack-index-*.bitmap", "info/commit-graphs/commit-graph-chain"} {
		if found, _ := filepath.Glob(filepath.Join(l.Dir, "objects", pattern)); len(found) != 1 {
			t.Errorf("%s: %v", pattern, found)
		}
	}
	git(t, l.Dir, "multi-pack-index", "verify")
	git(t, l.Dir, "commit-graph", "verify")
	if out := git(t, l.Dir, "rev-list", "--test-bitmap", "HEAD"); !strings.Contains(out, "OK!") {
		t.Error(out)
	}
	fsck(t, l)
	if l.Objects != 60 || l.Bytes == 0 || l.Generation == 0 {
		t.Errorf("%+v", l)
	}
}

func TestG19RefsAreUpstreamsLineForLine(t *testing.T) {
	w := newOrigin(t)
	h := hostOf(w)
	s := openStore(t, options(t), h)
	l := lease(t, s, repoA) // empty
	sameRefsAs(t, l, w.origin)
	for _, step := range []struct {
		name string
		do   func()
	}{
		{"the first push", func() { w.commit("main") }},
		{"a branch, a tag, a tag of a tag, a note, a pull request", func() {
			w.commit("topic/x")
			w.git("tag", "-a", "-m", "t", "v1")
			w.git("tag", "-a", "-m", "t", "v2", "v1")
			w.git("notes", "add", "-m", "n")
			w.git("push", "-q", "origin", "v1", "v2", "refs/notes/*", "HEAD:refs/pull/1/head")
		}},
		{"a tag of a tree and of a blob", func() {
			w.git("tag", "tree", "HEAD^{tree}")
			w.git("tag", "blob", "HEAD:file")
			w.git("push", "-q", "origin", "tree", "blob")
		}},
		{"a branch where a directory was", func() {
			w.git("push", "-q", "origin", ":topic/x")
			w.commit("topic")
		}},
		{"HEAD renamed", func() { git(t, w.origin, "symbolic-ref", "HEAD", "refs/heads/topic") }},
		{"HEAD unborn", func() { git(t, w.origin, "symbolic-ref", "HEAD", "refs/heads/nothing") }},
		{"a force-push", func() {
			w.git("checkout", "-q", "--orphan", "other")
			w.commit("main")
		}},
		{"all deleted", func() {
			git(t, w.origin, "for-each-ref", "--format=delete %(refname)")
			for _, name := range strings.Fields(git(t, w.origin, "for-each-ref", "--format=%(refname)")) {
				git(t, w.origin, "update-ref", "-d", name)
			}
		}},
		{"and a push again", func() { w.commit("main") }},
	} {
		step.do()
		before := l.Generation
		l = lease(t, s, repoA)
		if l.Generation <= before {
			t.Errorf("%s: generation %d after %d", step.name, l.Generation, before)
		}
		sameRefsAs(t, l, w.origin)
		fsck(t, l)
		if t.Failed() {
			t.Fatal(step.name)
		}
	}
	again := lease(t, s, repoA)
	if again.Generation != l.Generation {
		t.Errorf("generation %d after %d, and nothing had changed", again.Generation, l.Generation)
	}
	if left := entriesOf(t, filepath.Join(l.Dir, "refs", "heads")); len(left) != 0 {
		t.Errorf("loose refs: %v", left)
	}
}

func TestAMirrorIsFoundAgainAfterARestart(t *testing.T) {
	w := newOrigin(t)
	w.commit("main")
	w.git("tag", "-a", "-m", "t", "v1")
	w.git("push", "-q", "origin", "v1")
	h, o := hostOf(w), options(t)
	s := openStore(t, o, h)
	lease(t, s, repoA).Release()
	list := s.List()
	s.Close()

	s = openStore(t, o, h)
	again := s.List()
	if len(again) != 1 || again[0].Repo != "example.com/org/a" || again[0].State != Ready || again[0].Bytes != list[0].Bytes {
		t.Fatalf("before %+v, after %+v", list, again)
	}
	l := lease(t, s, repoA)
	sameRefsAs(t, l, w.origin)
	if _, fetched := h.counts(); fetched != 1 {
		t.Errorf("%d fetches; it was cloned already", fetched)
	}
}

func TestASHA256RepositoryIsMirrored(t *testing.T) {
	w := newOrigin(t, "--object-format=sha256")
	first := w.commit("main")
	s := openStore(t, options(t), hostOf(w))
	l := lease(t, s, repoA)
	w.commit("main")
	l = lease(t, s, repoA)
	sameRefsAs(t, l, w.origin)
	fsck(t, l)
	if missing, err := l.Ensure(t.Context(), nobody, oidsOf(first)); err != nil || len(missing) > 0 {
		t.Errorf("missing %v, %v", missing, err)
	}
}

func TestARepositoryMadeAnewWithAnotherFormatIsClonedAnew(t *testing.T) {
	a, b := newOrigin(t), newOrigin(t, "--object-format=sha256")
	a.commit("main")
	b.commit("main")
	h := hostOf(a)
	s := openStore(t, options(t), h)
	old := lease(t, s, repoA)
	h.mu.dirs[repoA] = b.origin
	l := lease(t, s, repoA)
	sameRefsAs(t, l, b.origin)
	sameRefsAs(t, old, a.origin) // a lease keeps what it is of
	old.Release()
	if _, err := os.Stat(old.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the old one is still there: %v", err)
	}
}

func TestNamesOfRepositoriesNeverBecomePaths(t *testing.T) {
	w := newOrigin(t)
	w.commit("main")
	names := []string{"../../etc", "a/./b", strings.Repeat("long/", 500) + "x", "nul\x00", "ÄÖ", ".git", "a.lock", "A/B", "a/b"}
	dirs := map[upstream.Repo]string{}
	for _, n := range names {
		dirs[upstream.Repo{Host: "h", Path: n}] = w.origin
	}
	o := options(t)
	s := openStore(t, o, newHost(dirs))
	for id := range dirs {
		l := lease(t, s, id)
		if filepath.Dir(l.Dir) != s.mirrorsDir() {
			t.Errorf("%q is in %s", id.Path, l.Dir)
		}
		l.Release()
	}
	s.Close()
	s = openStore(t, o, newHost(dirs))
	if n := len(s.List()); n != len(names) {
		t.Errorf("%d mirrors of %d", n, len(names))
	}
}
