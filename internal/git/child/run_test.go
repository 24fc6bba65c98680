package child

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestAChildSeesAMinimalEnvironment(t *testing.T) {
	t.Setenv("GIT_TRACE", "1")
	t.Setenv("SECRET", "x")
	r := newRunner(t, Options{Git: shell(t)})
	for line := range strings.Lines(output(t, r, script("env"))) {
		name, _, _ := strings.Cut(line, "=")
		switch {
		case strings.HasPrefix(name, "GIT_CONFIG_"):
		case name == "PATH", name == "HOME", name == "LC_ALL", name == "GIT_ATTR_NOSYSTEM", name == "GIT_TERMINAL_PROMPT",
			name == "GIT_NO_REPLACE_OBJECTS", name == "PWD", name == "_", name == "SHLVL", name == "OLDPWD":
		default:
			t.Errorf("the child sees %s", line)
		}
	}
}

func TestSettingsFollowTheBudgetAndStayOutOfArguments(t *testing.T) {
	r := newRunner(t, Options{})
	dir := repository(t)
	get := func(b Budget, key string) string {
		return strings.TrimSpace(output(t, r, Cmd{Dir: dir, Args: []string{"config", key}, Budget: b}))
	}
	for _, c := range []struct {
		key   string
		b     Budget
		value int64
	}{
		{"pack.threads", Budget{Bytes: 64 * mib}, 1},
		{"pack.threads", Budget{Bytes: 64 * mib, Threads: 3}, 3},
		{"pack.windowMemory", Budget{Bytes: 64 * mib}, 8 * mib},
		{"pack.windowMemory", Budget{Bytes: 64 * mib, Threads: 2}, 4 * mib},
		{"pack.deltaCacheSize", Budget{Bytes: 64 * mib}, 8 * mib},
		{"pack.deltaCacheSize", Budget{Bytes: 1}, mib}, // 0 would be no bound at all
		{"core.bigFileThreshold", Budget{Bytes: 64 * mib}, 4 * mib},
		{"core.deltaBaseCacheLimit", Budget{Bytes: 8 << 30}, 96 * mib},
		{"gc.auto", Budget{Bytes: 64 * mib}, 0},
	} {
		if got := get(c.b, c.key); got != strconv.FormatInt(c.value, 10) {
			t.Errorf("%s of %+v is %s, want %d", c.key, c.b, got, c.value)
		}
	}
	c := Cmd{Dir: dir, Args: []string{"config", "x.y"}, Config: []string{"x.y=a=b c"}, Budget: Budget{Bytes: mib}}
	if got := output(t, r, c); got != "a=b c\n" {
		t.Errorf("a setting of the caller's came as %q", got)
	}
}

