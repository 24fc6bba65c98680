package pgpool

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Behind a pooler a transaction gets whichever session is free. Others use the same sessions, for whatever they like, so ours is
// reset before the request's settings, and behind it, where the lock of a request that is over would hold others up. All of it is
// sent at once, but not as one implicit transaction, as without a pooler: what came before must not decide whether this one may
// write (default_transaction_read_only), and what fails must not keep the session from being reset. So the reset before is a
// transaction of its own, and the one behind comes after COMMIT, in one message with it. The pooler is told of a session at rest
// only at the end of that: it stays ours for so long, and is closed if we go away.
const (
	poolerBegin = "begin; " + resetSession + "; commit; begin"
	poolerEnd   = "commit; " + resetSession

	// checkDeferred has what was deferred run as the request's role, and fail where it does not keep the rest from running.
	checkDeferred = "set constraints all immediate"
)

// What is said of prepared statements in another session than the one that they were prepared in.
const (
	noStatement   = "26000"
	twoStatements = "42P05"
)

// refusesParameters tells that whatever answers knows few parameters of a session, as pgbouncer does.
func refusesParameters(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code == "08P01" && strings.Contains(e.Message, "startup parameter")
}

// lookForPooler finds out whether a statement is gone because the session is another one. A function may deallocate it, too.
func (c *conn) lookForPooler(why error) error {
	var e *pgconn.PgError
	if !errors.As(why, &e) || e.Code != noStatement && e.Code != twoStatements {
		return nil
	}
	pid, err := c.serverProcess(drainTime)
	if err == nil && pid != c.pid {
		c.pool.notice(why)
	}
	return err
}

// notice has all connections to a database be used as behind a pooler, from now on.
func (p *pool) notice(why error) {
	if !p.pooled.Swap(true) {
		p.b.o.Logger.Warn(`there is a pooler between here and PostgreSQL: no statement is prepared for it any more. Set graphql.pooler = "transaction", so that its sessions are seen to from the first request on`,
			"database", p.name, "error", why.Error())
	}
}

// serverProcess asks which process has the session.
func (c *conn) serverProcess(within time.Duration) (pid uint32, err error) {
	c.guard(within)
	defer c.guard(0)
	c.out = appendQuery(c.out[:0], "select pg_catalog.pg_backend_pid()")
	if _, err := c.net.Write(c.out); err != nil {
		return 0, err
	}
	for {
		kind, size, err := c.wire.next()
		if err != nil {
			return 0, err
		}
		switch kind {
		case 'Z':
			return pid, c.ready(size)
		case 'E':
			return 0, c.lastWords(size)
		case 'D':
			body, err := c.wire.body(size)
			if err != nil {
				return 0, err
			}
			if len(body) > 6 { // the number of values, and the length of the first
				n, _ := strconv.ParseUint(string(body[6:]), 10, 32)
				pid = uint32(n)
			}
		default:
			if err := c.wire.skip(size); err != nil {
				return 0, err
			}
		}
	}
}

// stage is the part of an answer that is being read.
type stage int

const (
	running   stage = iota // the request
	beginning              // what precedes it behind a pooler
	ending                 // what follows it behind a pooler
)

func (c *conn) appendBegin(b []byte) []byte {
	if c.known != nil {
		return b
	}
	return appendQuery(b, poolerBegin)
}

// appendEnd ends the transaction and sees to the session, unless all of it is undone.
func (c *conn) appendEnd(b []byte, undone bool) []byte {
	if undone {
		return append(b, messageSync...)
	}
	c.resetting = true
	if c.known != nil {
		return appendQuery(append(b, messageSync...), resetSession)
	}
	c.steps = append(c.steps, step{})
	b = c.appendStatement(b, nil, &Statement{SQL: checkDeferred, TextResults: true})
	return appendQuery(append(b, messageSync...), poolerEnd)
}

// begun reads a message of the answer to poolerBegin. If that fails, nothing of the request runs.
func (f *flight) begun(kind byte, size int) error {
	switch kind {
	case 'C', 'T', 'D', 'N', 'S', 'A':
		return f.c.wire.skip(size)
	case 'E':
		e, err := f.c.failure(size)
		switch {
		case err != nil:
			return err
		case fatal(e):
			return e
		case f.out.gone == nil:
			f.out.gone = fmt.Errorf("%w: %w", errReset, e)
		}
		return nil
	case 'Z':
		status, err := f.c.status(size)
		switch {
		case err != nil:
			return err
		case f.out.gone != nil:
			f.out.sent = status != 'E' // then it cannot have run
			return f.out.gone
		}
		f.stage = running
		return inTransaction(status)
	}
	return fmt.Errorf("%w: %q", errProtocol, kind)
}

// answered reads the end of the answer to the request itself.
func (f *flight) answered(size int) (done bool, err error) {
	status, err := f.c.status(size)
	switch {
	case err != nil:
		return false, err
	case f.undone && status == 'E':
		return true, f.c.undo()
	case f.c.known != nil:
		return true, atRest(status)
	}
	f.stage = ending
	return false, inTransaction(status)
}

func inTransaction(status byte) error {
	if status == 'I' {
		return fmt.Errorf("%w: the transaction has ended", errProtocol)
	}
	return nil
}

// ended reads how the transaction ended. What follows, the reset, is read when the connection is used again.
func (f *flight) ended(kind byte, size int) (done bool, err error) {
	switch kind {
	case 'N', 'S', 'A':
		return false, f.c.wire.skip(size)
	case 'E':
		return true, f.failed(size)
	case 'C':
		tag, err := f.c.wire.body(size)
		switch {
		case err != nil:
			return false, err
		case string(tag) != "COMMIT\x00" && f.out.err == nil:
			return false, errors.New("the transaction was rolled back")
		}
		return true, nil
	}
	return false, fmt.Errorf("%w: %q", errProtocol, kind)
}
