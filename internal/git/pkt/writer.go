package pkt

import (
	"fmt"
	"io"
)

// Writer makes packets, and gives each to its destination in one Write: a bytes.Buffer makes a body of them. After an
// error it writes nothing more.
type Writer struct {
	dst io.Writer
	buf []byte // for one packet, used again
	err error
}

// NewWriter keeps nothing back.
func NewWriter(dst io.Writer) *Writer { return &Writer{dst: dst} }

// Err is the first error: the destination's, or of a payload that is too long for a packet.
func (w *Writer) Err() error { return w.err }

// Line writes the parts and a line feed as one packet.
func (w *Writer) Line(parts ...string) {
	w.buf = append(w.buf[:0], "0000"...)
	for _, p := range parts {
		w.buf = append(w.buf, p...)
	}
	w.buf = append(w.buf, '\n')
	w.send()
}

// Packet writes payload as it is.
func (w *Writer) Packet(payload []byte) {
	w.buf = append(append(w.buf[:0], "0000"...), payload...)
	w.send()
}

// Error writes the line that ends a conversation before it began: stock git shows its text as "fatal: remote error: …".
func (w *Writer) Error(text string) { w.Line("ERR ", text) }

// Flush writes a flush packet. Nothing was kept back.
func (w *Writer) Flush() { w.write("0000") }

// Delim writes a delimiter packet.
func (w *Writer) Delim() { w.write("0001") }

func (w *Writer) write(packet string) {
	if w.err == nil {
		_, w.err = io.WriteString(w.dst, packet)
	}
}

// send writes the packet whose payload is in buf, behind the room for its header.
func (w *Writer) send() {
	n := len(w.buf) - headerLen
	switch {
	case w.err != nil:
	case n > MaxPayload:
		w.err = fmt.Errorf("a line of %d bytes is too long for a packet", n)
	default:
		putHeader(w.buf, n)
		_, w.err = w.dst.Write(w.buf)
	}
}
