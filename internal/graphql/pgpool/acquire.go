package pgpool

import (
	"context"
	"errors"
	"time"

	"github.com/leveehq/levee/gate"
)

const (
	// atOnce is how many connections are made to one database at the same time, and only if it is known to answer: a server that
	// is full or gone sees few attempts, all requests together.
	atOnce = 3

	// With these and atOnce, a database sees fewer than 5 attempts in any second.
	firstPause = 400 * time.Millisecond
	lastPause  = time.Second

	logEvery = 10 * time.Second
)

// acquire returns a connection for the holder of a permit. There is always one to be had, room for one, or somebody about to make
// room, as there are no more permits than connections; waiting for that ends with the deadline all the same.
func (b *Budget) acquire(ctx context.Context, p *pool, deadline time.Time) (*conn, error) {
	for {
		b.mu.Lock()
		n, err := b.nextLocked(p)
		var changed <-chan struct{}
		if n == (next{}) {
			changed = b.waitLocked()
		}
		b.mu.Unlock()
		switch {
		case err != nil:
			return nil, err
		case n.room:
			return b.open(p, n.victim)
		case n.conn != nil:
			if b.check(n.conn) {
				return n.conn, nil
			}
		default:
			if err := b.pause(ctx, changed, deadline); err != nil {
				return nil, err
			}
		}
	}
}

// check discards a connection that cannot be used again.
func (b *Budget) check(c *conn) bool {
	err := c.usable()
	switch {
	case err == nil:
		return true
	case errors.Is(err, errReset):
		b.discard(c, causeReset)
	default:
		b.discard(c, causeLost)
	}
	return false
}

// next is what a request without a connection does; nothing means that it waits.
type next struct {
	conn   *conn // use this, if it is good
	room   bool  // make one; it is counted already
	victim *conn // but close this first
}

func (b *Budget) nextLocked(p *pool) (next, error) {
	if b.mu.closed || p.handles == 0 {
		return next{}, &Unavailable{Err: errClosed}
	}
	if n := len(p.idle); n > 0 {
		c := p.idle[n-1] // the one used last: the others may be closed
		b.unlinkLocked(c)
		return next{conn: c}, nil
	}
	if p.fails > 0 && (p.connecting > 0 || time.Now().Before(p.next)) {
		b.count.fastFail.Add(1)
		return next{}, &Unavailable{Err: p.lastErr}
	}
	limit := atOnce
	if p.open == p.connecting {
		limit = 1 // is it there at all?
	}
	full := b.mu.open >= b.o.Budget
	if p.connecting >= limit || full && b.mu.oldest == nil {
		return next{}, nil
	}
	n := next{room: true}
	if full {
		n.victim = b.mu.oldest
		b.unlinkLocked(n.victim)
	} else {
		b.mu.open++
	}
	p.connecting++
	p.open++
	return n, nil
}

func (b *Budget) pause(ctx context.Context, changed <-chan struct{}, deadline time.Time) error {
	wait := time.NewTimer(time.Until(deadline))
	defer wait.Stop()
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-wait.C:
		return &gate.Shed{Gate: gateName, Reason: gate.Timeout, Cost: 1, InUse: int64(b.o.Budget), Limit: int64(b.o.Budget), Waited: b.o.Wait, RetryAfter: time.Second}
	}
}

// open makes a connection in the room that nextLocked has taken.
func (b *Budget) open(p *pool, victim *conn) (*conn, error) {
	if victim != nil {
		b.closeAll([]*conn{victim}, causeRoom) // its room is ours
	}
	c, err := p.connect(b.life)
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.wakeLocked()
	p.connecting--
	if err == nil {
		b.count.opened.Add(1)
		p.recoverLocked()
		return c, nil
	}
	p.open--
	b.mu.open--
	b.count.failures.Add(1)
	p.failLocked(err)
	return nil, &Unavailable{Err: err}
}

func (p *pool) failLocked(err error) {
	now := time.Now()
	if p.pause = p.pause * 3 / 2; p.fails == 0 {
		p.pause = firstPause
	}
	p.pause = min(p.pause, lastPause)
	p.fails++
	p.next, p.lastErr = now.Add(p.pause), err
	if now.Sub(p.logged) >= logEvery {
		p.logged = now
		p.b.o.Logger.Warn("cannot connect to PostgreSQL", "database", p.name, "failures", p.fails, "error", err.Error())
	}
}

func (p *pool) recoverLocked() {
	if p.fails > 0 {
		p.b.o.Logger.Info("connected to PostgreSQL again", "database", p.name, "failures", p.fails)
	}
	p.fails, p.lastErr, p.logged = 0, nil, time.Time{}
}
