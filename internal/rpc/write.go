package rpc

import (
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// outBuf collects one write: b alone, or the list v of slices of b and of the callers' own.
type outBuf struct {
	b    []byte
	v    net.Buffers
	mark int // b[:mark] is in v
}

var outBufs = sync.Pool{New: func() any { return &outBuf{b: make([]byte, 0, 4<<10)} }}

func getOut() *outBuf { return outBufs.Get().(*outBuf) }

func (o *outBuf) free() {
	if cap(o.b) > 64<<10 {
		return
	}
	clear(o.v[:cap(o.v)])
	o.b, o.v, o.mark = o.b[:0], o.v[:0], 0
	outBufs.Put(o)
}

// cutIn puts a caller's slice behind what b has now. b must not grow beyond its capacity afterwards.
func (o *outBuf) cutIn(p []byte) {
	if len(o.b) > o.mark {
		o.v = append(o.v, o.b[o.mark:len(o.b):len(o.b)])
		o.mark = len(o.b)
	}
	o.v = append(o.v, p)
}

// queueCtrl appends to what leaves with the connection's next write: control frames, and small answers.
func (c *conn) queueCtrl(add func(b []byte) []byte) {
	c.ctrl.Lock()
	if c.ctrl.o == nil {
		c.ctrl.o = getOut()
	}
	c.ctrl.o.b = add(c.ctrl.o.b)
	c.ctrlSize.Store(int32(len(c.ctrl.o.b)))
	c.ctrl.Unlock()
}

// reserveAnswer takes room for a small answer, unless so much waits already that its sender had better wait too.
func (c *conn) reserveAnswer(n int) bool {
	c.ctrl.Lock()
	defer c.ctrl.Unlock()
	if int(c.ctrlSize.Load())+c.ctrl.reserved+n > answerLimit {
		return false
	}
	c.ctrl.reserved += n
	return true
}

// queueAnswer appends an answer for which there is room.
func (c *conn) queueAnswer(answer []byte) {
	c.queueCtrl(func(b []byte) []byte {
		c.ctrl.reserved -= len(answer)
		return append(b, answer...)
	})
}

// takeOut returns a buffer that begins with what waits.
func (c *conn) takeOut() *outBuf {
	if c.ctrlSize.Load() == 0 {
		return getOut()
	}
	c.ctrl.Lock()
	o := c.ctrl.o
	c.ctrl.o = nil
	c.ctrlSize.Store(0)
	c.ctrl.Unlock()
	if o == nil {
		o = getOut()
	}
	return o
}

// lockOut waits for the output turn. unlockOut gives it up and sees to what came up meanwhile: whoever failed to get
// the turn relies on that.
func (c *conn) lockOut(done <-chan struct{}) bool {
	select {
	case c.out <- struct{}{}:
		return true
	default:
	}
	select {
	case c.out <- struct{}{}:
		return true
	case <-done:
	case <-c.gone:
	}
	return false
}

func (c *conn) tryOut() bool {
	select {
	case c.out <- struct{}{}:
		return true
	default:
		return false
	}
}

func (c *conn) unlockOut() {
	<-c.out
	for c.pending() && c.tryOut() {
		if c.ctrlSize.Load() > 0 {
			o := c.takeOut()
			_ = c.write(o)
			o.free()
		}
		c.endIfDone()
		<-c.out
	}
}

// pending tells whether there is something to do for whoever has the output turn.
func (c *conn) pending() bool {
	if c.phase.Load() == phaseClosing || c.isDead() {
		return false
	}
	return c.ctrlSize.Load() > 0 || c.leaving.Load() && c.idleSince.Load() != 0
}

// flush writes the waiting control frames, unless somebody who has the output turn is going to.
func (c *conn) flush() {
	if c.pending() && c.tryOut() {
		c.unlockOut()
	}
}

// flushBlocking is the reader's flush when too much waits: it reads no more until the client does.
func (c *conn) flushBlocking() error {
	if !c.lockOut(nil) {
		return net.ErrClosed
	}
	o := c.takeOut()
	err := c.write(o)
	o.free()
	c.unlockOut()
	return err
}

// flushFromReader never blocks: the reader, or the janitor, must not wait behind a full socket for as long as others
// still have something to read.
func (c *conn) flushFromReader() {
	if !c.pending() || !c.tryOut() {
		return
	}
	o := c.takeOut()
	if c.raw != nil && len(o.b) > 0 {
		c.try.b, c.try.n = o.b, 0
		_ = c.raw.Write(c.try.once)
		o.b = o.b[:copy(o.b, o.b[c.try.n:])]
		c.try.b = nil
	}
	if len(o.b) == 0 {
		o.free()
		c.unlockOutFromReader()
		return
	}
	c.s.handlers.Add(1)
	go func() { // at most one per connection: it has the output turn
		defer c.s.handlers.Done()
		_ = c.write(o)
		o.free()
		c.unlockOut()
	}()
}

func (c *conn) unlockOutFromReader() {
	c.endIfDone()
	<-c.out
	if c.pending() {
		c.flushFromReader()
	}
}

// tryWrite is one write(2) that does not wait; n is what it wrote. Guarded by the output turn.
type tryWrite struct {
	b    []byte
	n    int
	once func(fd uintptr) bool
}

func (t *tryWrite) init() {
	t.once = func(fd uintptr) bool {
		n, err := syscall.Write(int(fd), t.b)
		if err == nil {
			t.n = n
		}
		return true
	}
}

// write writes o to the socket; the caller has the output turn. The janitor interrupts it at each tick by means of a
// deadline in the past: only so does it become known whether a part of it went, and the time without any progress can
// be told to a tick.
func (c *conn) write(o *outBuf) error {
	if len(o.v) > 0 && len(o.b) > o.mark {
		o.v = append(o.v, o.b[o.mark:])
	}
	v := o.v
	c.writeFrom.Store(c.s.now())
	defer c.writeFrom.Store(0)
	for {
		var n int64
		var err error
		if len(o.v) == 0 {
			var k int
			k, err = c.nc.Write(o.b)
			o.b = o.b[k:]
			n = int64(k)
		} else {
			n, err = v.WriteTo(c.nc)
		}
		if err == nil {
			c.lastWrite.Store(c.s.clock.Load())
			return nil
		}
		now := c.s.now()
		if n > 0 {
			c.writeFrom.Store(now)
		}
		stalled := now-c.writeFrom.Load() >= int64(c.s.o.WriteStall)
		if !errors.Is(err, os.ErrDeadlineExceeded) || stalled {
			if stalled {
				c.s.countCut("write_stall")
			}
			c.shut()
			return err
		}
		_ = c.nc.SetWriteDeadline(time.Time{})
	}
}
