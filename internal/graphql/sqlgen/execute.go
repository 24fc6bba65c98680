package sqlgen

import (
	"bufio"
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/leveehq/levee/internal/graphql/document"
	"github.com/leveehq/levee/internal/graphql/pgvalue"
)

// introspection is a root field __schema or __type. It refers to the document, so its plan is not kept.
type introspection struct {
	field *ast.Field
	vars  map[string]any
}

// run is one request being answered.
type run struct {
	*Engine
	ctx     context.Context
	db      DB
	plan    *plan
	vars    map[string]any
	values  [][]byte // JSON of each root field; nil: null
	bound   []binding
	errs    []Error
	pending []int // roots that have a place in the statement
	room    *room // values are in it
	meter   meter
	limits  bool // limits are parts of the statement
}

func (e *Engine) run(ctx context.Context, db DB, grow func(int64) error, p *plan, vars map[string]any) (*Response, error) {
	r := &run{Engine: e, ctx: ctx, db: db, meter: meter{grow: grow}, plan: p, vars: vars, values: make([][]byte, len(p.roots)), bound: make([]binding, len(p.roots)), room: rooms.Get().(*room)}
	r.meter.settled = int64(p.own)
	if !r.meter.hold(0) {
		return nil, r.meter.err
	}
	var err error
	if p.mutation {
		err = r.mutations()
	} else {
		err = r.queries()
	}
	if err != nil {
		return nil, err // the room is left to the collector: nobody can tell who still writes in it
	}
	response := r.response()
	response.room = r.room
	return response, nil
}

// response puts the fields together. A null where none may be makes all data null. Introspection grows with the schema: it is
// written to the client as it is made.
func (r *run) response() *Response {
	for i := range r.plan.roots {
		root := &r.plan.roots[i]
		if r.values[i] == nil && root.nonNull && root.intro == nil {
			return &Response{Errors: r.errs}
		}
	}
	if r.plan.introspects() {
		return &Response{Errors: r.errs, Stream: r.stream}
	}
	data := make(JSON, 0, 2*len(r.plan.roots)+1)
	begin := []byte{'{'}
	for i := range r.plan.roots {
		data = append(data, r.appendKey(begin, i), r.value(i))
		begin = nil
	}
	return &Response{Data: append(data, closing), Errors: r.errs}
}

var closing = []byte{'}'}

func (r *run) appendKey(dst []byte, i int) []byte {
	if i > 0 {
		dst = append(dst, ',')
	}
	return append(pgvalue.AppendString(dst, []byte(r.plan.roots[i].key)), ':')
}

func (r *run) value(i int) []byte {
	if r.values[i] == nil {
		return []byte("null")
	}
	return r.values[i]
}

// stream writes the data of a plan with introspection in it.
func (r *run) stream(w io.Writer) error {
	out := bufio.NewWriterSize(&ending{r.ctx, w}, 16<<10)
	out.WriteByte('{') // the writer keeps its errors until it is flushed
	for i := range r.plan.roots {
		out.Write(r.appendKey(nil, i))
		root := &r.plan.roots[i]
		if root.intro == nil {
			out.Write(r.value(i))
		} else if err := document.WriteIntrospection(out, r.schema, root.intro.field, root.intro.vars); err != nil {
			return err
		}
	}
	out.WriteByte('}')
	return out.Flush()
}

// ending is a writer that ends with a context.
type ending struct {
	ctx context.Context
	w   io.Writer
}

func (e *ending) Write(p []byte) (int, error) {
	if e.ctx.Err() != nil {
		return 0, context.Cause(e.ctx)
	}
	return e.w.Write(p)
}

// fail makes a root null, even if it was rendered: a transaction may fail at its end.
func (r *run) fail(i int, err error) {
	root := &r.plan.roots[i]
	r.values[i] = nil
	e := Error{Error: document.Error{Message: err.Error(), Locations: root.at, Path: []any{root.key}}}
	if db := statementError(err); db != nil {
		e.Message, e.Cause = db.Message, db
	}
	r.errs = append(r.errs, e)
}

