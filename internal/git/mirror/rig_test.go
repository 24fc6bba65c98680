package mirror

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/leveehq/levee/gate"
	"github.com/leveehq/levee/internal/git/child"
	"github.com/leveehq/levee/internal/git/pkt"
	"github.com/leveehq/levee/internal/git/upstream"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("LEVEE_MIRROR_PLAY"); dir != "" {
		play(dir)
	}
	goleak.VerifyTestMain(m)
}

var repoA = upstream.Repo{Host: "example.com", Path: "org/a"}

// work is a working copy that pushes to an upstream repository.
type work struct {
	t      testing.TB
	dir    string
	origin string
	n      int
}

func newOrigin(t testing.TB, args ...string) *work {
	t.Helper()
	w := &work{t: t, dir: filepath.Join(t.TempDir(), "work"), origin: filepath.Join(t.TempDir(), "origin.git")}
	git(t, "", append([]string{"init", "-q", "--bare", "-b", "main", w.origin}, args...)...)
	git(t, w.origin, "config", "gc.auto", "0")
	git(t, "", append([]string{"init", "-q", "-b", "main", w.dir}, args...)...)
	git(t, w.dir, "remote", "add", "origin", w.origin)
	return w
}

func (w *work) git(args ...string) string { w.t.Helper(); return git(w.t, w.dir, args...) }

// commit makes one, and pushes it to a branch; it returns its name.
func (w *work) commit(branch string) string {
	w.t.Helper()
	w.n++
	must(w.t, os.WriteFile(filepath.Join(w.dir, "file"), fmt.Appendf(nil, "%s %d\n", branch, w.n), 0o600))
	w.git("add", "file")
	w.git("commit", "-q", "-m", fmt.Sprint("commit ", w.n))
	w.git("push", "-q", "--force", "origin", "HEAD:refs/heads/"+branch)
	return w.git("rev-parse", "HEAD")
}

func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	out, err := tryGit(dir, args...)
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func tryGit(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "LC_ALL=C",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com",
		"GIT_CONFIG_COUNT=2", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*",
		"GIT_CONFIG_KEY_1=protocol.file.allow", "GIT_CONFIG_VALUE_1=always",
	}
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// host is an upstream that serves repositories of this disk by running git on them.
type host struct {
	mu struct {
		sync.Mutex
		dirs    map[upstream.Repo]string
		asked   int
		fetches []upstream.Fetch
		// before is called at the beginning of each call; its error is upstream's.
		before func(ctx context.Context, what string, cred upstream.Credentials) error
		cut    bool // packs end in the middle
	}
}

func newHost(dirs map[upstream.Repo]string) *host {
	h := new(host)
	h.mu.dirs = dirs
	return h
}

func hostOf(w *work) *host { return newHost(map[upstream.Repo]string{repoA: w.origin}) }

func (h *host) set(before func(ctx context.Context, what string, cred upstream.Credentials) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.before = before
}

func (h *host) counts() (asked, fetched int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mu.asked, len(h.mu.fetches)
}

func (h *host) LsRefs(ctx context.Context, repo upstream.Repo, cred upstream.Credentials) (*upstream.Refs, error) {
	h.mu.Lock()
	h.mu.asked++
	dir, before := h.mu.dirs[repo], h.mu.before
	h.mu.Unlock()
	if before != nil {
		if err := before(ctx, "refs", cred); err != nil {
			return nil, err
		}
	}
	return refsOf(dir)
}

// refsOf is what upload-pack would advertise.
func refsOf(dir string) (*upstream.Refs, error) {
	format, err := tryGit(dir, "rev-parse", "--show-object-format")
	if err != nil {
		return nil, err
	}
	r := &upstream.Refs{ObjectFormat: format}
	out, err := tryGit(dir, "for-each-ref", "--format=%(objectname) %(refname) %(*objectname)")
	if err != nil {
		return nil, err
	}
	target, _ := tryGit(dir, "symbolic-ref", "HEAD")
	head := upstream.Ref{Name: "HEAD", Symref: target}
	for line := range strings.Lines(out) {
		f := append(strings.Fields(line), "")
		if f[2] != "" { // which is peeled once
			f[2], _ = tryGit(dir, "rev-parse", f[1]+"^{}")
		}
		r.List = append(r.List, upstream.Ref{OID: f[0], Name: f[1], Peeled: f[2]})
		if f[1] == target {
			head.OID = f[0]
		}
	}
	r.List = append([]upstream.Ref{head}, r.List...)
	return r, nil
}

