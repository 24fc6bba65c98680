package packs

import (
	"bytes"
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/leveehq/levee/gate"
	"github.com/leveehq/levee/internal/git/child"
	"github.com/leveehq/levee/internal/git/mirror"
	"github.com/leveehq/levee/internal/git/pkt"
	"github.com/leveehq/levee/internal/git/upstream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const mib = 1 << 20

// rig is a Cache on a ready local mirror, with a git that can be held when it would make a pack, and that keeps a list.
type rig struct {
	testing.TB
	c      *Cache
	o      Options
	lease  *mirror.Lease
	dir    string // of marks for the held git
	commit string // main's
	blobs  []string
}

// newRig serves a repository of a hundred commits, unless change puts another one there.
func newRig(t testing.TB, change func(*rig)) *rig {
	t.Helper()
	r := &rig{TB: t, dir: t.TempDir()}
	runner, err := child.New(child.Options{Git: r.git()})
	if err != nil {
		t.Fatal(err)
	}
	r.o = Options{
		Dir: filepath.Join(r.dir, "packs"), MaxBytes: 64 * mib, Runner: runner,
		Slot: 64 * mib, QuickSlot: 16 * mib, RoundSlot: 16 * mib,
		NoticeAfter: 20 * time.Millisecond, NoticeEvery: 20 * time.Millisecond, SilentWait: time.Minute, Wait: time.Minute,
	}
	r.o.Heavy = r.gate("git_packs", 2*r.o.Slot)
	r.o.Quick, r.o.Rounds = r.gate("git_quick", 2*r.o.QuickSlot), r.gate("git_rounds", 2*r.o.RoundSlot)
	r.lease = &mirror.Lease{Dir: filepath.Join(r.dir, "repo"), Repo: upstream.Repo{Host: "h.example", Path: "a"}, Generation: 1, Objects: 100_000}
	if change != nil {
		change(r)
	}
	if r.commit == "" {
		r.makeRepository(100, 1000)
	}
	if r.c, err = Open(r.o); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.c.Run(ctx) }()
	t.Cleanup(func() {
		r.release()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		r.nothingHeld()
	})
	return r
}

func (r *rig) gate(name string, limit int64) *gate.Gate {
	g, err := gate.New(gate.Options{Name: name, Limit: limit, Queue: 1000, Wait: time.Minute})
	if err != nil {
		r.Fatal(err)
	}
	return g
}

// nothingHeld is how every test ends.
func (r *rig) nothingHeld() {
	r.Helper()
	for _, g := range []*gate.Gate{r.o.Heavy, r.o.Quick, r.o.Rounds} {
		if s := g.Stats(); s.InUse != 0 || s.Held != 0 || s.Queued != 0 {
			r.Errorf("gate %s: %d in use by %d permits, %d waiters", s.Name, s.InUse, s.Held, s.Queued)
		}
	}
	if n, _ := r.o.Runner.Running(); n != 0 {
		r.Errorf("%d children run", n)
	}
	c := r.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.mu.flights) != 0 || c.mu.aside != 0 || c.mu.generating != 0 {
		r.Errorf("%d flights, %d bytes of windows, %d generating", len(c.mu.flights), c.mu.aside, c.mu.generating)
	}
	var charged int64
	for _, s := range c.mu.spools.oldest {
		charged += s.charge
		if s.seats != 0 || s.making {
			r.Errorf("a spool has %d seats, in the making: %v", s.seats, s.making)
		}
	}
	if charged != c.mu.used {
		r.Errorf("%d bytes are charged and spools have %d", c.mu.used, charged)
	}
	open, _ := filepath.Glob("/proc/self/fd/*")
	for _, fd := range open {
		if name, _ := os.Readlink(fd); strings.HasPrefix(name, r.dir) {
			r.Errorf("%s is still open", name)
		}
	}
	files, _ := os.ReadDir(r.o.Dir)
	if len(files) != c.mu.spools.len() {
		r.Errorf("%d files for %d spools", len(files), c.mu.spools.len())
	}
}

// git is the real one behind a script that can hold, break and count what makes packs.
func (r *rig) git() string {
	binary, err := exec.LookPath("git")
	if err != nil {
		r.Fatal(err)
	}
	path := filepath.Join(r.dir, "git")
	text := strings.NewReplacer("DIR", r.dir, "GIT", binary).Replace(`#!/bin/sh
case " $* " in *" pack-objects "*)
	echo "$*" >>DIR/generations
	while [ -e DIR/hold ]; do sleep 0.005; done
	if [ -e DIR/break ]; then
		GIT "$@" | head -c "$(cat DIR/break)"
		while [ -e DIR/half ]; do sleep 0.005; done
		echo fatal: broken >&2
		exit 1
	fi
	if [ -e DIR/half ]; then
		GIT "$@" | { dd bs=1000 count=100 iflag=fullblock 2>/dev/null; while [ -e DIR/half ]; do sleep 0.005; done; cat; }
		exit
	fi ;;
esac
exec GIT "$@"
`)
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		r.Fatal(err)
	}
	return path
}

// hold stops generations before they begin; half after 100 kB.
func (r *rig) hold() { r.mark("hold", "") }
func (r *rig) half() { r.mark("half", "") }

// breaks ends generations after n bytes.
func (r *rig) breaks(n int) { r.mark("break", fmt.Sprint(n)) }

func (r *rig) mark(name, text string) {
	r.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) release() {
	for _, name := range []string{"hold", "half", "break"} {
		os.Remove(filepath.Join(r.dir, name))
	}
}

