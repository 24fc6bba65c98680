package pgpool

import (
	"bytes"
	"context"
	"io"
	"net"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// PostgreSQL looks for a cancel request before it rolls back, too, and then the transaction is still there.
func TestACancelRequestThatHitsTheUndoingCostsNoConnection(t *testing.T) {
	canceled, _ := (&pgproto3.ErrorResponse{Severity: "ERROR", Code: queryCanceled, Message: "canceling statement"}).Encode(nil)
	done, _ := (&pgproto3.CommandComplete{CommandTag: []byte("ROLLBACK")}).Encode(nil)
	answers := bytes.Join([][]byte{canceled, message('Z', []byte{'E'}), done, message('Z', []byte{'I'})}, nil)
	b, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	near, far := net.Pipe()
	sent := make(chan []byte)
	go func() {
		all, _ := io.ReadAll(far)
		sent <- all
	}()
	c := &conn{pool: &pool{b: b}, net: near, stop: func(context.Context) error { return nil }, wire: newWire(&chunks{answers, 4096}), known: newStatements(10)}
	if err := c.undo(); err != nil {
		t.Fatal(err)
	}
	if err := c.rest(); err != nil {
		t.Errorf("the connection is given up: %v", err)
	}
	near.Close()
	if n := bytes.Count(<-sent, []byte("rollback; ")); n != 2 {
		t.Errorf("it was rolled back %d times", n)
	}
}
