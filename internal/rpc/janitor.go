package rpc

import "time"

// All timeouts of all connections are kept by one goroutine that looks at them once per tick. That is coarser than
// timers and costs nothing per connection, frame or write.

const (
	prefaceTimeout = 10 * time.Second // from accept to the client's SETTINGS, and for one header block
	pingTimeout    = 20 * time.Second
	lingerTimeout  = time.Second // how long a client may take to see that we have closed
)

func (s *Server) tick() time.Duration {
	t := min(s.o.IdleTimeout, s.o.Keepalive, s.o.WriteStall, 4*time.Second)
	if s.o.MaxAge > 0 {
		t = min(t, s.o.MaxAge)
	}
	return max(t/4, 5*time.Millisecond)
}

func (s *Server) janitor() {
	defer close(s.janitorDone)
	t := time.NewTicker(s.tick())
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-s.stop:
			return
		}
		now := s.now()
		s.clock.Store(now)
		for _, c := range s.snapshot() {
			c.check(now)
		}
	}
}

// check enforces the connection's timeouts. It never blocks.
func (c *conn) check(now int64) {
	o := &c.s.o
	over := func(since int64, d time.Duration) bool { return since != 0 && now-since >= int64(d) }
	if over(c.writeFrom.Load(), 1) {
		_ = c.nc.SetWriteDeadline(time.Unix(1, 0)) // the writer finds out whether any byte went; see conn.write
	}
	switch phase := c.phase.Load(); {
	case phase == phaseClosing:
		if over(c.closeSince.Load(), lingerTimeout) {
			c.shut()
		}
		return
	case phase < phaseOpen && over(c.opened, prefaceTimeout):
		c.cut("preface")
		return
	case over(c.blockSince.Load(), prefaceTimeout):
		c.cut("header_block")
		return
	case over(c.pingSince.Load(), pingTimeout) && c.quiet(now):
		c.cut("keepalive")
		return
	case phase < phaseOpen:
		return
	}
	c.checkAge(now)
	if c.pingSince.Load() == 0 && now-c.lastRead.Load() >= int64(o.Keepalive) {
		c.pingSince.Store(now)
		c.queueCtrl(func(b []byte) []byte { return appendPing(b, 0, keepalivePing) })
	}
	c.flushFromReader()
}

// quiet tells whether nothing has been written for as long as a ping may take. A client that reads slowly gets the ping
// only after all that lies before it in the sockets; whether it reads at all is write's business.
func (c *conn) quiet(now int64) bool {
	return c.writeFrom.Load() == 0 && now-c.lastWrite.Load() >= int64(pingTimeout)
}

func (c *conn) checkAge(now int64) {
	o := &c.s.o
	c.mu.Lock()
	state, since := c.mu.goAway, c.goAwaySince
	c.mu.Unlock()
	idle := c.idleSince.Load()
	switch {
	case state == goAwayFirst:
		if now-since >= int64(goAwayPatience) {
			c.lastStep()
		}
	case state == goAwayLast:
	case idle != 0 && now-idle >= int64(o.IdleTimeout):
		c.s.countCut("idle")
		c.goAway()
	case o.MaxAge > 0 && now-c.opened >= int64(o.MaxAge):
		c.s.countCut("age")
		c.goAway()
	}
}
