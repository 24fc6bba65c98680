package levee

import (
	"fmt"
	"strings"
	"syscall"
)

// Descriptors are file descriptors that may be open at once for one purpose.
type Descriptors struct {
	What  string `json:"what"`
	Count int64  `json:"count"`
}

// baseDescriptors are those of any server: listeners, standard streams, the poller, logs, profiles, a journal.
var baseDescriptors = Descriptors{What: "process", Count: 64}

// AddDescriptors registers that n descriptors may be open at once for what, which names them in the error of a Start
// that finds too few. A negative n, or a call after Start, panics.
func (k *Kernel) AddDescriptors(n int64, what string) {
	if n < 0 {
		panic(fmt.Sprintf("levee: %d descriptors for %s", n, what))
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.mu.started {
		panic("levee: descriptors for " + what + " added after Start")
	}
	k.mu.descriptors = append(k.mu.descriptors, Descriptors{What: what, Count: n})
}

// raiseDescriptors lifts the soft limit to the hard one and checks that it holds what is planned. A server that runs
// out of descriptors in full load fails its accept calls and its store at once, and both look like something else.
func raiseDescriptors(planned []Descriptors) error {
	var rl syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &rl); err != nil {
		return fmt.Errorf("read the descriptor limit: %w", err)
	}
	if err := checkDescriptors(planned, uint64(rl.Max)); err != nil {
		return err
	}
	if rl.Cur >= rl.Max {
		return nil
	}
	rl.Cur = rl.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &rl); err != nil {
		return fmt.Errorf("raise the descriptor limit to %d: %w", rl.Max, err)
	}
	return nil
}

func checkDescriptors(planned []Descriptors, hard uint64) error {
	var total int64
	var parts []string
	for _, d := range planned {
		total = add(total, d.Count)
		parts = append(parts, fmt.Sprintf("%s %d", d.What, d.Count))
	}
	if uint64(total) <= hard {
		return nil
	}
	return fmt.Errorf("%d file descriptors may be needed at once (%s), but the hard limit is %d; "+
		"raise it (ulimit -Hn, or LimitNOFILE= in the systemd unit) or lower what needs them",
		total, strings.Join(parts, ", "), hard)
}
