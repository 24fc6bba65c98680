package graphql

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leveehq/levee/internal/accesslog"
	"github.com/leveehq/levee/internal/graphql/pgpool"
	"github.com/leveehq/levee/internal/graphql/sqlgen"
)

const (
	// answerPatience is how long a client may take to read its answer: it holds the answer's bytes.
	answerPatience = 60 * time.Second

	// pieceBytes are to be read within piecePatience each: who reads nothing is not waited for as long as who reads slowly.
	pieceBytes    = 64 << 10
	piecePatience = 10 * time.Second
)

const (
	typeGraphQL = "application/graphql-response+json"
	typeJSON    = "application/json"
)

// mediaType is what the client wants: the type of the GraphQL over HTTP specification, unless it names JSON alone. The status of
// an invalid request follows from it: who asks for plain JSON is an old client, which takes anything but 200 for a failure of the
// network.
func (c *call) mediaType() string {
	accept := c.r.Header.Get("Accept")
	if strings.Contains(accept, typeJSON) && !strings.Contains(accept, typeGraphQL) {
		return typeJSON
	}
	return typeGraphQL
}

// answer writes what the engine gave.
func (c *call) answer(r *sqlgen.Response) error {
	status := http.StatusOK
	if r.Invalid && c.mediaType() == typeGraphQL {
		status = http.StatusBadRequest
	}
	body := append(make([]byte, 0, 512*len(r.Errors)+32), '{')
	if len(r.Errors) > 0 {
		body = append(c.appendErrors(append(body, `"errors":`...), r.Errors), ',')
	}
	if r.Invalid {
		body[len(body)-1] = '}'
		c.outcome = "invalid"
		return c.write(status, body)
	}
	body = append(body, `"data":`...)
	if r.Stream != nil {
		c.outcome = "ok"
		return c.stream(body, r.Stream)
	}
	c.outcome = "ok"
	if len(r.Errors) > 0 {
		c.outcome = "field_errors"
	}
	if r.Data == nil {
		return c.write(status, append(body, "null}"...))
	}
	return c.write(status, body, append(r.Data, []byte{'}'})...)
}

// appendErrors writes the errors, those of the database masked.
func (c *call) appendErrors(b []byte, errs []sqlgen.Error) []byte {
	type location struct {
		Line   int `json:"line"`
		Column int `json:"column"`
	}
	type entry struct {
		Message    string         `json:"message"`
		Locations  []location     `json:"locations,omitempty"`
		Path       []any          `json:"path,omitempty"`
		Extensions map[string]any `json:"extensions,omitempty"`
	}
	out := make([]entry, len(errs))
	for i, e := range errs {
		out[i] = entry{Message: e.Message, Path: e.Path, Extensions: e.Extensions}
		for _, l := range e.Locations {
			out[i].Locations = append(out[i].Locations, location(l))
		}
		var db *pgconn.PgError
		var gone *pgpool.Unavailable
		switch {
		case errors.As(e.Cause, &db):
			out[i].Message, out[i].Extensions = c.databaseError(db)
		case errors.As(e.Cause, &gone):
			out[i].Message += inLog(gone.ID)
			out[i].Extensions["id"] = gone.ID
		case e.Cause != nil:
			id := newID()
			c.logger.Warn("graphql mutation ended early", "id", id, "tenant", c.name, "code", e.Extensions["code"], "error", e.Cause.Error())
			out[i].Message += inLog(id)
			out[i].Extensions["id"] = id
		}
	}
	text, err := json.Marshal(out)
	if err != nil { // a path or extension that is no JSON: ours to find
		c.logger.Error("graphql errors have no JSON", "error", err.Error())
		return append(b, `[{"message":"Something went wrong on the server."}]`...)
	}
	return append(b, text...)
}

// databaseError is what a client learns of an error of the database's: all of it in development; otherwise the text of those that
// the schema's authors raise themselves, and of all others that there was one, with an id that is in the log.
func (c *call) databaseError(e *pgconn.PgError) (string, map[string]any) {
	if c.opt.ShowErrors || slices.Contains(c.opt.PassErrors, e.Code) {
		ext := map[string]any{"code": e.Code}
		if e.Hint != "" {
			ext["hint"] = e.Hint
		}
		if e.Detail != "" && c.opt.ShowErrors {
			ext["detail"] = e.Detail
		}
		return e.Message, ext
	}
	id := newID()
	c.logger.Warn("graphql database error", "id", id, "tenant", c.name, "sqlstate", e.Code, "message", e.Message, "detail", e.Detail, "where", e.Where,
		"schema", e.SchemaName, "table", e.TableName, "constraint", e.ConstraintName)
	text, code := "An error occurred in the database.", "DATABASE_ERROR"
	if e.Code == sqlStateCanceled {
		text, code = fmt.Sprintf("The request took the database longer than %v.", c.opt.Timeout), "STATEMENT_TIMEOUT"
	}
	return text + " It is in the server's log as " + id + ".", map[string]any{"code": code, "id": id}
}

