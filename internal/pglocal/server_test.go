package pglocal

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/goleak"
)

// ownerDir, in the environment, makes the test's binary a process that starts a server there and waits to be killed.
const ownerDir = "PGLOCAL_TEST_OWNER_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(ownerDir); dir != "" {
		own(dir)
	}
	goleak.VerifyTestMain(m)
}

func own(dir string) {
	s, err := New(Options{Dir: dir})
	if err == nil {
		err = s.Start(context.Background())
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(s.PID())
	select {}
}

// scratch is a directory that the server's account can reach, which t.TempDir is not when root runs the test.
func scratch(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pglocal")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func server(t *testing.T, o Options) *Server {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

func start(t *testing.T, s *Server) {
	t.Helper()
	if err := s.Start(bounded(t)); err != nil {
		t.Fatal(err)
	}
}

func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func connect(t *testing.T, s *Server) *pgconn.PgConn {
	t.Helper()
	c, err := pgconn.Connect(bounded(t), s.URL("postgres", "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

// ask is the last statement's first value.
func ask(t *testing.T, s *Server, sql string) string {
	t.Helper()
	c := connect(t, s)
	defer c.Close(t.Context())
	results, err := c.Exec(bounded(t), sql).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return string(results[len(results)-1].Rows[0][0])
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); <-time.After(pollEvery) {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

func alive(pid int) bool { return syscall.Kill(pid, 0) != syscall.ESRCH }

func TestAServerStartsStopsIsKilledAndStartsAgainWithItsDataAtItsPort(t *testing.T) {
	s := server(t, Options{Dir: scratch(t), Durable: true})
	start(t, s)
	port := s.Port()
	ask(t, s, "create table kept(n int); insert into kept values (7) returning n")
	s.Stop()
	start(t, s)
	s.Kill()
	s.Kill() // of what is gone
	start(t, s)
	if got := ask(t, s, "show fsync"); got != "on" {
		t.Errorf("fsync of a durable server is %s", got)
	}
	if got := ask(t, s, "select n from kept"); got != "7" || s.Port() != port {
		t.Errorf("%q at port %d, was %d", got, s.Port(), port)
	}
	if err := s.Start(t.Context()); err == nil {
		t.Error("started twice")
	}
}

func TestAKilledServerLeavesNoProcessThatComputes(t *testing.T) {
	s := server(t, Options{Dir: scratch(t)})
	start(t, s)
	c := connect(t, s)
	ended := make(chan error, 1)
	go func() {
		_, err := c.Exec(context.Background(), "do 'begin loop end loop; end'").ReadAll() // does not look for its parent
		ended <- err
	}()
	eventually(t, "the statement runs", func() bool {
		return ask(t, s, "select count(*) from pg_stat_activity where state = 'active' and query like 'do %'") == "1"
	})
	children := childrenOf(s.PID())
	s.Kill()
	if <-ended == nil {
		t.Error("the statement ended well")
	}
	for _, pid := range children {
		eventually(t, fmt.Sprintf("process %d is gone", pid), func() bool { return !alive(pid) })
	}
	start(t, s)
}

func TestAServerThatSomebodyElseKilledStartsAgain(t *testing.T) {
	s := server(t, Options{Dir: scratch(t)})
	start(t, s)
	if err := syscall.Kill(s.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server has ended", func() bool { return !s.running() })
	start(t, s)
	ask(t, s, "select 1")
}

func TestAServerEndsWithTheProcessThatStartedIt(t *testing.T) {
	owner := exec.Command(os.Args[0])
	owner.Env = append(os.Environ(), ownerDir+"="+scratch(t))
	out, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Errorf("the owner said %q", line)
	}
	pids := append(childrenOf(pid), pid)
	_ = owner.Process.Kill()
	_ = owner.Wait()
	if len(pids) < 2 {
		t.Fatalf("processes %v: no workers", pids)
	}
	for _, pid := range pids {
		eventually(t, fmt.Sprintf("process %d is gone", pid), func() bool { return !alive(pid) })
	}
}

func TestOrderIsBytewiseAndSettingsAreInForce(t *testing.T) {
	s := server(t, Options{Dir: scratch(t), Settings: map[string]string{"max_connections": "17"}})
	start(t, s)
	for sql, want := range map[string]string{
		"show max_connections":                  "17",
		"show fsync":                            "off",
		"show timezone":                         "UTC",
		"show server_encoding":                  "UTF8",
		"show listen_addresses":                 "127.0.0.1",
		"select 'B' < 'a' and upper('é') = 'É'": "t",
	} {
		if got := ask(t, s, sql); got != want {
			t.Errorf("%s: %s, want %s", sql, got, want)
		}
	}
}

func TestATakenPortIsNamedAndNothingIsLeftRunning(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	s := server(t, Options{Dir: scratch(t), Port: port})
	if err := s.Start(bounded(t)); !errors.Is(err, errPortTaken) || !strings.Contains(err.Error(), strconv.Itoa(port)) {
		t.Error(err)
	}
	if s.running() {
		t.Error("it runs")
	}
	l.Close()
	start(t, s)
}

func TestAPathLongerThanASocketsWillDo(t *testing.T) {
	dir := scratch(t)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s := server(t, Options{Dir: filepath.Join(dir, strings.Repeat("long", 30))})
	start(t, s)
	ask(t, s, "select 1")
}

func TestAClusterThatWasNotMadeWholeIsMadeAnew(t *testing.T) {
	dir := scratch(t)
	s := server(t, Options{Dir: dir})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Start(ctx) }()
	eventually(t, "initdb has begun", func() bool {
		_, err := os.Stat(filepath.Join(dir, "data.part", "PG_VERSION"))
		return err == nil
	})
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	start(t, s)
	ask(t, s, "select 1")
}

func TestADirectoryThatTheAccountCannotEnterIsNamed(t *testing.T) {
	shut := scratch(t)
	if err := os.Mkdir(filepath.Join(shut, "below"), 0o755); err != nil {
		t.Fatal(err)
	}
	stranger := &syscall.Credential{Uid: 4242424, Gid: 4242424}
	if err := enterable(filepath.Join(shut, "below"), stranger); err == nil || !strings.Contains(err.Error(), shut+":") {
		t.Error(err)
	}
	if err := os.Chmod(shut, 0o711); err != nil {
		t.Fatal(err)
	}
	if err := enterable(filepath.Join(shut, "below"), stranger); err != nil {
		t.Error(err)
	}
}
