package graphql

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leveehq/levee/internal/graphql/auth"
	"github.com/leveehq/levee/internal/pglocal/pgtest"
)

// dial opens a connection and writes text, and leaves it at that.
func dial(t *testing.T, url, text string) net.Conn {
	t.Helper()
	addr := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), Prefix)
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.(*net.TCPConn).SetReadBuffer(4 * kib)
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	return c
}

func post(body string, length int) string {
	return fmt.Sprintf("POST /graphql HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", length, body)
}

func TestWhoSendsOrReadsSlowlyKeepsNobodyOut(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, `create schema s; create table s.note (id int primary key, body text); insert into s.note select g, repeat('x', 10000) from generate_series(1, 300) g`)
	tenant := Tenant{DatabaseURL: pgtest.Server(t).URL("postgres", database), Schemas: []string{"s"}, AllowBypassRLS: true, Auth: auth.Options{AnonymousRole: auth.ConnectionRole}}
	s, url := serve(t, Options{Tenants: []Tenant{tenant}, Memory: 160 * mib})
	served := func(when string) {
		t.Helper()
		if status, body := ask(t, url, `{ noteByRowId(rowId: 1) { rowId } }`); status != 200 {
			t.Fatalf("%s: %d %s", when, status, body)
		}
	}
	served("at first")
	places := int(s.shares.requests)
	for range places + 10 {
		dial(t, url, post("", 100))
	}
	served("beside those who send nothing")
	large := `{"query":"{ allNotes { nodes { body } } }"}`
	for range places + 10 {
		dial(t, url, post(large, len(large)))
	}
	until(t, "answers wait for their readers", func() bool { return s.gates.answers.Stats().InUse > mib })
	until(t, "nobody is at the door", func() bool { return s.gates.requests.Stats().InUse == 0 })
	served("beside those who read nothing")
}

func TestAStormOfColdTenantsLeavesPlacesForWarmOnes(t *testing.T) {
	database := pgtest.Database(t)
	other := database + "_w"
	pgtest.Exec(t, "postgres", `drop database if exists `+other+` with (force)`)
	pgtest.Exec(t, "postgres", `create database `+other)
	t.Cleanup(func() { pgtest.Exec(t, "postgres", `drop database if exists `+other+` with (force)`) })
	pgtest.Exec(t, other, `create schema warm; create table warm.note (id int primary key)`)
	pgtest.Exec(t, database, `create schema cold; create table cold.note (id int primary key)`)
	tenant := func(name string) Tenant {
		return Tenant{Name: name, DatabaseURL: pgtest.Server(t).URL("postgres", map[string]string{"warm": other, "cold": database}[name]), Schemas: []string{name}, AllowBypassRLS: true, Auth: auth.Options{AnonymousRole: auth.ConnectionRole}}
	}
	s, url := serve(t, Options{Tenants: []Tenant{tenant("warm"), tenant("cold")}, Memory: 160 * mib, Wait: 10 * time.Second})
	warm := func() {
		t.Helper()
		if status, body := ask(t, url+"/warm", `{ allNotes { nodes { rowId } } }`); status != 200 {
			t.Fatalf("the warm tenant: %d %s", status, body)
		}
	}
	warm()
	locked, unlock := lockCatalog(t, database)
	<-locked
	defer unlock()
	const question = `{"query":"{ allNotes { nodes { rowId } } }"}`
	storm := strings.Replace(post(question, len(question)), "/graphql", "/graphql/cold", 1)
	places := s.shares.requests
	for range places + 10 {
		dial(t, url, storm)
	}
	until(t, "those who wait for the cold tenant are as many as may", func() bool { return s.cache.Stats().Waiting == int(places/2) })
	until(t, "the others have been turned away", func() bool { return s.gates.requests.Stats().InUse <= places/2 })
	warm()
}

// lockCatalog keeps builds from reading their catalogs until unlock is called.
func lockCatalog(t *testing.T, database string) (locked chan struct{}, unlock func()) {
	t.Helper()
	locked, end, over := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		c, err := pgconn.Connect(context.Background(), pgtest.Server(t).URL("postgres", database))
		if err == nil {
			_, err = c.Exec(context.Background(), `begin; lock table pg_catalog.pg_class in access exclusive mode`).ReadAll()
		}
		if err != nil {
			t.Error(err)
			close(locked)
			return
		}
		close(locked)
		<-end
		_ = c.Close(context.Background())
	}()
	return locked, func() { close(end); <-over }
}
