package rpc

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// streamContext is a stream's context. It makes its channel, metadata and values when they are asked for, which small
// calls never do, and implements AfterFunc so that contexts derived from it need no goroutine.
type streamContext struct {
	st       *Stream
	deadline time.Time
	timer    *time.Timer

	mu struct {
		sync.Mutex
		err    error
		done   chan struct{}
		after  []*afterFunc
		md     metadata.MD
		values context.Context
	}
}

type afterFunc struct{ f func() }

var closedChan = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

func (x *streamContext) Deadline() (time.Time, bool) { return x.deadline, !x.deadline.IsZero() }

func (x *streamContext) Done() <-chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.mu.done == nil {
		x.mu.done = make(chan struct{})
	}
	return x.mu.done
}

func (x *streamContext) Err() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.mu.err
}

func (x *streamContext) Value(key any) any {
	if _, ok := key.(*int); ok {
		return nil // package context asking whether we are one of its own: not worth building the values
	}
	x.mu.Lock()
	if x.mu.values == nil {
		st := x.st
		v := metadata.NewIncomingContext(context.Background(), x.metadataLocked())
		v = peer.NewContext(v, &peer.Peer{Addr: st.c.nc.RemoteAddr(), LocalAddr: st.c.nc.LocalAddr()})
		x.mu.values = grpc.NewContextWithServerTransportStream(v, transportStream{st})
	}
	v := x.mu.values
	x.mu.Unlock()
	return v.Value(key)
}

func (x *streamContext) metadata() metadata.MD {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.metadataLocked()
}

func (x *streamContext) metadataLocked() metadata.MD {
	if x.mu.md == nil {
		x.mu.md = makeMetadata(x.st.fields)
	}
	return x.mu.md
}

// AfterFunc is what package context looks for in a parent.
func (x *streamContext) AfterFunc(f func()) (stop func() bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.mu.err != nil {
		go f()
		return func() bool { return false }
	}
	a := &afterFunc{f}
	x.mu.after = append(x.mu.after, a)
	return func() bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		for i, v := range x.mu.after {
			if v == a {
				x.mu.after = append(x.mu.after[:i], x.mu.after[i+1:]...)
				return true
			}
		}
		return false
	}
}

func (x *streamContext) cancel(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.mu.err != nil {
		return
	}
	x.mu.err = err
	if x.mu.done == nil {
		x.mu.done = closedChan
	} else {
		close(x.mu.done)
	}
	for _, a := range x.mu.after {
		go a.f()
	}
	x.mu.after = nil
	if x.timer != nil {
		x.timer.Stop()
	}
}

// startTimer arms the call's deadline. It is called before the stream is seen by anyone.
func (x *streamContext) startTimer(d time.Duration) {
	x.deadline = time.Now().Add(d)
	x.mu.Lock() // the timer may fire before it is stored
	defer x.mu.Unlock()
	x.timer = time.AfterFunc(d, func() { x.cancel(context.DeadlineExceeded) })
}

// DropMetadata lets go of the request's headers, up to Options.MaxHeaderList of memory that a call would otherwise hold to
// its end. It is for handlers that wait, after whoever wanted the headers has read them: Metadata is empty from then on.
func (st *Stream) DropMetadata() {
	x := &st.ctx
	x.mu.Lock()
	defer x.mu.Unlock()
	st.fields = nil
	x.mu.md, x.mu.values = metadata.MD{}, nil
}
