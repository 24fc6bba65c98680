package pgpool

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// guardTime is what is added to a request's own time-out before a server that does not answer at all is given up.
const guardTime = 10 * time.Second

// asyncWrite is the size from which a request is written while its answer is read: PostgreSQL may answer the first statement, and
// wait for us to take that, before it has read the last.
const asyncWrite = 16 << 10

// outcome is what became of one attempt at a request.
type outcome struct {
	err   error // why it failed: PostgreSQL's, the caller's
	gone  error // how the connection was lost, if that came before the end of the answer
	lost  bool  // the connection cannot be used again
	sent  bool  // PostgreSQL may have got the request
	rows  bool  // a row was handed out, or a caller's function called
	stale bool  // a statement that was prepared before does not fit the tables any more; nothing ran
}

// flight is one attempt while it is under way.
type flight struct {
	c      *conn
	r      *Request
	stage  stage
	at     int  // the step that is being answered
	undone bool // its transaction has undoneBegin and undoneEnd
	bound  bool // that step's parameters were accepted
	skips  bool // rows came that were not handed out
	out    outcome
}

// exec sends a request and reads its answer. If a caller's function panics, the connection is lost.
func (c *conn) exec(ctx context.Context, r *Request) outcome {
	f := flight{c: c, r: r}
	if c.pool.pooled.Load() {
		c.known = nil
	}
	if c.known == nil {
		f.stage = beginning
	}
	f.undone = c.undoes(r)
	if err := c.encode(r, f.undone); err != nil {
		f.out.err = err
		return f.out
	}
	c.canceled.Store(false)
	select {
	case <-c.answered: // of a request that came to its end when its cancellation did
	default:
	}
	if r.Timeout > 0 {
		c.guard(time.Duration(len(r.Statements)+1)*r.Timeout + guardTime)
	} else {
		c.guard(0)
	}
	stop := func() bool { return true }
	if ctx.Done() != nil {
		stop = context.AfterFunc(ctx, c.interrupt)
	}
	defer func() { stop() }() // a caller's function may panic
	f.run()
	c.wire.trim()
	if !stop() {
		c.answered <- struct{}{}
		<-c.interrupts
		f.interrupted(ctx)
	} else if errors.Is(f.out.err, errStopped) {
		f.calmDown()
	}
	return f.out
}

// run writes the request and reads until it has been answered.
func (f *flight) run() {
	written := f.write()
	if f.out.lost {
		return
	}
	f.out.lost = true // until all was read: a panic of the caller's must not leave half an answer behind
	for done := false; !done; {
		var err error
		if done, err = f.message(); err != nil {
			f.lose(err)
			break
		}
		f.out.lost = !done
	}
	if written != nil {
		if f.out.lost {
			_ = f.c.net.SetDeadline(time.Unix(1, 0)) // the writer must not wait for a server that is gone
		}
		if err := <-written; err != nil {
			f.lose(err)
		}
	}
	if cap(f.c.out) > asyncWrite {
		f.c.out = nil
	}
}

func (f *flight) write() (written chan error) {
	c := f.c
	f.out.sent = true
	if len(c.out) > asyncWrite {
		written = make(chan error, 1)
		go func(b []byte) {
			_, err := c.net.Write(b)
			written <- err
		}(c.out)
		return written
	}
	n, err := c.net.Write(c.out)
	if err != nil {
		f.out.sent = n > 0
		f.lose(err)
	}
	return nil
}

// lose notes that the connection is gone, and keeps the first reason.
func (f *flight) lose(err error) {
	f.out.lost = true
	if f.out.gone == nil {
		f.out.gone = err
	}
}

// message reads one message; done is the end of the answer.
func (f *flight) message() (done bool, err error) {
	w := f.c.wire
	kind, size, err := w.next()
	if err != nil {
		return false, err
	}
	switch f.stage {
	case beginning:
		return false, f.begun(kind, size)
	case ending:
		return f.ended(kind, size)
	}
	switch kind {
	case 'D':
		return false, f.data(size)
	case 'Z':
		return f.answered(size)
	case 'E':
		return false, f.failed(size)
	case '1':
		f.parsed()
	case '2':
		f.bound = true
	case 'C', 'I':
		return false, f.completed(size)
	case '3', 'n', 't', 'T', 'N', 'S', 'A': // closed, described, notices: nothing to do
	case 'G', 'H', 'W':
		return false, errors.New("COPY cannot be run here")
	default:
		return false, fmt.Errorf("%w: %q", errProtocol, kind)
	}
	return false, w.skip(size)
}

// completed reads the end of a statement.
func (f *flight) completed(size int) error {
	if f.at >= len(f.c.steps) {
		return fmt.Errorf("%w: more answers than statements", errProtocol)
	}
	tag := f.c.steps[f.at].tag
	f.at++
	f.bound = false
	if tag == "" {
		return f.c.wire.skip(size)
	}
	if size == len(tag)+1 { // before a byte of it is made room for
		if got, err := f.c.wire.body(size); err != nil || string(got[:len(tag)]) == tag {
			return err
		}
	}
	return fmt.Errorf("%w: something else ran where %s was asked for", errReset, tag)
}

