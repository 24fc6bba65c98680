package child

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const mib = 1 << 20

func newRunner(t testing.TB, o Options) *Runner {
	t.Helper()
	r, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// shell makes a git that answers "git version" and otherwise runs its second argument in a shell of its own, below it, as
// upload-pack runs pack-objects.
func shell(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "git")
	text := "#!/bin/sh\n[ \"$1\" = version ] && echo git version 2.39.5 && exit\n/bin/sh -c \"$2\"\nexit $?\n"
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// script is a Cmd for shell.
func script(format string, a ...any) Cmd {
	return Cmd{Args: []string{"script", fmt.Sprintf(format, a...)}, Budget: Budget{Bytes: 64 * mib}}
}

// output runs c and returns what it wrote.
func output(t testing.TB, r *Runner, c Cmd) string {
	t.Helper()
	var out bytes.Buffer
	c.Stdout = &out
	if _, err := r.Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// repository makes a bare one with a commit.
func repository(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	text := `git init -q --bare -b main . && c=$(git commit-tree -m c $(git mktree </dev/null)) && git update-ref refs/heads/main $c`
	cmd := exec.Command("sh", "-ec", text)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b.example", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b.example",
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

// fifo is a named pipe, by which a script says that it is so far.
func fifo(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fifo")
	if out, err := exec.Command("mkfifo", path).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// wait polls for what another process does.
func wait(t testing.TB, what string, ok func() bool) {
	t.Helper()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for deadline := time.Now().Add(30 * time.Second); !ok(); <-poll.C {
		if time.Now().After(deadline) {
			t.Fatalf("after 30s still not true: %s", what)
		}
	}
}

// ours are the processes, dead ones included, whose parent is this process.
func ours(t testing.TB) (list []string) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		if f := strings.Fields(rest); len(f) > 1 && f[1] == fmt.Sprint(os.Getpid()) {
			list = append(list, string(text))
		}
	}
	return list
}

func descriptors(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// leavesNothing runs f and then looks for processes, zombies and descriptors that were not there before.
func leavesNothing(t testing.TB, r *Runner, f func()) {
	t.Helper()
	before := descriptors(t)
	f()
	if left := ours(t); len(left) > 0 {
		t.Errorf("processes are left:\n%s", strings.Join(left, ""))
	}
	// The runtime may have opened its poller meanwhile: one descriptor and an event.
	if after := descriptors(t); after > before+2 {
		t.Errorf("%d descriptors are open, before it were %d", after, before)
	}
	if n, bytes := r.Running(); n != 0 || bytes != 0 {
		t.Errorf("%d children and %d bytes are still counted", n, bytes)
	}
}

// started runs c on a goroutine and waits until its script has written a line to the fifo.
func started(t testing.TB, ctx context.Context, r *Runner, c Cmd, fifo string) <-chan error {
	t.Helper()
	ended := make(chan error, 1)
	go func() { _, err := r.Run(ctx, c); ended <- err }()
	if line, err := os.ReadFile(fifo); err != nil || len(line) == 0 {
		t.Fatalf("the script did not begin: %q, %v", line, err)
	}
	return ended
}
