package sqlgen

import (
	"context"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/leveehq/levee/internal/graphql/catalog"
	"github.com/leveehq/levee/internal/graphql/document"
	"github.com/leveehq/levee/internal/graphql/schema"
)

// Engine serves one schema. It holds no goroutine and no connection, and is safe for concurrent use.
type Engine struct {
	schema *schema.Schema
	cat    *catalog.Catalog
	o      Options
	plans  *cache
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
	return &Engine{schema: s, cat: s.Catalog(), o: o, plans: newCache(o.PlanBytes)}
}

// Size is the memory of kept plans, in bytes.
func (e *Engine) Size() int64 { return int64(e.plans.size()) }

// Execute runs a request. It returns an error only where there is no GraphQL answer: what DB returned that was no
// *pgconn.PgError (a shed, a lost connection, a response too large), or the context's cause. After a change has been
// committed there is always an answer, in which such an error is a field's.
func (e *Engine) Execute(ctx context.Context, db DB, r Request) (*Response, error) {
	key := keyOf(r)
	if k := e.plans.get(key); k != nil {
		vars, errs := k.variables.Coerce(r.Variables)
		if errs != nil {
			return invalid(errs), nil
		}
		if p := e.plans.plan(k, e.shape(k.ids, k.variables, vars)); p != nil && p.allows(vars) {
			if p.mutation && r.ReadOnly {
				return invalid(readOnly), nil
			}
			return e.run(ctx, db, r.Grow, p, vars)
		}
	}
	p, vars, errs, err := e.compile(ctx, key, r)
	switch {
	case err != nil:
		return nil, err
	case errs != nil:
		return invalid(errs), nil
	}
	return e.run(ctx, db, r.Grow, p, vars)
}

// perTextByte is what a plan that refers to its document keeps of that, for each byte of the text.
const perTextByte = 100

var readOnly = []document.Error{{Message: "Mutations are not allowed here: this request may only read."}}

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
		return nil, nil, readOnly, nil
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
	if p.introspects() {
		p.own = len(r.Query) * perTextByte
	} else {
		e.plans.put(key, op.Variables, c.ids, e.shape(c.ids, op.Variables, vars), p)
	}
	return p, vars, nil, nil
}

// introspects tells of a plan that refers to its document, and so is not kept.
func (p *plan) introspects() bool {
	for i := range p.roots {
		if p.roots[i].intro != nil {
			return true
		}
	}
	return false
}

// shape tells apart the requests of a document that need different plans: by their variables, and by the types that the ids of
// its node fields are of.
func (e *Engine) shape(ids []source, v *document.Variables, vars map[string]any) string {
	shape := v.Shape(vars)
	if len(ids) == 0 {
		return shape
	}
	b := []byte(shape)
	for _, s := range ids {
		value, _ := s.get(vars)
		text, _ := value.(string)
		b = append(append(b, '|'), e.nodeType(text)...)
	}
	return string(b)
}

// nodeType is the type that an id is of; "" if it names nothing, whatever it says.
func (e *Engine) nodeType(id string) string {
	if id == queryID {
		return "Query"
	}
	name, _, ok := decodeID(id)
	if !ok {
		return ""
	}
	if _, known := e.schema.NodeType(name); !known {
		return ""
	}
	return name
}

// queryID is the id of Query, which is a node like others.
const queryID = "query"
