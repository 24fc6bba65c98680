package rpc

import (
	"math"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"golang.org/x/net/http2"
)

const (
	// sendChunk is how much of a message goes out per output turn; then the connection's other streams have theirs.
	sendChunk = 64 << 10
	// copyLimit is up to where copying is cheaper than handing the kernel a list.
	copyLimit = 8 << 10
	prefixLen = 5
	// minReady is what SendReady is content with in the end: a prefix and a little.
	minReady = 64
)

// SendReady blocks, holding nothing, until flow control lets a message of n bytes go (or half of the client's initial
// window, if that is smaller) and the connection's output is not backed up, so that a chunk read from disk afterwards
// leaves quickly. It returns how long a message may be to go at once: at most n, at least 1; an n below 1 counts as 1.
// Every stream of a connection that has returned from SendReady keeps one of two turns until its next SendMessage or
// SendReady has returned, so that at most two chunks per connection are ever held up by a client that does not read.
func (st *Stream) SendReady(n int) (int, error) {
	st.endTurn()
	c := st.c
	want := max(n, 1) + prefixLen // room for a prefix alone would never be more than a prefix
	for {
		c.mu.Lock()
		least := int(min(int64(want), max(c.mu.initWindow/2, minReady)))
		c.mu.Unlock()
		if _, err := st.quota(want, least, false); err != nil {
			return 0, err
		}
		select {
		case c.ready <- struct{}{}:
			st.hasTurn = true
		case <-st.ctx.Done():
			return 0, st.gone()
		}
		c.mu.Lock()
		room := min(int64(want), st.sendWindow, c.mu.sendWindow)
		c.mu.Unlock()
		if room > prefixLen {
			return int(room) - prefixLen, nil
		}
		st.endTurn() // others have used the window while we waited for the turn
	}
}

func (st *Stream) endTurn() {
	if st.hasTurn {
		st.hasTurn = false
		<-st.c.ready
	}
}

// parts is a message being sent: its prefix, then the caller's slices in order.
type parts struct {
	prefix []byte
	rest   [][]byte
	cur    []byte
}

// next returns up to n of the next bytes.
func (p *parts) next(n int) []byte {
	for len(p.cur) == 0 {
		if p.prefix != nil {
			p.cur, p.prefix = p.prefix, nil
			continue
		}
		if len(p.rest) == 0 {
			return nil
		}
		p.cur, p.rest = p.rest[0], p.rest[1:]
	}
	n = min(n, len(p.cur))
	b := p.cur[:n]
	p.cur = p.cur[n:]
	return b
}

func total(ps [][]byte) (n int) {
	for _, p := range ps {
		n += len(p)
	}
	return n
}

func messagePrefix(n int) [prefixLen]byte {
	return [prefixLen]byte{0, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}
}

// SendMessage sends one message made of parts, in order. It returns when the last byte was handed to the socket's
// buffer or copied, so parts may be reused.
func (st *Stream) SendMessage(ps ...[]byte) error {
	defer st.endTurn()
	left := total(ps)
	if left > math.MaxUint32 {
		return status.Errorf(codes.Internal, "message of %d bytes does not fit gRPC's 4 GiB", left)
	}
	if err := st.sendHeld(); err != nil {
		return err
	}
	prefix := messagePrefix(left)
	src := parts{prefix: prefix[:], rest: ps}
	for left += prefixLen; left > 0; {
		n, err := st.quota(min(left, sendChunk), 1, true)
		if err != nil {
			return err
		}
		if err := st.emit(&src, n); err != nil {
			return err
		}
		left -= n
	}
	return nil
}

// emit writes n bytes of a message, for which there is quota.
func (st *Stream) emit(src *parts, n int) error {
	c := st.c
	if !c.lockOut(st.ctx.Done()) {
		st.giveBack(n)
		return st.gone()
	}
	defer c.unlockOut()
	if st.reset.Load() {
		st.giveBack(n)
		return st.gone()
	}
	o := c.takeOut()
	defer o.free()
	if !st.sent {
		o.b = st.appendHeader(o.b)
		st.sent = true
	}
	o.appendData(st.id, src, n, int(c.maxFrame.Load()))
	c.answered.Store(true)
	if c.write(o) != nil {
		return st.gone()
	}
	return nil
}

