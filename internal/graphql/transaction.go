package graphql

import (
	"context"

	"github.com/leveehq/levee/internal/graphql/pgpool"
	"github.com/leveehq/levee/internal/graphql/sqlgen"
)

// transaction runs a request's statements as its role, with its claims and the tenant's settings, on one connection and in one
// round trip. It is a sqlgen.DB.
type transaction struct {
	call *call
	db   *pgpool.Database
}

// DoAll runs the statements in one transaction.
func (t *transaction) DoAll(ctx context.Context, statements []sqlgen.Statement) error {
	return t.run(ctx, statements, false)
}

// Do runs one statement that changes nothing, so it may be run again if the connection was lost.
func (t *transaction) Do(ctx context.Context, sql string, params [][]byte, each func(row [][]byte) error) error {
	return t.run(ctx, []sqlgen.Statement{{SQL: sql, Params: params, Each: each}}, true)
}

func (t *transaction) run(ctx context.Context, statements []sqlgen.Statement, idempotent bool) error {
	c := t.call
	r := pgpool.Request{Timeout: c.opt.Timeout, Idempotent: idempotent, Grow: c.grow, Settings: c.settings()}
	for _, s := range statements {
		r.Statements = append(r.Statements, pgpool.Statement{SQL: s.SQL, Params: s.Params, Dirty: s.Dirty, Each: s.Each})
	}
	return t.db.Do(ctx, c.key(), r)
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

// grow charges a large answer before it is read.
func (c *call) grow(n int64) error {
	return c.admit(c.gates.answers, min(n*answerFactor, c.shares.answers))
}
