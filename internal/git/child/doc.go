// Package child runs git.
//
// It refuses to run anything without a permit that its caller holds, to inherit an environment or a user's configuration, to
// take a user's word for an option, and to leave a process behind: a child has its own process group, which is killed when
// the context ends, and is waited for.
package child

import (
	"context"
	"io"
	"os"
	"time"
)

// Options of a Runner.
type Options struct {
	Git   string               // path of the binary; "" looks for git in PATH
	Watch func(pid int) func() // governor's; nil for none
	Nice  int                  // 0 is 10
}

// Budget is the memory that a child's permit is for, and what its settings are derived from (pack.threads, windowMemory,
// deltaCacheSize, packedGit*, bigFileThreshold, core.deltaBaseCacheLimit; RLIMIT_DATA above it).
type Budget struct {
	Bytes   int64
	Threads int // 0 is 1
}

// Cmd is one invocation. Args are behind the git's own: "pack-objects", "--stdout", ….
type Cmd struct {
	Dir    string // the repository: GIT_DIR
	Args   []string
	Config []string // "key=value", given by GIT_CONFIG_COUNT, never by argv
	Env    []string // besides the minimal environment
	Budget Budget
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer  // nil keeps the last 4 KiB for the error
	Extra  []*os.File // from descriptor 3 on
}

// Usage of an ended child and all its descendants that were waited for.
type Usage struct {
	PeakAnon int64 // bytes, of the process tree, sampled; at least what the kernel says of the largest one
	CPU      time.Duration
	Took     time.Duration
}

// ExitError is a child's that ended with a status or a signal. OutOfMemory tells that it met its data limit or was killed by
// the kernel.
type ExitError struct {
	Args        string // the subcommand alone
	Status      int
	Signal      string
	OutOfMemory bool
	Stderr      string // last lines
}

func (e *ExitError) Error() string { panic("contract") }

// Runner is safe for concurrent use.
type Runner struct{}

// New finds git and asks for its version; below 2.36 is an error that says so.
func New(o Options) (*Runner, error) { panic("contract") }

// Run starts the child, waits for it and returns what it used. When ctx ends, the process group is killed and Run returns
// context.Cause(ctx) after all of it is gone.
func (r *Runner) Run(ctx context.Context, c Cmd) (Usage, error) { panic("contract") }

// Running is how many children there are now, and the memory of their budgets.
func (r *Runner) Running() (n int, bytes int64) { panic("contract") }
