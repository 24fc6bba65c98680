package pgpool

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leveehq/levee/gate"
)

const gateName = "pg_connections"

// Budget owns the connections to all databases. Its methods may be called from any goroutine.
type Budget struct {
	o    Options
	gate *gate.Gate

	life context.Context // of attempts to connect
	end  context.CancelFunc

	count counters

	mu struct {
		sync.Mutex
		pools   map[string]*pool // by URL
		failed  int              // pools that nobody has a handle on; at most mostFailed
		open    int              // connections, with those being made and those being closed; at most Options.Budget
		idle    int
		newest  *conn         // of those that nobody uses
		oldest  *conn         // the first to make room
		closed  bool          // no more connections
		waiters int           // who wait for changed
		changed chan struct{} // closed, and made anew, when there is room, a connection, or a failure to report
	}
}

type counters struct {
	opened, failures, fastFail, requests, repeated, canceled atomic.Uint64
	closed                                                   [causes]atomic.Uint64
}

// New validates o and starts nothing.
func New(o Options) (*Budget, error) {
	o.setDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	g, err := o.NewGate(gate.Options{
		Name: gateName, Limit: int64(o.Budget), PerKeyContended: int64(o.Budget+1) / 2,
		Queue: o.Queue, QueuePerKey: (o.Queue + 1) / 2, Wait: o.Wait,
	})
	if err != nil {
		return nil, err
	}
	b := &Budget{o: o, gate: g}
	b.life, b.end = context.WithCancel(context.Background())
	b.mu.pools = map[string]*pool{}
	b.mu.changed = make(chan struct{})
	return b, nil
}

// Run closes connections that were idle for long, until ctx is done.
func (b *Budget) Run(ctx context.Context) error {
	tick := time.NewTicker(max(b.o.IdleTime/4, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			b.forgetFailed(now)
			b.closeAll(b.takeIdle(func(c *conn) bool { return now.Sub(c.idleSince) >= b.o.IdleTime }), causeIdle)
		}
	}
}

// Close sheds who waits and whoever comes, and returns when the connections are closed or ctx is done. Requests that have a
// connection go on: end them by their contexts.
func (b *Budget) Close(ctx context.Context) error {
	b.gate.Close()
	b.end()
	b.mu.Lock()
	b.mu.closed = true
	b.wakeLocked()
	b.mu.Unlock()
	b.closeAll(b.takeIdle(func(*conn) bool { return true }), causeShutdown)
	for {
		b.mu.Lock()
		open, changed := b.mu.open, b.waitLocked()
		b.mu.Unlock()
		if open == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

var errClosed = errors.New("the connections are being closed")

// takeIdle takes connections out, oldest first; they still count as open.
func (b *Budget) takeIdle(which func(*conn) bool) []*conn {
	b.mu.Lock()
	defer b.mu.Unlock()
	var taken []*conn
	for c := b.mu.oldest; c != nil; {
		next := c.newer
		if which(c) {
			b.unlinkLocked(c)
			taken = append(taken, c)
		}
		c = next
	}
	return taken
}

// closeAll closes connections that were taken out, all at once.
func (b *Budget) closeAll(cs []*conn, why cause) {
	for _, c := range cs {
		c.leave()
	}
	for _, c := range cs {
		c.wait()
		b.forget(c, why)
	}
}

// discard closes a connection in whatever state it is.
func (b *Budget) discard(c *conn, why cause) {
	_ = c.net.Close()
	b.forget(c, why)
}

// forget gives back the room of a connection that is closed.
func (b *Budget) forget(c *conn, why cause) {
	b.count.closed[why].Add(1)
	b.mu.Lock()
	defer b.mu.Unlock()
	c.pool.open--
	if why != causeRoom { // that room is taken already
		b.mu.open--
	}
	b.wakeLocked()
}

// put takes a connection back that can be used again.
func (b *Budget) put(c *conn) {
	b.mu.Lock()
	if why, ok := b.unwantedLocked(c); ok {
		b.mu.Unlock()
		b.closeAll([]*conn{c}, why)
		return
	}
	defer b.mu.Unlock()
	c.idleSince = time.Now()
	c.older, c.newer = b.mu.newest, nil
	if c.older != nil {
		c.older.newer = c
	} else {
		b.mu.oldest = c
	}
	b.mu.newest = c
	c.pool.idle = append(c.pool.idle, c)
	b.mu.idle++
	b.wakeLocked()
}

func (b *Budget) unwantedLocked(c *conn) (cause, bool) {
	switch {
	case b.mu.closed:
		return causeShutdown, true
	case c.pool.handles == 0:
		return causeReleased, true
	}
	return 0, false
}

// unlinkLocked takes a connection out of those that nobody uses.
func (b *Budget) unlinkLocked(c *conn) {
	if c.older != nil {
		c.older.newer = c.newer
	} else {
		b.mu.oldest = c.newer
	}
	if c.newer != nil {
		c.newer.older = c.older
	} else {
		b.mu.newest = c.older
	}
	c.older, c.newer = nil, nil
	idle := c.pool.idle
	for i := range idle {
		if idle[i] == c {
			c.pool.idle = append(idle[:i], idle[i+1:]...)
			break
		}
	}
	b.mu.idle--
}

func (b *Budget) waitLocked() <-chan struct{} {
	b.mu.waiters++
	return b.mu.changed
}

func (b *Budget) wakeLocked() {
	if b.mu.waiters == 0 {
		return
	}
	close(b.mu.changed)
	b.mu.changed, b.mu.waiters = make(chan struct{}), 0
}
