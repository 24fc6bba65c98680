package rpc

import (
	"context"
	"errors"
	"runtime"
	"runtime/debug"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"golang.org/x/net/http2"
)

// run is the handler's goroutine.
func (st *Stream) run() {
	defer st.c.s.handlers.Done()
	st.finish(toStatus(st.call()))
}

var errHandlerPanic = status.Error(codes.Internal, "internal error; the server's log has the details")

func (st *Stream) call() (err error) {
	returned := false
	defer func() {
		if returned {
			return
		}
		err = errHandlerPanic
		r := recover()
		if r == nil {
			r = errors.New("the handler called runtime.Goexit")
			st.finish(toStatus(err))
		}
		st.c.s.o.Logger.Error("panic in handler", "method", st.method.name, "peer", st.c.peer, "panic", r, "stack", string(debug.Stack()))
	}()
	if f := st.c.s.o.Intercept; f != nil {
		err = f(st, st.method.handler)
	} else {
		err = st.method.handler(st)
	}
	returned = true
	return err
}

// finish lets go of everything the call held and sends its status. A deadline that passes now is no reason to keep the
// status back; a client that does not read is cut by the janitor.
func (st *Stream) finish(status *status.Status) {
	if st.finished {
		return
	}
	st.finished = true
	st.endTurn()
	st.closeRecv()
	for _, f := range st.releases {
		f()
	}
	st.method.count(status.Code())
	st.sendStatus(status)
	st.free()
	st.ctx.cancel(context.Canceled)
}

func (st *Stream) sendStatus(status *status.Status) {
	c := st.c
	if status.Code() != codes.OK {
		st.dropHeld()
	}
	o := st.held
	st.held = nil
	if o == nil {
		o = getOut()
	} else {
		st.sent = true
	}
	defer o.free()
	if st.reset.Load() {
		return
	}
	o.b = st.appendTrailers(o.b, status)
	c.answered.Store(true)
	// The client may open its next stream as soon as it sees the trailers, so the slot is given back before they go.
	// A handler that cannot have the output turn at once leaves its answer to the one that has, if it is small.
	if c.reserveAnswer(len(o.b)) {
		st.free()
		c.queueAnswer(o.b)
		if c.idleSince.Load() == 0 {
			// Other handlers of this connection are about to answer too: let them, and one write does for all.
			runtime.Gosched()
		}
		c.flush()
		return
	}
	if !c.lockOut(nil) {
		return
	}
	defer c.unlockOut()
	if st.reset.Load() {
		return
	}
	st.free()
	_ = c.write(o)
}

func (st *Stream) appendTrailers(b []byte, status *status.Status) []byte {
	c := st.c
	c.mu.Lock()
	maxList := c.mu.maxList
	c.mu.Unlock()
	b, at := beginHeaders(b, st.id, true)
	if !st.sent {
		b = appendResponse(b, "200")
		b = appendMetadata(b, st.header)
	}
	b = appendStatus(b, status, maxList)
	b = appendMetadata(b, st.trailer)
	b = endHeaders(b, at, int(c.maxFrame.Load()))
	if !st.peerEnded() {
		// RFC 9113 8.1: the answer is complete without the rest of the request; do not send it.
		b = appendReset(b, st.id, http2.ErrCodeNo)
	}
	return b
}

// free gives back the stream's slot and its place behind the door, once.
func (st *Stream) free() {
	if st.freed.Swap(true) {
		return
	}
	st.c.mu.Lock()
	st.c.removeLocked(st)
	st.c.mu.Unlock()
	st.c.s.streams.Add(-1)
	if st.release != nil {
		st.release()
	}
}
