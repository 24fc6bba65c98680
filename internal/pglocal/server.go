package pglocal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Options of a Server.
type Options struct {
	// Dir holds the cluster. It is made if it is not there; a cluster that it holds already is used.
	Dir string

	// Port is where it listens on 127.0.0.1; 0 takes a free one.
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
	cmd  *exec.Cmd
	done chan struct{} // closed when cmd has ended
	log  tail
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
	s := &Server{o: o, bin: bin}
	if os.Geteuid() == 0 { // PostgreSQL refuses to run as root
		s.as, err = unprivileged()
	}
	return s, err
}

// unprivileged is the account that packages make for PostgreSQL, or nobody.
func unprivileged() (*syscall.Credential, error) {
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, _ := strconv.ParseUint(u.Uid, 10, 32)
		gid, _ := strconv.ParseUint(u.Gid, 10, 32)
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("PostgreSQL refuses to run as root, and this machine has neither an account postgres nor nobody: make one, or run as another user")
}

// Start makes the cluster if there is none, and returns when the server accepts connections. The server ends with this
// process at the latest.
func (s *Server) Start(ctx context.Context) error {
	if err := s.prepare(ctx); err != nil {
		return err
	}
	if s.o.Port == 0 {
		port, err := freePort()
		if err != nil {
			return err
		}
		s.o.Port = port
	}
	if err := s.launch(); err != nil {
		return err
	}
	return s.await(ctx)
}

func (s *Server) data() string { return filepath.Join(s.o.Dir, "data") }

func (s *Server) prepare(ctx context.Context) error {
	if err := os.MkdirAll(s.o.Dir, 0o755); err != nil {
		return err
	}
	if s.as != nil {
		if err := os.Chown(s.o.Dir, int(s.as.Uid), int(s.as.Gid)); err != nil {
			return err
		}
	}
	if _, err := os.Stat(filepath.Join(s.data(), "PG_VERSION")); err == nil {
		return nil
	}
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, "initdb"), "--pgdata", s.data(), "--username", "postgres", "--auth", "trust",
		"--encoding", "UTF8", "--locale", "C.UTF-8", "--no-sync", "--no-instructions")
	s.asUser(cmd)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb in %s: %w: %s", s.data(), err, bytes.TrimSpace(out))
	}
	return nil
}

func (s *Server) asUser(cmd *exec.Cmd) {
	cmd.Dir = s.o.Dir
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "HOME="+s.o.Dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: s.as}
}

func (s *Server) launch() error {
	args := []string{"-D", s.data(), "-p", strconv.Itoa(s.o.Port), "-h", "127.0.0.1", "-k", s.o.Dir}
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
	cmd := exec.Command(filepath.Join(s.bin, "postgres"), args...)
	s.asUser(cmd)
	cmd.SysProcAttr.Pdeathsig = syscall.SIGQUIT
	cmd.Stdout, cmd.Stderr = &s.log, &s.log
	started, done := make(chan error), make(chan struct{})
	go func() {
		// The signal comes when the thread that started the child ends, not the process, so that thread waits for it here.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // why it ended is in its log
		}
		close(done)
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	s.cmd, s.done = cmd, done
	return nil
}

// await polls until a connection succeeds: that is what users of the server will do.
func (s *Server) await(ctx context.Context) error {
	for {
		c, err := pgconn.Connect(ctx, s.URL("postgres", "postgres"))
		if err == nil {
			return c.Close(ctx)
		}
		select {
		case <-s.done:
			return fmt.Errorf("postgres ended while it started: %s", s.log.String())
		case <-ctx.Done():
			s.signal(syscall.SIGQUIT)
			return fmt.Errorf("postgres did not start in time: %w: %s", context.Cause(ctx), s.log.String())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// URL connects user to database.
func (s *Server) URL(user, database string) string {
	u := url.URL{Scheme: "postgres", User: url.User(user), Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(s.o.Port)), Path: "/" + database, RawQuery: "sslmode=disable"}
	return u.String()
}

// Port is where it listens, from Start on.
func (s *Server) Port() int { return s.o.Port }

// PID is the server's first process; its children are its connections' and its workers'.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Stop ends the server at once, as a crash would that leaves the files good, and returns when it is gone. The next Start uses
// the same port.
func (s *Server) Stop() {
	if s.cmd == nil {
		return
	}
	s.signal(syscall.SIGQUIT)
	select {
	case <-s.done:
	case <-time.After(10 * time.Second):
		s.Kill()
	}
	s.cmd = nil
}

// Kill ends the server and all of its processes by SIGKILL.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL) // its process group; gone already is what we want
	<-s.done
	s.cmd = nil
}

func (s *Server) signal(sig syscall.Signal) { _ = s.cmd.Process.Signal(sig) }

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// tail keeps the end of what is written to it.
type tail struct {
	mu struct {
		sync.Mutex
		text []byte
	}
}

const tailBytes = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.text = append(t.mu.text, p...)
	if over := len(t.mu.text) - tailBytes; over > 0 {
		t.mu.text = append(t.mu.text[:0], t.mu.text[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.mu.text))
}
