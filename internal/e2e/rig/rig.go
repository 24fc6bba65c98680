// Package rig builds the levee command and runs it as a process of its own, for tests that know it only from outside.
//
// It refuses to import any package of the server: what it knows it reads from what the command prints and publishes.
package rig

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// binary is the command under test, built once by Main.
var binary string

// Main builds the command, runs the tests and removes the command again. TestMain passes its result to os.Exit.
func Main(m *testing.M) int {
	dir, err := os.MkdirTemp("", "levee-rig-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "rig:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // a test may run the command as another user
		fmt.Fprintln(os.Stderr, "rig:", err)
		return 1
	}
	binary = filepath.Join(dir, "levee")
	build := exec.Command("go", "build", "-o", binary, "github.com/leveehq/levee/cmd/levee")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "rig: building the command under test:", err)
		return 1
	}
	return m.Run()
}

// Run runs the command with args to its end and returns its exit status and all that it printed.
func Run(t testing.TB, args ...string) (status int, out string) {
	t.Helper()
	cmd := exec.Command(binary, args...)
	text, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(text)
}

const (
	startWait = 60 * time.Second
	stopWait  = 60 * time.Second
)

// Server is a running `levee serve`.
type Server struct {
	GRPC, HTTP, Admin string // HOST:PORT of its listeners

	cmd    *exec.Cmd
	log    *tail
	exited chan struct{}
	err    error // of the process, once exited is closed
}

// Start runs `levee serve` with free ports, data in dir and the flags given, and returns when it is ready. The process
// ends with the test; its log is printed if the test has failed.
func Start(t testing.TB, dir string, flags ...string) *Server {
	t.Helper()
	return StartUnder(t, nil, dir, flags...)
}

// StartUnder is Start by way of another command, which gets levee's command line as its last arguments and must become
// it with exec: then process id and signals are the server's.
func StartUnder(t testing.TB, by []string, dir string, flags ...string) *Server {
	t.Helper()
	s, err := tryStart(by, dir, flags)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Kill()
		if t.Failed() {
			t.Logf("end of the server's log:\n%s", s.log)
		}
	})
	return s
}

// TryStart is Start for those who kill the process themselves.
func TryStart(dir string, flags ...string) (*Server, error) { return tryStart(nil, dir, flags) }

func tryStart(by []string, dir string, flags []string) (*Server, error) {
	args := append(append([]string{}, by...), binary, "serve", "--store-path", dir,
		"--listen-grpc", "127.0.0.1:0", "--listen-http", "127.0.0.1:0", "--listen-admin", "127.0.0.1:0")
	args = append(args, flags...)
	s := &Server{cmd: exec.Command(args[0], args[1:]...), log: &tail{}, exited: make(chan struct{})}
	s.cmd.Stderr = s.log
	// Without this a test run that is killed would leave servers behind.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	announced := make(chan struct{})
	go s.follow(stdout, announced)
	select {
	case <-announced:
	case <-s.exited:
		return nil, fmt.Errorf("levee serve ended at once: %w\n%s", s.err, s.log)
	case <-time.After(startWait):
		s.Kill()
		return nil, fmt.Errorf("levee serve did not announce its listeners within %s\n%s", startWait, s.log)
	}
	if err := s.WaitReady(startWait); err != nil {
		s.Kill()
		return nil, err
	}
	return s, nil
}

// announcements are the lines from which the listeners' addresses are read: those that a person would paste.
var announcements = regexp.MustCompile(`--remote_cache=(grpc|http)://(\S+)|status: (http)://(\S+)`)

func (s *Server) follow(stdout io.Reader, announced chan<- struct{}) {
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		m := announcements.FindStringSubmatch(lines.Text())
		switch {
		case m == nil:
		case m[1] == "grpc":
			s.GRPC = m[2]
		case m[1] == "http":
			s.HTTP = m[2]
		case m[3] == "http":
			s.Admin = m[4]
			close(announced)
			announced = nil
		}
		fmt.Fprintln(s.log, lines.Text())
		if announced == nil {
			break
		}
	}
	io.Copy(s.log, stdout)
	s.err = s.cmd.Wait()
	close(s.exited)
}

// WaitReady polls /readyz until it answers 200.
func (s *Server) WaitReady(wait time.Duration) error {
	var last error
	for deadline := time.Now().Add(wait); time.Now().Before(deadline); {
		resp, err := http.Get("http://" + s.Admin + "/readyz")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
			err = errors.New(resp.Status)
		}
		last = err
		select {
		case <-s.exited:
			return fmt.Errorf("levee serve ended before it was ready: %w\n%s", s.err, s.log)
		case <-time.After(10 * time.Millisecond):
		}
	}
	return fmt.Errorf("levee serve was not ready within %s: %w\n%s", wait, last, s.log)
}

// PID of the process.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// RSS is the resident set in bytes now, 0 if the process is gone.
func (s *Server) RSS() int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", s.PID()))
	if err != nil {
		return 0
	}
	var size, resident int64
	fmt.Sscan(string(text), &size, &resident)
	return resident * int64(os.Getpagesize())
}

// Kill ends the process as kill -9 does, and returns when it is gone. It may be called again.
func (s *Server) Kill() {
	s.cmd.Process.Kill()
	<-s.exited
}

// Stop asks the process to end, and returns an error unless it does so cleanly.
func (s *Server) Stop() error {
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return s.Wait()
}

// Wait waits for the process to end by itself, and returns an error unless it does so cleanly.
func (s *Server) Wait() error {
	select {
	case <-s.exited:
		return s.err
	case <-time.After(stopWait):
		s.Kill()
		return fmt.Errorf("levee serve did not end within %s\n%s", stopWait, s.log)
	}
}

// Log is the end of what the process has printed.
func (s *Server) Log() string { return s.log.String() }

// Status fetches /status into v.
func (s *Server) Status(v any) error {
	resp, err := http.Get("http://" + s.Admin + "/status")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("/status: %s", resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(v)
}

// tail keeps the end of what is written to it.
type tail struct {
	mu struct {
		sync.Mutex
		buf bytes.Buffer
	}
}

const tailSize = 8 << 10

func (b *tail) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.buf.Write(p)
	if over := b.mu.buf.Len() - tailSize; over > 0 {
		b.mu.buf.Next(over)
	}
	return len(p), nil
}

func (b *tail) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.TrimSpace(b.mu.buf.String())
}
