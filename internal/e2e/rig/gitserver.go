package rig

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// GitServer is a running `levee serve` in front of an Upstream, with a spy for its children and all of its log in a file.
type GitServer struct {
	*Server
	Data string
	Path string // of mirrors and spooled packs
	Spy  *Spy

	t     testing.TB
	up    *Upstream
	by    []string
	log   string
	flags []string
}

// spied becomes the server, with the spy's git in front of the real one and all of its log in a file.
const spied = `PATH=$1:$PATH; export PATH; log=$2; shift 2; exec "$@" 2>>"$log"`

// StartGit runs `levee serve --git-host` for the upstream until the test ends.
func StartGit(t testing.TB, up *Upstream, flags ...string) *GitServer {
	t.Helper()
	return GitPlace{}.Start(t, up, flags...)
}

// GitPlace is where a server runs and keeps what it has. The zero value is like any other process, with a new directory.
type GitPlace struct {
	By   []string // see StartUnder
	Data string   // a directory; one that a server had before goes on
	Path string   // of mirrors and spooled packs, if not in Data
}

// Start is StartGit in that place.
func (g GitPlace) Start(t testing.TB, up *Upstream, flags ...string) *GitServer {
	t.Helper()
	s := &GitServer{t: t, up: up, Data: g.Data, Path: g.Path, Spy: newSpy(t), by: g.By, flags: flags}
	if s.Data == "" {
		s.Data = t.TempDir()
	}
	if s.Path == "" {
		s.Path = filepath.Join(s.Data, "git")
	}
	s.log = filepath.Join(t.TempDir(), "log")
	t.Cleanup(func() {
		if t.Failed() {
			text := s.trouble()
			t.Logf("the server's log, without calls that went well:\n%s", text[max(0, len(text)-4*tailSize):])
		}
	})
	s.Start()
	return s
}

// Start starts the server with the same data, after it was killed or stopped.
func (s *GitServer) Start() {
	s.t.Helper()
	by := append(slices.Clone(s.by), "sh", "-c", spied, "sh", filepath.Join(s.Spy.Dir, "bin"), s.log)
	s.Server = StartUnder(s.t, by, s.Data, append([]string{"--git-host", "http://" + s.up.Addr, "--git-path", s.Path, "--log-sample", "1", "--log-max-per-second", "10000"}, s.flags...)...)
}

// URL of a repository through the server.
func (s *GitServer) URL(repo string) string { return s.At(s.HTTP, repo) }

// At is URL for a proxy in front of the server.
func (s *GitServer) At(address, repo string) string {
	return "http://" + address + "/git/" + s.up.Addr + "/" + repo
}

// AllLog is all that it has logged, in all its lives.
func (s *GitServer) AllLog() string {
	s.t.Helper()
	text, err := os.ReadFile(s.log)
	if err != nil && !os.IsNotExist(err) {
		s.t.Error(err)
	}
	return string(text)
}

// trouble is the log without calls that went well.
func (s *GitServer) trouble() string {
	var b strings.Builder
	for line := range strings.Lines(s.AllLog()) {
		if !strings.Contains(line, `"msg":"call",`) || !strings.Contains(line, `"code":"200"`) {
			b.WriteString(line)
		}
	}
	return b.String()
}

// Mirrors are the repositories on its disk: directories with a HEAD and objects.
func (s *GitServer) Mirrors() (dirs []string) {
	s.t.Helper()
	for _, path := range s.Files() {
		dir, name := filepath.Split(path)
		if info, err := os.Stat(filepath.Join(dir, "objects")); name == "HEAD" && err == nil && info.IsDir() {
			dirs = append(dirs, filepath.Clean(dir))
		}
	}
	return dirs
}

// Files are the paths of all that the server keeps for Git.
func (s *GitServer) Files() (paths []string) {
	filepath.WalkDir(s.Path, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			paths = append(paths, path)
		}
		return nil // gone while walking
	})
	return paths
}

// Unfinished are files that only work in progress has: locks, and what git calls tmp_.
func (s *GitServer) Unfinished() (paths []string) {
	for _, path := range s.Files() {
		name := filepath.Base(path)
		if strings.HasSuffix(name, ".lock") || strings.HasPrefix(name, "tmp_") || strings.HasSuffix(name, ".tmp") {
			paths = append(paths, path)
		}
	}
	return paths
}

// Queued is how many wait at a gate.
func (s *GitServer) Queued(gate string) (int, error) {
	var st struct {
		Gates []struct {
			Name   string `json:"name"`
			Queued int    `json:"queued"`
		} `json:"gates"`
	}
	if err := s.Status(&st); err != nil {
		return 0, err
	}
	for _, g := range st.Gates {
		if g.Name == gate {
			return g.Queued, nil
		}
	}
	return 0, fmt.Errorf("/status has no gate %s", gate)
}
