package graphql

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

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
	pgtest.Exec(t, database, `create schema s; create table s.note (id int primary key, body text); insert into s.note select g, repeat('x', 1000) from generate_series(1, 300) g`)
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
	until(t, "answers wait for their readers", func() bool { return s.gates.answers.Stats().InUse > 10*mib })
	until(t, "nobody is at the door", func() bool { return s.gates.requests.Stats().InUse == 0 })
	served("beside those who read nothing")
	if n := s.cache.Stats().Leased; n != 0 {
		t.Errorf("slow readers keep %d instances", n)
	}
}
