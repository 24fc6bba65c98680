package child

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// ExitError is a child's that ended with a status or a signal.
type ExitError struct {
	Args        string // the subcommand alone
	Status      int
	Signal      string // "" if it ended by itself
	OutOfMemory bool   // it met its data limit, or the kernel killed it
	DiskFull    bool   // it could not write
	Budget      int64  // what it was allowed
	Stderr      string // last lines
}

// Unwrap has errors.Is find a full disk, whoever met it.
func (e *ExitError) Unwrap() error {
	if e.DiskFull {
		return unix.ENOSPC
	}
	return nil
}

func (e *ExitError) Error() string {
	how := fmt.Sprintf("exited with status %d", e.Status)
	if e.Signal != "" {
		how = "was ended by signal " + e.Signal
	}
	if e.OutOfMemory {
		how = fmt.Sprintf("ran out of its %d MiB of memory (it %s)", e.Budget>>20, how)
	}
	text := "git " + e.Args + " " + how
	if e.Stderr != "" {
		text += ": " + e.Stderr
	}
	return text
}

func exitError(c *Cmd, status unix.WaitStatus, stderr string) *ExitError {
	e := &ExitError{Args: c.subcommand(), Budget: c.Budget.Bytes, Stderr: stderr}
	if status.Signaled() {
		e.Signal = unix.SignalName(status.Signal())
	} else {
		e.Status = status.ExitStatus()
	}
	// Nobody but the kernel sends SIGKILL to a child whose context goes on.
	e.OutOfMemory = e.Signal == "SIGKILL" || says(stderr, outOfMemory)
	e.DiskFull = says(stderr, diskFull)
	return e
}

// outOfMemory is what git prints when malloc, mmap or a thread's stack fails, or when a helper of its was killed.
var outOfMemory = []string{
	"ut of memory", "annot allocate memory", "unable to create thread", "unable to create threaded", "died of signal 9",
}

// diskFull is what git prints of ENOSPC and EDQUOT, and of a write that did nothing.
var diskFull = []string{"No space left on device", "Disk quota exceeded", "Out of diskspace"}

func says(stderr string, any []string) bool {
	for _, words := range any {
		if strings.Contains(stderr, words) {
			return true
		}
	}
	return false
}

// tail keeps the last bytes written to it.
type tail struct{ b []byte }

const tailBytes = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	n := len(p)
	if len(p) >= tailBytes {
		t.b, p = t.b[:0], p[len(p)-tailBytes:]
	}
	if over := len(t.b) + len(p) - tailBytes; over > 0 {
		t.b = t.b[:copy(t.b, t.b[over:])]
	}
	t.b = append(t.b, p...)
	return n, nil
}

func (t *tail) String() string { return strings.TrimSpace(strings.ToValidUTF8(string(t.b), "?")) }
