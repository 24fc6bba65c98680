package mirror

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/leveehq/levee/gate"
	"github.com/leveehq/levee/internal/git/child"
	"github.com/leveehq/levee/internal/git/upstream"
)

// play is what the test binary does in a process that is to be killed: it opens the store in dir, and does one of two things.
func play(dir string) {
	g, err := gate.New(gate.Options{Name: "git_mirrors", Limit: 128 << 20, Queue: 100, Wait: time.Minute})
	mustPlay(err)
	run, err := child.New(child.Options{})
	mustPlay(err)
	origin := filepath.Join(dir, "origin.git")
	steps, _ := strconv.Atoi(os.Getenv("LEVEE_MIRROR_STEPS"))
	o := Options{Dir: filepath.Join(dir, "git"), Gate: g, Budget: child.Budget{Bytes: 64 << 20}}
	s, err := open(o, newHost(map[upstream.Repo]string{repoA: origin}), &mortal{runner: run, steps: steps})
	mustPlay(err)
	os.Stdout.WriteString("open\n")
	if steps > 0 {
		playOnce(s, origin, strings.Fields(os.Getenv("LEVEE_MIRROR_COMMITS")))
		os.Exit(0)
	}
	playOn(s)
}

func mustPlay(err error) {
	if err != nil {
		panic(err)
	}
}

// mortal kills its own process before a child starts or after it has ended, whichever is the step.
type mortal struct {
	runner
	steps int
	n     atomic.Int64
}

func (m *mortal) step() {
	if m.n.Add(1) == int64(m.steps) {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

func (m *mortal) Run(ctx context.Context, c child.Cmd) (child.Usage, error) {
	m.step()
	defer m.step()
	return m.runner.Run(ctx, c)
}

// playOnce brings a mirror through all that can be done to one.
func playOnce(s *Store, origin string, commits []string) {
	ctx := context.Background()
	for _, c := range commits {
		_, err := tryGit(origin, "update-ref", "refs/heads/main", c)
		mustPlay(err)
		l, err := s.Lease(ctx, repoA, nobody, nil, nil)
		mustPlay(err)
		l.Release()
	}
	m := s.enter(repoA)
	b, release := m.held()
	mustPlay(b.fold(ctx, m))
	l, err := s.Lease(ctx, repoA, nobody, nil, nil)
	mustPlay(err)
	_, err = l.Ensure(ctx, nobody, oidsOf(os.Getenv("LEVEE_MIRROR_HIDDEN")))
	mustPlay(err)
	mustPlay(b.repack(ctx, m))
	release()
	l.Release()
}

// playOn asks for the mirror over and over, with upkeep as often as it may be.
func playOn(s *Store) {
	ctx := context.Background()
	go func() {
		for {
			m := s.enter(repoA)
			if b, release := m.held(); b != nil {
				_ = b.fold(ctx, m)
				_ = b.repack(ctx, m)
				release()
			}
			s.leave(m)
		}
	}()
	for {
		l, err := s.Lease(ctx, repoA, nobody, nil, nil)
		mustPlay(err)
		l.Release()
	}
}

func TestG17AKillBeforeOrAfterAnyChildIsRepaired(t *testing.T) {
	w := newOrigin(t)
	w.commit("main")
	commits := []string{w.commit("main"), w.commit("main")}
	w.git("reset", "-q", "--hard", "HEAD~1")
	commits = append(commits, w.commit("main"), w.commit("main"))
	hidden := w.git("commit-tree", "-m", "hidden", "-p", "HEAD", "HEAD^{tree}")
	w.git("push", "-q", "origin", hidden+":refs/x/y")
	git(t, w.origin, "update-ref", "-d", "refs/x/y")
	lost := commits[1]
	for step := 1; ; step++ {
		o := options(t)
		dir := filepath.Dir(o.Dir)
		must(t, os.Symlink(w.origin, filepath.Join(dir, "origin.git")))
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "LEVEE_MIRROR_PLAY="+dir, "LEVEE_MIRROR_STEPS="+strconv.Itoa(step),
			"LEVEE_MIRROR_COMMITS="+strings.Join(commits, " "), "LEVEE_MIRROR_HIDDEN="+hidden)
		out, err := cmd.CombinedOutput()
		if err == nil {
			t.Logf("%d steps", step)
			return
		}
		if !strings.Contains(err.Error(), "killed") {
			t.Fatalf("step %d: %v\n%s", step, err, out)
		}
		git(t, w.origin, "update-ref", "refs/heads/main", commits[len(commits)-1])
		h := hostOf(w)
		s := openStore(t, o, h)
		l := lease(t, s, repoA)
		sameRefsAs(t, l, w.origin)
		fsck(t, l)
		noTemporaries(t, s)
		h.set(func(_ context.Context, what string, _ upstream.Credentials) error {
			if what == "fetch" {
				return failure(upstream.NotOurRef) // it was pruned there
			}
			return nil
		})
		if missing := ensure(t, l, nobody, lost, hidden); len(missing) != 2 {
			t.Errorf("step %d: of what upstream does not serve any more, missing are only %v", step, missing)
		}
		l.Release()
		s.Close()
		if t.Failed() {
			t.Fatalf("step %d", step)
		}
	}
}

func TestG17AProcessThatIsKilledLeavesNothingThatTheNextCannotRepair(t *testing.T) {
	w := newOrigin(t)
	dir := filepath.Dir(w.origin)
	for range 5 {
		w.commit("main")
	}
	o := options(t)
	o.Dir = filepath.Join(dir, "git")
	for round := range 25 {
		// Kills come later and later: while it clones, while it packs, while it fetches what was pushed.
		killLater(t, dir, time.Duration(round)*12*time.Millisecond, func() {
			if round%3 == 2 {
				w.git("reset", "-q", "--hard", "HEAD~1")
			}
			w.commit("main")
		})
		s := openStore(t, o, hostOf(w))
		for _, m := range s.all() {
			b, release := m.held()
			if b != nil {
				git(t, b.dir, "fsck", "--connectivity-only", "--no-dangling")
			}
			release()
		}
		l := lease(t, s, repoA)
		sameRefsAs(t, l, w.origin)
		fsck(t, l)
		noTemporaries(t, s)
		l.Release()
		if round%8 == 7 {
			s.Evict(repoA)
		}
		s.Close()
	}
}

// killLater starts a process that plays on dir, and kills it so long after it is open.
func killLater(t *testing.T, dir string, after time.Duration, meanwhile func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "LEVEE_MIRROR_PLAY="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	var line [5]byte
	_, err = out.Read(line[:])
	must(t, err)
	timer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	meanwhile()
	err = cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the player ended by itself: %v", err)
	}
}

