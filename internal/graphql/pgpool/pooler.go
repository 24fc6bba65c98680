package pgpool

import (
	"errors"
	"fmt"
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

// appendEnd ends the transaction and sees to the session.
func (c *conn) appendEnd(b []byte) []byte {
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
	if f.c.known != nil {
		return true, f.c.ready(size)
	}
	status, err := f.c.status(size)
	if err != nil {
		return false, err
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
