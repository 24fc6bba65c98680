package pgpool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

const (
	drainTime = 2 * time.Second // for a canceled request to end, before its connection is closed
	askAgain  = 50 * time.Millisecond
	closeTime = time.Second // for PostgreSQL to end its side of a connection
)

// conn is one connection. It belongs to one goroutine at a time: a request, or whoever closes it.
type conn struct {
	pool  *pool
	net   net.Conn
	stop  func(context.Context) error // sends a cancel request, on a connection of its own
	raw   syscall.RawConn             // for a look at what came; nil if there is none
	wire  *wire
	known *statements // nil behind a pooler
	pid   uint32      // of PostgreSQL's process, as it was told when the connection was made

	out   []byte
	steps []step
	row   pgproto3.DataRow

	resetting bool // the answer to resetSession has not been read
	guarded   bool // a deadline is set on net

	canceled   atomic.Bool   // the caller's context has ended
	interrupts chan struct{} // has an element when no further cancel request will be sent
	interrupt  func()        // the method onCancel, as a value that is made once
	answered   chan struct{} // has an element when there is nothing left to be canceled

	idleSince    time.Time
	newer, older *conn // among those that nobody uses, all databases together; guarded by Budget.mu
}

// connect makes a connection. It does not end with the caller's context: what was begun is of use to the next one.
func (p *pool) connect(ctx context.Context) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, p.b.o.ConnectTimeout)
	defer cancel()
	pg, wire, err := p.dial(ctx)
	if err != nil && !p.pooled.Load() && refusesParameters(err) {
		p.notice(err)
		pg, wire, err = p.dial(ctx)
	}
	if err != nil {
		return nil, err
	}
	c := &conn{pool: p, net: pg.Conn(), stop: pg.CancelRequest, wire: wire, raw: rawOf(pg.Conn()), pid: pg.PID(),
		interrupts: make(chan struct{}, 1), answered: make(chan struct{}, 1)}
	c.known = newStatements(p.b.o.Statements)
	c.interrupt = c.onCancel
	if c.wire.left != 0 || pg.Frontend().ReadBufferLen() != 0 {
		_ = c.net.Close()
		return nil, fmt.Errorf("%w: more than the start of a session", errProtocol)
	}
	if err := c.look(); err != nil {
		_ = c.net.Close()
		return nil, err
	}
	return c, nil
}

// look finds a pooler that nobody mentioned: the process that it named is not the one that answers.
func (c *conn) look() error {
	if c.pool.pooled.Load() {
		return nil
	}
	pid, err := c.serverProcess(c.pool.b.o.ConnectTimeout)
	if err == nil && pid != c.pid {
		c.pool.notice(fmt.Errorf("a session of process %d is served by process %d", c.pid, pid))
	}
	return err
}

func (p *pool) dial(ctx context.Context) (*pgconn.PgConn, *wire, error) {
	cfg := p.config.Copy()
	if !p.pooled.Load() { // which may refuse these
		for _, s := range forms {
			cfg.RuntimeParams[s.Name] = s.Value
		}
	}
	wires := map[*pgproto3.Frontend]*wire{} // one for each host and kind of encryption that is tried
	cfg.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
		wire := newWire(r)
		f := pgproto3.NewFrontend(wire, w)
		wires[f] = wire
		return f
	}
	pg, err := pgconn.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	return pg, wires[pg.Frontend()], nil
}

func rawOf(n net.Conn) syscall.RawConn {
	if t, ok := n.(interface{ NetConn() net.Conn }); ok { // TLS
		n = t.NetConn()
	}
	if s, ok := n.(syscall.Conn); ok {
		if raw, err := s.SyscallConn(); err == nil {
			return raw
		}
	}
	return nil
}

var dialer = net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}}

// usable reads what has come since the connection was used, and tells why it cannot be used again, if it cannot. With nothing
// unusual that is one look at the socket.
func (c *conn) usable() error {
	for {
		if c.wire.buffered() == 0 {
			quiet, err := c.peek()
			switch {
			case err != nil:
				return err
			case quiet && !c.resetting:
				return nil
			}
			c.guard(drainTime)
		} else if c.wire.buffered() < 5 {
			c.guard(drainTime)
		}
		if err := c.settle(); err != nil {
			return err
		}
	}
}