func noTemporaries(t *testing.T, s *Store) {
	t.Helper()
	if left := entriesOf(t, s.workDir()); len(left) > 0 {
		t.Errorf("left in work/: %v", left)
	}
	for _, name := range entriesOf(t, s.mirrorsDir()) {
		must(t, filepath.WalkDir(filepath.Join(s.mirrorsDir(), name), func(path string, e os.DirEntry, err error) error {
			if rel, _ := filepath.Rel(filepath.Join(s.mirrorsDir(), name), path); err == nil && stray(rel, e) {
				t.Errorf("left: %s", path)
			}
			return err
		}))
	}
	if n := len(entriesOf(t, s.mirrorsDir())); n > 1 {
		t.Errorf("%d directories for one mirror", n)
	}
}

func TestG17PlantedLocksAndTornFilesAreRepaired(t *testing.T) {
	other := upstream.Repo{Host: "example.com", Path: "org/b"}
	for name, spoil := range map[string]func(t *testing.T, dir string){
		"locks": func(t *testing.T, dir string) {
			for _, lock := range []string{"refs/heads/main.lock", "shallow.lock", "packed-refs.lock", "HEAD.lock", "config.lock",
				"objects/pack/multi-pack-index.lock", "objects/info/commit-graphs/commit-graph-chain.lock", "objects/pack/tmp_pack_x"} {
				must(t, os.WriteFile(filepath.Join(dir, lock), nil, 0o600))
			}
		},
		"a loose ref":          func(t *testing.T, dir string) { spoilWith(t, dir, "refs/heads/main", "nonsense") },
		"a torn idx":           func(t *testing.T, dir string) { tear(t, dir, "objects/pack/*.idx") },
		"a torn pack":          func(t *testing.T, dir string) { tear(t, dir, "objects/pack/*.pack") },
		"a torn index of all":  func(t *testing.T, dir string) { tear(t, dir, "objects/pack/multi-pack-index") },
		"a torn bitmap":        func(t *testing.T, dir string) { tear(t, dir, "objects/pack/*.bitmap") },
		"a torn commit-graph":  func(t *testing.T, dir string) { tear(t, dir, "objects/info/commit-graphs/*.graph") },
		"torn refs":            func(t *testing.T, dir string) { tear(t, dir, "packed-refs") },
		"torn metadata":        func(t *testing.T, dir string) { tear(t, dir, metaFile) },
		"a torn list":          func(t *testing.T, dir string) { spoilWith(t, dir, suspectsFile, "abc") },
		"no pack":              func(t *testing.T, dir string) { must(t, os.Remove(one(t, dir, "objects/pack/*.pack"))) },
		"no idx":               func(t *testing.T, dir string) { must(t, os.Remove(one(t, dir, "objects/pack/*.idx"))) },
		"no HEAD":              func(t *testing.T, dir string) { must(t, os.Remove(filepath.Join(dir, "HEAD"))) },
		"no directory of refs": func(t *testing.T, dir string) { must(t, os.RemoveAll(filepath.Join(dir, "refs"))) },
		"no config":            func(t *testing.T, dir string) { must(t, os.Remove(filepath.Join(dir, "config"))) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newOrigin(t)
			for range 10 {
				w.commit("main")
			}
			h, o := newHost(map[upstream.Repo]string{repoA: w.origin, other: w.origin}), options(t)
			s := openStore(t, o, h)
			l := lease(t, s, repoA)
			lease(t, s, other).Release()
			l.Release()
			s.Close()
			spoil(t, l.Dir)

			s = openStore(t, o, h)
			must(t, os.WriteFile(filepath.Join(w.origin, "description"), nil, 0o600))
			_, before := h.counts()
			lease(t, s, other).Release()
			if _, after := h.counts(); after != before {
				t.Error("the other mirror was fetched again")
			}
			w.commit("main")
			l = lease(t, s, repoA)
			sameRefsAs(t, l, w.origin)
			fsck(t, l)
		})
	}
}

