package pgpool

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Unavailable is the error of a request whose database could not be reached, or that lost its connection.
type Unavailable struct {
	Err error

	// Ran says that the statements may have run, and may have taken effect.
	Ran bool

	// ID is that of the record in the log that has the reason; Options.NewID made it.
	ID string
}

func (u *Unavailable) Error() string { return "the database is not available: " + u.Err.Error() }

func (u *Unavailable) Unwrap() error { return u.Err }

// TooLarge is the error of a request for which PostgreSQL declared a message above Options.MaxMessage. Nothing of it was read.
type TooLarge struct{ Declared, Limit int64 }

func (t *TooLarge) Error() string {
	return fmt.Sprintf("PostgreSQL answers with a message of %d bytes; the limit is %d", t.Declared, t.Limit)
}

const (
	noConnection   = "cannot connect to PostgreSQL"
	lostConnection = "lost a connection to PostgreSQL"
)

// noted is a record that was written.
type noted struct {
	at time.Time
	id string
}

// unavailable says in the log what is wrong with a database, and in the error where.
func (p *pool) unavailable(what string, err error, ran bool) *Unavailable {
	p.b.mu.Lock()
	defer p.b.mu.Unlock()
	return p.unavailableLocked(what, err, ran)
}

// unavailableLocked refers to the record of the same reason if there was one within logEvery: an outage is one record for all who meet it.
func (p *pool) unavailableLocked(what string, err error, ran bool) *Unavailable {
	reason := what
	var e *pgconn.PgError
	if errors.As(err, &e) {
		reason += e.Code
	}
	now := time.Now()
	maps.DeleteFunc(p.noted, func(_ string, n noted) bool { return now.Sub(n.at) >= logEvery })
	n, ok := p.noted[reason]
	if !ok {
		n = noted{now, p.b.o.NewID()}
		p.noted[reason] = n
		p.b.o.Logger.Warn(what, "id", n.id, "database", p.name, "failures", p.fails, "error", err.Error())
	}
	return &Unavailable{Err: err, Ran: ran, ID: n.id}
}
