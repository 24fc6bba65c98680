package bazel

import (
	"errors"
	"io"
	"net"
	"strings"
	"time"
)

const (
	// httpDrainMax and httpDrainTime bound what is read of a body whose answer is already out. Most clients send all of a
	// body before they look for an answer; closing on them makes the kernel reset the connection, which destroys the
	// answer, and a reset is an error that Bazel retries. Reading on costs time on the wire and one small buffer.
	httpDrainMax  = 256 * mib
	httpDrainTime = 10 * time.Second
)

// httpBody is a request's body that watches its own progress.
type httpBody struct {
	call *httpCall
	r    io.Reader

	read  int64 // bytes so far
	mark  int64 // read when the deadline was set
	armed bool
	eof   bool
}

// Read fails with os.ErrDeadlineExceeded if the client does not bring minProgress, or the end, in the stall time.
func (b *httpBody) Read(p []byte) (int, error) {
	if !b.armed || b.read-b.mark >= minProgress {
		b.armed, b.mark = true, b.read
		if err := b.call.rc.SetReadDeadline(time.Now().Add(b.call.stall)); err != nil {
			return 0, err
		}
	}
	n, err := b.r.Read(p)
	b.read += int64(n)
	if errors.Is(err, io.EOF) {
		b.eof = true
		// net/http now watches the connection for the client's leaving; our deadline would look like it.
		_ = b.call.rc.SetReadDeadline(time.Time{})
		return n, err
	}
	if err != nil && b.call.r.ContentLength < 0 && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.As(err, new(net.Error)) {
		// What is neither the connection's nor the end is said of the chunks, in errors that net/http does not export.
		err = badRequest("nothing was stored: the body's chunked encoding is broken: %w", err)
	}
	return n, err
}

// fill reads until p is full or the body has ended, whose end is seen with its last bytes if its length is known.
func (b *httpBody) fill(p []byte) (n int, err error) {
	for n < len(p) && !b.eof {
		m, err := b.Read(p[n:])
		n += m
		if err != nil && !b.eof {
			return n, err
		}
	}
	return n, nil
}

// expected tells whether the client waits for "100 Continue" and has not got it, so that no body is coming.
func (b *httpBody) expected() bool {
	return b.read == 0 && !b.armed && strings.EqualFold(b.call.r.Header.Get("Expect"), "100-continue")
}

// discard reads to the end, or to one byte beyond limit, which is as good as a body that is too long.
func (b *httpBody) discard(limit int64) (int64, error) {
	return io.Copy(io.Discard, io.LimitReader(b, limit+1))
}

// settleBody answers a request whose body may be unread. A short rest is read first, so that the connection can go on. A
// long one is answered at once, and then read and thrown away within bounds before the connection is closed. After a
// stall nothing more is expected of the client.
func (c *httpCall) settleBody(stalled bool, answer func()) {
	size := c.r.ContentLength
	rest := size - c.body.read
	switch {
	case size == 0 || c.body.eof || c.body.expected():
		answer() // nothing is coming; net/http closes after an unmet expectation
		return
	case stalled:
		_ = c.rc.EnableFullDuplex()
		c.w.Header().Set("Connection", "close")
		answer()
		return
	case size > 0 && rest <= copyBuffer:
		_ = c.rc.SetReadDeadline(time.Now().Add(httpDrainTime))
		_, _ = io.Copy(io.Discard, c.r.Body) // if it does not come, the answer still goes out
		answer()
		return
	}
	_ = c.rc.EnableFullDuplex() // else net/http would read first and answer after
	c.w.Header().Set("Connection", "close")
	answer()
	_ = c.rc.Flush()
	_ = c.rc.SetReadDeadline(time.Now().Add(httpDrainTime))
	_, _ = io.CopyN(io.Discard, c.r.Body, httpDrainMax)
}