// queries binds all root fields, and runs those that need the database as one statement. If that fails in the database, they are run
// apart, so that one field's error leaves the others as they are.
func (r *run) queries() error {
	for i := range r.plan.roots {
		if err := r.begin(i); err != nil {
			return err
		}
	}
	if len(r.pending) == 0 {
		return nil
	}
	r.limits = r.plan.sizes.admit(r.bound)
	err := r.statement(r.pending)
	db := statementError(err)
	if db == nil {
		return err
	}
	if len(r.pending) == 1 {
		r.fail(r.pending[0], db)
		return nil
	}
	for _, i := range r.pending {
		if r.failed(i) {
			continue // its arguments did not fit: it was not in the statement
		}
		err := r.statement([]int{i})
		if db := statementError(err); db != nil {
			r.fail(i, db)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// begin binds a root, or answers it if it needs no database.
func (r *run) begin(i int) (err error) {
	root := &r.plan.roots[i]
	if root.intro != nil {
		return nil // see stream
	}
	if r.bound[i], err = root.bind(r.vars); err != nil {
		r.fail(i, err)
		return nil
	}
	if len(root.sql.params) == 0 && len(root.sql.parts) > 0 && root.sql.parts[0] == "" || len(root.sql.parts) == 0 {
		return r.render(i, nil)
	}
	r.pending = append(r.pending, i)
	return nil
}

// render makes the JSON of a root from its column. Its error is that there is no room for it.
func (r *run) render(i int, column []byte) error {
	root := &r.plan.roots[i]
	w := renderer{room: r.room, meter: &r.meter, at: root.at, conns: r.bound[i].conns}
	if len(w.dst) > mostRoom { // so that what holds the value before it is not what grows with this one
		r.meter.settled += int64(cap(w.dst))
		w.dst = nil
	}
	start := len(w.dst)
	w.path = append(w.path[:0], step{name: root.key})
	null := w.value(root.out, column, nil)
	if null && root.nonNull && len(w.errs) == 0 {
		w.fail(errors.New("Cannot return null for a non-nullable field."))
	}
	if !w.fits(0, 0) {
		return r.meter.err
	}
	r.errs = append(r.errs, w.errs...)
	r.meter.settled += errorBytes * int64(len(w.errs))
	r.values[i] = w.dst[start:len(w.dst):len(w.dst)]
	if null {
		r.values[i] = nil
	}
	return nil
}

// statement runs some of the roots as one.
func (r *run) statement(roots []int) error {
	var sql strings.Builder
	var params [][]byte
	var ran []int
	for _, i := range roots {
		values, err := r.encode(i, r.plan.roots[i].sql)
		if err != nil {
			r.fail(i, err)
			continue
		}
		if len(ran) == 0 {
			sql.WriteString(r.o.Mark)
			sql.WriteString("select ")
		} else {
			sql.WriteString(", ")
		}
		params = r.plan.roots[i].sql.appendTo(&sql, params, values, r.limits)
		ran = append(ran, i)
	}
	if len(ran) == 0 {
		return nil
	}
	errs := len(r.errs)
	return r.db.DoAll(r.ctx, []Statement{{SQL: sql.String(), Params: params, Reads: true, Each: func(row [][]byte) error {
		if len(row) != len(ran) {
			return errWire
		}
		r.errs = r.errs[:errs] // it may be run again
		for n, i := range ran {
			if err := r.render(i, row[n]); err != nil {
				return err
			}
		}
		return nil
	}}})
}

func (r *run) failed(i int) bool {
	return slices.ContainsFunc(r.errs, func(e Error) bool { return e.Path[0] == r.plan.roots[i].key })
}

func (r *run) encode(i int, t text) ([][]byte, error) {
	values := make([][]byte, len(t.params))
	for n, p := range t.params {
		v, err := r.bound[i].encode(r.schema, p, r.vars)
		if err != nil {
			return nil, err
		}
		values[n] = v
	}
	return values, nil
}

// mutations runs the fields in order, each in a transaction of its own.
func (r *run) mutations() error {
	changed := false
	for i := range r.plan.roots {
		root := &r.plan.roots[i]
		var err error
		errs := len(r.errs)
		if root.change == nil {
			err = r.begin(i)
		} else {
			err = r.change(i, root.change)
		}
		if err != nil {
			r.errs = r.errs[:errs] // those inside of what is not there after all
		}
		db := statementError(err)
		switch {
		case db != nil:
			r.fail(i, db)
		case err != nil && r.ctx.Err() != nil: // nobody is there to hear of it
			return err
		case errors.Is(err, ErrUnknown): // a client that only heard that there is no database would ask again
			r.tell(i, errUnfinished, CodeUnknown, err)
			changed = true
		case err != nil && changed: // what was done is done, and the client must hear of it
			r.tell(i, errUntouched, CodeNotDone, err)
		case err != nil:
			return err
		default:
			changed = changed || root.change != nil && !r.failed(i)
		}
	}
	return nil
}

// tell fails a root in words that say what was done.
func (r *run) tell(i int, text error, code string, cause error) {
	r.fail(i, text)
	e := &r.errs[len(r.errs)-1]
	e.Cause, e.Extensions = cause, map[string]any{"code": code}
}

// The codes of fields of mutations of which it is not the database that says how they ended.
const (
	CodeUnknown = "OUTCOME_UNKNOWN"     // it may have been done
	CodeNotDone = "NOT_DONE"            // it was not, but fields before it were, or may have been
	CodeDone    = "DONE_WITHOUT_ANSWER" // it was
)

// ErrUnknown is in what a DB returns if a statement that writes may have taken effect. All other errors say that none has.
var ErrUnknown = errors.New("it is not known whether anything was changed")

// statementError is what the database said of a statement, or nil. An error that ends the session is not of the statement: a server
// that shuts down, a database that cannot be connected to.
func statementError(err error) *pgconn.PgError {
	var db *pgconn.PgError
	if !errors.As(err, &db) || db.Severity == "FATAL" || db.Severity == "PANIC" {
		return nil
	}
	return db
}

var (
	errUnfinished = errors.New("The server could not finish this field, and does not know whether it changed anything: look before asking again.")
	errUntouched  = errors.New("The server could not begin with this field, which has changed nothing.")
	errUnanswered = errors.New("What this field asked for is done, but there is no room for its answer.")
	errUnread     = errors.New("What this field asked for is done, but its answer cannot be read: the schema has changed.")
	errEmptyPatch = errors.New("Attempted to update a record, but no new values were specified.")
	errNoDelete   = errors.New("No values were deleted because no values you can delete were found matching these criteria.")
)

func (r *run) change(i int, c *change) error {
	root := &r.plan.roots[i]
	var err error
	if r.bound[i], err = root.bind(r.vars); err != nil {
		r.fail(i, err)
		return nil
	}
	if c.node >= 0 && r.bound[i].nodes[c.node] == nil {
		return nil // an id that names nothing: null, without an error
	}
	if c.empty {
		r.fail(i, errEmptyPatch)
		return nil
	}
	first, err := r.encode(i, c.first)
	var second [][]byte
	if err == nil {
		second, err = r.encode(i, root.sql)
	}
	if err != nil {
		r.fail(i, err)
		return nil
	}
	var a, b strings.Builder
	a.WriteString(r.o.Mark)
	b.WriteString(r.o.Mark)
	first = c.first.appendTo(&a, nil, first, false)
	second = root.sql.appendTo(&b, nil, second, false)
	rows := 0
	return r.db.DoAll(r.ctx, []Statement{
		{SQL: a.String(), Params: first, Each: func([][]byte) error {
			rows++
			return nil
		}},
		{SQL: b.String(), Params: second, Each: func(row [][]byte) error {
			if rows == 0 && c.deletes {
				r.fail(i, errNoDelete)
				return nil
			}
			if err := r.render(i, row[0]); err != nil { // it is done all the same
				told := errUnanswered
				if errors.Is(err, ErrChanged) {
					told = errUnread
				}
				r.tell(i, told, CodeDone, err)
			}
			return nil
		}},
	})
}