func (h *host) Fetch(ctx context.Context, repo upstream.Repo, cred upstream.Credentials, f upstream.Fetch) error {
	h.mu.Lock()
	h.mu.fetches = append(h.mu.fetches, f)
	dir, before, cut := h.mu.dirs[repo], h.mu.before, h.mu.cut
	h.mu.Unlock()
	if before != nil {
		if err := before(ctx, "fetch", cred); err != nil {
			return err
		}
	}
	var revs []string
	for _, o := range f.Wants {
		if _, err := tryGit(dir, "cat-file", "-e", o); err != nil {
			return &upstream.Failure{Kind: upstream.NotOurRef, OID: o, Err: errors.New("not our ref " + o)}
		}
		revs = append(revs, o)
	}
	for _, o := range f.Haves {
		if _, err := tryGit(dir, "cat-file", "-e", o); err == nil {
			revs = append(revs, "^"+o)
		}
	}
	cmd := exec.CommandContext(ctx, "git", "pack-objects", "--revs", "--stdout", "--thin", "-q")
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(strings.Join(revs, "\n")+"\n")
	pack, err := cmd.Output()
	if err != nil {
		return err
	}
	if cut {
		_, err := f.Pack.Write(pack[:len(pack)/2])
		return errors.Join(err, &upstream.Failure{Kind: upstream.Truncated, Err: errors.New("cut")})
	}
	_, err = f.Pack.Write(pack)
	return err
}

func failure(k upstream.Kind) error { return &upstream.Failure{Kind: k, Err: errors.New(string(k))} }

func options(t testing.TB) Options {
	t.Helper()
	g, err := gate.New(gate.Options{Name: "git_mirrors", Limit: 64 << 20, Queue: 1000, Wait: time.Minute})
	must(t, err)
	return Options{
		Dir: filepath.Join(t.TempDir(), "git"), Gate: g, Budget: child.Budget{Bytes: 64 << 20, Threads: 1},
		Logger: slog.New(slog.NewTextHandler(logTo{t}, nil)),
	}
}

type logTo struct{ t testing.TB }

func (l logTo) Write(p []byte) (int, error) {
	l.t.Log(string(bytes.TrimSpace(p)))
	return len(p), nil
}

// openStore opens one that is closed when the test ends.
func openStore(t testing.TB, o Options, up asker) *Store {
	t.Helper()
	run, err := child.New(child.Options{})
	must(t, err)
	s, err := open(o, up, run)
	must(t, err)
	t.Cleanup(func() {
		s.Close()
		if in := o.Gate.Stats().InUse; in != 0 {
			t.Errorf("%d of the gate are in use after the end", in)
		}
		if left := entriesOf(t, s.workDir()); len(left) > 0 {
			t.Errorf("left in work/: %v", left)
		}
	})
	return s
}

func entriesOf(t testing.TB, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// cred is a caller's.
func cred(name string) upstream.Credentials {
	return upstream.CredentialsOf(http.Header{"Authorization": {"Basic " + name}})
}

var nobody upstream.Credentials

// lease is Refs and Lease.
func lease(t testing.TB, s *Store, id upstream.Repo) *Lease {
	t.Helper()
	v, err := s.Refs(t.Context(), id, nobody)
	must(t, err)
	l, err := s.Lease(t.Context(), id, nobody, v, nil)
	must(t, err)
	t.Cleanup(l.Release)
	return l
}

// sameRefsAs fails unless a mirror's refs are those of an upstream.
func sameRefsAs(t testing.TB, l *Lease, origin string) {
	t.Helper()
	want, got := git(t, "", "ls-remote", origin), git(t, "", "ls-remote", l.Dir)
	if got != want {
		t.Errorf("refs of the mirror:\n%s\nrefs of upstream:\n%s", got, want)
	}
}

func fsck(t testing.TB, l *Lease) {
	t.Helper()
	git(t, l.Dir, "fsck", "--full", "--strict", "--no-dangling")
	git(t, l.Dir, "rev-list", "--objects", "--all", "--quiet")
}

func has(t testing.TB, dir, oid string) bool {
	t.Helper()
	_, err := tryGit(dir, "cat-file", "-e", oid)
	return err == nil
}

// until waits for a condition.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
		<-time.After(2 * time.Millisecond)
	}
}

func packsOf(t testing.TB, dir string) int {
	t.Helper()
	return len(slices.DeleteFunc(entriesOf(t, filepath.Join(dir, "objects", "pack")), func(n string) bool { return !strings.HasSuffix(n, ".pack") }))
}

func oidsOf(names ...string) (list []pkt.OID) {
	for _, n := range names {
		list = append(list, pkt.OID(n))
	}
	return list
}
