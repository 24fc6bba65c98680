package pgpool

import "time"

// Setting is a run-time parameter of PostgreSQL, such as role or jwt.claims.sub.
type Setting struct{ Name, Value string }

// Request is what one caller wants done: one transaction, sent whole, in one round trip.
type Request struct {
	// Settings hold for this transaction only. They are set before anything else, by one statement; if that fails, no statement
	// of the request runs. Without a setting "role" the request runs as whom a session of this login begins
	// as: the role that logged in, unless ALTER ROLE … SET role says otherwise.
	Settings []Setting

	// Statements run in order, in one transaction: the first that fails undoes those before it, and those after it do not run.
	Statements []Statement

	// Timeout bounds each statement, in PostgreSQL; it is rounded up to 1 ms, for 0 would mean that there is no bound. 0 here does.
	Timeout time.Duration

	// Idempotent says that the statements may run twice. If the connection is lost before the first row was handed out, they do.
	Idempotent bool

	// ReadOnly says that the statements change nothing, and has PostgreSQL see to it: what writes fails (SQLSTATE 25006). All
	// effects on the session are undone, which is cheaper than to reset it. Behind a pooler, and with settings that are of the
	// transaction itself (transaction_…), the request runs as any other.
	ReadOnly bool

	// Grow, unless it is nil, is called with the size that PostgreSQL declares for a message above 64 KiB, before it is read, so
	// that the caller can charge it. Its error ends the request as one of Each does.
	Grow func(n int64) error
}

// Statement is one SQL statement.
type Statement struct {
	SQL    string
	Params [][]byte // as text; nil is NULL

	// TextResults asks for values as text; otherwise they come in PostgreSQL's binary format.
	TextResults bool

	// Unnamed keeps the statement from being kept prepared: for what is not asked again soon.
	Unnamed bool

	// Each gets each row; a nil value is NULL. The row is valid during the call only. An error ends the request and is what Do
	// returns; as everything was sent before the first row came, it does not undo what the statements did. Nil skips the rows.
	Each func(values [][]byte) error
}
