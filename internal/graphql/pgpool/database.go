package pgpool

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leveehq/levee/gate"
)

// pool is what the handles with one URL share.
type pool struct {
	b      *Budget
	url    string
	name   string
	config *pgconn.Config
	gate   *gate.Gate  // of Options.PerDatabase; nil if that is the budget itself
	pooled atomic.Bool // Options.Pooler, or what has been noticed

	// Guarded by Budget.mu.
	handles    int
	open       int     // with those being made
	connecting int     // being made
	idle       []*conn // the one used last is last
	fails      int     // in a row
	pause      time.Duration
	next       time.Time    // no attempt before
	full       time.Time    // when PostgreSQL had no room last
	last       *Unavailable // of the last attempt, if it failed
	noted      map[string]noted
}

// forms are what values are read as, whatever the database's own default is.
var forms = []Setting{{"DateStyle", "ISO"}, {"IntervalStyle", "postgres"}, {"bytea_output", "hex"}}

// Database is a handle on the database of a URL. Its methods may be called from any goroutine.
type Database struct {
	pool *pool
	once sync.Once
}

// Database returns a handle. It connects to nothing; handles with equal URLs share their connections.
func (b *Budget) Database(url string) (*Database, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.mu.pools[url]
	if p == nil {
		var err error
		if p, err = b.newPool(url); err != nil {
			return nil, err
		}
		b.mu.pools[url] = p
	} else if p.handles == 0 {
		b.mu.failed--
	}
	p.handles++
	return &Database{pool: p}, nil
}

// mostFailed is how many databases are remembered to be away while nobody has a handle on them. A tenant that cannot be built has none
// between its requests, and each of them would be the first to find out.
const mostFailed = 100

// forgetFailed forgets those that nobody has asked for in a while.
func (b *Budget) forgetFailed(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for url, p := range b.mu.pools {
		if p.handles == 0 && now.Sub(p.next) >= logEvery {
			delete(b.mu.pools, url)
			b.mu.failed--
		}
	}
}

func (b *Budget) newPool(url string) (*pool, error) {
	cfg, err := pgconn.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("database URL: %w", err) // it shows no password
	}
	cfg.DialFunc = dialer.DialContext
	setDefault(&cfg.ConnectTimeout, b.o.ConnectTimeout)
	for name, value := range map[string]string{"application_name": "levee", "client_encoding": "UTF8"} {
		if cfg.RuntimeParams[name] == "" {
			cfg.RuntimeParams[name] = value
		}
	}
	p := &pool{b: b, url: url, config: cfg, noted: map[string]noted{}, name: cfg.User + "@" + net.JoinHostPort(cfg.Host, strconv.Itoa(int(cfg.Port))) + "/" + cfg.Database}
	p.pooled.Store(b.o.Pooler)
	if b.o.PerDatabase < b.o.Budget {
		p.gate, err = gate.New(gate.Options{Name: gateName, Limit: int64(b.o.PerDatabase), Queue: b.o.Queue, Wait: b.o.Wait})
	}
	return p, err
}

// Name is user, host, port and database, without credentials.
func (d *Database) Name() string { return d.pool.name }

// Close releases the handle; it may be called more than once. The last one closes the connections as they come back.
func (d *Database) Close() {
	d.once.Do(func() {
		p := d.pool
		b := p.b
		b.mu.Lock()
		p.handles--
		last := p.handles == 0
		switch {
		case last && p.fails > 0 && b.mu.failed < mostFailed:
			b.mu.failed++
		case last:
			delete(b.mu.pools, p.url)
		}
		if last {
			b.wakeLocked()
		}
		b.mu.Unlock()
		if last {
			b.closeAll(b.takeIdle(func(c *conn) bool { return c.pool == p }), causeReleased)
		}
	})
}

// Do runs a request for key, the one that fairness is between.
//
// Its errors are *gate.Shed (no connection within Options.Wait), *Unavailable, *pgconn.PgError, *TooLarge, context.Cause(ctx), and
// what the request's own functions returned. When ctx ends, PostgreSQL is asked to end the statement; Do returns when it has, or
// 2 s later when its connection has been closed: until then the request counts.
func (d *Database) Do(ctx context.Context, key string, r Request) error {
	p := d.pool
	p.b.count.requests.Add(1)
	deadline := time.Now().Add(p.b.o.Wait)
	if p.gate != nil { // first, so that who waits for this database keeps no room from the others
		permit, err := p.gate.Admit(ctx, key, 1)
		if err != nil {
			return err
		}
		defer permit.Release()
	}
	permit, err := p.b.gate.AdmitWith(ctx, key, 1, gate.Waiting{Wait: max(time.Until(deadline), time.Millisecond)})
	if err != nil {
		return err
	}
	defer permit.Release()
	return p.do(ctx, &r, deadline)
}

func (p *pool) do(ctx context.Context, r *Request, deadline time.Time) error {
	out := outcome{}
	for attempt := 0; ; attempt++ {
		c, err := p.b.acquire(ctx, p, deadline)
		if err != nil {
			if out.gone != nil {
				return p.unavailable(lostConnection, out.gone, out.sent)
			}
			return err
		}
		out = p.attempt(ctx, c, r)
		switch {
		case out.err != nil:
			return out.err
		case out.gone == nil:
			return nil
		case attempt > 0, out.rows, out.sent && !r.Idempotent, ctx.Err() != nil:
			return p.unavailable(lostConnection, out.gone, out.sent)
		}
		p.b.count.repeated.Add(1)
	}
}

// attempt runs a request on a connection, twice if a statement had to be prepared anew, and gives the connection back.
func (p *pool) attempt(ctx context.Context, c *conn, r *Request) outcome {
	lost := true // if a caller's function panics
	defer func() {
		if lost {
			p.b.discard(c, causeLost)
			return
		}
		p.b.put(c)
	}()
	out := c.exec(ctx, r)
	if out.stale && !out.lost {
		p.b.count.repeated.Add(1)
		if err := c.usable(); err != nil {
			return outcome{gone: err}
		}
		if err := c.lookForPooler(out.err); err != nil {
			return outcome{gone: err}
		}
		out = c.exec(ctx, r)
	}
	lost = out.lost
	return out
}