// parsed notes that PostgreSQL knows the statement of the present step by name.
func (f *flight) parsed() {
	if f.at < len(f.c.steps) && f.c.steps[f.at].prepared != nil {
		f.c.steps[f.at].prepared.ready = true
	}
}

// data hands out a row.
func (f *flight) data(size int) error {
	if f.at >= len(f.c.steps) {
		return fmt.Errorf("%w: a row of no statement", errProtocol)
	}
	each := f.c.steps[f.at].each
	if each == nil {
		return f.c.wire.skip(size)
	}
	if f.out.err != nil || f.c.canceled.Load() {
		f.skips = true
		return f.c.wire.skip(size)
	}
	if err := f.charge(size); err != nil {
		f.end(err)
		return f.c.wire.skip(size)
	}
	body, err := f.c.wire.body(size)
	if err != nil {
		return err
	}
	if err := f.c.row.Decode(body); err != nil {
		return fmt.Errorf("%w: %w", errProtocol, err)
	}
	f.out.rows = true
	if err := each(f.c.row.Values); err != nil {
		f.end(err)
	}
	return nil
}

func (f *flight) charge(size int) error {
	switch n, limit := int64(size), f.c.pool.b.o.MaxMessage; {
	case n > limit:
		return &TooLarge{Declared: n, Limit: limit}
	case n > minMessage && f.r.Grow != nil:
		f.out.rows = true // what was charged must not be charged twice
		return f.r.Grow(n)
	}
	return nil
}

// errStopped marks an error that ended a request while PostgreSQL was still at it.
var errStopped = errors.New("stopped")

type stopped struct{ err error }

func (s *stopped) Error() string        { return s.err.Error() }
func (s *stopped) Unwrap() error        { return s.err }
func (s *stopped) Is(target error) bool { return target == errStopped }

// end ends the request by an error of the caller's.
func (f *flight) end(err error) {
	f.out.err = &stopped{err}
	f.c.askCancel()
}

// failed reads an error of PostgreSQL's.
func (f *flight) failed(size int) error {
	e, err := f.c.failure(size)
	switch {
	case err != nil:
		return err
	case fatal(e):
		return e
	case f.out.err != nil: // it follows from the first
		return nil
	case f.undone && f.at >= len(f.c.steps)-len(undoneEnd): // all has been answered
		if e.Code == noStatement { // a function has deallocated them
			f.c.known.doomAll()
		}
		return nil
	}
	f.out.err = e
	if f.bound || f.out.rows || f.c.known == nil {
		return nil
	}
	switch {
	case e.Code == "0A000" && e.Routine == "RevalidateCachedQuery": // the text of the message depends on the server's language
		f.out.stale = true
		f.c.forgetSteps()
	case e.Code == noStatement, e.Code == twoStatements:
		f.out.stale = true
		f.c.known.doomAll() // some may be there; to close one that is not is no error
	}
	return nil
}

// interrupted ends a request whose caller has gone.
func (f *flight) interrupted(ctx context.Context) {
	if f.out.err != nil || f.out.gone != nil || f.skips {
		f.out.err = context.Cause(ctx)
		f.out.stale = false
	}
	f.calmDown()
}

// calmDown makes sure that a cancel request hits nobody else: the answer to a message that was sent after it was delivered has come.
func (f *flight) calmDown() {
	var s *stopped
	if errors.As(f.out.err, &s) {
		f.out.err = s.err
	}
	c := f.c
	c.guarded = true
	if f.out.lost {
		return
	}
	if err := c.rest(); err != nil {
		f.out.lost = true
		return
	}
	c.guard(0)
}

// rest reads what is left, and then asks for one more answer.
func (c *conn) rest() error {
	open := false
	for c.resetting {
		// What hit the reset is our own cancel request, which came when the request had ended. It is reset again below, and rolled
		// back if not even that was done.
		var e *pgconn.PgError
		switch err := c.settle(); {
		case errors.Is(err, errOpen):
			open = true
		case err != nil && !(errors.As(err, &e) && e.Code == queryCanceled):
			return err
		}
	}
	c.out = appendQuery(c.out[:0], resetSession)
	if open {
		c.out = append(c.out[:0], messageUndo...)
	}
	if _, err := c.net.Write(c.out); err != nil {
		return err
	}
	for c.resetting = true; c.resetting; {
		if err := c.settle(); err != nil {
			return err
		}
	}
	return nil
}

const queryCanceled = "57014"

func fatal(e *pgconn.PgError) bool {
	s := e.SeverityUnlocalized
	if s == "" {
		s = e.Severity
	}
	return s == "FATAL" || s == "PANIC"
}
