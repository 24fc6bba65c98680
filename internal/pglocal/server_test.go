package pglocal

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

func TestAServerStartsStopsIsKilledAndStartsAgainWithItsData(t *testing.T) {
	dir, err := os.MkdirTemp("", "pglocal")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	s, err := New(Options{Dir: dir, Durable: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	run := func(sql string) string {
		t.Helper()
		c, err := pgconn.Connect(ctx, s.URL("postgres", "postgres"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(ctx)
		results, err := c.Exec(ctx, sql).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		return string(results[len(results)-1].Rows[0][0])
	}
	start := func() {
		t.Helper()
		if err := s.Start(ctx); err != nil {
			t.Fatal(err)
		}
	}
	start()
	port := s.Port()
	run("create table kept(n int); insert into kept values (7) returning n")
	s.Stop()
	start()
	s.Kill()
	start()
	defer s.Stop()
	if got := run("select n from kept"); got != "7" || s.Port() != port {
		t.Errorf("%q at port %d, was %d", got, s.Port(), port)
	}
}

func TestADirectoryWithoutTheProgramsIsNamed(t *testing.T) {
	t.Setenv("LEVEE_PG_BIN", t.TempDir())
	if _, err := Find(); err == nil {
		t.Error("found")
	}
}
