package pgpool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// wireBuffer is what one read takes from the socket: twice PostgreSQL's own send buffer.
const wireBuffer = 16 << 10

// startupMessage bounds what may be declared before a connection is established: no such message is larger than a page.
const startupMessage = 64 << 10

var errProtocol = errors.New("PostgreSQL sent what its protocol does not allow here")

// wire splits a stream from PostgreSQL into messages. A message's size is known, and can be refused, before anything is
// allocated for it.
//
// While a connection is made it is the reader below pgproto3.Frontend, and never reads past the message that is being handed
// out, so nothing is left in the Frontend when the connection is established and messages are read from here.
type wire struct {
	r      io.Reader
	buf    []byte
	rp, wp int    // buf[rp:wp] is read and not handed out
	large  []byte // for bodies above the buffer; kept until trim
	left   int    // of the message that Read hands out
}

func newWire(r io.Reader) *wire { return &wire{r: r, buf: make([]byte, wireBuffer)} }

func (w *wire) buffered() int { return w.wp - w.rp }

// next returns a message's type and the size of its body, which body or skip must take.
func (w *wire) next() (kind byte, size int, err error) {
	if err := w.fill(5); err != nil {
		return 0, 0, err
	}
	kind, size, err = header(w.buf[w.rp:])
	w.rp += 5
	return kind, size, err
}

func header(b []byte) (kind byte, size int, err error) {
	n := int32(binary.BigEndian.Uint32(b[1:5]))
	if n < 4 {
		return 0, 0, fmt.Errorf("%w: a length of %d", errProtocol, n)
	}
	return b[0], int(n) - 4, nil
}

// fill reads until n bytes, at most the buffer, are there.
func (w *wire) fill(n int) error {
	if w.wp-w.rp >= n {
		return nil
	}
	if w.rp == w.wp {
		w.rp, w.wp = 0, 0
	} else if len(w.buf)-w.rp < n {
		w.wp = copy(w.buf, w.buf[w.rp:w.wp])
		w.rp = 0
	}
	got, err := io.ReadAtLeast(w.r, w.buf[w.wp:], n-(w.wp-w.rp))
	w.wp += got
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// body returns a message's body, valid until the next call.
func (w *wire) body(size int) ([]byte, error) {
	if size <= len(w.buf) {
		if err := w.fill(size); err != nil {
			return nil, err
		}
		b := w.buf[w.rp : w.rp+size : w.rp+size]
		w.rp += size
		return b, nil
	}
	if cap(w.large) < size {
		w.large = make([]byte, size)
	}
	b := w.large[:size]
	n := copy(b, w.buf[w.rp:w.wp])
	w.rp += n
	if _, err := io.ReadFull(w.r, b[n:]); err != nil {
		return nil, err
	}
	return b, nil
}

// skip reads a body and keeps nothing of it.
func (w *wire) skip(size int) error {
	for size > 0 {
		if err := w.fill(1); err != nil {
			return err
		}
		n := min(size, w.wp-w.rp)
		w.rp += n
		size -= n
	}
	return nil
}

// trim gives up what large bodies needed.
func (w *wire) trim() { w.large = nil }

// Read hands out the stream while a connection is made.
func (w *wire) Read(p []byte) (int, error) {
	if w.left == 0 {
		if err := w.fill(5); err != nil {
			return 0, err
		}
		_, size, err := header(w.buf[w.rp:])
		if err != nil {
			return 0, err
		}
		if size > startupMessage {
			return 0, &TooLarge{Declared: int64(size), Limit: startupMessage}
		}
		w.left = 5 + size
	}
	if err := w.fill(1); err != nil {
		return 0, err
	}
	n := copy(p, w.buf[w.rp:w.rp+min(w.left, w.wp-w.rp)])
	w.rp += n
	w.left -= n
	return n, nil
}
