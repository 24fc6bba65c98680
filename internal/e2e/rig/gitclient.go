package rig

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// GitClient is a user with a home of his own, who runs the real git.
type GitClient struct {
	Home string

	t    testing.TB
	env  []string
	nice int
	next *atomic.Int64
}

// clientPatience is how long one command may take.
const clientPatience = 3 * time.Minute

// NewGitClient makes one whose configuration is empty.
func NewGitClient(t testing.TB) *GitClient {
	home := t.TempDir()
	return &GitClient{t: t, Home: home, env: plainEnv(home), next: &atomic.Int64{}}
}

// With is the same user with more in the environment.
func (c *GitClient) With(env ...string) *GitClient {
	clone := *c
	clone.env = append(c.env[:len(c.env):len(c.env)], env...)
	return &clone
}

// Nice is the same user at the lowest priority: the server must not look slow because its own load takes the processor.
func (c *GitClient) Nice() *GitClient {
	clone := *c
	clone.nice = lowest
	return &clone
}

// Dir is a path in Home that does not exist yet.
func (c *GitClient) Dir() string {
	return filepath.Join(c.Home, "work"+strconv.FormatInt(c.next.Add(1), 10))
}

// Run runs git and returns all that it printed. The end of ctx kills it and its children.
func (c *GitClient) Run(ctx context.Context, args ...string) (string, error) {
	return c.Start(ctx, args...).Wait()
}

// Running is a git that was started.
type Running struct {
	cmd    *exec.Cmd
	out    *transcript
	err    error // of the start
	cancel func()
}

// Start is Run for those who look at what is printed meanwhile.
func (c *GitClient) Start(ctx context.Context, args ...string) *Running {
	ctx, cancel := context.WithTimeout(ctx, clientPatience)
	r := &Running{cmd: c.command(ctx, args), out: &transcript{}, cancel: cancel}
	r.cmd.Stdout, r.cmd.Stderr = r.out, r.out
	r.err = r.cmd.Start()
	if r.err == nil && c.nice != 0 {
		syscall.Setpriority(syscall.PRIO_PGRP, r.cmd.Process.Pid, c.nice)
	}
	return r
}

// Output is what was printed so far.
func (r *Running) Output() string { return r.out.String() }

// Wait waits for the end and returns all that was printed.
func (r *Running) Wait() (string, error) {
	defer r.cancel()
	if r.err != nil {
		return "", r.err
	}
	err := r.cmd.Wait()
	return r.Output(), err
}

func (c *GitClient) command(ctx context.Context, args []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Env, cmd.Dir = c.env, c.Home
	// No Pdeathsig: it comes with the end of the thread that started the client, which need not be the test's.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// Git is Run for what must succeed; it returns what was printed without the last newline.
func (c *GitClient) Git(args ...string) string {
	c.t.Helper()
	out, err := c.Run(c.t.Context(), args...)
	if err != nil {
		c.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSuffix(out, "\n")
}

// Clone clones and returns the new directory.
func (c *GitClient) Clone(url string, flags ...string) string {
	c.t.Helper()
	dir := c.Dir()
	c.Git(append(append([]string{"clone", "--quiet"}, flags...), url, dir)...)
	return dir
}

// In runs git in a working directory.
func (c *GitClient) In(dir string, args ...string) string {
	c.t.Helper()
	return c.Git(append([]string{"-C", dir}, args...)...)
}

// transcript is all that was written to it.
type transcript struct {
	mu struct {
		sync.Mutex
		text bytes.Buffer
	}
}

func (t *transcript) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.text.Write(p)
}

func (t *transcript) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.text.String()
}
