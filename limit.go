package levee

import (
	"fmt"
	"io/fs"

	"github.com/leveehq/levee/governor"
	"github.com/leveehq/levee/internal/bytesize"
)

// LimitSource says where the memory limit came from.
type LimitSource string

const (
	Configured LimitSource = "configured" // Options.MemoryLimit
	FromGroup  LimitSource = "cgroup"     // the least limit of the control groups that hold us
	FromRAM    LimitSource = "machine"    // a share of the machine's memory
)

// A machine's memory is not ours: without a word from anybody we take a quarter, and never more than 4 GiB.
const (
	ramShare = 4
	ramMost  = 4 * bytesize.GiB
)

// limit is the memory limit and the grounds for it.
type limit struct {
	bytes  int64
	source LimitSource
	found  governor.Found
}

func findLimit(configured int64, fsys fs.FS) (limit, error) {
	if configured < 0 {
		return limit{}, fmt.Errorf("memory limit is %d bytes; leave it at 0 to have it found", configured)
	}
	found, err := governor.Find(fsys)
	switch {
	case configured > 0:
		// What the machine says is needed only to check the figure, and a machine that says nothing cannot.
		return limit{configured, Configured, found}, nil
	case err != nil:
		return limit{}, fmt.Errorf("cannot find the memory limit: %w; set it with --memory-limit", err)
	case found.Group > 0:
		return limit{found.Group, FromGroup, found}, nil
	case found.RAM > 0:
		return limit{min(found.RAM/ramShare, ramMost), FromRAM, found}, nil
	}
	return limit{}, fmt.Errorf("cannot find the memory limit: no control group has one and /proc/meminfo does not tell " +
		"the machine's memory; set it with --memory-limit")
}

// check refuses a configured limit that the kernel will not let us have. It is apart from findLimit so that a plan can
// be computed for another machine.
func (l limit) check() error {
	have, where := l.found.Group, "the control group "+l.found.GroupPath
	if have == 0 {
		have, where = l.found.RAM, "this machine"
	}
	if l.source == Configured && have > 0 && l.bytes > have {
		return fmt.Errorf("memory limit is %s, but %s has only %s; lower the limit to that or less",
			bytesize.Format(l.bytes), where, bytesize.Format(have))
	}
	return nil
}

// scope is what the governor measures. Only a limit that is the group's own is held against the whole group's use.
func (l limit) scope() governor.Scope {
	if l.source == FromGroup {
		return governor.Group
	}
	return governor.Process
}

// String is the limit as Status and the plan's heading show it.
func (l limit) String() string { return fmt.Sprintf("%s (%s)", bytesize.Format(l.bytes), l.source) }