const sqlStateCanceled = "57014"

// answerError writes an answer that is one error, without data.
func (c *call) answerError(status int, code, message string) {
	body, _ := json.Marshal(map[string]any{"errors": []any{map[string]any{"message": message, "extensions": map[string]any{"code": code}}}})
	c.outcome = strings.ToLower(code)
	_ = c.write(status, body)
}

// stream sends an answer while it is made. An error after its beginning can only cut the connection.
func (c *call) stream(begin []byte, data func(io.Writer) error) error {
	c.header()
	c.code = http.StatusOK
	_ = http.NewResponseController(c.w).SetWriteDeadline(time.Now().Add(answerPatience))
	c.w.WriteHeader(c.code)
	w := &counted{c.w, &c.bytes}
	if _, err := w.Write(begin); err != nil {
		return err
	}
	if err := data(w); err != nil {
		panic(http.ErrAbortHandler)
	}
	_, err := w.Write([]byte{'}'})
	return err
}

type counted struct {
	io.Writer
	n *int64
}

func (w *counted) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	*w.n += int64(n)
	return n, err
}

func (c *call) header() {
	h := c.w.Header()
	h.Set("Content-Type", c.mediaType()+"; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
}

// write sends the whole answer. Its error is the client's leaving.
func (c *call) write(status int, begin []byte, rest ...[]byte) error {
	length := len(begin) + sqlgen.JSON(rest).Len()
	c.header()
	c.w.Header().Set("Content-Length", strconv.Itoa(length))
	c.code, c.bytes = status, int64(length)
	end := time.Now().Add(answerPatience)
	if length <= pieceBytes {
		_ = http.NewResponseController(c.w).SetWriteDeadline(end)
		end = time.Time{}
	}
	c.w.WriteHeader(status)
	if length <= wholeAnswer {
		return c.writeWhole(begin, rest)
	}
	err := c.send(begin, end)
	for i := 0; i < len(rest) && err == nil; i++ {
		err = c.send(rest[i], end)
	}
	return err
}

// wholeAnswer is the length up to which an answer is put together before it is written. In parts, one that is larger than the writer's
// buffer ends with a packet of its last two bytes.
const wholeAnswer = 16 << 10

var wholes = sync.Pool{New: func() any { return new([]byte) }}

func (c *call) writeWhole(begin []byte, rest [][]byte) error {
	whole := wholes.Get().(*[]byte)
	defer wholes.Put(whole)
	*whole = append((*whole)[:0], begin...)
	for _, part := range rest {
		*whole = append(*whole, part...)
	}
	_, err := c.w.Write(*whole)
	return err
}

// send writes b in pieces, each with its own deadline and none beyond end; the zero end is a deadline that is set already.
func (c *call) send(b []byte, end time.Time) error {
	if end.IsZero() {
		_, err := c.w.Write(b)
		return err
	}
	rc := http.NewResponseController(c.w)
	for piece := range slices.Chunk(b, pieceBytes) {
		at := time.Now().Add(piecePatience)
		if at.After(end) {
			at = end
		}
		_ = rc.SetWriteDeadline(at)
		if _, err := c.w.Write(piece); err != nil {
			return err
		}
	}
	return nil
}

func (c *call) record(err error) {
	c.count.answered(c.name, c.outcome, c.code, time.Since(c.start))
	if c.log == nil {
		return
	}
	c.log.Call(c.r.Context(), accesslog.Record{
		Proto: "graphql", Method: c.r.Method, Code: strconv.Itoa(c.code), Key: c.who.Key, Instance: c.name, Bytes: c.bytes,
		Took: time.Since(c.start), Waited: c.waited, Err: err, Outcome: c.outcome, Agent: c.r.UserAgent(),
	})
}

func inLog(id string) string { return " The reason is in the server's log as " + id + "." }

func newID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

func stack() string {
	const most = 4 << 10
	s := debug.Stack()
	return string(s[:min(len(s), most)])
}
