// Package pgtest gives each test package one PostgreSQL server of its own.
//
// It refuses to skip: a machine without PostgreSQL fails the tests that need it.
package pgtest

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leveehq/levee/internal/pglocal"
)

var shared struct {
	once   sync.Once
	server *pglocal.Server
	dir    string
	err    error
}

// Main runs the tests of a package, and then ends the server that they used, if any.
func Main(m *testing.M) {
	code := m.Run()
	if shared.server != nil {
		shared.server.Stop()
	}
	if shared.dir != "" {
		_ = os.RemoveAll(shared.dir)
	}
	os.Exit(code)
}

// Server returns the package's server, started at the first call. The package must have a TestMain that calls Main.
func Server(t testing.TB) *pglocal.Server {
	t.Helper()
	shared.once.Do(func() { shared.server, shared.err = start() })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.server
}

func start() (*pglocal.Server, error) {
	dir, err := os.MkdirTemp("", "levee-pg")
	if err != nil {
		return nil, err
	}
	shared.dir = dir
	s, err := pglocal.New(pglocal.Options{Dir: dir, Settings: map[string]string{"max_connections": "200", "max_locks_per_transaction": "1024"}})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return s, s.Start(ctx)
}

// Exec runs SQL as the superuser; it may be several statements.
func Exec(t testing.TB, database, sql string) {
	t.Helper()
	if err := execURL(Server(t).URL("postgres", database), sql); err != nil {
		t.Fatal(err)
	}
}

func execURL(url, sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	c, err := pgconn.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	_, err = c.Exec(ctx, sql).ReadAll()
	return err
}

// Database makes an empty database with bytewise order, named after the test, and drops it at the test's end.
func Database(t testing.TB) string {
	t.Helper()
	name := databaseName(t.Name())
	Exec(t, "postgres", fmt.Sprintf(`drop database if exists %q with (force)`, name))
	Exec(t, "postgres", fmt.Sprintf(`create database %q template template0 encoding 'UTF8' lc_collate 'C' lc_ctype 'C.UTF-8'`, name))
	t.Cleanup(func() { Exec(t, "postgres", fmt.Sprintf(`drop database if exists %q with (force)`, name)) })
	return name
}

// Load makes a database from a file of SQL.
func Load(t testing.TB, file string) string {
	t.Helper()
	sql, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	name := Database(t)
	Exec(t, name, string(sql))
	return name
}

func databaseName(test string) string {
	name := strings.ToLower(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, test))
	if len(name) > 60 {
		name = name[:30] + name[len(name)-30:]
	}
	return name
}
