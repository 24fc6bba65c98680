package graphql

import (
	"context"
	"errors"
	"time"

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
	r := pgpool.Request{Timeout: c.opt.Timeout, Idempotent: true, Settings: c.settings()}
	for _, s := range statements {
		r.Idempotent = r.Idempotent && s.Reads
		r.Statements = append(r.Statements, pgpool.Statement{SQL: s.SQL, Params: s.Params, Each: s.Each})
	}
	r.Grow = func(n int64) error { return c.grow(n, r.Idempotent) }
	err := t.in.db.Do(ctx, c.key(), r)
	c.suspect(t.in, err)
	var gone *pgpool.Unavailable
	if errors.As(err, &gone) {
		c.lost(t.in, gone)
		return lost{gone}
	}
	return err
}

// lost is a database that is not there. What PostgreSQL said of it (that it shuts down, or is full) is no error of a statement, so
// it is not to be found in the chain of errors: the engine would make a field's error of it.
type lost struct{ gone *pgpool.Unavailable }

func (l lost) Error() string { return l.gone.Error() }

// As finds the Unavailable, and nothing in it.
func (l lost) As(target any) bool {
	to, ok := target.(**pgpool.Unavailable)
	if ok {
		*to = l.gone
	}
	return ok
}

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

// grow charges a large answer before it is read. What is more than there can be beside what the request has is too large, rather
// than waited for.
func (c *call) grow(n int64, reads bool) error {
	cost := min(n*answerFactor, c.shares.answers)
	if left := c.shares.answers - c.charged; cost > left {
		return &pgpool.TooLarge{Declared: n, Limit: left / answerFactor}
	}
	var how gate.Waiting
	if reads {
		how.Wait = min(bytesPatience, c.opt.Wait)
	}
	if err := c.admitWith(c.gates.answers, cost, how); err != nil {
		return err
	}
	c.charged += cost
	return nil
}
