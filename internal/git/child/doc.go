// Package child runs git.
//
// It refuses to run anything without a permit that its caller holds, to inherit an environment or a user's configuration, to
// take a user's word for an option, and to leave a process behind: a child has its own process group, which is killed when
// the context ends and when the child has ended by itself, and all of which is waited for.
//
//	Run ──▶ git ──▶ sh, pack-objects, …     one process group: limits, niceness and the last signal are its
//	 │       │
//	 │       └─ ends, or ctx ends ──▶ SIGKILL to the group ──▶ every one of it is reaped ──▶ Run returns
//	 └─ samples the anonymous memory of the tree
package child

import (
	"io"
	"os"
	"time"
)

// Options of a Runner.
type Options struct {
	// Git is the path of the binary; "" looks for git in PATH.
	Git string

	// Watch is told of every child and called back when it is gone: a governor's Watch. Nil is none.
	Watch func(pid int) (stop func())

	// Nice is how much of their claim on the processor children give up; 0 is 3. Too low: a burst of pack generation
	// delays the answers that need no child. Too high: beside work that takes every processor a pack does not get on. At 10
	// Git was left half of its rate beside a storm of uploads, at 5 two thirds, and uploads lost nothing at any of them.
	Nice int
}

// Budget is the memory that a child's permit is for, and what its settings are derived from: pack.threads, windowMemory,
// deltaCacheSize, core.packedGit*, bigFileThreshold, deltaBaseCacheLimit, and RLIMIT_DATA above it.
type Budget struct {
	Bytes   int64 // at least 1: a child without a permit is a mistake
	Threads int   // 0 is 1
}

// Cmd is one invocation.
type Cmd struct {
	Dir    string   // the repository, GIT_DIR and the working directory of the child; "" is none, and then it runs in /
	Args   []string // behind git's own: "pack-objects", "--stdout", …; what a user wrote comes behind "--end-of-options"
	Config []string // "key=value", given by GIT_CONFIG_COUNT, never by argv; it wins over what is derived from the Budget
	Env    []string // besides the minimal environment
	Budget Budget

	// Stdin is closed when the child has ended, if it is an io.Closer and no *os.File: who feeds it must not wait for a
	// reader that is gone. A reader that cannot be closed must return by itself, Run waits for it.
	Stdin io.Reader

	// Stdout and Stderr must return from Write when ctx ends; Run waits for them. An error of theirs ends the child, and is
	// returned instead of its status.
	Stdout io.Writer
	Stderr io.Writer // nil: its end is kept for the error, which is done anyway

	Extra []*os.File // from descriptor 3 on; they stay the caller's to close
}

// Usage of an ended child and all its descendants that were waited for.
type Usage struct {
	// PeakAnon is the most anonymous memory, in bytes, that the tree held when it was sampled; 0 if the child ended before the
	// first sample, a millisecond after its start. The kernel's own figure (ru_maxrss) is of no use: it counts pages of files,
	// and what the parent held when it forked.
	PeakAnon int64
	CPU      time.Duration
	Took     time.Duration
}