func TestAChildIsNicedAndLimitedWithAllThatItStarts(t *testing.T) {
	r := newRunner(t, Options{Git: shell(t), Nice: 7})
	// It is niced a moment after its start.
	got := output(t, r, script(`ulimit -d; while [ "$(nice)" != %d ]; do :; done; ulimit -c`, r.nice))
	want := strconv.Itoa((64*mib+slackBytes)/1024) + "\n0\n"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAChildWithoutABudgetIsNotStarted(t *testing.T) {
	r := newRunner(t, Options{})
	_, err := r.Run(t.Context(), Cmd{Args: []string{"version"}})
	if err == nil || !strings.Contains(err.Error(), "no budget") {
		t.Errorf("got %v", err)
	}
}

func TestInputOutputAndDescriptorsArePassed(t *testing.T) {
	r := newRunner(t, Options{Git: shell(t)})
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	var out, errs bytes.Buffer
	c := script("cat; echo said >&2; echo three >&3")
	c.Stdin, c.Stdout, c.Stderr, c.Extra = strings.NewReader("input"), &out, &errs, []*os.File{write}
	if _, err := r.Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	write.Close()
	three, _ := io.ReadAll(read)
	if out.String() != "input" || errs.String() != "said\n" || string(three) != "three\n" {
		t.Errorf("got %q, %q, %q", out.String(), errs.String(), three)
	}
}

func TestAStatusIsAnErrorWithTheLastLines(t *testing.T) {
	r := newRunner(t, Options{})
	_, err := r.Run(t.Context(), Cmd{Dir: repository(t), Args: []string{"rev-parse", "--verify", "nothing"}, Budget: Budget{Bytes: 64 * mib}})
	var exit *ExitError
	if !errors.As(err, &exit) {
		t.Fatalf("got %v", err)
	}
	if exit.Args != "rev-parse" || exit.Status != 128 || exit.OutOfMemory || !strings.Contains(exit.Stderr, "fatal: Needed a single revision") {
		t.Errorf("got %+v", exit)
	}
	c := script("i=0; while [ $i -lt 2000 ]; do echo line $i >&2; i=$((i+1)); done; exit 3")
	_, err = newRunner(t, Options{Git: shell(t)}).Run(t.Context(), c)
	if !errors.As(err, &exit) || exit.Status != 3 || len(exit.Stderr) > tailBytes || !strings.HasSuffix(exit.Stderr, "line 1999") {
		t.Errorf("got %v", err)
	}
}

func TestAChildThatMeetsItsLimitSaysSo(t *testing.T) {
	r := newRunner(t, Options{})
	c := Cmd{Dir: repository(t), Args: []string{"hash-object", "--stdin"}, Budget: Budget{Bytes: mib}}
	c.Stdin = io.LimitReader(zeros{}, 256*mib) // held whole
	_, err := r.Run(t.Context(), c)
	var exit *ExitError
	if !errors.As(err, &exit) || !exit.OutOfMemory {
		t.Fatalf("got %v", err)
	}
	if !strings.Contains(err.Error(), "ran out of its 1 MiB of memory") {
		t.Errorf("got %v", err)
	}
}

func TestAChildThatTheKernelKillsIsOutOfMemory(t *testing.T) {
	r := newRunner(t, Options{Git: shell(t)})
	_, err := r.Run(t.Context(), script("kill -9 $PPID"))
	var exit *ExitError
	if !errors.As(err, &exit) || !exit.OutOfMemory || exit.Signal != "SIGKILL" {
		t.Errorf("got %v", err)
	}
}

func TestAChildThatCannotWriteIsAFullDisk(t *testing.T) {
	r := newRunner(t, Options{Git: shell(t)})
	for _, said := range []string{
		"fatal: write error: No space left on device",
		"fatal: sha1 file in.idx write error. Out of diskspace",
		"fatal: unable to create temporary file: Disk quota exceeded",
	} {
		_, err := r.Run(t.Context(), script("echo %s >&2; exit 128", said))
		var exit *ExitError
		if !errors.As(err, &exit) || !exit.DiskFull || exit.OutOfMemory || !errors.Is(err, unix.ENOSPC) {
			t.Errorf("%s: got %v", said, err)
		}
	}
}

func TestTheReasonIsTheCallersReaderOrWriterWhenThatFails(t *testing.T) {
	r := newRunner(t, Options{Git: shell(t)})
	broken := errors.New("broken")
	c := script("cat; exit 1")
	c.Stdin = failing{broken}
	if _, err := r.Run(t.Context(), c); !errors.Is(err, broken) {
		t.Errorf("of a reader: %v", err)
	}
	c = script("yes")
	c.Stdout = failing{broken}
	if _, err := r.Run(t.Context(), c); !errors.Is(err, broken) {
		t.Errorf("of a writer: %v", err)
	}
}

// A fetch feeds a child from the network: it must not hang when the child has given up.
func TestWhoFeedsAChildThatHasEndedIsTold(t *testing.T) {
	r := newRunner(t, Options{Git: shell(t)})
	for _, text := range []string{"exit 0", "exit 1"} {
		read, write := io.Pipe()
		c := script("%s", text)
		c.Stdin = read
		_, err := r.Run(t.Context(), c)
		if (err == nil) != (text == "exit 0") {
			t.Errorf("%s: got %v", text, err)
		}
		if _, err := write.Write([]byte("more")); err == nil {
			t.Errorf("%s: the pipe is still open", text)
		}
	}
}

func TestMemoryAndProcessorTimeOfTheTreeAreMeasured(t *testing.T) {
	r := newRunner(t, Options{})
	c := Cmd{Dir: repository(t), Args: []string{"hash-object", "--stdin"}, Budget: Budget{Bytes: 512 * mib}}
	c.Stdin = io.LimitReader(zeros{}, 100*mib)
	c.Stdout = io.Discard
	u, err := r.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if u.PeakAnon < 90*mib || u.PeakAnon > 400*mib || u.CPU <= 0 || u.Took <= 0 {
		t.Errorf("got %+v", u)
	}
	u, err = newRunner(t, Options{Git: shell(t)}).Run(t.Context(), script("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"))
	if err != nil || u.PeakAnon <= 0 || u.PeakAnon > 4*mib { // not what this process holds
		t.Errorf("of a small child: %+v, %v", u, err)
	}
}

func TestAnOldOrMissingOrStrangeGitIsNamed(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]string{
		"git version 2.35.9": "needs 2.36",
		"git version 1.99":   "needs 2.36",
		"hello":              "is no git",
	} {
		path := filepath.Join(dir, "git")
		if err := os.WriteFile(path, []byte("#!/bin/sh\necho "+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		if _, err := New(Options{Git: path}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", text, err)
		}
	}
	t.Setenv("PATH", dir+"/none")
	if _, err := New(Options{}); err == nil || !strings.Contains(err.Error(), "install it") {
		t.Errorf("got %v", err)
	}
}

func TestAContextThatIsDoneStartsNothing(t *testing.T) {
	r := newRunner(t, Options{Git: shell(t), Watch: func(int) func() { t.Error("a child was started"); return func() {} }})
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	if _, err := r.Run(ctx, script("exit 0")); !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

type failing struct{ err error }

func (f failing) Read([]byte) (int, error)  { return 0, f.err }
func (f failing) Write([]byte) (int, error) { return 0, f.err }
