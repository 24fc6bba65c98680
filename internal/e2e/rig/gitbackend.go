package rig

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Backend is plain git http-backend as a process of its own, to be compared with: what it and its children take is not the
// test's.
type Backend struct {
	Addr string
	PID  int
}

// StartBackend serves the repositories in root until the test ends. config is a file of git's configuration, "" for none.
func StartBackend(t testing.TB, root, config string) *Backend {
	t.Helper()
	program := filepath.Join(t.TempDir(), "httpbackend")
	if out, err := exec.Command("go", "build", "-o", program, "github.com/leveehq/levee/internal/e2e/httpbackend").CombinedOutput(); err != nil {
		t.Fatalf("building the server to compare with: %v\n%s", err, out)
	}
	cmd := exec.Command(program, root, config)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	address, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return &Backend{Addr: strings.TrimSpace(address), PID: cmd.Process.Pid}
}

// URL of a repository.
func (b *Backend) URL(repo string) string { return "http://" + b.Addr + "/" + repo }
