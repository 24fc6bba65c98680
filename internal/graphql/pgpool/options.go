package pgpool

import (
	"errors"
	"log/slog"
	"time"

	"github.com/leveehq/levee/gate"
)

// Options of a Budget. The zero value is right.
type Options struct {
	// Budget is the number of connections, all databases together; 0 means 20. Too low: requests wait for each other. Too high:
	// PostgreSQL has no connection left for others, or uses more memory than its machine has.
	Budget int

	// PerDatabase is the number of connections to one database; 0 means Budget. Too low: a busy database waits beside idle room.
	// Too high: one slow database takes all connections.
	PerDatabase int

	// Wait is the longest wait for a connection; 0 means 2 s. Too low: sheds at every hiccup. Too high: callers give up first.
	Wait time.Duration

	// Queue is the number of requests that wait for a connection; 0 means 1000.
	Queue int

	// IdleTime is how long a connection that nobody uses stays open; 0 means 30 s. Too low: connections are made again and again.
	// Too high: PostgreSQL keeps processes for nobody.
	IdleTime time.Duration

	// ConnectTimeout is the longest time for making a connection; 0 means 5 s. A database URL may set a shorter one.
	ConnectTimeout time.Duration

	// Pooler is for databases behind a pooler that gives a connection to a client for one transaction only, such as pgbouncer's
	// mode "transaction". No statement is kept by name then, nothing relies on a session, and the session that a request finds, which
	// may be anybody's, is reset before it and behind it, which costs more. Set for what is no pooler, requests are slower; not set for a pooler, it is used so once it was noticed.
	Pooler bool

	// Statements is the number of statements that are kept prepared on one connection, where one counts for each role that it is
	// asked in; 0 means 100. Too low: statements are parsed
	// and planned again. Too high: each costs PostgreSQL memory, on each connection.
	Statements int

	// MaxMessage is the largest message, in bytes, that PostgreSQL may send; 0 means 16 MiB. A row is one message.
	MaxMessage int64

	// Logger gets connections that cannot be made, and those that are lost under a request, at a bounded rate; nil logs nothing.
	Logger *slog.Logger

	// NewID makes the id of such a record, which Unavailable has too; nil makes empty ones.
	NewID func() string

	// NewGate makes the gate that connections are admitted by; nil means gate.New.
	NewGate func(gate.Options) (*gate.Gate, error)
}

func (o *Options) setDefaults() {
	setDefault(&o.Budget, 20)
	setDefault(&o.PerDatabase, o.Budget)
	setDefault(&o.Wait, 2*time.Second)
	setDefault(&o.Queue, 1000)
	setDefault(&o.IdleTime, 30*time.Second)
	setDefault(&o.ConnectTimeout, 5*time.Second)
	setDefault(&o.Statements, 100)
	setDefault(&o.MaxMessage, 16<<20)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.NewID == nil {
		o.NewID = func() string { return "" }
	}
	if o.NewGate == nil {
		o.NewGate = gate.New
	}
}

func setDefault[T comparable](p *T, to T) {
	var zero T
	if *p == zero {
		*p = to
	}
}

func (o *Options) validate() error {
	switch {
	case o.Budget < 1:
		return errors.New("pgpool: Budget must be at least 1")
	case o.PerDatabase < 1 || o.PerDatabase > o.Budget:
		return errors.New("pgpool: PerDatabase must be between 1 and Budget")
	case o.Wait < 0 || o.Queue < 0 || o.IdleTime < 0 || o.ConnectTimeout < 0:
		return errors.New("pgpool: Wait, Queue, IdleTime and ConnectTimeout must not be negative")
	case o.Statements < 1:
		return errors.New("pgpool: Statements must be at least 1")
	case o.MaxMessage < minMessage || o.MaxMessage > maxMessage:
		return errors.New("pgpool: MaxMessage must be between 64 KiB and 1 GiB")
	}
	return nil
}

const (
	minMessage = 64 << 10 // also what is read without asking Request.Grow
	maxMessage = 1 << 30  // what PostgreSQL itself can send
)
