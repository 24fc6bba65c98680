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

	// fullTime is how long a server that had no room is taken to be short of it, whatever comes in between.
	fullTime = 5 * time.Second

	tooManyConnections = "53300" // of the server, the database or the role
)

// acquire returns a connection for the holder of a permit. There is always one to be had, room for one, or somebody about to make
// room, as there are no more permits than connections; waiting for that ends with the deadline all the same.
func (b *Budget) acquire(ctx context.Context, p *pool, deadline time.Time) (*conn, error) {
	for {
		b.mu.Lock()
		n, err := b.nextLocked(p)
		var changed <-chan struct{}
		if n.conn == nil && !n.room {
			changed = b.waitLocked()
		}
		b.mu.Unlock()
		switch {
		case err != nil:
			return nil, err
		case n.room:
			if c, err := b.open(ctx, p, n.victim, deadline); c != nil || err != nil {
				return c, err
			}
		case n.conn != nil:
			if b.check(n.conn) {
				return n.conn, nil
			}
		default:
			if err := p.await(ctx, changed, n.again, deadline); err != nil {
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

// next is what a request without a connection does; without conn and room it waits.
type next struct {
	conn   *conn     // use this, if it is good
	room   bool      // make one; it is counted already
	victim *conn     // but close this first
	again  time.Time // look again then, if nothing has changed
}

func (b *Budget) nextLocked(p *pool) (next, error) {
	if b.mu.closed || p.handles == 0 {
		return next{}, p.unavailableLocked(noConnection, errClosed, false)
	}
	if n := len(p.idle); n > 0 {
		c := p.idle[n-1] // the one used last: the others may be closed
		b.unlinkLocked(c)
		return next{conn: c}, nil
	}
	now := time.Now()
	short := now.Sub(p.full) < fullTime
	if p.fails > 0 && (p.connecting > 0 || now.Before(p.next)) {
		if p.turnsLocked() {
			return p.laterLocked(now), nil
		}
		b.count.fastFail.Add(1)
		return next{}, p.last
	}
	limit := atOnce
	if p.open == p.connecting || short {
		limit = 1 // is it there at all? has it room?
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

// turnsLocked tells that PostgreSQL has no room for another connection, but that there are some of ours to wait for.
func (p *pool) turnsLocked() bool {
	return p.open > p.connecting && p.last != nil && tooMany(p.last.Err)
}

// laterLocked waits for a connection of ours, or for the time to ask for another.
func (p *pool) laterLocked(now time.Time) next {
	if p.next.After(now) {
		return next{again: p.next}
	}
	return next{} // somebody is asking, and will wake us
}

// await waits for a change, or until it is time to look again.
func (p *pool) await(ctx context.Context, changed <-chan struct{}, again, deadline time.Time) error {
	wait := time.NewTimer(time.Until(deadline))
	defer wait.Stop()
	var retry <-chan time.Time
	if !again.IsZero() {
		t := time.NewTimer(time.Until(again))
		defer t.Stop()
		retry = t.C
	}
	select {
	case <-retry:
		return nil
	case <-changed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-wait.C:
		return p.late()
	}
}

var errSlow = errors.New("it does not answer in time")

// late is the error of a request whose wait for a connection is over.
func (p *pool) late() error {
	b := p.b
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.connecting > 0 && p.open == p.connecting {
		return p.unavailableLocked(noConnection, errSlow, false)
	}
	limit := int64(b.o.Budget)
	return &gate.Shed{Gate: gateName, Reason: gate.Timeout, Cost: 1, InUse: limit, Limit: limit, Waited: b.o.Wait, RetryAfter: time.Second}
}
