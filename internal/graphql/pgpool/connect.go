package pgpool

import (
	"context"
	"errors"
	"maps"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// opening is a connection in the making, and who waits for it.
type opening struct {
	done chan struct{} // closed at its end, unless nobody waits any more
	conn *conn         // neither: PostgreSQL has no room, but one of ours will be free
	err  error

	ended, left bool // guarded by Budget.mu
}

// open makes a connection in the room that nextLocked has taken. It goes on when the request has to leave: what was begun is of use to
// the next one. It returns nothing if PostgreSQL has no room, but one of ours will be free.
func (b *Budget) open(ctx context.Context, p *pool, victim *conn, deadline time.Time) (*conn, error) {
	a := &opening{done: make(chan struct{})}
	go b.bring(p, victim, a) // Close waits for its end
	err := p.await(ctx, a.done, time.Time{}, deadline)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil && !a.ended {
		a.left = true
		return nil, err
	}
	return a.conn, a.err
}

func (b *Budget) bring(p *pool, victim *conn, a *opening) {
	if victim != nil {
		b.closeAll([]*conn{victim}, causeRoom) // its room is ours
	}
	c, err := p.connect(b.life)
	if err != nil && fullServer(err) && b.makeRoom(p) {
		c, err = p.connect(b.life)
	}
	if left := b.made(p, c, err, a); left && c != nil {
		b.put(c)
	}
}

// made notes how an attempt ended. If nobody waits for it any more, the connection is the caller's.
func (b *Budget) made(p *pool, c *conn, err error, a *opening) (left bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.wakeLocked()
	p.connecting--
	if err == nil {
		b.count.opened.Add(1)
		p.recoverLocked()
	} else {
		p.open--
		b.mu.open--
		b.count.failures.Add(1)
		p.failLocked(err)
	}
	a.ended, a.conn = true, c
	if err != nil && !p.turnsLocked() {
		a.err = p.last
	}
	if a.left {
		return true
	}
	close(a.done)
	return false
}

func tooMany(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code == tooManyConnections
}

// fullServer tells that another connection to the same server would make room by going; a role and a database have limits too.
func fullServer(err error) bool {
	var e *pgconn.PgError
	return tooMany(err) && errors.As(err, &e) && e.Routine != "InitializeSessionUserId" && e.Routine != "CheckMyDatabase"
}

// makeRoom closes a connection to another database of a server that is full, if there is one that nobody uses.
func (b *Budget) makeRoom(p *pool) bool {
	b.mu.Lock()
	c := b.mu.oldest
	for c != nil && (c.pool.config.Host != p.config.Host || c.pool.config.Port != p.config.Port) {
		c = c.newer
	}
	if c == nil || p.connecting > 1 { // one is enough, and all together are to ask seldom
		b.mu.Unlock()
		return false
	}
	b.unlinkLocked(c)
	b.mu.Unlock()
	b.closeAll([]*conn{c}, causeRoom)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.open-- // ours is counted already
	return true
}

func (p *pool) failLocked(err error) {
	now := time.Now()
	if p.pause = p.pause * 3 / 2; p.fails == 0 && now.Sub(p.full) >= fullTime {
		p.pause = firstPause
	}
	if tooMany(err) {
		p.full = now
	}
	p.pause = min(p.pause, lastPause)
	p.fails++
	p.next, p.last = now.Add(p.pause), p.unavailableLocked(noConnection, err, false)
}

func (p *pool) recoverLocked() {
	if p.fails > 0 {
		p.b.o.Logger.Info("connected to PostgreSQL again", "database", p.name, "failures", p.fails)
		maps.DeleteFunc(p.noted, func(reason string, _ noted) bool { return strings.HasPrefix(reason, noConnection) }) // the next one is another outage
	}
	p.fails, p.last = 0, nil
}
