// Package sqlgen compiles operations to SQL and runs them: one statement per query operation, one transaction per mutation
// field.
//
// It refuses to hold a connection, to know tenants, roles or HTTP, and to build JSON in the database. A root field becomes
// one column of the statement's only row: an object is ROW(...), a list is an array for each column of its rows, all in
// PostgreSQL's binary format, which is length-prefixed, so nothing is escaped however deep it is nested, and Go writes the
// response from the bytes. Values, cursors, offsets that come in variables, and all but a few limits that do are parameters.
// If the statement fails, the root fields are run apart, so that one field's error leaves the others intact.
package sqlgen

import (
	"bytes"
	"context"
	"io"

	"github.com/leveehq/levee/internal/graphql/document"
)

// DB runs the statements of one transaction with the request's role and settings, in one round trip.
type DB interface {
	// DoAll runs statements in order, with parameters in text format and results in binary format. Errors of a statement are
	// *pgconn.PgError, and undo all of them. All others end the request, unless it has changed something, or may have: see ErrUnknown.
	DoAll(ctx context.Context, statements []Statement) error
}

// Options of an engine.
type Options struct {
	// Limits of documents.
	Limits document.Limits

	// PlanBytes bounds the memory of compiled plans kept; default 64 KiB. Too low and operations are compiled at every
	// request; higher is charged to the instance.
	PlanBytes int

	// Admit is called before a document is parsed and compiled, which takes memory in proportion to the limits, and release after
	// it. Nil admits all.
	Admit func(ctx context.Context) (release func(), err error)

	// Mark, a comment, goes before every statement, so that engines of one schema's different states never send the same text.
	// PostgreSQL does not plan a prepared statement anew when a composite type that it takes apart has changed: it fails until it
	// is prepared again.
	Mark string
}

// Request is a GraphQL request.
type Request struct {
	Query         string
	OperationName string
	Variables     map[string]any // decoded with json.Number
	ReadOnly      bool           // a mutation is refused

	// Grow, unless it is nil, is called when the answer takes so many bytes more than a small one does and than it was called
	// with before. Its error ends the request, and is what Execute returns.
	Grow func(bytes int64) error
}

// Response is what to answer. With Invalid the request was wrong (status 400) and nothing ran.
type Response struct {
	Invalid bool
	Data    JSON // nil: no data key (invalid) or null
	Errors  []Error

	// Stream, if there is one, writes the data instead of Data: with introspection in it, it grows with the schema. It is called
	// once, before the engine's schema is let go of.
	Stream func(w io.Writer) error

	room *room
}

// Release gives the memory of the response to others. Data and Stream are not to be used any more.
func (r *Response) Release() {
	if r != nil && r.room != nil {
		r.room.leave()
		r.room, r.Data, r.Stream = nil, nil, nil
	}
}

// JSON is one text, in pieces: the large ones are where they were made.
type JSON [][]byte

// Len is its length in bytes.
func (j JSON) Len() (n int) {
	for _, piece := range j {
		n += len(piece)
	}
	return n
}

// String is the text in one piece.
func (j JSON) String() string { return string(bytes.Join(j, nil)) }

// Error is an error of the response; Cause is what the database or an encoder said, for masking and the log.
type Error struct {
	document.Error
	Cause error
}