func (o *outBuf) appendData(id uint32, src *parts, n, maxFrame int) {
	const small = 256
	copies := n <= copyLimit
	frames := (n + maxFrame - 1) / maxFrame
	if !copies {
		need := len(o.b) + frames*(frameHeaderLen+small) + (len(src.rest)+2)*small
		if need > cap(o.b) {
			o.b = append(make([]byte, 0, need), o.b...)
		}
	}
	for n > 0 {
		k := min(n, maxFrame)
		n -= k
		o.b = appendFrameHeader(o.b, k, http2.FrameData, 0, id)
		for k > 0 {
			p := src.next(k)
			k -= len(p)
			if copies || len(p) <= small {
				o.b = append(o.b, p...)
			} else {
				o.cutIn(p)
			}
		}
	}
}

func (st *Stream) appendHeader(b []byte) []byte {
	b, at := beginHeaders(b, st.id, false)
	b = appendResponse(b, "200")
	b = appendMetadata(b, st.header)
	return endHeaders(b, at, int(st.c.maxFrame.Load()))
}

// Reply sends the call's only or last message. A small one is copied and leaves in one write with the trailers, when
// the handler has returned nil; if it returns an error the message is dropped.
func (st *Stream) Reply(ps ...[]byte) error {
	o := st.hold(total(ps))
	if o == nil {
		return st.SendMessage(ps...)
	}
	for _, p := range ps {
		o.b = append(o.b, p...)
	}
	return nil
}

// hold makes the buffer of a message of n bytes that is to leave with the trailers, ready for those bytes; nil if it
// cannot be held back.
func (st *Stream) hold(n int) *outBuf {
	n += prefixLen
	if n > maxFrameLen || st.held != nil || !st.tryQuota(n) {
		return nil
	}
	o := getOut()
	if !st.sent {
		o.b = st.appendHeader(o.b)
	}
	prefix := messagePrefix(n - prefixLen)
	o.b = appendFrameHeader(o.b, n, http2.FrameData, 0, st.id)
	o.b = append(o.b, prefix[:]...)
	st.held, st.heldSize = o, n
	return o
}

func (st *Stream) dropHeld() {
	if st.held != nil {
		st.giveBack(st.heldSize)
		st.held.free()
		st.held = nil
	}
}

// sendHeld sends what Reply held back, now that more is to follow.
func (st *Stream) sendHeld() error {
	o := st.held
	if o == nil {
		return nil
	}
	st.held = nil
	defer o.free()
	if !st.c.lockOut(st.ctx.Done()) {
		st.giveBack(st.heldSize)
		return st.gone()
	}
	defer st.c.unlockOut()
	st.sent = true
	if st.reset.Load() || st.c.write(o) != nil {
		return st.gone()
	}
	return nil
}

// SendHeader sends the response headers now; SetHeader adds to them until they are sent.
func (st *Stream) SendHeader(md metadata.MD) error {
	if err := st.SetHeader(md); err != nil {
		return err
	}
	if !st.c.lockOut(st.ctx.Done()) {
		return st.gone()
	}
	defer st.c.unlockOut()
	if st.reset.Load() {
		return st.gone()
	}
	o := st.c.takeOut()
	defer o.free()
	o.b = st.appendHeader(o.b)
	st.sent = true
	if st.c.write(o) != nil {
		return st.gone()
	}
	return nil
}

func (st *Stream) SetHeader(md metadata.MD) error {
	if st.sent || st.held != nil {
		return status.Error(codes.Internal, "response headers were sent already")
	}
	st.header = metadata.Join(st.header, md)
	return nil
}

// SetTrailer adds trailer metadata; status details ride along in the error.
func (st *Stream) SetTrailer(md metadata.MD) { st.trailer = metadata.Join(st.trailer, md) }
