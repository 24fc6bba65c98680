package pglocal

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Options of a Server.
type Options struct {
	// Dir holds the cluster. It is made if it is not there; a cluster that it holds already is used. When we are root the server
	// runs as another account (postgres, else nobody), which must be able to reach it.
	Dir string

	// Port is where it listens on 127.0.0.1; 0 takes a free one, and keeps it.
	Port int

	// Settings are added to the command line of postgres, such as "max_connections": "20".
	Settings map[string]string

	// Durable keeps data through a power loss. Without it nothing is forced to the disk, which is faster and right for what
	// is thrown away.
	Durable bool
}

// Server is one PostgreSQL server. Its methods must not be called at the same time.
type Server struct {
	o    Options
	bin  string
	as   *syscall.Credential // whom it runs as; nil: who we are
	port int
	cmd  *exec.Cmd     // nil when it has been stopped
	done chan struct{} // closed when cmd and its children have ended
	log  *tail
}

// New finds the programs and starts nothing.
func New(o Options) (*Server, error) {
	bin, err := Find()
	if err != nil {
		return nil, err
	}
	if o.Dir == "" {
		return nil, errors.New("pglocal: Options.Dir is required")
	}
	if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return nil, err
	}
	s := &Server{o: o, bin: bin, port: o.Port}
	if os.Geteuid() == 0 {
		s.as, err = unprivileged()
	}
	return s, err
}

// errPortTaken is a port that something else listens at, or connects from.
var errPortTaken = errors.New("the port is taken")

// Start makes the cluster if there is none, and returns when the server accepts connections. The server ends with this
// process at the latest. After an error none runs.
func (s *Server) Start(ctx context.Context) error {
	if s.running() {
		return errors.New("pglocal: the server runs already")
	}
	if err := s.prepare(ctx); err != nil {
		return err
	}
	fresh := s.port == 0
	for {
		if fresh {
			port, err := freePort()
			if err != nil {
				return err
			}
			s.port = port
		}
		err := s.launch(ctx)
		// A port of our choosing may be taken before PostgreSQL has it: by another server, or, between two starts, by
		// somebody's outgoing connection, which passes. One that was asked for is the caller's to free.
		if !errors.Is(err, errPortTaken) || s.o.Port != 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pollEvery):
		}
	}
}

const pollEvery = 10 * time.Millisecond

func (s *Server) data() string { return filepath.Join(s.o.Dir, "data") }

// launch starts postgres once.
func (s *Server) launch(ctx context.Context) error {
	s.log = &tail{}
	cmd := exec.Command(filepath.Join(s.bin, "postgres"), s.args()...)
	s.asUser(cmd)
	cmd.SysProcAttr.Pdeathsig = syscall.SIGQUIT
	cmd.Stdout, cmd.Stderr = s.log, s.log
	cmd.WaitDelay = 10 * time.Second // for a child that outlives it, which somebody else killed
	started, done := make(chan error), make(chan struct{})
	go func() {
		// The signal comes when the thread that started the child ends, not the process, so that thread waits for it here.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // why it ended is in its log; it returns when no child holds the other end of that
		}
		close(done)
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	s.cmd, s.done = cmd, done
	if err := s.await(ctx); err != nil {
		s.Stop()
		return err
	}
	return nil
}

func (s *Server) args() []string {
	// The socket is in the data directory, and given relative to it: its path may have no more than 107 bytes.
	args := []string{"-D", s.data(), "-p", strconv.Itoa(s.port), "-h", "127.0.0.1", "-k", "."}
	settings := map[string]string{"logging_collector": "off", "log_min_messages": "warning"}
	if !s.o.Durable {
		settings["fsync"], settings["synchronous_commit"], settings["full_page_writes"] = "off", "off", "off"
	}
	for name, value := range s.o.Settings {
		settings[name] = value
	}
	for name, value := range settings {
		args = append(args, "-c", name+"="+value)
	}
	return args
}

// await polls the file in which postgres says that it is ready. A connection would not do: another server may have the port.
func (s *Server) await(ctx context.Context) error {
	for !s.ready() {
		select {
		case <-s.done:
			if text := s.log.String(); strings.Contains(text, "Address already in use") {
				return fmt.Errorf("127.0.0.1:%d: %w: stop what has it, or choose another: %s", s.port, errPortTaken, text)
			}
			return fmt.Errorf("postgres ended while it started: %s", s.log.String())
		case <-ctx.Done():
			return fmt.Errorf("postgres did not start in time: %w: %s", context.Cause(ctx), s.log.String())
		case <-time.After(pollEvery):
		}
	}
	return nil
}

// ready reads what pg_ctl reads: the first line is the process, the eighth its state.
func (s *Server) ready() bool {
	text, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	if err != nil {
		return false
	}
	lines := strings.Split(string(text), "\n")
	return len(lines) > 7 && lines[0] == strconv.Itoa(s.PID()) && strings.TrimSpace(lines[7]) == "ready"
}

// URL connects user to database.
func (s *Server) URL(user, database string) string {
	u := url.URL{Scheme: "postgres", User: url.User(user), Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)), Path: "/" + database, RawQuery: "sslmode=disable"}
	return u.String()
}

// Port is where it listens, from Start on.
func (s *Server) Port() int { return s.port }

// PID is the server's first process while it runs; its children are its connections' and its workers'.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Stop ends the server at once, as a crash would that leaves the files good, and returns when it is gone. The next Start uses
// the same port.
func (s *Server) Stop() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Signal(syscall.SIGQUIT) // gone already is what we want
	select {
	case <-s.done:
		s.cmd = nil
	case <-time.After(10 * time.Second):
		s.Kill()
	}
}

// Kill ends the server and all of its processes by SIGKILL, and returns when they are gone.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	// Each child is a session of its own. One that computes does not notice that its parent is gone, and would keep the
	// next server from starting. The parent is stopped first, so that it starts no further one.
	if s.cmd.Process.Signal(syscall.SIGSTOP) == nil {
		children := childrenOf(s.PID())
		_ = s.cmd.Process.Kill()
		for _, child := range children {
			_ = syscall.Kill(child, syscall.SIGKILL)
		}
	}
	<-s.done
	s.cmd = nil
}

// childrenOf is empty on a kernel that does not list them; they end by themselves then, later.
func childrenOf(pid int) []int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	var children []int
	for _, word := range strings.Fields(string(text)) {
		if n, err := strconv.Atoi(word); err == nil {
			children = append(children, n)
		}
	}
	return children
}

func (s *Server) running() bool {
	if s.cmd == nil {
		return false
	}
	select {
	case <-s.done:
		return false
	default:
		return true
	}
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