// generations begun so far.
func (r *rig) generations() int {
	text, _ := os.ReadFile(filepath.Join(r.dir, "generations"))
	return strings.Count(string(text), "\n")
}

// makeRepository has commits with a new file each, of so many random bytes, and a bitmap.
func (r *rig) makeRepository(commits, size int) {
	r.Helper()
	noise := rand.New(rand.NewPCG(1, 2))
	var in bytes.Buffer
	for i := range commits {
		data := make([]byte, size)
		for j := range data {
			data[j] = byte(noise.Uint32())
		}
		fmt.Fprintf(&in, "commit refs/heads/main\ncommitter a <a@b.example> %d +0000\ndata 2\nc\n", 1e9+i)
		fmt.Fprintf(&in, "M 100644 inline d%d/f%d\ndata %d\n", i%10, i, size)
		in.Write(data)
		in.WriteString("\n")
		r.blobs = append(r.blobs, fmt.Sprintf("%x", sha1.Sum(append(fmt.Appendf(nil, "blob %d\x00", size), data...))))
	}
	r.sh(nil, `git init -q --bare -b main "$1"`, r.lease.Dir)
	r.sh(&in, `git -C "$1" fast-import --quiet`, r.lease.Dir)
	r.sh(nil, `cd "$1"; git tag -a -m t v1 main~5; git repack -qadb; git commit-graph write`, r.lease.Dir)
	r.commit = strings.TrimSpace(r.sh(nil, `git -C "$1" rev-parse main`, r.lease.Dir))
}

// sh runs a shell script with git in an environment that is nobody's.
func (r *rig) sh(in io.Reader, text string, args ...string) string {
	r.Helper()
	out, err := r.try(in, text, args...)
	if err != nil {
		r.Fatalf("%s: %v\n%s", text, err, out)
	}
	return out
}

func (r *rig) try(in io.Reader, text string, args ...string) (string, error) {
	cmd := exec.Command("sh", append([]string{"-ec", text, "sh"}, args...)...)
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "LC_ALL=C",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b.example", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b.example",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=gc.auto", "GIT_CONFIG_VALUE_0=0",
	}
	cmd.Stdin = in
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// fetch makes a v2 request of lines.
func (r *rig) fetch(lines ...string) *pkt.Request {
	r.Helper()
	var body bytes.Buffer
	w := pkt.NewWriter(&body)
	w.Line("command=fetch")
	w.Line("agent=git/2.39.5")
	w.Line("object-format=sha1")
	w.Delim()
	for _, l := range append([]string{"thin-pack", "ofs-delta"}, lines...) {
		w.Line(l)
	}
	w.Flush()
	req, err := pkt.ParseV2(body.Bytes(), pkt.Limits{})
	if err != nil {
		r.Fatal(err)
	}
	return req
}

// clone wants main and is done.
func (r *rig) clone(more ...string) *pkt.Request {
	return r.fetch(append([]string{"want " + r.commit, "done"}, more...)...)
}

// call is one Serve on its own goroutine.
type call struct {
	out    *out
	cancel context.CancelCauseFunc
	over   chan struct{}
	res    Result // once it is over
	err    error
}

var errLeft = errors.New("the client has left")

func (r *rig) start(req *pkt.Request, o *out) *call {
	ctx, cancel := context.WithCancelCause(context.Background())
	c := &call{out: o, cancel: cancel, over: make(chan struct{})}
	go func() {
		defer close(c.over)
		c.res, c.err = r.c.Serve(ctx, Job{Lease: r.lease, Request: req, Caller: "10.0.0.1"}, o)
	}()
	return c
}

func (c *call) wait(t testing.TB) *call {
	t.Helper()
	select {
	case <-c.over:
	case <-time.After(2 * time.Minute):
		t.Fatal("the call is not over after 2 minutes")
	}
	return c
}

// ask serves one request.
func (r *rig) ask(req *pkt.Request) *call {
	r.Helper()
	return r.start(req, new(out)).wait(r)
}

// want checks how a call has ended.
func (r *rig) want(c *call, outcome string) {
	r.Helper()
	c.wait(r)
	if c.res.Outcome != outcome || c.err != nil {
		r.Errorf("outcome %q, error %v, want %q", c.res.Outcome, c.err, outcome)
	}
	if outcome == Generated { // its last byte may be read before it is known to be the last
		until(r, "the generation is over", func() bool { return r.c.Stats().Generating == 0 })
	}
}

// until polls for what other goroutines and processes do.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	poll := time.NewTicker(2 * time.Millisecond)
	defer poll.Stop()
	for deadline := time.Now().Add(30 * time.Second); !ok(); <-poll.C {
		if time.Now().After(deadline) {
			t.Fatalf("after 30s still not true: %s", what)
		}
	}
}

// seats taken in flights that are not settled, and at spools.
func (r *rig) seats() (n int) {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	for _, f := range r.c.mu.flights {
		n += len(f.seats)
	}
	for _, s := range r.c.mu.spools.oldest {
		n += s.seats
	}
	return n
}

// fill leaves no room in gates until what it returns is called.
func (r *rig) fill(gates ...*gate.Gate) (empty func()) {
	r.Helper()
	var held []*gate.Permit
	for _, g := range gates {
		p, err := g.TryAdmit("somebody else", g.Stats().Limit)
		if err != nil {
			r.Fatal(err)
		}
		held = append(held, p)
	}
	return func() {
		for _, p := range held {
			p.Release()
		}
	}
}
