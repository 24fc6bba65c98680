package graphql

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leveehq/levee/gate"
	"github.com/leveehq/levee/internal/graphql/pgpool"
	"github.com/leveehq/levee/internal/graphql/sqlgen"
)

// transaction runs a request's statements as its role, with its claims and the tenant's settings, on one connection and in one
// round trip. It is a engine.DB.
type transaction struct {
	call *call
	in   *instance
}

// DoAll runs the statements in one transaction. What only reads may be run again if its connection was lost.
func (t *transaction) DoAll(ctx context.Context, statements []sqlgen.Statement) error {
	c := t.call
	r := pgpool.Request{Timeout: c.opt.Timeout, Idempotent: true, Grow: c.growRows, Settings: c.settings()}
	for _, s := range statements {
		r.Idempotent = r.Idempotent && s.Reads
		r.Statements = append(r.Statements, pgpool.Statement{SQL: s.SQL, Params: s.Params, Each: s.Each})
	}
	c.changes = !r.Idempotent
	r.ReadOnly = r.Idempotent && !t.in.writes.Load()
	err := t.in.db.Do(ctx, c.key(), r)
	if why := refused(err); r.ReadOnly && why != nil {
		r.ReadOnly = false
		if err = t.in.db.Do(ctx, c.key(), r); refused(err) == nil {
			c.writes(t.in, why)
		}
	}
	var gone *pgpool.Unavailable
	switch {
	case errors.As(err, &gone):
		c.lost(t.in, gone)
		return lost{gone, c.changes && gone.Ran}
	case c.changes && (errors.As(err, new(*noRoom)) || errors.As(err, new(*pgpool.TooLarge))): // it was stopped on its way to the commit, or behind it
		return fmt.Errorf("%w: %w", sqlgen.ErrUnknown, err)
	}
	return err
}

// noRoom is why a row was not read.
type noRoom struct{ error }

func (n *noRoom) Unwrap() error { return n.error }

// refused is why a query failed because something in it writes: a view's function, a policy's. Nothing of it was done.
func refused(err error) *pgconn.PgError {
	var e *pgconn.PgError
	if errors.As(err, &e) && e.Code == readOnlyTransaction {
		return e
	}
	return nil
}

// writes notes that queries that write are the schema's way: the tenant's others are not tried without from then on. What is refused
// where it may write, too, is of a standby, or of a login that may only read, and says nothing of the others.
func (c *call) writes(in *instance, why *pgconn.PgError) {
	if !in.writes.Swap(true) {
		c.logger.Warn(`a query writes: this tenant's queries are not READ ONLY any more, until its instance is built anew. Set graphql.queries = "read-write", so that none is tried`,
			"tenant", in.tenant.name, "error", why.Message, "where", why.Where)
	}
}

const readOnlyTransaction = "25006"

// lost is a database that is not there. What PostgreSQL said of it (that it shuts down, or is full) is no error of a statement, so
// it is not to be found in the chain of errors: the engine would make a field's error of it.
type lost struct {
	gone    *pgpool.Unavailable
	unknown bool // it may have changed something
}

func (l lost) Error() string { return l.gone.Error() }

// As finds the Unavailable, and nothing in it.
func (l lost) As(target any) bool {
	to, ok := target.(**pgpool.Unavailable)
	if ok {
		*to = l.gone
	}
	return ok
}

func (l lost) Is(target error) bool { return l.unknown && target == sqlgen.ErrUnknown }

// settings are the role first, then the tenant's, then those of the token: a token cannot be overruled.
func (c *call) settings() []pgpool.Setting {
	out := make([]pgpool.Setting, 0, 1+len(c.tenant.settings)+len(c.who.Settings))
	if c.who.Role != "" {
		out = append(out, pgpool.Setting{Name: "role", Value: c.who.Role})
	}
	out = append(out, c.tenant.settings...)
	for _, s := range c.who.Settings {
		out = append(out, pgpool.Setting{Name: s.Name, Value: s.Value})
	}
	return out
}

// bytesPatience is how long what only reads waits for the bytes of its answer. It keeps a connection meanwhile, and who has the bytes
// may be a client that takes a minute to read, so a few such requests would shut everybody out. What has written waits as long as
// others do: it has had its effect, and its client is to know.
const bytesPatience = 100 * time.Millisecond

// growRows charges for a large row before it is read, and for the JSON that it usually becomes.
func (c *call) growRows(n int64) error {
	cost := min(n*answerFactor, c.shares.answers)
	if err := c.charge(cost); err != nil {
		return &noRoom{err}
	}
	c.prepaid += cost - n
	return nil
}

// growJSON charges for what rows become beyond that: names of fields, which the client chooses, are in every one of them.
func (c *call) growJSON(n int64) error {
	paid := min(n, c.prepaid)
	c.prepaid -= paid
	if n == paid {
		return nil
	}
	return c.charge(n - paid)
}

// charge takes room for an answer. What is more than there can be beside what the request has is too large, rather than waited for.
func (c *call) charge(n int64) error {
	if n > c.shares.answers-c.charged {
		return &pgpool.TooLarge{Declared: c.charged + n, Limit: c.opt.MaxResponse}
	}
	var how gate.Waiting
	if !c.changes {
		how.Wait = min(bytesPatience, c.opt.Wait)
	}
	if err := c.admitWith(c.gates.answers, n, how); err != nil {
		return err
	}
	c.charged += n
	return nil
}
