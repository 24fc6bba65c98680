package governor

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// kernelStack is what one thread costs the kernel on 64-bit machines (THREAD_SIZE, 16 KiB on amd64 and arm64).
const kernelStack = 16 << 10

// maxFamily bounds how many processes one reading looks at, so that a fork bomb below a watched child cannot turn the
// meter itself into load.
const maxFamily = 4096

// processUse is the memory that the given processes, and all that descend from watched children, hold by themselves.
// File pages are left out: they are the page cache's and can be dropped. A process that is gone holds nothing, which is
// no error unless it is this one.
func processUse(fsys fs.FS, children []int) (Use, error) {
	use, err := readStatus(fsys, "self")
	if err != nil {
		return Use{}, err
	}
	queue := append([]int(nil), children...)
	for seen := 0; len(queue) > 0 && seen < maxFamily; seen++ {
		pid := strconv.Itoa(queue[0])
		queue = queue[1:]
		one, err := readStatus(fsys, pid)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errExited) {
			continue
		}
		if err != nil {
			return Use{}, err
		}
		use = use.plus(one)
		queue = append(queue, childrenOf(fsys, pid)...)
	}
	return use, nil
}

// childrenOf reads the children that a process's main thread has started. The file is missing on kernels built without
// it (CONFIG_PROC_CHILDREN) and when the process has just ended; then only the process itself counts.
func childrenOf(fsys fs.FS, pid string) []int {
	text, err := fs.ReadFile(fsys, "proc/"+pid+"/task/"+pid+"/children")
	if err != nil {
		return nil
	}
	var pids []int
	for field := range strings.FieldsSeq(string(text)) {
		if n, err := strconv.Atoi(field); err == nil && n > 0 {
			pids = append(pids, n)
		}
	}
	return pids
}

// errExited is answered for a process that is dead but not yet waited for: its status has no memory lines.
var errExited = errors.New("process has exited")

func readStatus(fsys fs.FS, pid string) (Use, error) {
	text, err := fs.ReadFile(fsys, "proc/"+pid+"/status")
	if err != nil {
		return Use{}, err
	}
	use, err := parseStatus(string(text))
	if err != nil {
		return Use{}, fmt.Errorf("/proc/%s/status: %w", pid, err)
	}
	return use, nil
}

// parseStatus reads the lines of /proc/<pid>/status (proc(5)) that tell what the process holds.
func parseStatus(text string) (Use, error) {
	var use Use
	var threads, found int64
	for line := range strings.Lines(text) {
		name, rest, _ := strings.Cut(line, ":")
		var field *int64
		switch name {
		case "RssAnon":
			field = &use.Anon
			found++
		case "RssShmem":
			field = &use.Shmem
		case "VmPTE":
			field = &use.PageTables
		case "Threads":
			field = &threads
		default:
			continue
		}
		n, err := parseCount(rest)
		if err != nil {
			return Use{}, fmt.Errorf("cannot read line %q", line)
		}
		*field = n
	}
	if found == 0 {
		return Use{}, errExited
	}
	use.KernelStack = kernelStack * min(threads, 1<<32)
	return use, nil
}

// parseCount reads "123 kB" in bytes, or a plain "123" as it is.
func parseCount(s string) (int64, error) {
	number, unit, _ := strings.Cut(strings.TrimSpace(s), " ")
	n, err := strconv.ParseUint(number, 10, 48)
	if err != nil {
		return 0, err
	}
	switch unit {
	case "kB":
		return int64(n) << 10, nil
	case "":
		return int64(n), nil
	}
	return 0, errors.New("unknown unit")
}
