package child

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Runner is safe for concurrent use.
type Runner struct {
	git  string
	nice int
	most uint64 // RLIMIT_DATA of this process
	o    Options

	mu struct {
		sync.Mutex
		running int
		bytes   int64
	}
}

// New finds git and asks for its version; below 2.36 is an error that says so: older ones know no safe.directory in the
// environment, and keep no bitmaps over several packs.
func New(o Options) (*Runner, error) {
	r := &Runner{git: o.Git, nice: o.Nice, o: o}
	if r.nice == 0 {
		r.nice = 3
	}
	own, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return nil, fmt.Errorf("read the priority: %w", err)
	}
	r.nice = min(20-own+r.nice, 19) // the kernel says 20 less the niceness
	if r.git == "" {
		path, err := exec.LookPath("git")
		if err != nil {
			return nil, errors.New("the Git cache needs git 2.36 or newer in PATH, and there is none: install it, or name no Git host")
		}
		r.git = path
	}
	git, err := filepath.Abs(r.git)
	if err != nil {
		return nil, err
	}
	r.git = git
	if err := checkVersion(r.git); err != nil {
		return nil, err
	}
	var now unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_DATA, &now); err != nil {
		return nil, fmt.Errorf("read the data limit: %w", err)
	}
	r.most = now.Max
	return r, adopt()
}

var version = regexp.MustCompile(`^git version (\d+)\.(\d+)`)

func checkVersion(git string) error {
	cmd := exec.Command(git, "version")
	cmd.Env = []string{"LC_ALL=C", "HOME=/nonexistent"}
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s version: %w", git, err)
	}
	m := version.FindSubmatch(out)
	if m == nil {
		return fmt.Errorf("%s is no git: asked for its version it says %.80q", git, out)
	}
	major, _ := strconv.Atoi(string(m[1]))
	minor, _ := strconv.Atoi(string(m[2]))
	if major < 2 || major == 2 && minor < 36 {
		return fmt.Errorf("%s has version %d.%d; the Git cache needs 2.36 or newer", git, major, minor)
	}
	return nil
}

// Run starts the child, waits for it and returns what it used. When ctx ends, the process group is killed and Run returns
// context.Cause(ctx) after all of it is gone. The caller's readers and writers run on goroutines of package os/exec, where a
// panic ends the process.
func (r *Runner) Run(ctx context.Context, c Cmd) (Usage, error) {
	if ctx.Err() != nil {
		return Usage{}, context.Cause(ctx)
	}
	if c.Budget.Bytes < 1 {
		return Usage{}, fmt.Errorf("git %s: no budget, so no permit: a child must have one", c.subcommand())
	}
	j, err := r.prepare(&c)
	if err != nil {
		return Usage{}, err
	}
	r.count(1, c.Budget.Bytes)
	defer r.count(-1, -c.Budget.Bytes)
	return j.run(ctx)
}

// Running is how many children there are now, and the memory of their budgets.
func (r *Runner) Running() (n int, bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.running, r.mu.bytes
}

func (r *Runner) count(n int, bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.running += n
	r.mu.bytes += bytes
}

// job is one Run.
type job struct {
	r      *Runner
	c      *Cmd
	cmd    *exec.Cmd
	stdin  *source // nil if exec needs none of ours
	stdout *sink
	stderr *tail
}

func (r *Runner) prepare(c *Cmd) (*job, error) {
	env, err := c.environment(r.git)
	if err != nil {
		return nil, err
	}
	j := &job{r: r, c: c, stderr: new(tail)}
	j.cmd = &exec.Cmd{
		Path: "/bin/sh", Args: append([]string{"sh", "-c", limited, r.limits(c.Budget), r.git}, c.Args...),
		Env: env, Dir: "/", ExtraFiles: c.Extra,
		// The parent of a child is the thread that started it, so run stays on its thread.
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	}
	if c.Dir != "" {
		j.cmd.Dir = c.Dir
	}
	j.cmd.Stderr = j.stderr
	if c.Stderr != nil {
		j.cmd.Stderr = io.MultiWriter(j.stderr, c.Stderr)
	}
	j.attach()
	return j, nil
}

// attach gives files to the child itself and puts our eyes on everything else.
func (j *job) attach() {
	if f, ok := j.c.Stdin.(*os.File); ok {
		j.cmd.Stdin = f
	} else if j.c.Stdin != nil {
		j.stdin = &source{r: j.c.Stdin}
		j.cmd.Stdin = j.stdin
	}
	if f, ok := j.c.Stdout.(*os.File); ok {
		j.cmd.Stdout = f
	} else if j.c.Stdout != nil {
		j.stdout = &sink{w: j.c.Stdout}
		j.cmd.Stdout = j.stdout
	}
}

func (j *job) run(ctx context.Context) (Usage, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began := time.Now()
	if err := j.cmd.Start(); err != nil {
		j.stdin.close()
		return Usage{}, fmt.Errorf("start git %s: %w", j.c.subcommand(), err)
	}
	g := &group{pid: j.cmd.Process.Pid}
	stop := context.AfterFunc(ctx, func() { g.kill(true) })
	defer stop()
	if j.r.o.Watch != nil {
		defer j.r.o.Watch(g.pid)()
	}
	failed := g.nice(j.r.nice)
	if failed != nil {
		g.kill(true)
	}
	peak := j.await(g)
	status, cpu, err := g.reap()
	// The child is reaped, so this is an error; but it waits for the goroutines that read and write for the child.
	_ = j.cmd.Wait()
	_ = j.cmd.Process.Release()
	u := Usage{PeakAnon: peak, CPU: cpu, Took: time.Since(began)}
	switch {
	case failed != nil:
		return u, fmt.Errorf("git %s: %w", j.c.subcommand(), failed)
	case err != nil:
		return u, fmt.Errorf("wait for git %s: %w", j.c.subcommand(), err)
	case status == 0:
		return u, j.broken()
	case ctx.Err() != nil && g.wasKilled():
		return u, context.Cause(ctx)
	}
	if err := j.broken(); err != nil {
		return u, err
	}
	return u, exitError(j.c, status, j.stderr.String())
}

// broken is why the caller's own reader or writer failed.
func (j *job) broken() error {
	if err := j.stdout.failed(); err != nil {
		return fmt.Errorf("take the output of git %s: %w", j.c.subcommand(), err)
	}
	if err := j.stdin.failed(); err != nil {
		return fmt.Errorf("read the input of git %s: %w", j.c.subcommand(), err)
	}
	return nil
}

// await returns the peak of the tree's memory when the child has ended and the rest of its group is dying.
func (j *job) await(g *group) int64 {
	done, peak := make(chan struct{}), make(chan int64, 1)
	go func() { peak <- sample(g.pid, done) }()
	// The child cannot be missing while nobody has reaped it; if the kernel disagrees, there is nothing to wait for.
	_ = g.ended()
	close(done)
	g.kill(false)
	j.stdin.close()
	return <-peak
}
