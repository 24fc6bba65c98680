package rpc

import (
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// sendQueue holds the streams that wait for the client's windows, in the order in which they came.
type sendQueue []*Stream

// sendWaiter is a stream's place in the queue.
type sendWaiter struct {
	want    int
	min     int  // wake when so much may be sent
	take    bool // and take it from the windows
	granted int
	ready   chan struct{}
}

// readyPatience is how long SendReady waits for a window worth a disk read before it is content with any at all. A
// client may credit its windows late enough for the wished one never to come.
const readyPatience = 20 * time.Millisecond

// readyTurns is how many streams of a connection may be between SendReady and the end of SendMessage: one reads its
// chunk while another's is written.
const readyTurns = 2

// quota waits until min bytes may be sent on the stream and on the connection, and returns how many may, up to want.
// With take they are the caller's to send or to give back.
func (st *Stream) quota(want, min int, take bool) (int, error) {
	c := st.c
	w := &st.waiter
	c.mu.Lock()
	if c.mu.dead || st.reset.Load() {
		c.mu.Unlock()
		return 0, st.gone()
	}
	*w = sendWaiter{want: want, min: min, take: take, ready: w.ready}
	if len(c.mu.waiters) == 0 && st.grantLocked() {
		n := w.granted
		c.mu.Unlock()
		return n, nil
	}
	if w.ready == nil {
		w.ready = make(chan struct{}, 1)
	}
	// Newcomers stand in line, else a stream that sends much would keep others from the connection's window.
	c.mu.waiters = append(c.mu.waiters, st)
	c.pumpLocked()
	c.mu.Unlock()
	return st.awaitQuota()
}

// awaitQuota waits in the queue. A client that opens no window for Options.WriteStall is not coming back for the rest:
// waiting on would hold the call's memory for as long as the client likes.
func (st *Stream) awaitQuota() (int, error) {
	c := st.c
	w := &st.waiter
	var patience <-chan time.Time
	if !w.take {
		t := time.NewTimer(readyPatience)
		defer t.Stop()
		patience = t.C
	}
	stall := time.NewTimer(c.s.o.WriteStall)
	defer stall.Stop()
	for {
		select {
		case <-w.ready:
			return w.granted, nil
		case <-stall.C:
			st.leaveQueue()
			return 0, status.Error(codes.DeadlineExceeded, "the client took nothing for too long")
		case <-patience:
			c.mu.Lock()
			w.min = minReady
			c.pumpLocked()
			c.mu.Unlock()
		case <-st.ctx.Done():
			st.leaveQueue()
			return 0, st.gone()
		}
	}
}

// leaveQueue gives up waiting, and what was granted at the same moment.
func (st *Stream) leaveQueue() {
	c := st.c
	w := &st.waiter
	c.mu.Lock()
	if i := slices.Index(c.mu.waiters, st); i >= 0 {
		c.mu.waiters = slices.Delete(c.mu.waiters, i, i+1)
	} else if w.take {
		c.mu.sendWindow += int64(w.granted)
		st.sendWindow += int64(w.granted)
		c.pumpLocked()
	}
	c.mu.Unlock()
	select {
	case <-w.ready:
	default:
	}
}

func (st *Stream) roomLocked(want, least int) bool {
	return min(st.sendWindow, st.c.mu.sendWindow) >= int64(min(want, least))
}

// grantLocked gives the stream what it waits for, if that is there.
func (st *Stream) grantLocked() bool {
	w := &st.waiter
	if !st.roomLocked(w.want, w.min) {
		return false
	}
	w.granted = int(min(int64(w.want), st.sendWindow, st.c.mu.sendWindow))
	if w.take {
		st.sendWindow -= int64(w.granted)
		st.c.mu.sendWindow -= int64(w.granted)
	}
	return true
}

// pumpLocked serves the queue after a window has opened. A stream whose own window is shut does not hold up those
// behind it.
func (c *conn) pumpLocked() {
	if len(c.mu.waiters) == 0 {
		return
	}
	keep := c.mu.waiters[:0]
	for _, st := range c.mu.waiters {
		if st.grantLocked() {
			st.waiter.ready <- struct{}{}
		} else {
			keep = append(keep, st)
		}
	}
	clear(c.mu.waiters[len(keep):])
	c.mu.waiters = keep
}

// tryQuota takes n bytes if they may be sent now and nobody waits.
func (st *Stream) tryQuota(n int) bool {
	c := st.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.mu.waiters) > 0 || min(st.sendWindow, c.mu.sendWindow) < int64(n) {
		return false
	}
	st.sendWindow -= int64(n)
	c.mu.sendWindow -= int64(n)
	return true
}

// giveBack returns quota that will not be sent.
func (st *Stream) giveBack(n int) {
	c := st.c
	c.mu.Lock()
	defer c.mu.Unlock()
	st.sendWindow += int64(n)
	c.mu.sendWindow += int64(n)
	c.pumpLocked()
}

// gone is the error of sending on a stream that has ended.
func (st *Stream) gone() error {
	if err := st.ctx.Err(); err != nil {
		return contextStatus(err)
	}
	return status.Error(codes.Canceled, "the stream was reset")
}
