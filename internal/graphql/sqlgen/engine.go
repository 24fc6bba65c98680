package sqlgen

import (
	"context"
	"crypto/sha256"
	"sync"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/leveehq/levee/internal/graphql/catalog"
	"github.com/leveehq/levee/internal/graphql/document"
	"github.com/leveehq/levee/internal/graphql/schema"
)

// Engine serves one schema. It holds no goroutine and no connection.
type Engine struct {
	schema *schema.Schema
	cat    *catalog.Catalog
	o      Options

	plans struct {
		sync.Mutex
		by    map[planKey]*document_
		bytes int
		tick  uint64
	}
}

type planKey [sha256.Size]byte

// document_ is what is kept of an operation: its variables, and a plan for each of their shapes.
type document_ struct {
	variables *document.Variables
	ids       []source // of node fields
	counts    []source // first and last of lists
	plans     map[string]*plan
	bytes     int
	used      uint64
}

const (
	defaultPlanBytes = 64 << 10
	defaultPage      = 1000
)

// New makes an engine.
func New(s *schema.Schema, o Options) *Engine {
	if o.PlanBytes == 0 {
		o.PlanBytes = defaultPlanBytes
	}
	e := &Engine{schema: s, cat: s.Catalog(), o: o}
	e.plans.by = map[planKey]*document_{}
	return e
}

// Execute runs a request. It returns an error only where there is no GraphQL answer: what DB returned that was no
// *pgconn.PgError (a shed, a lost connection, a response too large), or the context's cause.
func (e *Engine) Execute(ctx context.Context, db DB, r Request) (*Response, error) {
	key := keyOf(r)
	if doc := e.kept(key); doc != nil {
		vars, errs := doc.variables.Coerce(r.Variables)
		if errs != nil {
			return invalid(errs), nil
		}
		if p := e.planOf(doc, doc.shape(vars)); p != nil {
			return e.run(ctx, db, p, vars)
		}
	}
	p, vars, errs, err := e.compile(ctx, key, r)
	switch {
	case err != nil:
		return nil, err
	case errs != nil:
		return invalid(errs), nil
	}
	return e.run(ctx, db, p, vars)
}

func keyOf(r Request) planKey {
	h := sha256.New()
	h.Write([]byte(r.Query))
	h.Write([]byte{0})
	h.Write([]byte(r.OperationName))
	var k planKey
	h.Sum(k[:0])
	return k
}

func invalid(errs []document.Error) *Response {
	out := &Response{Invalid: true}
	for _, err := range errs {
		out.Errors = append(out.Errors, Error{Error: err})
	}
	return out
}

// compile parses, checks and compiles, and keeps the plan if there is room for it.
func (e *Engine) compile(ctx context.Context, key planKey, r Request) (*plan, map[string]any, []document.Error, error) {
	if e.o.Admit != nil {
		release, err := e.o.Admit(ctx)
		if err != nil {
			return nil, nil, nil, err
		}
		defer release()
	}
	op, errs := document.Parse(e.schema, r.Query, r.OperationName, e.o.Limits)
	if errs != nil {
		return nil, nil, errs, nil
	}
	if r.ReadOnly && op.Definition.Operation == ast.Mutation {
		return nil, nil, []document.Error{{Message: "Mutations are not allowed here."}}, nil
	}
	vars, errs := op.Variables.Coerce(r.Variables)
	if errs == nil {
		errs = op.Check(vars)
	}
	if errs != nil {
		return nil, nil, errs, nil
	}
	page := e.o.Limits.Page
	if page == 0 {
		page = defaultPage
	}
	c := &compiler{schema: e.schema, cat: e.cat, op: op, vars: vars, page: page}
	p := c.compile()
	e.keep(key, op.Variables, p, c, vars)
	return p, vars, nil, nil
}

func (d *document_) shape(vars map[string]any) string {
	return d.variables.Shape(vars) + "|" + nodeTypes(d.ids, vars) + "|" + counts(d.counts, vars)
}

func (e *Engine) kept(key planKey) *document_ {
	e.plans.Lock()
	defer e.plans.Unlock()
	d := e.plans.by[key]
	if d != nil {
		e.plans.tick++
		d.used = e.plans.tick
	}
	return d
}

func (e *Engine) planOf(d *document_, shape string) *plan {
	e.plans.Lock()
	defer e.plans.Unlock()
	return d.plans[shape]
}

// keep adds a plan, and drops the documents that were not used for longest until all fit. What is larger than the whole room is not
// kept, and neither is what refers to its document.
func (e *Engine) keep(key planKey, v *document.Variables, p *plan, c *compiler, vars map[string]any) {
	for i := range p.roots {
		if p.roots[i].intro != nil {
			return
		}
	}
	e.plans.Lock()
	defer e.plans.Unlock()
	d := e.plans.by[key]
	if d == nil {
		d = &document_{variables: v, ids: c.ids, counts: p.counts(), plans: map[string]*plan{}, bytes: v.Size() + 512}
	}
	shape := d.shape(vars)
	if d.plans[shape] != nil {
		return
	}
	size := p.size() + len(shape) + 128
	if d.bytes+size > e.o.PlanBytes {
		return
	}
	if e.plans.by[key] == nil {
		e.plans.by[key] = d
		e.plans.bytes += d.bytes
	}
	d.plans[shape] = p
	d.bytes += size
	e.plans.bytes += size
	e.plans.tick++
	d.used = e.plans.tick
	for e.plans.bytes > e.o.PlanBytes {
		e.dropOldestLocked()
	}
}

func (e *Engine) dropOldestLocked() {
	var oldest planKey
	least := ^uint64(0)
	for k, d := range e.plans.by {
		if d.used < least {
			oldest, least = k, d.used
		}
	}
	e.plans.bytes -= e.plans.by[oldest].bytes
	delete(e.plans.by, oldest)
}

// Size is the memory of kept plans, in bytes.
func (e *Engine) Size() int64 {
	e.plans.Lock()
	defer e.plans.Unlock()
	return int64(e.plans.bytes)
}
