package rpc

import (
	"fmt"

	"golang.org/x/net/http2"
)

// dataBegin accounts for a DATA frame, whose header is in the parser, before its payload comes.
func (c *conn) dataBegin() error {
	p := &c.in
	n := p.length
	c.window += int(c.moreWindow.Swap(0))
	if c.window -= n; c.window < 0 {
		return &connError{http2.ErrCodeFlowControl, "connection window exceeded"}
	}
	c.creditConn(n)
	p.stream = nil
	c.mu.Lock()
	st := c.findLocked(p.id)
	idle := p.id > c.mu.maxID || p.id%2 == 0
	early := st == nil && c.endedEarlyLocked(p.id)
	c.mu.Unlock()
	switch {
	case idle:
		return protocolError("DATA on idle stream %d", p.id)
	case early:
		return nil
	case st == nil:
		c.queueReset(p.id, http2.ErrCodeStreamClosed)
		return c.spend(1)
	}
	switch st.receive(n, c.acked.Load()) {
	case recvOK:
		p.stream = st
	case recvEnded:
		return c.streamClosed(st)
	case recvOverflow:
		st.abort(http2.ErrCodeFlowControl)
	case recvEarlyFull:
		st.abort(http2.ErrCodeEnhanceYourCalm) // the stream in hand: its handler may just have taken it off the list, and a client is told once
	}
	if n == 0 && !p.flags.Has(http2.FlagDataEndStream) {
		return c.spend(1)
	}
	return nil
}

// streamClosed answers a frame on a stream that the client had ended, be it reset and its handler not yet back.
func (c *conn) streamClosed(st *Stream) error {
	st.abort(http2.ErrCodeNo)
	c.queueReset(st.id, http2.ErrCodeStreamClosed)
	return c.spend(1)
}

func (c *conn) endedEarlyLocked(id uint32) bool {
	for _, v := range c.mu.early {
		if v == id {
			return true
		}
	}
	return false
}

// creditConn gives received bytes back to the connection's window, in a few large updates.
func (c *conn) creditConn(n int) {
	c.received += n
	if c.received < connWindow/4 {
		return
	}
	n, c.received = c.received, 0
	c.window += n
	c.queueCtrl(func(b []byte) []byte { return appendWindowUpdate(b, 0, n) })
}

// growConnWindow keeps the connection's window at 16 times the largest stream's.
func (c *conn) growConnWindow(stream int) {
	want := min(16*stream, maxWindow)
	c.mu.Lock()
	more := want - c.mu.window
	if more > 0 {
		c.mu.window = want
	}
	c.mu.Unlock()
	if more > 0 {
		c.moreWindow.Add(int64(more))
		c.queueCtrl(func(b []byte) []byte { return appendWindowUpdate(b, 0, more) })
	}
}

// creditPadding gives back what padding took from a stream's window: nobody will read it.
func (c *conn) creditPadding(st *Stream, n int) {
	if st == nil {
		return
	}
	if up := st.credit(n); up > 0 {
		c.queueCtrl(func(b []byte) []byte { return appendWindowUpdate(b, st.id, up) })
	}
}

// deliver hands received bytes to a stream. Its handler is woken at the end of the read.
func (c *conn) deliver(st *Stream, b []byte) {
	if st.append(b) {
		c.wakes = append(c.wakes, st)
	}
}

func (c *conn) dataEnd() {
	p := &c.in
	if p.stream != nil && p.flags.Has(http2.FlagDataEndStream) {
		if p.stream.wrongLength() {
			p.stream.abort(http2.ErrCodeProtocol)
		}
		if p.stream.end() {
			c.wakes = append(c.wakes, p.stream)
		}
	} else if p.stream == nil && p.flags.Has(http2.FlagDataEndStream) {
		c.forgetEarly(p.id)
	}
	p.next()
}

// forgetEarly drops a stream from those that we ended first, now that the client has ended it too. It reports whether the
// stream was one of them.
func (c *conn) forgetEarly(id uint32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, v := range c.mu.early {
		if v == id {
			c.mu.early[i] = 0
			return true
		}
	}
	return false
}

func (c *conn) wakeReaders() {
	for i, st := range c.wakes {
		st.wake()
		c.wakes[i] = nil
	}
	c.wakes = c.wakes[:0]
}

