package rig

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Process is one entry of /proc.
type Process struct {
	PID, Parent int
	State       byte // Z is a zombie
	Args        []string
	CPU         time.Duration // with that of children that were waited for
}

// Command is git's subcommand, or the program.
func (p Process) Command() string {
	for i, a := range p.Args {
		if i > 0 && !strings.HasPrefix(a, "-") && p.Args[i-1] != "--shallow-file" {
			return a
		}
	}
	return strings.Join(p.Args, " ")
}

// ticks a second of the kernel's counters in /proc.
const ticks = 100

func readProcess(pid int) (p Process, ok bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return p, false
	}
	after := bytes.LastIndexByte(text, ')') // a name may have spaces
	f := strings.Fields(string(text[after+1:]))
	if after < 0 || len(f) < 15 {
		return p, false
	}
	p = Process{PID: pid, State: f[0][0]}
	p.Parent, _ = strconv.Atoi(f[1])
	for _, field := range f[11:15] {
		n, _ := strconv.ParseInt(field, 10, 64)
		p.CPU += time.Duration(n) * time.Second / ticks
	}
	args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	p.Args = strings.Split(strings.TrimRight(string(args), "\x00"), "\x00")
	return p, true
}

func allProcesses() (all []Process) {
	entries, _ := filepath.Glob("/proc/[0-9]*")
	for _, e := range entries {
		pid, _ := strconv.Atoi(filepath.Base(e))
		if p, ok := readProcess(pid); ok {
			all = append(all, p)
		}
	}
	return all
}

// Below are the descendants of a process, zombies included.
func Below(pid int) (below []Process) {
	children := map[int][]Process{}
	for _, p := range allProcesses() {
		children[p.Parent] = append(children[p.Parent], p)
	}
	var add func(int)
	add = func(pid int) {
		for _, c := range children[pid] {
			below = append(below, c)
			add(c.PID)
		}
	}
	add(pid)
	return below
}

// Naming are the processes, but for one, whose command line or environment has the text in it: what a server left behind
// is nobody's child any more, but still knows its directory.
func Naming(text string, except int) (all []Process) {
	for _, p := range allProcesses() {
		env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.PID))
		if p.PID != except && p.PID != os.Getpid() && (strings.Contains(string(env), text) || strings.Contains(strings.Join(p.Args, "\x00"), text)) {
			all = append(all, p)
		}
	}
	return all
}

// CPU that a process has taken, with its children that were waited for.
func CPU(pid int) time.Duration {
	p, _ := readProcess(pid)
	return p.CPU
}

// Anon is the anonymous memory of a process in bytes, 0 if it is gone.
func Anon(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			n, _ := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			return n << 10
		}
	}
	return 0
}

// Tree is what a process and its descendants were seen to take.
type Tree struct {
	PeakAnon, PeakRoot int64          // of all together; of the process itself
	Most               map[string]int // how many of each git command there were at once
	CPU                time.Duration
}

// WatchTree looks at a process and its descendants again and again until stop is called.
func WatchTree(pid int) (stop func() Tree) {
	quit, done := make(chan struct{}), make(chan struct{})
	tree, before := Tree{Most: map[string]int{}}, CPU(pid)
	go func() {
		defer close(done)
		for tick := time.NewTicker(20 * time.Millisecond); ; {
			tree.look(pid)
			select {
			case <-quit:
				tick.Stop()
				return
			case <-tick.C:
			}
		}
	}()
	return func() Tree {
		close(quit)
		<-done
		tree.CPU = CPU(pid) - before
		return tree
	}
}

func (t *Tree) look(pid int) {
	root := Anon(pid)
	all, now := root, map[string]int{}
	for _, p := range Below(pid) {
		all += Anon(p.PID)
		if p.State != 'Z' {
			now[p.Command()]++
		}
	}
	t.PeakAnon, t.PeakRoot = max(t.PeakAnon, all), max(t.PeakRoot, root)
	for command, n := range now {
		t.Most[command] = max(t.Most[command], n)
	}
}
