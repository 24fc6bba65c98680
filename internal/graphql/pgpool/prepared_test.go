package pgpool_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/leveehq/levee/internal/graphql/pgpool"
	"github.com/leveehq/levee/internal/pglocal/pgtest"
)

func TestQ18PreparedStatementsStayWithinTheirCap(t *testing.T) {
	_, d, _ := database(t, pgpool.Options{Budget: 1, Statements: 20})
	for i := range 500 {
		sql := fmt.Sprintf("select %d, $1::int", i)
		if i%7 == 0 {
			sql = fmt.Sprintf("select %d/(%d-%d)", i, i, i) // parsed, fails
		}
		var r pgpool.Request
		r.Statements = append(r.Statements, text(sql, nil), text("select 'always'", nil))
		if i%7 != 0 {
			r.Statements[0].Params = [][]byte{[]byte("1")}
		}
		_ = d.Do(context.Background(), "key", r)
		if i%50 == 0 {
			if n := number(t, ask(t, d, "select count(*) from pg_prepared_statements")[0]); n > 20 {
				t.Fatalf("after %d statements %d are prepared", i, n)
			}
		}
	}
	got := ask(t, d, "select count(*) from pg_prepared_statements where statement = 'select ''always'''")
	if got[0] != "1" {
		t.Fatalf("the one that is always used is prepared %s times", got[0])
	}
}

func TestQ18AChangedTableReachesNoClientAsAnErrorOfACachedPlan(t *testing.T) {
	b, d, name := database(t, pgpool.Options{Budget: 2})
	pgtest.Exec(t, name, "create table thing (id int, name text)")
	read := func() error {
		var out []string
		return d.Do(context.Background(), "key", pgpool.Request{Statements: []pgpool.Statement{
			text("insert into thing values (1, 'a') returning id", &out), text("select * from thing", &out)}})
	}
	for i := range 10 {
		if err := read(); err != nil {
			t.Fatal(err)
		}
		ask(t, d, "select * from thing")
		pgtest.Exec(t, name, fmt.Sprintf("alter table thing add column c%d int", i))
		if err := read(); err != nil {
			t.Fatalf("after change %d: %v", i, err)
		}
		ask(t, d, "select * from thing")
	}
	if got := ask(t, d, "select count(*) from thing")[0]; got != "20" {
		t.Fatalf("%s rows: something ran twice", got)
	}
	if b.Stats().Repeated == 0 {
		t.Fatal("nothing was repeated: the test tests nothing")
	}
}

func TestQ18StatementsThatAreGoneAreSeenToAndTheirNamesAreNotUsedAgain(t *testing.T) {
	_, d, _ := database(t, pgpool.Options{Budget: 1, Statements: 10})
	for range 5 {
		for i := range 4 {
			ask(t, d, fmt.Sprintf("select %d", i))
		}
		ask(t, d, "deallocate all")
	}
	if n := number(t, ask(t, d, "select count(*) from pg_prepared_statements")[0]); n > 10 {
		t.Fatal(n)
	}
}

func TestQ18APoolerThatGivesConnectionsByTransactionWorks(t *testing.T) {
	name := pgtest.Database(t)
	pgtest.Exec(t, name, q3Schema)
	url := pooler(t, name)
	b := rig(t, pgpool.Options{Budget: 8, Pooler: true, Wait: 20 * time.Second})
	d := open(t, b, url)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 25 {
				sub := []string{"u1", "u2"}[(i+n)%2]
				var out []string
				sql := fmt.Sprintf("select id from note where %d = %d order by 1", n, n)
				r := pgpool.Request{Settings: visitor(sub), Timeout: 5 * time.Second, Statements: []pgpool.Statement{text(sql, &out)}}
				if n%3 == 0 {
					r.Statements = append(r.Statements, text("select taint()", nil))
				}
				err := d.Do(context.Background(), "key", r)
				if want := map[string][]string{"u1": {"1", "2"}, "u2": {"3", "4"}}[sub]; err != nil || !slices.Equal(out, want) {
					t.Errorf("%s: %v, %v", sub, out, err)
				}
				if got, err := try(d, "select id from note", visitor("")...); err != nil || len(got) != 0 {
					t.Errorf("anonymous: %v, %v", got, err)
				}
				if got, err := try(d, "select current_user, coalesce(current_setting('app.nobody_knows', true), '')"); err != nil || got[0] != "postgres" || got[1] != "" {
					t.Errorf("no role: %v, %v", got, err)
				}
			}
		})
	}
	all.Wait()
}

// pooler runs pgbouncer with two connections to the server for all of its clients, or, where that is not installed, fails: what it
// does to a session is the point.
func pooler(t *testing.T, database string) string {
	t.Helper()
	bin, err := exec.LookPath("pgbouncer")
	if err != nil {
		if bin = "/usr/sbin/pgbouncer"; !exists(bin) {
			t.Fatal("pgbouncer is not installed (apt-get install pgbouncer)")
		}
	}
	dir, err := os.MkdirTemp("", "pooler")
	if err != nil {
		t.Fatal(err)
	}
	port := freePort(t)
	config := fmt.Sprintf(`[databases]
* = host=127.0.0.1 port=%d
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 2
logfile = %s/log
`, pgtest.Server(t).Port(), port, dir)
	config = strings.ReplaceAll(config, "* = host=127.0.0.1", "* = user=postgres host=127.0.0.1")
	file := filepath.Join(dir, "pgbouncer.ini")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, file)
	if os.Geteuid() == 0 {
		cmd.Args = []string{bin, "-u", "nobody", file}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = os.RemoveAll(dir)
	})
	url := fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable", port, database)
	until(t, 10*time.Second, "pgbouncer answers", func() bool { return answers(url) })
	return url
}

func exists(file string) bool { _, err := os.Stat(file); return err == nil }