func (c *conn) setting(id http2.SettingID, v uint32) error {
	s := &c.in.settings
	switch id {
	case http2.SettingEnablePush:
		if v > 1 {
			return protocolError("ENABLE_PUSH %d", v)
		}
	case http2.SettingInitialWindowSize:
		if v > maxWindow {
			return &connError{http2.ErrCodeFlowControl, fmt.Sprintf("INITIAL_WINDOW_SIZE %d", v)}
		}
		s.window = int64(v)
	case http2.SettingMaxFrameSize:
		if v < 16<<10 || v > 1<<24-1 {
			return protocolError("MAX_FRAME_SIZE %d", v)
		}
		s.maxFrame = int64(v)
	case http2.SettingMaxHeaderListSize:
		s.maxList = int64(v)
	}
	return nil
}

func (c *conn) applySettings() error {
	s := c.in.settings
	c.in.next()
	c.mu.Lock()
	if s.maxFrame >= 0 {
		c.maxFrame.Store(int32(s.maxFrame))
	}
	if s.maxList >= 0 {
		c.mu.maxList = s.maxList
	}
	overflow := false
	if s.window >= 0 {
		delta := s.window - c.mu.initWindow
		c.mu.initWindow = s.window
		for _, st := range c.mu.streams {
			st.sendWindow += delta // below zero is legal: RFC 9113 6.9.2
			overflow = overflow || st.sendWindow > maxWindow
		}
		c.pumpLocked()
	}
	c.mu.Unlock()
	if overflow {
		return &connError{http2.ErrCodeFlowControl, "INITIAL_WINDOW_SIZE overflows a stream's window"}
	}
	c.queueCtrl(appendSettingsAck)
	return c.spend(1)
}

func (c *conn) ping(data []byte) error {
	if c.in.flags.Has(http2.FlagPingAck) {
		c.pingAcked(data)
		return nil
	}
	c.queueCtrl(func(b []byte) []byte { return appendPing(b, http2.FlagPingAck, data) })
	if c.answered.Swap(false) {
		return nil // clients that estimate their bandwidth ping with every round trip, as long as we send
	}
	return c.spend(1)
}

func (c *conn) windowUpdate(id uint32, n int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id == 0 {
		if n == 0 {
			return protocolError("WINDOW_UPDATE of 0")
		}
		if c.mu.sendWindow += n; c.mu.sendWindow > maxWindow {
			return &connError{http2.ErrCodeFlowControl, "connection window overflows"}
		}
		c.pumpLocked()
		return nil
	}
	st := c.findLocked(id)
	if st == nil {
		if id > c.mu.maxID || id%2 == 0 {
			return protocolError("WINDOW_UPDATE on idle stream %d", id)
		}
		return nil
	}
	code := http2.ErrCodeNo
	if n == 0 {
		code = http2.ErrCodeProtocol
	} else if st.sendWindow += n; st.sendWindow > maxWindow {
		code = http2.ErrCodeFlowControl
	}
	if code != http2.ErrCodeNo {
		st.abort(code)
		return nil
	}
	c.pumpLocked()
	return nil
}

func (c *conn) resetByPeer(id uint32) error {
	c.mu.Lock()
	st := c.findLocked(id)
	idle := id > c.mu.maxID || id%2 == 0
	c.mu.Unlock()
	if idle {
		return protocolError("RST_STREAM on idle stream %d", id)
	}
	if st != nil {
		st.abort(http2.ErrCodeNo) // before end, or the handler could take the reset for a half-close
		st.end()
	} else if c.forgetEarly(id) {
		return nil // a client's usual answer to being answered early
	}
	return c.spend(1)
}

// resetStream is a stream error of the client's: RFC 9113 5.4.2.
func (c *conn) resetStream(id uint32, code http2.ErrCode) {
	c.mu.Lock()
	st := c.findLocked(id)
	c.mu.Unlock()
	if st != nil {
		st.abort(code)
		return
	}
	c.queueReset(id, code)
}

func (c *conn) queueReset(id uint32, code http2.ErrCode) {
	c.queueCtrl(func(b []byte) []byte { return appendReset(b, id, code) })
}
