package governor

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
)

// unlimited is what a control group without a limit answers here. Version 1 shows the largest page-aligned number, which
// depends on the page size, so everything from 1 EiB up is taken for it.
const unlimited = math.MaxInt64

// hierarchy is the chain of memory control groups that hold this process: its own first, then each parent up to the
// mount's root. A limit may sit on any of them and all of them count, so the effective limit is the least.
type hierarchy struct {
	version int      // 1 or 2; 0 = the process is in no memory control group that can be seen
	dirs    []string // paths below the root of the file system seam, without a leading slash
}

// findHierarchy reads which groups hold this process. A machine without control groups has an empty hierarchy, which is
// no error; one that has them in a form not understood is.
//
// In hybrid mode both versions are mounted, and the memory controller belongs to exactly one of them: the version 1 line
// of /proc/self/cgroup that names it says so. Without such a line it belongs to version 2.
func findHierarchy(fsys fs.FS) (hierarchy, error) {
	own, err := fs.ReadFile(fsys, "proc/self/cgroup")
	if errors.Is(err, fs.ErrNotExist) {
		return hierarchy{}, nil
	}
	if err != nil {
		return hierarchy{}, err
	}
	table, err := fs.ReadFile(fsys, "proc/self/mountinfo")
	if err != nil {
		return hierarchy{}, err
	}
	version, group, err := parseOwnGroup(string(own))
	if err != nil || version == 0 {
		return hierarchy{}, err
	}
	mount, ok := parseMounts(string(table), version, group)
	if !ok {
		return hierarchy{}, nil // not mounted here: nothing can be read, whatever the limit is
	}
	return hierarchy{version: version, dirs: mount.chain(group)}, nil
}

// parseOwnGroup reads /proc/self/cgroup, whose lines are "id:controllers:path" (cgroups(7)).
func parseOwnGroup(text string) (version int, group string, err error) {
	for line := range strings.Lines(text) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(fields) != 3 || !strings.HasPrefix(fields[2], "/") {
			return 0, "", fmt.Errorf("/proc/self/cgroup: cannot read line %q", line)
		}
		for controller := range strings.SplitSeq(fields[1], ",") {
			if controller == "memory" {
				return 1, fields[2], nil
			}
		}
		if fields[0] == "0" && fields[1] == "" {
			version, group = 2, fields[2]
		}
	}
	return version, group, nil
}

// cgroupMount is one mounted control group file system: the group shown at its top, and where that is.
type cgroupMount struct{ root, point string }

// parseMounts finds in /proc/self/mountinfo (proc(5)) the mount of the memory controller through which group is seen
// best: the one whose root is the longest prefix of the group's path. In a container without its own control group
// namespace the path is the host's, and the mount's root is the container's group.
func parseMounts(text string, version int, group string) (best cgroupMount, found bool) {
	bestLen := -1
	for line := range strings.Lines(text) {
		m, ok := parseMount(line, version)
		if !ok {
			continue
		}
		length := 0
		if below(group, m.root) {
			length = len(m.root)
		}
		if length > bestLen {
			best, bestLen, found = m, length, true
		}
	}
	return best, found
}

// parseMount reads one line of mountinfo: "id parent dev root point options [tags...] - type source superoptions".
func parseMount(line string, version int) (m cgroupMount, ok bool) {
	head, tail, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
	if !ok {
		return m, false
	}
	left, right := strings.Fields(head), strings.Fields(tail)
	if len(left) < 5 || len(right) < 3 {
		return m, false
	}
	switch right[0] {
	case "cgroup2":
		ok = version == 2
	case "cgroup":
		ok = version == 1 && strings.Contains(","+right[2]+",", ",memory,")
	default:
		ok = false
	}
	return cgroupMount{root: unescape(left[3]), point: unescape(left[4])}, ok
}

// unescape undoes mountinfo's octal escapes (\040 for a space).
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+4 <= len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// below says whether group is root or lies under it.
func below(group, root string) bool {
	return group == root || strings.HasPrefix(group, strings.TrimSuffix(root, "/")+"/")
}

// chain lists the directories of group and its parents, nearest first. A group that is not below the mount's root (the
// process was moved after its namespace was made) is seen only through the mount's top.
func (m cgroupMount) chain(group string) []string {
	rest := ""
	if below(group, m.root) {
		rest = strings.TrimPrefix(group, strings.TrimSuffix(m.root, "/"))
	}
	top := path.Clean("/" + m.point)
	dir := path.Clean(top + "/" + rest)
	if !below(dir, top) {
		dir = top
	}
	var dirs []string
	for {
		dirs = append(dirs, strings.TrimPrefix(dir, "/"))
		if dir == top || dir == "/" {
			break
		}
		dir = path.Dir(dir)
	}
	return dirs
}

// limit returns the least limit along the chain and the directory it sits on, or unlimited and the nearest directory.
func (h hierarchy) limit(fsys fs.FS) (bytes int64, dir string, err error) {
	bytes = unlimited
	for _, d := range h.dirs {
		own, err := h.ownLimit(fsys, d)
		if err != nil {
			return 0, "", err
		}
		if own < bytes {
			bytes, dir = own, d
		}
	}
	if h.version == 1 && len(h.dirs) > 0 {
		// A parent outside of our mount is seen in the nearest group's hierarchical limit, and nowhere else.
		if outer := hierarchicalLimit(fsys, h.dirs[0]); outer < bytes {
			bytes, dir = outer, h.dirs[0]
		}
	}
	if dir == "" && len(h.dirs) > 0 {
		dir = h.dirs[0]
	}
	return bytes, dir, nil
}

// ownLimit is the limit that sits on one directory. For version 2 memory.high counts too: a group that passes it is not
// killed, but throttled until it seems dead.
func (h hierarchy) ownLimit(fsys fs.FS, dir string) (int64, error) {
	files := []string{"memory.max", "memory.high"}
	if h.version == 1 {
		files = []string{"memory.limit_in_bytes"}
	}
	least := int64(unlimited)
	for _, name := range files {
		text, err := fs.ReadFile(fsys, path.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // the root group, or a parent without the controller
		}
		if err != nil {
			return 0, err
		}
		n, err := parseLimit(string(text))
		if err != nil {
			return 0, fmt.Errorf("/%s: %w", path.Join(dir, name), err)
		}
		least = min(least, n)
	}
	return least, nil
}

func hierarchicalLimit(fsys fs.FS, dir string) int64 {
	text, err := fs.ReadFile(fsys, path.Join(dir, "memory.stat"))
	if err != nil {
		return unlimited
	}
	stat, err := parseStat(string(text))
	if n, ok := stat["hierarchical_memory_limit"]; err == nil && ok && n < 1<<60 {
		return n
	}
	return unlimited
}

// parseLimit reads a limit file: a number of bytes, or "max".
func parseLimit(text string) (int64, error) {
	text = strings.TrimSpace(text)
	if text == "max" {
		return unlimited, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("cannot read limit %q", text)
	}
	if n >= 1<<60 {
		return unlimited, nil
	}
	return int64(n), nil
}

// parseStat reads a file of "name value" lines, such as memory.stat. A value past int64 is cut to it.
func parseStat(text string) (map[string]int64, error) {
	stat := make(map[string]int64, 64)
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.ParseUint(value, 10, 64)
		if !ok || err != nil {
			return nil, fmt.Errorf("cannot read line %q", line)
		}
		stat[name] = int64(min(n, math.MaxInt64))
	}
	return stat, nil
}
