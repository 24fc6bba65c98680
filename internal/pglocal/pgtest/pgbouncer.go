package pgtest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// PgBouncer runs a pgbouncer in transaction mode before the package's server, until the test ends. It logs in as login, with so
// many connections for all of its clients; more are lines of its settings. The URL is "" where pgbouncer is not installed.
func PgBouncer(t testing.TB, login, database string, size int, more ...string) (url string) {
	t.Helper()
	bin, err := exec.LookPath("pgbouncer")
	if err != nil {
		if bin, err = exec.LookPath("/usr/sbin/pgbouncer"); err != nil {
			return ""
		}
	}
	dir, err := os.MkdirTemp("", "pooler")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	port := freePort(t)
	file := filepath.Join(dir, "pgbouncer.ini")
	config := fmt.Sprintf("[databases]\n* = user=%s host=127.0.0.1 port=%d\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %d\nunix_socket_dir =\n"+
		"auth_type = any\npool_mode = transaction\ndefault_pool_size = %d\nlogfile = %s/log\n%s\n", login, Server(t).Port(), port, size, dir, strings.Join(more, "\n"))
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, file)
	if os.Geteuid() == 0 {
		cmd.Args = []string{bin, "-u", "nobody", file}
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	url = fmt.Sprintf("postgres://%s@127.0.0.1:%d/%s?sslmode=disable", login, port, database)
	for deadline := time.Now().Add(10 * time.Second); !answers(url); <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("pgbouncer does not answer")
		}
	}
	return url
}

func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func answers(url string) bool {
	c, err := pgconn.Connect(context.Background(), url)
	if err != nil {
		return false
	}
	c.Close(context.Background())
	return true
}
