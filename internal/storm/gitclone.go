package storm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// gitCommand is the machine's Git, as a stranger to its user's configuration and at the lowest priority: the server must not
// look slow because its own load takes the processor from it. When ctx ends, all of it is killed.
func gitCommand(ctx context.Context, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, "nice", append([]string{"-n", "19", "git"}, args...)...)
	c.Env = gitEnv()
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = 5 * time.Second
	return c
}

func gitEnv() []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "LC_ALL=C", "GIT_TERMINAL_PROMPT=0",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull,
	}
}

// gitOutput runs Git to its end and returns what it printed.
func gitOutput(ctx context.Context, args ...string) (string, error) {
	var said endOf
	c := gitCommand(ctx, args...)
	c.Stderr = &said
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, said.text())
	}
	return string(out), nil
}

// endOf keeps the end of what is written, and the lines that tell of a queue.
type endOf struct {
	mu struct {
		sync.Mutex
		end     []byte
		notices []string
	}
}

func (e *endOf) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	const most = 4 << 10
	e.mu.notices = appendNotices(e.mu.notices, string(p))
	e.mu.end = append(e.mu.end, p...)
	if over := len(e.mu.end) - most; over > 0 {
		e.mu.end = append(e.mu.end[:0], e.mu.end[over:]...)
	}
	return len(p), nil
}

func (e *endOf) text() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.TrimSpace(string(e.mu.end))
}

func (e *endOf) told() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.mu.notices
}

// clones: real Git clients that clone at once, over all targets in turn.
func clones(ctx context.Context, r *gitRun) ([]*tally, error) {
	t := r.tally("clones")
	return []*tally{t}, r.cloneAll(ctx, t, r.urls())
}

// cloneAll has Clients clone from urls in turn, checks what they got, and removes it.
func (r *gitRun) cloneAll(ctx context.Context, t *tally, urls []string) error {
	dir, err := os.MkdirTemp(r.dir, "clones-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	whole := make([]string, r.o.Clients)
	var wg sync.WaitGroup
	for i := range r.o.Clients {
		wg.Go(func() {
			if to := filepath.Join(dir, strconv.Itoa(i)); cloneOne(ctx, t, urls[i%len(urls)], to) {
				whole[i] = to
			}
		})
	}
	wg.Wait()
	return errors.Join(r.endLoad(ctx, t), r.fsckAll(ctx, t, whole))
}

func cloneOne(ctx context.Context, t *tally, url, to string) bool {
	t.offered.Add(1)
	t.open.Add(1)
	defer t.open.Add(-1)
	began := time.Now()
	var said endOf
	c := gitCommand(ctx, "clone", "--bare", "--progress", "-c", "gc.auto=0", url, to)
	c.Stderr = &said
	err := c.Run()
	t.told(said.told())
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		t.cloneFailed(err, said.text())
		return false
	}
	t.latency.add(time.Since(began))
	t.ok.Add(1)
	t.bytes.Add(packBytes(to))
	return true
}

var (
	gitSaysStatus = regexp.MustCompile(`(?:HTTP|returned error:) (\d{3})\b`)
	gitSaysERR    = regexp.MustCompile(`(?m)^fatal: remote error: (.*)`)
	gitSaysBand3  = regexp.MustCompile(`(?m)^remote: (.*(?:\bshed by gate |Git cache is busy ).*)`)
)

// cloneFailed understands what Git prints of an answer.
func (t *tally) cloneFailed(err error, said string) {
	if m := gitSaysBand3.FindStringSubmatch(said); m != nil {
		err = &gitError{"band 3", m[1]}
	} else if m := gitSaysERR.FindStringSubmatch(said); m != nil {
		err = &gitError{"ERR packet", m[1]}
	} else if m := gitSaysStatus.FindStringSubmatch(said); m != nil {
		status, _ := strconv.Atoi(m[1])                                  // three digits
		err = &refusal{status: status, retryAfter: "unseen", text: said} // Git does not print the header
	} else {
		err = fmt.Errorf("git clone: %w: %s", err, said)
	}
	t.gitFailed(err, 0)
}

func packBytes(repo string) (sum int64) {
	packs, _ := filepath.Glob(filepath.Join(repo, "objects", "pack", "*.pack")) // the pattern is right
	for _, p := range packs {
		if info, err := os.Stat(p); err == nil {
			sum += info.Size()
		}
	}
	return sum
}

// fsckAll checks clones, as many at once as there are processors. Empty names are clones that did not succeed.
func (r *gitRun) fsckAll(ctx context.Context, t *tally, dirs []string) error {
	if r.o.Fsck == "none" {
		return nil
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	for _, dir := range dirs {
		if dir == "" {
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			fsckOne(ctx, t, dir, r.o.Fsck)
		})
	}
	wg.Wait()
	return ctx.Err()
}

func fsckOne(ctx context.Context, t *tally, dir, how string) {
	args := []string{"-C", dir, "fsck", "--no-progress", "--no-dangling"}
	if how == "connectivity" {
		args = append(args, "--connectivity-only")
	}
	_, err := gitOutput(ctx, args...)
	if ctx.Err() != nil {
		return // killed: it says nothing of the clone
	}
	if err != nil {
		t.wrong.Add(1)
		t.breaks("a clone is not whole: " + err.Error())
		return
	}
	t.verified.Add(1)
}

// gitMissing says what scenarios with real clients need.
func gitMissing() error {
	for _, name := range []string{"git", "nice"} {
		if _, err := exec.LookPath(name); err != nil {
			return &UsageError{errors.New("levee storm git needs the commands git and nice in PATH: " + err.Error())}
		}
	}
	return nil
}
