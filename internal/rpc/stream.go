package rpc

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Stream is one call. Its methods are for the handler's goroutine; one goroutine may read while another sends.
type Stream struct {
	c       *conn
	id      uint32
	method  *method
	ctx     streamContext
	fields  []hpack.HeaderField // the request's, as they came; md is made of them when asked for
	release func()              // the door's
	freed   atomic.Bool         // slot and door have been given back
	reset   atomic.Bool         // nothing may be sent any more

	principal string
	releases  []func() // AdmitMessage's, run when the handler has returned

	recv struct {
		sync.Mutex
		fifo
		window  int  // what the client may still send; below zero only while it has not acknowledged our SETTINGS
		granted int  // window + buffered + owed
		owed    int  // read, not yet granted again
		ended   bool // END_STREAM or RST_STREAM came
		closed  bool // nobody reads any more
		early   bool // holds a share of Server.early
		waiting bool // the handler waits for arrived
		// length is what is missing of the request's content-length, if it has one.
		hasLength bool
		length    int64
		arrived   chan struct{}
	}

	// Of the reading goroutine alone.
	rd       *chunk // taken from recv, being read
	msgLeft  int64
	deadline time.Time

	// Under conn.mu.
	sendWindow int64
	waiter     sendWaiter

	// Of the sending goroutine alone.
	sent     bool // response headers are out, or in held
	hasTurn  bool // holds a turn of SendReady
	header   metadata.MD
	trailer  metadata.MD
	held     *outBuf // Reply's message, to leave with the trailers
	heldSize int
	finished bool
}

// Context is cancelled on reset, connection loss, deadline and shutdown, and when the handler has returned. It carries
// the peer and the incoming metadata.
func (st *Stream) Context() context.Context { return &st.ctx }

func (st *Stream) Method() string { return st.method.name }

// Peer is the client's IP without port.
func (st *Stream) Peer() string { return st.c.peer }

// Principal is the key that fairness is between: what SetPrincipal said, else Peer.
func (st *Stream) Principal() string {
	if st.principal != "" {
		return st.principal
	}
	return st.c.peer
}

func (st *Stream) SetPrincipal(p string) { st.principal = p }

// Metadata is the request's, to be read only.
func (st *Stream) Metadata() metadata.MD { return st.ctx.metadata() }

// SetReadDeadline: a Read or NextMessage that has not returned by t fails with DEADLINE_EXCEEDED. Zero is none.
func (st *Stream) SetReadDeadline(t time.Time) { st.deadline = t }

// NextMessage reads the next 5-byte prefix and returns the message's length; io.EOF when the client has half-closed.
// A compressed message is UNIMPLEMENTED. An unread rest of the previous message is skipped.
func (st *Stream) NextMessage() (int64, error) {
	for st.msgLeft > 0 {
		if err := st.fill(); err != nil {
			return 0, midMessage(err)
		}
		st.advance(nil, int(min(st.msgLeft, int64(chunkPayload))))
	}
	var prefix [5]byte
	for n := 0; n < len(prefix); {
		if err := st.fill(); err != nil {
			if n > 0 {
				err = midMessage(err)
			}
			return 0, err
		}
		n += st.take(prefix[n:])
	}
	switch prefix[0] {
	case 0:
	case 1:
		return 0, st.compressedError()
	default:
		return 0, status.Errorf(codes.Internal, "malformed message: flags %#x", prefix[0])
	}
	st.msgLeft = int64(prefix[1])<<24 | int64(prefix[2])<<16 | int64(prefix[3])<<8 | int64(prefix[4])
	return st.msgLeft, nil
}

// Read reads bytes of the current message: io.EOF at its end, io.ErrUnexpectedEOF if the client half-closes inside.
func (st *Stream) Read(p []byte) (int, error) {
	if st.msgLeft == 0 {
		return 0, io.EOF
	}
	if int64(len(p)) > st.msgLeft {
		p = p[:st.msgLeft]
	}
	if len(p) == 0 {
		return 0, nil
	}
	if err := st.fill(); err != nil {
		return 0, midMessage(err)
	}
	n := st.advance(p, len(p))
	return n, nil
}

