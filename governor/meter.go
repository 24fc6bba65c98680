package governor

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// Scope is whose memory is held against the limit.
type Scope int

const (
	// Process measures this process and its watched children. It is right when the limit is a promise made to
	// the operator (a flag, a share of the machine): the group we happen to run in may be shared with a build, a browser
	// or a database, and what they use is neither ours to answer for nor ours to free.
	Process Scope = iota

	// Group measures the whole control group whose limit is the least on the way to the root. It is right when the limit
	// is that group's: the kernel kills by it, and counts children, sockets and neighbours alike.
	Group
)

// String is the word that Status uses.
func (s Scope) String() string {
	if s == Group {
		return "group"
	}
	return "process"
}

// MarshalText makes a scope readable in JSON.
func (s Scope) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Use is memory that no reclaim can free, in bytes, by where it went. Clean page cache and reclaimable slab are not part
// of it: they go as soon as somebody asks, however full the group looks.
type Use struct {
	Anon        int64 `json:"anon_bytes"`
	Shmem       int64 `json:"shmem_bytes"`
	Unevictable int64 `json:"unevictable_bytes"` // locked; a locked anonymous page also counts as Anon, which errs on the safe side
	KernelStack int64 `json:"kernel_stack_bytes"`
	PageTables  int64 `json:"pagetables_bytes"`
	Sock        int64 `json:"sock_bytes"`
	Slab        int64 `json:"slab_unreclaimable_bytes"`
	Dirty       int64 `json:"file_dirty_bytes"`
	Writeback   int64 `json:"file_writeback_bytes"`
	Charged     int64 `json:"charged_kernel_bytes"` // process scope: the kernel's part, as Options.Charges tells it
}

// Total adds the parts up.
func (u Use) Total() int64 {
	return u.Anon + u.Shmem + u.Unevictable + u.KernelStack + u.PageTables + u.Sock + u.Slab + u.Dirty + u.Writeback + u.Charged
}

func (u Use) plus(o Use) Use {
	return Use{
		u.Anon + o.Anon, u.Shmem + o.Shmem, u.Unevictable + o.Unevictable, u.KernelStack + o.KernelStack,
		u.PageTables + o.PageTables, u.Sock + o.Sock, u.Slab + o.Slab, u.Dirty + o.Dirty, u.Writeback + o.Writeback,
		u.Charged + o.Charged,
	}
}

// Found is what this machine says about the memory we may use.
type Found struct {
	Group     int64  // bytes: the least limit of the control groups that hold us; 0 = none of them has one
	GroupPath string // the directory that the limit sits on
	Version   int    // of the control groups that have the memory controller, 1 or 2; 0 = none seen
	RAM       int64  // bytes of memory in the machine; 0 = unknown
}

// Find looks for the limits that fsys shows; nil means this machine. A control group's limit that is not below the
// machine's memory limits nothing and is answered as none.
func Find(fsys fs.FS) (Found, error) {
	fsys = orRoot(fsys)
	var found Found
	if text, err := fs.ReadFile(fsys, "proc/meminfo"); err == nil {
		found.RAM = parseRAM(string(text))
	} else if !errors.Is(err, fs.ErrNotExist) {
		return Found{}, err
	}
	h, err := findHierarchy(fsys)
	if err != nil {
		return Found{}, err
	}
	found.Version = h.version
	limit, dir, err := h.limit(fsys)
	if err != nil {
		return Found{}, err
	}
	if limit != unlimited && (found.RAM == 0 || limit < found.RAM) {
		found.Group, found.GroupPath = limit, "/"+dir
	}
	return found, nil
}

// parseRAM reads MemTotal of /proc/meminfo, or answers 0.
func parseRAM(text string) int64 {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			n, _ := parseCount(rest)
			return n
		}
	}
	return 0
}

// meter reads use against the limit, in one scope.
type meter struct {
	fsys  fs.FS
	scope Scope
	limit int64 // the planned limit; what the group says now may only lower it
}

