package storm

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

// look is what the server really holds at one moment, and what it says that it holds. Bytes.
type look struct {
	status serverStatus
	inUse  map[string]int64 // account to charged bytes

	live   int64 // found live by a collection that was made for this look
	stacks int64
	tables int64 // the Go runtime's own

	anon    int64 // RssAnon
	binary  int64 // RssFile: pages of the binary
	kernel  int64 // page tables and the kernel's stacks of the threads
	sockets map[string]int64
}

// goBytes is what accounts on the Go heap are charged for: objects that are in use, and stacks.
func (l *look) goBytes() int64 { return l.live + l.stacks }

// looker takes looks at a server.
type looker struct {
	w       *watch
	sockets map[string]int // account to the port whose connections it is for
}

// look has the server collect its garbage, and then reads everything.
func (k *looker) look(ctx context.Context) (*look, error) {
	l := &look{inUse: map[string]int64{}, sockets: map[string]int64{}}
	discard := func(r io.Reader) error { _, err := io.Copy(io.Discard, r); return err }
	if err := k.w.page(ctx, "/debug/pprof/heap?gc=1", discard); err != nil {
		return nil, err
	}
	collected := time.Now()
	if err := k.w.page(ctx, "/metrics", l.readMetrics); err != nil {
		return nil, err
	}
	if err := k.readStatus(ctx, l, collected); err != nil {
		return nil, err
	}
	return l, k.fromOutside(l)
}

// glance is a look that the server has no part in.
func (k *looker) glance() (*look, error) {
	l := &look{sockets: map[string]int64{}}
	return l, k.fromOutside(l)
}

func (k *looker) fromOutside(l *look) error {
	for account, port := range k.sockets {
		n, err := socketMemory(port)
		if err != nil {
			return err
		}
		l.sockets[account] = n
	}
	return l.readProcess(k.w.pid)
}

func (l *look) socketBytes() (sum int64) {
	for _, n := range l.sockets {
		sum += n
	}
	return sum
}

// total is what the process costs its machine, but for what its disk has still to write.
func (l *look) total() int64 { return l.anon + l.binary + l.kernel + l.socketBytes() }

// readStatus waits for figures that are younger than the collection.
func (k *looker) readStatus(ctx context.Context, l *look, collected time.Time) error {
	for {
		st, err := k.status(ctx)
		if err != nil {
			return err
		}
		if st.Pressure.At.After(collected) {
			l.status, l.live = st, st.Pressure.Heap.Live
			for _, line := range st.Plan.Lines {
				if line.InUse != nil {
					l.inUse[line.Account] = *line.InUse
				}
			}
			return nil
		}
		if !sleep(ctx, 20*time.Millisecond) {
			return context.Cause(ctx)
		}
	}
}

func (k *looker) status(ctx context.Context) (st serverStatus, err error) {
	err = k.w.page(ctx, "/status", func(r io.Reader) error { return json.NewDecoder(r).Decode(&st) })
	return st, err
}

// unswept is what the Go heap holds, garbage included.
func (k *looker) unswept(ctx context.Context) (n int64, err error) {
	err = k.w.page(ctx, "/metrics", func(r io.Reader) error {
		lines := bufio.NewScanner(r)
		for lines.Scan() {
			if value, ok := strings.CutPrefix(lines.Text(), "go_memstats_heap_alloc_bytes "); ok {
				f, err := strconv.ParseFloat(value, 64)
				n = int64(f)
				return err
			}
		}
		return lines.Err()
	})
	return n, err
}

func (l *look) readMetrics(r io.Reader) error {
	into := map[string]*int64{
		"go_memstats_stack_inuse_bytes":   &l.stacks,
		"go_memstats_mspan_sys_bytes":     &l.tables,
		"go_memstats_gc_sys_bytes":        &l.tables,
		"go_memstats_other_sys_bytes":     &l.tables,
		"go_memstats_buck_hash_sys_bytes": &l.tables,
	}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if n := into[name]; n != nil {
			f, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return err
			}
			*n += int64(f)
		}
	}
	return lines.Err()
}

const (
	kib         = 1 << 10
	kernelStack = 16 * kib // of a thread
)

func (l *look) readProcess(pid int) error {
	return readKiB(fmt.Sprintf("/proc/%d/status", pid), func(name string, n int64) {
		switch name {
		case "RssAnon":
			l.anon = n
		case "RssFile":
			l.binary = n
		case "VmPTE":
			l.kernel += n
		case "Threads":
			l.kernel += n / kib * kernelStack
		}
	})
}

// dirtyPages is Dirty and Writeback of the whole machine: nothing less is told of a process.
func dirtyPages() (sum int64, err error) {
	err = readKiB("/proc/meminfo", func(name string, n int64) {
		if name == "Dirty" || name == "Writeback" {
			sum += n
		}
	})
	return sum, err
}

// readKiB reads the lines "Name: 123 kB" of a file of /proc, in bytes.
func readKiB(file string, each func(name string, n int64)) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for line := range bytes.Lines(text) {
		name, rest, _ := strings.Cut(string(line), ":")
		if f := strings.Fields(rest); len(f) > 0 {
			if n, err := strconv.ParseInt(f[0], 10, 64); err == nil {
				each(name, n*kib)
			}
		}
	}
	return nil
}
