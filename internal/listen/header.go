package listen

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
)

// HeaderOptions bound what the headers of HTTP/1.1 requests take. One that is longer than Max, or longer than Free and of more than
// Fields lines, loses its end as it comes, without a byte of memory. net/http then sees a header that ends early, and the handler a
// Cut, so that the client gets an answer in its own words instead of a 431 of net/http's or a broken connection.
//
// The server must tell of each request: NextRequest from its ConnState, Begun from its handler.
type HeaderOptions struct {
	Max    int // bytes of the longest header; MaxHeaderBytes of the server must be as large
	Free   int // bytes that may be any number of fields: a thousand empty ones are what a connection is planned with
	Fields int // of a header that is longer
}

// mostDropped is how many bytes of a header are dropped before its connection is.
const mostDropped = 1 << 20

// Cut says why a request's header has no end. Such a request must be refused, with status 431 unless the service knows better: what
// is missing may be anything.
type Cut struct {
	Field string // the canonical name of the field that is cut; "" for the first line of the request
	Err   error  // what is wrong, for the client
}

// NextRequest says that the last request on a connection has been answered. c is what a listener of Wrap has accepted.
func NextRequest(c net.Conn) {
	if t, ok := c.(*tcpConn); ok && t.head != nil {
		t.head.next()
	}
}

// Begun says that a request's header has been read, and how it was cut; nil is not at all.
func Begun(c net.Conn) *Cut {
	t, ok := c.(*tcpConn)
	if !ok || t.head == nil {
		return nil
	}
	t.head.begun.Store(true)
	return t.head.cut
}

type cutKey struct{}

// WithCut and CutOf hand a Cut on to the handler that knows how its clients are refused.
func WithCut(ctx context.Context, c *Cut) context.Context { return context.WithValue(ctx, cutKey{}, c) }

// CutOf is nil if the header is whole.
func CutOf(ctx context.Context) *Cut {
	c, _ := ctx.Value(cutKey{}).(*Cut)
	return c
}

// head watches the header of a connection's present request. Reads of a connection are one at a time, and what is not atomic is theirs.
type head struct {
	o *HeaderOptions

	begun   atomic.Bool // its handler runs: what comes is its body, or the beginning of the next
	ended   bool        // the empty line was seen
	bytes   int
	lines   int    // that have ended
	line    []byte // how the present line begins
	length  int    // of the present line
	cut     *Cut
	failed  error  // is all that is read from now on: bufio may ask once more
	pending []byte // comes before what is read next
}

// lineBytes is as much of a line as has the name of any field that matters.
const lineBytes = 32

func (h *head) next() {
	h.ended, h.bytes, h.lines, h.line, h.length, h.cut = false, 0, 0, h.line[:0], 0, nil
	h.begun.Store(false)
}

func (h *head) read(from io.Reader, p []byte) (int, error) {
	if len(h.pending) > 0 {
		n := copy(p, h.pending)
		if h.pending = h.pending[n:]; len(h.pending) == 0 {
			h.pending = nil
		}
		return n, nil
	}
	if h.failed != nil {
		return 0, h.failed
	}
	n, err := from.Read(p)
	if n == 0 || h.ended || h.begun.Load() {
		return n, err
	}
	kept, line := h.length, string(h.line)
	end := h.scan(p[:n])
	why := h.exceeds()
	if why == nil {
		return n, err
	}
	if kept == 0 {
		line = string(p[:min(n, lineBytes)])
	}
	h.cut = &Cut{Field: fieldOf(line), Err: why}
	return h.drop(from, p, n, end, kept == 0)
}

// scan takes in what was read, and returns where the header ends in it, or its length.
func (h *head) scan(p []byte) int {
	at := 0
	for at < len(p) && !h.ended {
		rest := p[at:]
		i := bytes.IndexByte(rest, '\n')
		n := i
		if i < 0 {
			n = len(rest)
		}
		h.line = append(h.line, rest[:min(n, lineBytes-len(h.line))]...)
		h.length += n
		at += n
		if i < 0 {
			break
		}
		at++
		h.ended = h.lines > 0 && (h.length == 0 || h.length == 1 && h.line[0] == '\r')
		h.lines++
		h.line, h.length = h.line[:0], 0
	}
	h.bytes += at
	return at
}

// exceeds tells why the header may not go on.
func (h *head) exceeds() error {
	switch {
	case h.bytes > h.o.Max:
		return fmt.Errorf("the request's header is longer than %d bytes", h.o.Max)
	case h.bytes > h.o.Free && h.lines > 1+h.o.Fields:
		return fmt.Errorf("the request's header has more than %d bytes and more than %d fields", h.o.Free, h.o.Fields)
	}
	return nil
}

// drop reads on to the end of the header, of which p has n bytes that are not to be seen; it ends at end in them, if it has ended. What
// has been seen is ended in its place.
func (h *head) drop(from io.Reader, p []byte, n, end int, atStart bool) (int, error) {
	for dropped := n; !h.ended; dropped += n {
		if dropped > mostDropped {
			h.failed = fmt.Errorf("%w: it is longer than %d bytes", h.cut.Err, mostDropped)
			return 0, h.failed
		}
		var err error
		if n, err = from.Read(p); n == 0 {
			return 0, err
		}
		end = h.scan(p[:n])
	}
	finish := "\r\n\r\n"
	if atStart {
		finish = "\r\n"
	}
	h.pending = append([]byte(finish), p[end:n]...)
	return h.read(from, p)
}

func fieldOf(line string) string {
	name, _, ok := strings.Cut(line, ":")
	if !ok {
		return ""
	}
	return http.CanonicalHeaderKey(strings.TrimSpace(name))
}