// peek tells that nothing has come. A connection that PostgreSQL has closed is an error.
func (c *conn) peek() (quiet bool, err error) {
	if c.raw == nil {
		return true, nil
	}
	var one [1]byte
	var n int
	var failed error
	err = c.raw.Control(func(fd uintptr) { // Read would mind a deadline that has passed
		n, _, failed = syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	})
	switch {
	case err != nil:
		return false, err
	case errors.Is(failed, syscall.EAGAIN), errors.Is(failed, syscall.EINTR):
		return true, nil
	case failed != nil:
		return false, failed
	case n == 0:
		return false, io.ErrUnexpectedEOF
	}
	return false, nil
}

var errReset = errors.New("the session could not be reset")

// settle reads one message between requests.
func (c *conn) settle() error {
	kind, size, err := c.wire.next()
	if err != nil {
		return err
	}
	switch kind {
	case 'N', 'S', 'A':
		return c.wire.skip(size)
	case 'E':
		return c.lastWords(size)
	}
	if !c.resetting {
		return fmt.Errorf("%w: %q between requests", errProtocol, kind)
	}
	switch kind {
	case 'C', 'T', 'D':
		return c.wire.skip(size)
	case 'Z':
		c.resetting = false
		return c.ready(size)
	}
	return fmt.Errorf("%w: %q", errReset, kind)
}

// lastWords is what PostgreSQL says before it closes a connection, or that a session could not be reset.
func (c *conn) lastWords(size int) error {
	e, err := c.failure(size)
	switch {
	case err != nil:
		return err
	case c.resetting && !fatal(e):
		return fmt.Errorf("%w: %w", errReset, e)
	}
	return e
}

// failure reads an error that PostgreSQL reports.
func (c *conn) failure(size int) (*pgconn.PgError, error) {
	if limit := c.pool.b.o.MaxMessage; int64(size) > limit {
		return nil, &TooLarge{Declared: int64(size), Limit: limit}
	}
	body, err := c.wire.body(size)
	if err != nil {
		return nil, err
	}
	var m pgproto3.ErrorResponse
	if err := m.Decode(body); err != nil {
		return nil, fmt.Errorf("%w: %w", errProtocol, err)
	}
	return pgconn.ErrorResponseToPgError(&m), nil
}

// ready checks that no transaction is left open.
func (c *conn) ready(size int) error {
	status, err := c.status(size)
	if err != nil {
		return err
	}
	return atRest(status)
}

func atRest(status byte) error {
	if status != 'I' {
		return errOpen
	}
	return nil
}

var errOpen = fmt.Errorf("%w: a transaction was left open", errProtocol)

// status reads whether a transaction is open: I, T, or E for one that failed.
func (c *conn) status(size int) (byte, error) {
	if size != 1 { // before a byte of it is made room for
		return 0, fmt.Errorf("%w: a transaction status of %d bytes", errProtocol, size)
	}
	body, err := c.wire.body(size)
	if err != nil {
		return 0, err
	}
	return body[0], nil
}

// guard sets a deadline for reading; 0 takes it away.
func (c *conn) guard(d time.Duration) {
	switch {
	case d > 0:
		_ = c.net.SetReadDeadline(time.Now().Add(d))
		c.guarded = true
	case c.guarded:
		_ = c.net.SetDeadline(time.Time{})
		c.guarded = false
	}
}

// onCancel runs beside the request, when the caller's context has ended. PostgreSQL forgets a cancel request that comes while it
// reads the next message of ours, though the statement is in that message: so it is asked again until the answer has ended.
func (c *conn) onCancel() {
	c.canceled.Store(true)
	c.askCancel()
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	again := time.NewTicker(askAgain)
	defer again.Stop()
	for answered := false; !answered && ctx.Err() == nil; {
		select {
		case <-c.answered:
			answered = true
		case <-ctx.Done():
		case <-again.C:
			_ = c.stop(ctx)
		}
	}
	c.interrupts <- struct{}{}
}

// askCancel has PostgreSQL end what it is doing, and gives it a bounded time. It returns when the signal has been sent.
func (c *conn) askCancel() {
	c.pool.b.count.canceled.Add(1)
	_ = c.net.SetDeadline(time.Now().Add(drainTime))
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	_ = c.stop(ctx) // if it cannot be delivered, the deadline ends the connection
}

// leave says goodbye. Several connections are left at the same time by leaving each before waiting for the first.
func (c *conn) leave() {
	_ = c.net.SetDeadline(time.Now().Add(closeTime))
	_, _ = c.net.Write(messageEnd)
}

// wait returns when PostgreSQL's process is gone, which closes the socket as its last act.
func (c *conn) wait() {
	for {
		if _, err := c.net.Read(c.wire.buf); err != nil {
			break
		}
	}
	_ = c.net.Close()
}