// measurement is one answer of a meter.
type measurement struct {
	use   Use
	limit int64
	group string // the group measured, in group scope
	note  string // what the figures lack on this machine
}

func (m meter) read(children []int) (measurement, error) {
	if m.scope == Process {
		use, err := processUse(m.fsys, children)
		return measurement{use: use, limit: m.limit}, err
	}
	return m.readGroup(children)
}

// readGroup finds the group anew each time: an orchestrator may move us, or change a limit, while we run.
func (m meter) readGroup(children []int) (measurement, error) {
	h, err := findHierarchy(m.fsys)
	if err != nil {
		return measurement{}, err
	}
	if len(h.dirs) == 0 {
		return measurement{}, errors.New("no memory control group holds this process")
	}
	limit, dir, err := h.limit(m.fsys)
	if err != nil {
		return measurement{}, err
	}
	name := path.Join(dir, "memory.stat")
	text, err := fs.ReadFile(m.fsys, name)
	if err != nil {
		return measurement{}, err
	}
	stat, err := parseStat(string(text))
	if err != nil {
		return measurement{}, fmt.Errorf("/%s: %w", name, err)
	}
	got := measurement{limit: min(limit, m.limit), group: "/" + dir}
	if h.version == 1 {
		got.use, got.note, err = m.useV1(dir, stat, children)
	} else {
		got.use, err = useV2(stat)
	}
	if err != nil {
		return measurement{}, fmt.Errorf("/%s: %w", name, err)
	}
	return got, nil
}

// useV2 takes the fields of a version 2 memory.stat (the kernel's admin-guide/cgroup-v2.rst) that reclaim cannot free.
// Only anon must be there: the others came with later kernels, and what is not counted cannot be told.
func useV2(stat map[string]int64) (Use, error) {
	if _, ok := stat["anon"]; !ok {
		return Use{}, errors.New(`no line "anon"`)
	}
	return Use{
		Anon:        stat["anon"],
		Shmem:       stat["shmem"],
		Unevictable: stat["unevictable"],
		KernelStack: stat["kernel_stack"],
		PageTables:  stat["pagetables"],
		Sock:        stat["sock"],
		Slab:        stat["slab_unreclaimable"],
		Dirty:       stat["file_dirty"],
		Writeback:   stat["file_writeback"],
	}, nil
}

const noteV1 = "control groups version 1: slab is not counted, because it cannot be told from what reclaim would free; " +
	"page tables and kernel stacks are those of this process and its watched children"

// useV1 takes the closest fields of version 1 (the kernel's admin-guide/cgroup-v1/memory.rst). Its kernel counter mixes
// reclaimable slab with the rest, and counting that shed healthy servers whose only fault was many small files, so what
// is left of kernel memory is what our own processes' status shows.
func (m meter) useV1(dir string, stat map[string]int64, children []int) (Use, string, error) {
	prefix := "total_" // with the groups below this one
	if _, ok := stat["total_rss"]; !ok {
		prefix = ""
	}
	if _, ok := stat[prefix+"rss"]; !ok {
		return Use{}, "", errors.New(`no line "rss"`)
	}
	own, err := processUse(m.fsys, children)
	if err != nil {
		return Use{}, "", err
	}
	use := Use{
		Anon:        stat[prefix+"rss"],
		Shmem:       stat[prefix+"shmem"],
		Unevictable: stat[prefix+"unevictable"],
		Dirty:       stat[prefix+"dirty"],
		Writeback:   stat[prefix+"writeback"],
		KernelStack: own.KernelStack,
		PageTables:  own.PageTables,
	}
	// Sockets are charged to a version 1 group only if it was given a limit for them; then this file is not zero.
	if text, err := fs.ReadFile(m.fsys, path.Join(dir, "memory.kmem.tcp.usage_in_bytes")); err == nil {
		n, err := parseLimit(string(text))
		if err != nil {
			return Use{}, "", err
		}
		use.Sock = n
	}
	return use, noteV1, nil
}
