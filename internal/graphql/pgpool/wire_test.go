package pgpool

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"testing/iotest"

	"github.com/jackc/pgx/v5/pgproto3"
)

func message(kind byte, body []byte) []byte {
	b := binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(body)+4))
	return append(b, body...)
}

func TestMessagesComeOutAsTheyWentInWhateverTheReads(t *testing.T) {
	var stream []byte
	sizes := []int{0, 1, 5, wireBuffer - 5, wireBuffer, wireBuffer + 1, 3 * wireBuffer, 7, 2*wireBuffer + 3}
	for i, n := range sizes {
		stream = append(stream, message(byte('a'+i), bytes.Repeat([]byte{byte(i)}, n))...)
	}
	for name, r := range map[string]io.Reader{"whole": bytes.NewReader(stream), "bytes": iotest.OneByteReader(bytes.NewReader(stream)), "halves": iotest.HalfReader(bytes.NewReader(stream))} {
		w := newWire(r)
		for i, n := range sizes {
			kind, size, err := w.next()
			if err != nil || kind != byte('a'+i) || size != n {
				t.Fatalf("%s: message %d is %q of %d: %v", name, i, kind, size, err)
			}
			if i%4 == 3 {
				if err := w.skip(size); err != nil {
					t.Fatal(err)
				}
				continue
			}
			body, err := w.body(size)
			if err != nil || !bytes.Equal(body, bytes.Repeat([]byte{byte(i)}, n)) {
				t.Fatalf("%s: message %d has another body: %v", name, i, err)
			}
		}
		if _, _, err := w.next(); err != io.ErrUnexpectedEOF {
			t.Fatal(err)
		}
	}
}

func TestASizeThatIsRefusedCostsNoMemory(t *testing.T) {
	huge := append([]byte{'D', 0x7f, 0xff, 0xff, 0xff}, make([]byte, 100)...)
	w := newWire(bytes.NewReader(huge))
	if n := testing.AllocsPerRun(1, func() {
		w.r, w.rp, w.wp = bytes.NewReader(huge), 0, 0
		_, size, _ := w.next()
		_ = w.skip(size)
	}); n > 1 || w.large != nil {
		t.Fatalf("%v allocations, %d bytes kept", n, len(w.large))
	}
	start := newWire(bytes.NewReader(huge))
	if _, err := start.Read(make([]byte, 10)); err == nil {
		t.Fatal("a huge message was begun while a connection is made")
	}
}

// FuzzMessages feeds an answer to a request: whatever comes, it ends, and keeps no more than was declared and allowed.
func FuzzMessages(f *testing.F) {
	row, _ := (&pgproto3.DataRow{Values: [][]byte{[]byte("1"), nil}}).Encode(nil)
	done, _ := (&pgproto3.CommandComplete{CommandTag: []byte("SELECT 1")}).Encode(nil)
	failed, _ := (&pgproto3.ErrorResponse{Severity: "ERROR", Code: "22012", Message: "division"}).Encode(nil)
	ready := message('Z', []byte{'I'})
	good := bytes.Join([][]byte{message('1', nil), message('2', nil), row, done, message('2', nil), row, done, ready}, nil)
	f.Add(good, 3, false)
	f.Add(append(append(append([]byte{}, message('2', nil)...), failed...), ready...), 1, false)
	f.Add([]byte{'D', 0x7f, 0xff, 0xff, 0xff, 0}, 5, false)
	f.Add([]byte{'Z', 0, 0, 0, 3}, 5, false)
	f.Add(append(append([]byte{}, failed...), message('Z', []byte{'E'})...), 7, true)
	f.Fuzz(func(t *testing.T, stream []byte, chunk int, undone bool) {
		b, err := New(Options{MaxMessage: minMessage})
		if err != nil {
			t.Fatal(err)
		}
		near, far := net.Pipe()
		defer near.Close()
		defer far.Close()
		c := &conn{pool: &pool{b: b}, net: near, stop: func(context.Context) error { return nil }, wire: newWire(&chunks{stream, max(1, chunk%4096)}), known: newStatements(10)}
		rows, settings := 0, 0
		if undone {
			settings = len(undoneBegin)
		}
		r := Request{Statements: []Statement{{SQL: "select 1", Each: func([][]byte) error { rows++; return nil }}}}
		if err := c.encode(&r, undone); err != nil {
			t.Fatal(err)
		}
		go io.Copy(io.Discard, far)
		fl := flight{c: c, r: &r, undone: undone}
		for done := false; !done; {
			if done, err = fl.message(); err != nil {
				break
			}
			if fl.out.err != nil && fl.at <= settings && rows > 0 {
				t.Fatal("rows came of a request whose settings failed")
			}
			if cap(c.wire.large) > minMessage {
				t.Fatalf("%d bytes are kept", cap(c.wire.large))
			}
		}
	})
}

type chunks struct {
	rest []byte
	n    int
}

func (c *chunks) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.rest[:min(c.n, len(c.rest))])
	c.rest = c.rest[n:]
	return n, nil
}

func TestOptionsThatContradictThemselvesAreRefused(t *testing.T) {
	for _, o := range []Options{{Budget: -1}, {Budget: 3, PerDatabase: 4}, {Wait: -1}, {Statements: -1}, {MaxMessage: 1}} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
	b, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Database("postgres://u:hidden@host:notaport/db"); err == nil || bytes.Contains([]byte(err.Error()), []byte("hidden")) {
		t.Errorf("a URL that cannot be read: %v", err)
	}
	if err := b.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
}
