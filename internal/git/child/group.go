package child

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// group is a child's process group, whose id is the child's pid.
type group struct {
	pid int

	mu struct {
		sync.Mutex
		reaped bool // the number may belong to somebody else
		killed bool // by us, before the child had ended
	}
}

// kill ends all of the group. It may come at any time, but never reaches a stranger: the number is taken for as long as the
// child has not been reaped.
func (g *group) kill(early bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.reaped {
		return
	}
	g.mu.killed = g.mu.killed || early
	_ = unix.Kill(-g.pid, unix.SIGKILL) // it fails only if nobody is left
}

func (g *group) wasKilled() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.killed
}

// ended waits for the child without reaping it.
func (g *group) ended() error {
	for {
		err := unix.Waitid(unix.P_PID, g.pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// reap takes the child and all that it has started, which has been killed. When their parent dies they become ours (see adopt),
// and they are of the group, so this takes no child of anybody else; each is ours before its parent can be reaped, so none is
// missed. It is not left to os/exec to reap the child: the group's number is nobody else's only as long as one of it is there.
// From now on nothing is sent to the group.
func (g *group) reap() (status unix.WaitStatus, cpu time.Duration, err error) {
	g.mu.Lock()
	g.mu.reaped = true
	g.mu.Unlock()
	err = unix.ECHILD
	for {
		var s unix.WaitStatus
		var use unix.Rusage
		pid, e := unix.Wait4(-g.pid, &s, 0, &use)
		switch {
		case errors.Is(e, unix.EINTR):
			continue
		case e != nil: // nobody is left
			return status, cpu, err
		case pid == g.pid:
			status, err = s, nil
		}
		cpu += time.Duration(unix.TimevalToNsec(use.Utime) + unix.TimevalToNsec(use.Stime))
	}
}

// adopt makes this process the parent of its children's orphans, as it already is where it is process 1 of a container.
// Without it, grandchildren that are killed with their parent go to an init which may not exist, as zombies; and nobody can
// tell when the last of them has let go of the repository. The flag belongs to the whole process, so an orphan that some
// other package leaves behind stays a zombie until the end: this package is the only one that starts processes.
func adopt() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the parent of orphans: %w", err)
	}
	return nil
}

// What RLIMIT_DATA counts and a budget does not: the libraries' data and what malloc keeps free, and whole stacks of glibc's size
// for threads beside the first, which are hardly touched. A child cannot exceed its budget by more than the first.
const (
	slackBytes = 4 << 20
	stackBytes = 8 << 20
)

// limited sets limits and becomes git. They must hold before git runs: set from outside, a moment after its start, they miss
// what it has started meanwhile. If the kernel must kill, it should take the child and not the server, which not every
// container allows to ask for.
const limited = `{ echo 500 >/proc/self/oom_score_adj; } 2>/dev/null; ulimit -c 0 && ulimit -d "$0" && exec "$@"`

// limits of a child, in the units of ulimit -d. A child that meets it is told "out of memory" by malloc, and can say so; one
// that the kernel kills cannot.
func (r *Runner) limits(b Budget) string {
	data := uint64(b.Bytes) + slackBytes
	if b.Threads > 1 {
		data += stackBytes * uint64(b.Threads)
	}
	return strconv.FormatUint(min(data, r.most)>>10, 10) // above our own it takes a privilege
}

// nice applies to all of the group: who is started later has it from who starts it.
func (g *group) nice(n int) error {
	if err := unix.Setpriority(unix.PRIO_PGRP, g.pid, n); err != nil {
		return fmt.Errorf("set the priority: %w", err)
	}
	return nil
}
