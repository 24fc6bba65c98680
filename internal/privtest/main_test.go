// Package privtest holds the tests that need root: real control groups with real limits, and file systems that are slow,
// full or stand still. It has no other code. They are no part of a plain run, because a test that cannot run must fail:
// scripts/test --privileged runs them.
package privtest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leveehq/levee"
	"github.com/leveehq/levee/governor"
	"github.com/leveehq/levee/internal/e2e/rig"
)

const mib = 1 << 20

const partEnv = "LEVEE_PRIVTEST_PART"

func TestMain(m *testing.M) {
	switch part := os.Getenv(partEnv); {
	case part == "server":
		server()
	case part != "":
		fmt.Fprintf(os.Stderr, "unknown %s %q\n", partEnv, part)
		os.Exit(2)
	case os.Geteuid() != 0:
		fmt.Fprintln(os.Stderr, "internal/privtest: these tests make control groups and need root; run scripts/test --privileged as root")
		os.Exit(1)
	default:
		os.Exit(rig.Main(m))
	}
}

// group is a control group with a memory limit, made for one test.
type group struct {
	t   *testing.T
	dir string
	v1  bool
}

func newGroup(t *testing.T, limit int64) group {
	t.Helper()
	g := group{t: t}
	name := fmt.Sprintf("levee-privtest-%d", os.Getpid())
	if _, err := os.Stat("/sys/fs/cgroup/memory/memory.limit_in_bytes"); err == nil {
		g.v1, g.dir = true, filepath.Join("/sys/fs/cgroup/memory", name)
	} else {
		g.dir = filepath.Join("/sys/fs/cgroup", name)
		g.write("/sys/fs/cgroup/cgroup.subtree_control", "+memory")
	}
	g.mkdir(g.dir)
	if g.v1 {
		g.write(filepath.Join(g.dir, "memory.limit_in_bytes"), fmt.Sprint(limit))
	} else {
		g.write(filepath.Join(g.dir, "memory.max"), fmt.Sprint(limit))
		g.write(filepath.Join(g.dir, "cgroup.subtree_control"), "+memory")
	}
	return g
}

// inner makes a group without a limit of its own. Processes go there: version 2 forbids them beside groups.
func (g group) inner(name string) group {
	in := group{t: g.t, dir: filepath.Join(g.dir, name), v1: g.v1}
	g.mkdir(in.dir)
	return in
}

func (g group) mkdir(dir string) {
	g.t.Helper()
	if err := os.Mkdir(dir, 0o755); err != nil {
		g.t.Fatalf("make a control group: %v", err)
	}
	g.t.Cleanup(func() {
		// The kernel lets go of a group a moment after its last process has ended.
		eventually(g.t, 10*time.Second, "remove "+dir, func() bool { return os.Remove(dir) == nil })
	})
}

func (g group) write(file, text string) {
	g.t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		g.t.Fatalf("the memory controller cannot be used here: %v", err)
	}
}

// usage is what the group shows, page cache and all.
func (g group) usage() int64 {
	g.t.Helper()
	name := "memory.current"
	if g.v1 {
		name = "memory.usage_in_bytes"
	}
	text, err := os.ReadFile(filepath.Join(g.dir, name))
	if err != nil {
		g.t.Fatal(err)
	}
	var n int64
	if _, err := fmt.Sscan(string(text), &n); err != nil {
		g.t.Fatal(err)
	}
	return n
}

// process is a server in a group, told what to do line by line.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	orders *json.Encoder
	lines  *bufio.Scanner
}

// start runs this binary as a server in the group. limit is its configured memory limit, 0 to have it found.
func (g group) start(limit int64) *process {
	g.t.Helper()
	p := &process{t: g.t, cmd: exec.Command("sh", "-c", `echo $$ > "$1"/cgroup.procs && exec "$0"`, os.Args[0], g.dir)}
	p.cmd.Env = append(os.Environ(), partEnv+"=server", fmt.Sprint("LEVEE_PRIVTEST_LIMIT=", limit))
	p.cmd.Stderr = os.Stderr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		g.t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		g.t.Fatal(err)
	}
	p.orders, p.lines = json.NewEncoder(in), bufio.NewScanner(out)
	p.lines.Buffer(nil, mib)
	if err := p.cmd.Start(); err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() {
		in.Close()
		if err := p.cmd.Wait(); err != nil {
			g.t.Errorf("the server ended with %v", err) // killed for memory, above all
		}
	})
	return p
}

// answer is what the server says to every order.
type answer struct {
	Error  string
	Source levee.LimitSource
	Limit  int64
	GoMem  int64
	Level  string
	Cause  governor.Cause
	Use    int64
	Text   string // the whole reading
}

// order is one thing to do.
type order struct {
	Do   string // see hoard.obey
	Path string
	N    int64
}

func (p *process) do(o order) answer {
	p.t.Helper()
	if err := p.orders.Encode(o); err != nil {
		p.t.Fatalf("order %+v: %v", o, err)
	}
	if !p.lines.Scan() {
		p.t.Fatalf("order %+v: no answer: %v", o, p.lines.Err())
	}
	var a answer
	if err := json.Unmarshal(p.lines.Bytes(), &a); err != nil || a.Error != "" {
		p.t.Fatalf("order %+v: %v, %s", o, err, a.Error)
	}
	return a
}

func (p *process) waitFor(level string, within time.Duration) {
	p.t.Helper()
	var a answer
	eventually(p.t, within, "level "+level, func() bool {
		a = p.do(order{Do: "status"})
		return a.Level == level
	})
	p.t.Logf("level %s: %s", level, a.Text)
}

// stays checks that the level is the same at every look for so long.
func (p *process) stays(level string, d time.Duration) {
	p.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); <-time.After(50 * time.Millisecond) {
		if a := p.do(order{Do: "status"}); a.Level != level {
			p.t.Fatalf("level %s, want %s: %s", a.Level, level, a.Text)
		}
	}
}

func eventually(t *testing.T, within time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !ok(); <-time.After(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}

// server is the part of the process under test: a kernel that runs, and memory held by order.
func server() {
	var limit int64
	fmt.Sscan(os.Getenv("LEVEE_PRIVTEST_LIMIT"), &limit)
	k, err := levee.New(levee.Options{MemoryLimit: limit})
	if err == nil {
		err = k.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	ctx, stop := context.WithCancel(context.Background())
	ran := make(chan error)
	go func() { ran <- k.Run(ctx) }()
	var h hoard
	answers := json.NewEncoder(os.Stdout)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var o order
		if err = json.Unmarshal(in.Bytes(), &o); err == nil {
			err = h.obey(o)
		}
		a := describe(k)
		if err != nil {
			a.Error = err.Error()
		}
		if err := answers.Encode(a); err != nil {
			break
		}
	}
	stop()
	<-ran
}

func describe(k *levee.Kernel) answer {
	s := k.Status()
	text, err := json.Marshal(s.Pressure)
	if err != nil {
		text = []byte(err.Error())
	}
	return answer{
		Source: s.LimitSource, Limit: s.Limit, GoMem: s.Plan.GoMemLimit, Level: s.Level.String(),
		Cause: s.Pressure.Cause, Use: s.Pressure.UseBytes, Text: strings.TrimSpace(string(text)),
	}
}

// by is a command that becomes another one inside of the group.
func (g group) by() []string {
	return []string{"sh", "-c", `echo $$ > "$0"/cgroup.procs && exec "$@"`, g.dir}
}
