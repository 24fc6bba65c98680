package rpc

import (
	"time"

	"golang.org/x/net/http2"
)

// A connection of ours ends in two steps, RFC 9113 6.8: a GOAWAY that names the highest id there is, so that streams
// already under way are still served; after a round trip the last id that will be; and when the last stream is
// through, our side is closed.

type goAwayState uint8

const (
	goAwayNone  goAwayState = iota
	goAwayFirst             // announced; a ping is out
	goAwayLast              // the last id is fixed
)

var (
	goAwayPing    = []byte("goodbye!")
	keepalivePing = []byte("alive ?!")
)

// goAwayPatience is how long the first step waits for its ping.
const goAwayPatience = time.Second

// goAway takes the first step. It never blocks.
func (c *conn) goAway() {
	c.mu.Lock()
	if c.mu.goAway != goAwayNone {
		c.mu.Unlock()
		return
	}
	c.mu.goAway = goAwayFirst
	c.goAwaySince = c.s.clock.Load()
	c.mu.Unlock()
	if c.phase.Load() < phaseOpen {
		c.lastStep()
		return
	}
	c.queueCtrl(func(b []byte) []byte {
		return appendPing(appendGoAway(b, maxWindow, http2.ErrCodeNo, ""), 0, goAwayPing)
	})
	c.flushFromReader()
}

// lastStep fixes the last stream.
func (c *conn) lastStep() {
	c.mu.Lock()
	if c.mu.goAway == goAwayLast {
		c.mu.Unlock()
		return
	}
	c.mu.goAway = goAwayLast
	last := c.mu.maxID
	c.mu.Unlock()
	c.queueCtrl(func(b []byte) []byte { return appendGoAway(b, last, http2.ErrCodeNo, "") })
	c.leaving.Store(true)
	c.flushFromReader()
}

func (c *conn) pingAcked(data []byte) {
	if string(data) == string(goAwayPing) {
		c.mu.Lock()
		first := c.mu.goAway == goAwayFirst
		c.mu.Unlock()
		if first {
			c.lastStep()
		}
	}
}

// clientGoesAway: a client that says it will open no more streams has its connection closed once it has none.
func (c *conn) clientGoesAway() { c.lastStep() }

// endIfDone closes our side once nothing is left to send. The caller has the output turn, so no stream that has given
// back its slot is still writing.
func (c *conn) endIfDone() {
	if !c.leaving.Load() || c.ctrlSize.Load() > 0 || c.phase.Load() == phaseClosing {
		return
	}
	c.mu.Lock()
	busy := len(c.mu.streams) > 0 || c.mu.opening
	c.mu.Unlock()
	if !busy {
		c.closeWrite()
	}
}
