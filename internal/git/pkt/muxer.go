package pkt

import (
	"errors"
	"io"
	"strings"
)

// The bands of a side-band (gitprotocol-pack(5), "Packfile Data").
const (
	bandData = 1 + iota
	bandProgress
	bandError
)

// Sizes of a side-band packet's payload, without its band; see Request.SidebandSize.
const (
	Sideband    = 995
	Sideband64k = 65515
)

const (
	bandHeader = headerLen + 1
	leastRead  = 8 << 10 // at once, where packets are smaller or there are none
)

// ErrNoBand says that a client without a side-band cannot be told anything once its pack has begun: cut the connection.
var ErrNoBand = errors.New("the client asked for no side-band, so that nothing but the pack can be sent")

// Muxer frames a pack, what is said of its making, and why it ends early, for one client. It is not for several goroutines
// at once.
type Muxer struct {
	dst  io.Writer
	size int
	buf  []byte
}

// NewMuxer frames for a client whose SidebandSize is size; with size 0 the pack is sent as it is. Packets are made in buf, as
// many at once as it holds; if it is too short for one, a new one is made when it is needed. Every Write to dst is of whole
// packets.
func NewMuxer(dst io.Writer, size int, buf []byte) *Muxer {
	return &Muxer{dst: dst, size: size, buf: buf}
}

// reserve has room for a packet of n bytes.
func (m *Muxer) reserve(n int) {
	if len(m.buf) < n+bandHeader {
		m.buf = make([]byte, n+bandHeader)
	}
}

// Write sends bytes of the pack.
func (m *Muxer) Write(p []byte) (int, error) {
	if m.size == 0 {
		return m.dst.Write(p)
	}
	return m.send(bandData, p)
}

// send writes p in as many packets as it takes.
func (m *Muxer) send(band byte, p []byte) (sent int, err error) {
	m.reserve(min(m.size, len(p)))
	for sent < len(p) {
		used, taken := 0, 0
		for rest := p[sent:]; len(rest) > 0; rest = p[sent+taken:] {
			n := min(m.size, len(rest))
			if len(m.buf)-used < n+bandHeader {
				break
			}
			copy(m.buf[used+bandHeader:], rest[:n])
			used += m.seal(used, band, n)
			taken += n
		}
		if _, err := m.dst.Write(m.buf[:used]); err != nil {
			return sent, err
		}
		sent += taken
	}
	return sent, nil
}

// seal writes the header of a packet whose payload of n bytes is in its place, and returns its length.
func (m *Muxer) seal(at int, band byte, n int) int {
	putHeader(m.buf[at:], n+1)
	m.buf[at+headerLen] = band
	return bandHeader + n
}

// ReadFrom sends a pack, or the next part of one, until r ends; it returns how much of it was read. It reads into the place
// where bytes are framed, so that they are not copied. What is less than a packet goes out before r is asked for more, since
// that may take its time.
func (m *Muxer) ReadFrom(r io.Reader) (total int64, err error) {
	m.reserve(max(m.size, leastRead))
	for err == nil {
		var used, n int
		used, n, err = m.frame(r)
		total += int64(n)
		if used == 0 {
			continue
		}
		if _, werr := m.dst.Write(m.buf[:used]); werr != nil {
			return total, werr
		}
	}
	if err == io.EOF {
		err = nil
	}
	return total, err
}

// frame reads until the buffer is full or r gives less than asked for: n bytes of the pack, used bytes to be written.
func (m *Muxer) frame(r io.Reader) (used, n int, err error) {
	if m.size == 0 {
		n, err = r.Read(m.buf)
		return n, n, err
	}
	for len(m.buf)-used >= m.size+bandHeader {
		got, err := r.Read(m.buf[used+bandHeader : used+bandHeader+m.size])
		if got > 0 {
			used += m.seal(used, bandData, got)
			n += got
		}
		if err != nil || got < m.size {
			return used, n, err
		}
	}
	return used, n, nil
}

// Progress shows the client a line, if it has a side-band. Whether it wants any is Request.Progress.
func (m *Muxer) Progress(line string) error {
	if m.size == 0 {
		return nil
	}
	if !strings.HasSuffix(line, "\n") && !strings.HasSuffix(line, "\r") {
		line += "\n"
	}
	_, err := m.send(bandProgress, []byte(line))
	return err
}

// Fail tells the client why there will be no more; nothing may follow. Without a side-band it is ErrNoBand.
func (m *Muxer) Fail(text string) error {
	if m.size == 0 {
		return ErrNoBand
	}
	// One packet, since git stops at the first: what is too long is cut.
	text = text[:min(len(text), m.size-1)] + "\n"
	_, err := m.send(bandError, []byte(text))
	return err
}

// Close sends the end of a pack that is whole. It does not close what is written to.
func (m *Muxer) Close() error {
	if m.size == 0 {
		return nil
	}
	_, err := io.WriteString(m.dst, "0000")
	return err
}