func midMessage(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// take copies what has arrived into p, and grants the client as much again.
func (st *Stream) take(p []byte) int {
	n := 0
	for n < len(p) && st.rd != nil {
		k := copy(p[n:], st.rd.data[st.rd.r:st.rd.w])
		n += k
		st.consume(k)
	}
	st.account(n)
	return n
}

// advance is take within a message; a nil p skips.
func (st *Stream) advance(p []byte, max int) int {
	n := 0
	if p != nil {
		n = st.take(p[:max])
	} else {
		n = min(max, int(st.rd.w-st.rd.r))
		st.consume(n)
		st.account(n)
	}
	st.msgLeft -= int64(n)
	return n
}

// consume drops n bytes of the first chunk of rd, which has at least n.
func (st *Stream) consume(n int) {
	k := st.rd
	k.r += uint16(n)
	if k.r == k.w {
		st.rd, k.next = k.next, nil
		st.c.s.chunks.putAll(k)
	}
}

func (st *Stream) account(n int) {
	st.c.s.buffered.Add(int64(-n))
	if up := st.credit(n); up > 0 {
		st.c.queueCtrl(func(b []byte) []byte { return appendWindowUpdate(b, st.id, up) })
		st.c.flush()
	}
}

// fill waits until rd has a byte.
func (st *Stream) fill() error {
	if st.rd != nil {
		return nil
	}
	var timeout <-chan time.Time
	for {
		r := &st.recv
		r.Lock()
		if r.head != nil {
			st.rd = r.take()
			r.Unlock()
			return nil
		}
		if r.ended && !st.reset.Load() {
			r.Unlock()
			return io.EOF
		}
		if r.arrived == nil {
			r.arrived = make(chan struct{}, 1)
		}
		r.waiting = true
		r.Unlock()
		if timeout == nil && !st.deadline.IsZero() {
			t := time.NewTimer(time.Until(st.deadline))
			defer t.Stop()
			timeout = t.C
		}
		select {
		case <-r.arrived:
		case <-st.ctx.Done():
			return contextStatus(st.ctx.Err())
		case <-timeout:
			return status.Error(codes.DeadlineExceeded, "the client sent nothing for too long: the message was not complete in time")
		}
	}
}

// GrowWindow lets this stream hold up to n bytes from now on; it never shrinks.
func (st *Stream) GrowWindow(n int) {
	n = min(n, maxWindow)
	st.c.growConnWindow(n)
	r := &st.recv
	r.Lock()
	up := 0
	if n > r.granted {
		up = n - r.granted + r.owed
		st.c.s.chunks.pay(st.chunksPaid(n) - st.chunksPaid(r.granted))
		r.granted = n
		r.owed = 0
		r.window += up
		if r.ended || r.closed {
			up = 0
		}
	}
	r.Unlock()
	if up > 0 {
		st.c.queueCtrl(func(b []byte) []byte { return appendWindowUpdate(b, st.id, up) })
		st.c.flush()
	}
}

// chunksPaid is how many chunks are paid for when a window has been granted. For a door window none are.
func (st *Stream) chunksPaid(granted int) int {
	if granted <= st.c.s.o.DoorWindow {
		return 0
	}
	return granted/chunkPayload + spareChunks
}

// credit returns by how much the client's window is to be raised now that n bytes are gone; zero for not yet.
func (st *Stream) credit(n int) int {
	r := &st.recv
	r.Lock()
	defer r.Unlock()
	r.owed += n
	if r.ended || r.closed || r.owed < max(r.granted/4, min(8<<10, r.granted/2)) {
		return 0
	}
	up := r.owed
	r.window += up
	r.owed = 0
	return up
}

type recvResult uint8

const (
	recvOK        recvResult = iota
	recvClosed               // nobody reads: discard
	recvEnded                // the client had ended the stream
	recvOverflow             // more than was granted
	recvEarlyFull            // more than a door window before our SETTINGS are in force, and too many do so
)

// receive accounts for n bytes of a DATA frame. Until a client has acknowledged our SETTINGS it may believe in the
// protocol's default window; what that allows beyond the door window is bounded over the whole server.
func (st *Stream) receive(n int, acked bool) recvResult {
	s := st.c.s
	r := &st.recv
	r.Lock()
	defer r.Unlock()
	switch {
	case r.ended:
		return recvEnded
	case r.closed:
		return recvClosed
	}
	excess := max(defaultWindow-s.o.DoorWindow, 0)
	floor := 0
	if !acked {
		floor = -excess
	}
	r.window -= n
	if n > 0 && r.window < floor {
		return recvOverflow
	}
	if r.window < 0 && !r.early {
		if s.early.Add(int64(excess)) > EarlyBytes {
			s.early.Add(int64(-excess))
			return recvEarlyFull
		}
		r.early = true
	}
	return recvOK
}

// append takes in bytes; true if the handler is to be woken.
func (st *Stream) append(b []byte) bool {
	r := &st.recv
	r.Lock()
	defer r.Unlock()
	if r.closed {
		return false
	}
	r.length -= int64(len(b))
	r.fifo.append(&st.c.s.chunks, b)
	st.c.s.buffered.Add(int64(len(b)))
	return st.wakesLocked()
}

func (st *Stream) end() bool {
	st.recv.Lock()
	defer st.recv.Unlock()
	st.recv.ended = true
	return st.wakesLocked()
}

// wrongLength tells whether a request that now ends was not as long as it said.
func (st *Stream) wrongLength() bool {
	st.recv.Lock()
	defer st.recv.Unlock()
	return st.recv.hasLength && st.recv.length != 0
}

func (st *Stream) wakesLocked() bool {
	w := st.recv.waiting
	st.recv.waiting = false
	return w
}

func (st *Stream) wake() {
	select {
	case st.recv.arrived <- struct{}{}:
	default:
	}
}

func (st *Stream) peerEnded() bool {
	st.recv.Lock()
	defer st.recv.Unlock()
	return st.recv.ended
}

// closeRecv lets go of what was received and discards what still comes.
func (st *Stream) closeRecv() {
	s := st.c.s
	r := &st.recv
	r.Lock()
	r.closed = true
	k := r.take()
	early, granted := r.early, r.granted
	r.early = false
	r.Unlock()
	if early {
		s.early.Add(-int64(defaultWindow - s.o.DoorWindow))
	}
	s.buffered.Add(int64(-(k.size() + st.rd.size())))
	s.chunks.putAll(k)
	s.chunks.putAll(st.rd)
	s.chunks.pay(-st.chunksPaid(granted))
	st.rd = nil
}

// abort ends the stream without a status. With a code the client is told.
func (st *Stream) abort(code http2.ErrCode) {
	if st.reset.Swap(true) {
		return
	}
	if code != http2.ErrCodeNo {
		st.c.queueReset(st.id, code)
	}
	st.ctx.cancel(context.Canceled)
}
