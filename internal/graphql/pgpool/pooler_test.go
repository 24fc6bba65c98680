package pgpool_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/leveehq/levee/internal/pglocal/pgtest"
)

// poolers are what gives a connection to a client for one transaction only: one of this test's own, which changes the connection
// after each transaction, and pgbouncer where it is installed, which changes it as it needs. Each has so many connections.
func poolers(t *testing.T, database string, size int, more ...string) map[string]string {
	t.Helper()
	urls := map[string]string{"switch": switchboard(t, database, size)}
	if url := pgtest.PgBouncer(t, "postgres", database, size, more...); url != "" {
		urls["pgbouncer"] = url
	}
	return urls
}

// switchboard has connections to the server, and gives the one that was given longest ago.
func switchboard(t *testing.T, database string, size int) string {
	t.Helper()
	servers := make(chan net.Conn, size)
	for range cap(servers) {
		c, err := pgconn.Connect(context.Background(), pgtest.Server(t).URL("postgres", database))
		if err != nil {
			t.Fatal(err)
		}
		h, err := c.Hijack()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { h.Conn.Close() })
		servers <- h.Conn
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { defer client.Close(); switchTransactions(client, servers) })
		}
	})
	t.Cleanup(func() { l.Close(); all.Wait() })
	return fmt.Sprintf("postgres://postgres@%s/%s?sslmode=disable", l.Addr(), database)
}

func switchTransactions(client net.Conn, servers chan net.Conn) {
	if _, err := pgproto3.NewBackend(client, client).ReceiveStartupMessage(); err != nil {
		return
	}
	greeting, _ := (&pgproto3.AuthenticationOk{}).Encode(nil)
	greeting, _ = (&pgproto3.ReadyForQuery{TxStatus: 'I'}).Encode(greeting)
	if _, err := client.Write(greeting); err != nil {
		return
	}
	var server net.Conn // while a transaction is open
	for {
		ask, err := upTo(client, 'S', 'Q')
		if err != nil {
			return
		}
		if server == nil {
			server = <-servers
		}
		_, _ = server.Write(ask)
		answer, err := upTo(server, 'Z')
		if err != nil {
			return
		}
		if status := answer[len(answer)-1]; status == 'I' {
			servers <- server
			server = nil
		}
		_, _ = client.Write(answer)
	}
}

// upTo reads messages up to one of these kinds.
func upTo(r io.Reader, kinds ...byte) (all []byte, err error) {
	for {
		var head [5]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return nil, err
		}
		body := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
		if _, err := io.ReadFull(r, body); err != nil {
			return nil, err
		}
		all = append(append(all, head[:]...), body...)
		if bytes.IndexByte(kinds, head[0]) >= 0 {
			return all, nil
		}
	}
}
