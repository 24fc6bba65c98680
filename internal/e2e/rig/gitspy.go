package rig

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// Spy is a command called git that notes how it was called and then becomes the real one. The server is given it in its
// PATH, so that tests know the server's children: what git itself starts does not pass here.
type Spy struct {
	Dir string

	t testing.TB
}

// spyScript notes the call in one write, so that lines do not mix, and its environment in a file of its own. A call whose
// subcommand is held gets a name for the pipe before it is noted, so that a call once noted is held whatever happens to
// the pipe's first name, and reads from it.
const spyScript = `#!/bin/sh
[ -e %[1]s/procs ] && echo $$ >%[1]s/procs
skip= sub=
for a; do
	if [ "$skip" ]; then skip=; continue; fi
	case $a in --shallow-file) skip=1 ;; -*) ;; *) sub=$a; break ;; esac
done
export -p >%[1]s/env/$$
[ -p %[1]s/hold/"$sub" ] && ln %[1]s/hold/"$sub" %[1]s/hold/"$sub".$$
printf '%%s\t%%s\t%%s\t%%s\n' "$$" "$sub" "$PWD" "$*" >>%[1]s/calls
[ -p %[1]s/hold/"$sub".$$ ] && read -r _ 2>/dev/null <%[1]s/hold/"$sub".$$
exec %[2]s "$@"
`

func newSpy(t testing.TB) *Spy {
	t.Helper()
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	s := &Spy{Dir: t.TempDir(), t: t}
	for _, dir := range []string{"bin", "env", "hold"} {
		if err := os.Mkdir(filepath.Join(s.Dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	script := fmt.Sprintf(spyScript, s.Dir, git)
	if err := os.WriteFile(filepath.Join(s.Dir, "bin", "git"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return s
}

// Move has children leave the server's control group for the one of this directory, from now on.
func (s *Spy) Move(group string) {
	s.t.Helper()
	if err := os.Symlink(filepath.Join(group, "cgroup.procs"), filepath.Join(s.Dir, "procs")); err != nil {
		s.t.Fatal(err)
	}
}

// Child is one call of git.
type Child struct {
	PID     int
	Command string // pack-objects, index-pack, …
	Dir     string // in which it ran: the mirror
	Args    string
}

// Calls of some commands, or of all, in order.
func (s *Spy) Calls(commands ...string) (all []Child) {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.Dir, "calls"))
	if err != nil && !os.IsNotExist(err) {
		s.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 4)
		if len(f) < 4 {
			continue
		}
		c := Child{Command: f[1], Dir: f[2], Args: f[3]}
		c.PID, _ = strconv.Atoi(f[0])
		if len(commands) == 0 || slices.Contains(commands, c.Command) {
			all = append(all, c)
		}
	}
	return all
}

// Packs are the calls of pack-objects: one for each generation.
func (s *Spy) Packs() []Child { return s.Calls("pack-objects") }

// Env of a call, as the shell's export -p writes it.
func (s *Spy) Env(c Child) string {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.Dir, "env", strconv.Itoa(c.PID)))
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

// Everything is all that any child was told: arguments and environments.
func (s *Spy) Everything() string {
	s.t.Helper()
	var b strings.Builder
	for _, c := range s.Calls() {
		fmt.Fprintln(&b, c.Args)
		b.WriteString(s.Env(c))
	}
	return b.String()
}

// Held are calls that wait before they begin.
type Held struct {
	pipe string
	open *os.File // while it is, a call that reads from the pipe waits
}

// Hold makes calls of a command wait before they begin, from now on.
func (s *Spy) Hold(command string) *Held {
	s.t.Helper()
	h := &Held{pipe: filepath.Join(s.Dir, "hold", command)}
	err := syscall.Mkfifo(h.pipe, 0o600)
	if err == nil {
		h.open, err = os.OpenFile(h.pipe, os.O_RDWR, 0)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(h.Release)
	return h
}

// Close lets calls that come from now on pass; those that wait go on waiting.
func (h *Held) Close() { os.Remove(h.pipe) }

// Release lets all calls go on. The names go first: a call that is about to open one finds none and goes on at once.
func (h *Held) Release() {
	h.Close()
	names, _ := filepath.Glob(h.pipe + ".*")
	for _, name := range names {
		os.Remove(name)
	}
	h.open.Close()
}
