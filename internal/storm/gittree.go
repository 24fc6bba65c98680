package storm

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"
)

// treeUse is what a process and all that descend from it take.
type treeUse struct {
	anon, childAnon int64         // bytes of anonymous memory now: of all, and without the process itself
	cpu, childCPU   time.Duration // so far, of children that have been waited for too
	children        int
	packing         int // children that are pack-objects
}

const (
	treeEvery = 50 * time.Millisecond // so a peak of less than that may be missed

	ticks = 100 // a second, in /proc/PID/stat, on every architecture of Linux
)

// treeMeter measures a process and its descendants from outside.
type treeMeter struct {
	pid int
	mu  struct {
		sync.Mutex
		strangers map[int]bool // known not to descend from pid; forgotten now and then, since numbers are used again
		packing   map[int]bool // of those children whose command line was read
		looks     int
		peak      treeUse // each figure's own peak since mark
		began     treeUse
	}
}

// newTreeMeter measures pid, which must be there.
func newTreeMeter(pid int) (*treeMeter, error) {
	m := &treeMeter{pid: pid}
	m.mu.strangers, m.mu.packing = map[int]bool{}, map[int]bool{}
	if _, err := m.look(); err != nil {
		return nil, &UsageError{fmt.Errorf("pid %d: %w", pid, err)}
	}
	return m, nil
}

// run looks until ctx ends.
func (m *treeMeter) run(ctx context.Context) {
	for sleep(ctx, treeEvery) {
		m.look() // a process that is gone is found out by mark
	}
}

// mark begins a section.
func (m *treeMeter) mark() error {
	now, err := m.look()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.peak, m.mu.began = now, now
	return err
}

// since is what a section has cost: peaks of memory and of numbers, and differences of time.
func (m *treeMeter) since() (treeUse, error) {
	now, err := m.look()
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.mu.peak
	u.cpu, u.childCPU = now.cpu-m.mu.began.cpu, now.childCPU-m.mu.began.childCPU
	return u, err
}

// look measures now.
func (m *treeMeter) look() (treeUse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.looks++; m.mu.looks%20 == 0 {
		clear(m.mu.strangers)
		clear(m.mu.packing)
	}
	self, err := readStat(m.pid)
	if err != nil {
		return treeUse{}, err
	}
	u := treeUse{anon: anonOf(m.pid), cpu: self.own + self.waited, childCPU: self.waited}
	for pid, st := range m.descendantsLocked() {
		anon := anonOf(pid)
		u.anon, u.childAnon = u.anon+anon, u.childAnon+anon
		u.cpu, u.childCPU = u.cpu+st.own+st.waited, u.childCPU+st.own+st.waited
		u.children++
		if m.isPackingLocked(pid) {
			u.packing++
		}
	}
	p := &m.mu.peak
	p.anon, p.childAnon = max(p.anon, u.anon), max(p.childAnon, u.childAnon)
	p.children, p.packing = max(p.children, u.children), max(p.packing, u.packing)
	return u, nil
}

// descendantsLocked walks from every process up to its ancestors. It reads only what it does not know to be a stranger.
func (m *treeMeter) descendantsLocked() map[int]stat {
	all := map[int]stat{}
	for _, pid := range processes() {
		if pid == m.pid || m.mu.strangers[pid] {
			continue
		}
		if st, err := readStat(pid); err == nil {
			all[pid] = st
		}
	}
	for pid := range all {
		if !m.descends(pid, all) {
			m.mu.strangers[pid] = true
		}
	}
	for pid := range all {
		if m.mu.strangers[pid] {
			delete(all, pid)
		}
	}
	return all
}

func (m *treeMeter) descends(pid int, all map[int]stat) bool {
	for depth := 0; depth < 64; depth++ { // processes come and go while we read: no endless loop
		st, ok := all[pid]
		switch {
		case !ok:
			return false
		case st.parent == m.pid:
			return true
		}
		pid = st.parent
	}
	return false
}

// isPackingLocked reads a child's command line until it is Git's.
func (m *treeMeter) isPackingLocked(pid int) bool {
	if is, ok := m.mu.packing[pid]; ok {
		return is
	}
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || len(line) == 0 {
		return false
	}
	args := bytes.Split(line, []byte{0})
	is := len(args) > 1 && string(args[1]) == "pack-objects"
	m.mu.packing[pid] = is
	return is
}

// processes are the numbers of all there are.
func processes() (pids []int) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1) // what was read until an error is as good as any
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// stat is what matters of /proc/PID/stat.
type stat struct {
	parent      int
	own, waited time.Duration // processor time, and that of children that were waited for
}

func readStat(pid int) (stat, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, err
	}
	return parseStat(text)
}

// parseStat reads proc(5)'s fields 4 and 14 to 17. The second is the command's name in parentheses, which may itself have
// blanks and parentheses.
func parseStat(text []byte) (stat, error) {
	end := bytes.LastIndexByte(text, ')')
	fields := bytes.Fields(text[end+1:])
	if end < 0 || len(fields) < 15 {
		return stat{}, fmt.Errorf("%q is no /proc/PID/stat", text)
	}
	var n [5]int64
	for i, at := range []int{1, 11, 12, 13, 14} { // counted from the third field
		v, err := strconv.ParseInt(string(fields[at]), 10, 64)
		if err != nil {
			return stat{}, fmt.Errorf("%q is no /proc/PID/stat", text)
		}
		n[i] = v
	}
	return stat{parent: int(n[0]), own: duringTicks(n[1] + n[2]), waited: duringTicks(n[3] + n[4])}, nil
}

func duringTicks(n int64) time.Duration { return time.Duration(n) * time.Second / ticks }

// anonOf is 0 for a process that is gone or has not been waited for.
func anonOf(pid int) (anon int64) {
	_ = readKiB(fmt.Sprintf("/proc/%d/status", pid), func(name string, n int64) { // gone is 0
		if name == "RssAnon" {
			anon = n
		}
	})
	return anon
}