func one(t *testing.T, dir, pattern string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	must(t, err)
	if len(names) == 0 {
		t.Fatalf("nothing is called %s", pattern)
	}
	return names[0]
}

func tear(t *testing.T, dir, pattern string) {
	t.Helper()
	name := one(t, dir, pattern)
	i, err := os.Stat(name)
	must(t, err)
	must(t, os.Chmod(name, 0o600))
	must(t, os.Truncate(name, i.Size()*2/3))
}

func spoilWith(t *testing.T, dir, name, text string) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
}

func TestFlippedBitsAreFoundOnSuspicion(t *testing.T) {
	w := newOrigin(t)
	for range 10 {
		w.commit("main")
	}
	o := options(t)
	s := openStore(t, o, hostOf(w))
	running(t, s)
	l := lease(t, s, repoA)
	name := one(t, l.Dir, "objects/pack/*.pack")
	must(t, os.Chmod(name, 0o600))
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	must(t, err)
	_, err = f.WriteAt([]byte("spoilt"), 400)
	must(t, errors.Join(err, f.Close()))
	l.Suspect(errors.New("bad object"))
	until(t, "the mirror is broken", func() bool { return len(s.List()) == 1 && s.List()[0].State == Broken })
	if i := s.List()[0]; !strings.Contains(i.Error, "bad object") {
		t.Errorf("%+v", i)
	}
	again := lease(t, s, repoA)
	fsck(t, again)
	if again.Dir == l.Dir {
		t.Error("it is the same one")
	}
	var told atomic.Bool
	again.Suspect(errors.New("a child was killed")) // and nothing is wrong
	until(t, "the mirror was verified", func() bool {
		m := s.enter(repoA)
		defer s.leave(m)
		b, release := m.held()
		defer release()
		if b == nil {
			told.Store(true)
			return true
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.mu.doubts == nil
	})
	if told.Load() {
		t.Error("a whole mirror was given up")
	}
}

// running runs s until the test ends.
func running(t *testing.T, s *Store) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		must(t, <-done)
	})
}

func TestWhatIsDamagedAndHurtsNobodyIsFoundWithinADay(t *testing.T) {
	w := newOrigin(t)
	w.commit("main")
	s := openStore(t, options(t), hostOf(w))
	running(t, s)
	l := lease(t, s, repoA)
	defer l.Release()
	name := one(t, l.Dir, "objects/pack/*.pack")
	must(t, os.Chmod(name, 0o600))
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	must(t, err)
	_, err = f.WriteAt([]byte{'x'}, 40)
	must(t, errors.Join(err, f.Close()))
	b := l.h.b
	b.mu.Lock()
	b.mu.unfolded = false // what else would be due first
	b.mu.Unlock()
	if what := b.due(time.Now()); what != nil {
		t.Error("it is looked through at once")
	}
	what := b.due(time.Now().Add(scrubEvery + time.Minute))
	if what == nil {
		t.Fatal("it is not looked through after a day")
	}
	must(t, what(t.Context(), l.h.m))
	if i := s.List()[0]; i.State != Broken || !strings.Contains(i.Error, "long since") {
		t.Errorf("%+v", i)
	}
}
