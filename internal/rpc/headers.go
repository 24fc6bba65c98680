package rpc

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// request is a header block as it is decoded; one per connection, reused.
type request struct {
	fields      []hpack.HeaderField
	size        int // RFC 9113 6.5.2
	pseudo      [4]string
	hasPseudo   [4]bool
	contentType string
	timeout     string
	encoding    string
	length      int64 // content-length; -1: none
	regular     bool  // a regular field has come
	tooLong     bool
	malformed   string
}

const (
	pseudoMethod = iota
	pseudoScheme
	pseudoPath
	pseudoAuthority
)

func (r *request) reset() {
	clear(r.fields)
	*r = request{fields: r.fields[:0], length: -1}
	if cap(r.fields) > 32 {
		r.fields = nil
	}
}

func (r *request) fail(format string, args ...any) {
	if r.malformed == "" {
		r.malformed = fmt.Sprintf(format, args...)
	}
}

// headerField is called by the decoder for each field.
func (c *conn) headerField(f hpack.HeaderField) {
	r := &c.req
	if r.size += int(f.Size()); r.size > int(c.s.o.MaxHeaderList) {
		r.tooLong = true
		c.hdec.SetEmitEnabled(false)
		return
	}
	if !httpguts.ValidHeaderFieldValue(f.Value) {
		r.fail("bad value of %q", f.Name)
	}
	if strings.HasPrefix(f.Name, ":") {
		r.pseudoField(f)
		return
	}
	r.regular = true
	if !validName(f.Name) {
		r.fail("bad header name %q", f.Name)
	}
	switch f.Name {
	case "connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade":
		r.fail("connection-specific header %q", f.Name)
	case "te":
		if f.Value != "trailers" {
			r.fail("te: %q", f.Value)
		}
		return
	case "content-length":
		n, err := strconv.ParseInt(f.Value, 10, 64)
		if err != nil || n < 0 {
			r.fail("content-length: %q", f.Value)
		}
		r.length = n
		return
	case "content-type":
		r.contentType = f.Value
	case "grpc-timeout":
		r.timeout = f.Value
		return
	case "grpc-encoding":
		r.encoding = f.Value
		return
	case "grpc-accept-encoding", "grpc-message-type", "grpc-message", "grpc-status":
		return
	}
	r.fields = append(r.fields, f)
}

func (r *request) pseudoField(f hpack.HeaderField) {
	i := -1
	switch f.Name {
	case ":method":
		i = pseudoMethod
	case ":scheme":
		i = pseudoScheme
	case ":path":
		i = pseudoPath
	case ":authority":
		i = pseudoAuthority
		r.fields = append(r.fields, f)
	}
	switch {
	case i < 0:
		r.fail("unknown pseudo-header %q", f.Name)
	case r.hasPseudo[i]:
		r.fail("duplicate %q", f.Name)
	case r.regular:
		r.fail("%q after a regular header", f.Name)
	default:
		r.pseudo[i], r.hasPseudo[i] = f.Value, true
	}
}

func validName(s string) bool {
	if s == "" {
		return false
	}
	for i := range len(s) {
		b := s[i]
		if b >= 'A' && b <= 'Z' || !httpguts.IsTokenRune(rune(b)) {
			return false
		}
	}
	return true
}

func (c *conn) blockAppend(b []byte) error {
	p := &c.in
	if len(p.block)+len(b) > int(c.s.o.MaxHeaderList) {
		return &connError{http2.ErrCodeEnhanceYourCalm, fmt.Sprintf("header block above %d bytes", c.s.o.MaxHeaderList)}
	}
	p.block = append(p.block, b...)
	return nil
}

// blockEnd handles the end of a HEADERS or CONTINUATION frame.
func (c *conn) blockEnd() error {
	p := &c.in
	flags := p.flags
	p.next()
	if !flags.Has(http2.FlagHeadersEndHeaders) {
		p.blockFrames++
		if p.blockFrames > 1 {
			return c.spend(p.blockFrames) // many small fragments are nobody's honest habit
		}
		return nil
	}
	id, end := p.blockStream, p.blockEnds
	p.blockStream = 0
	c.blockSince.Store(0)
	c.req.reset()
	c.hdec.SetEmitEnabled(true)
	_, err := c.hdec.Write(p.block)
	if err == nil {
		err = c.hdec.Close()
	}
	if err != nil {
		return &connError{http2.ErrCodeCompression, err.Error()}
	}
	if p.block = p.block[:0]; cap(p.block) > 1<<10 {
		p.block = nil
		c.unpinBlock()
	}
	err = c.headers(id, end)
	c.req.reset()
	return err
}

// unpinBlock makes the decoder forget the block that it has read to the end, which it would hold until the next: it is
// given the beginning of a field, and told that there is no more.
func (c *conn) unpinBlock() {
	_, _ = c.hdec.Write([]byte{0xff})
	_ = c.hdec.Close()
	_ = c.hdec.Close()
}

// headers handles a decoded block: a new stream, or the client's trailers.
func (c *conn) headers(id uint32, end bool) error {
	r := &c.req
	if id%2 == 0 {
		return protocolError("HEADERS on stream %d", id)
	}
	c.mu.Lock()
	st := c.findLocked(id)
	isNew := id > c.mu.maxID
	if isNew {
		c.mu.maxID, c.mu.opening = id, true
	}
	early := c.endedEarlyLocked(id)
	c.mu.Unlock()
	if isNew {
		err := c.open(id, end)
		c.mu.Lock()
		c.mu.opening = false
		c.mu.Unlock()
		return err
	}
	switch {
	case early:
		if end {
			c.forgetEarly(id)
		}
	case st == nil:
		return &connError{http2.ErrCodeStreamClosed, fmt.Sprintf("HEADERS on closed stream %d", id)}
	case st.peerEnded():
		return c.streamClosed(st)
	case !end || r.malformed != "" || r.hasPseudo != [4]bool{}:
		c.resetStream(id, http2.ErrCodeProtocol)
	default:
		if st.end() {
			c.wakes = append(c.wakes, st)
		}
	}
	return nil
}
