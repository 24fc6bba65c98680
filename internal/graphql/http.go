package graphql

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/leveehq/levee/gate"
	"github.com/leveehq/levee/internal/graphql/auth"
	"github.com/leveehq/levee/internal/graphql/pgpool"
	"github.com/leveehq/levee/internal/graphql/sqlgen"
	"github.com/leveehq/levee/internal/listen"
)

// Prefix of the paths that are GraphQL's: it, and all below it.
const Prefix = "/graphql"

// call is one request on its way through.
type call struct {
	*Service
	w     http.ResponseWriter
	r     *http.Request
	start time.Time

	name    string // of the tenant, as asked for
	tenant  *resolved
	who     auth.Identity
	permits []*gate.Permit
	code    int
	outcome string
	bytes   int64
	waited  time.Duration

	// What its answer is charged with, and the part of that which JSON has not used.
	charged, prepaid int64
	changes          bool // the statement that runs is a mutation's
}

// ServeHTTP answers one request and accounts for it.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{Service: s, w: w, r: r, start: time.Now()}
	defer c.release()
	defer c.recover()
	err := c.serve()
	if err != nil {
		err = c.fail(err)
	}
	c.record(err)
}

func (c *call) release() {
	for _, p := range c.permits {
		p.Release()
	}
}

// recover answers for a fault of ours: nothing was written yet, since answers are written whole.
func (c *call) recover() {
	if v := recover(); v != nil {
		if v == http.ErrAbortHandler {
			panic(v)
		}
		id := newID()
		c.logger.Error("graphql request panicked", "id", id, "tenant", c.name, "panic", fmt.Sprint(v), "stack", stack())
		c.answerError(http.StatusInternalServerError, "INTERNAL_ERROR", "Something went wrong on the server. It is in the log as "+id+".")
		c.record(fmt.Errorf("panic: %v", v))
	}
}

// problem is a request that cannot be served as it is.
type problem struct {
	status  int
	code    string
	message string
}

func (p *problem) Error() string { return p.message }

func (c *call) serve() error {
	if cut := listen.CutOf(c.r.Context()); cut != nil {
		return cutError(cut)
	}
	if c.r.Method != http.MethodPost {
		c.w.Header().Set("Allow", http.MethodPost)
		return &problem{http.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED", "Method not supported, please use POST"}
	}
	at, err := c.addressOf(c.r)
	if err != nil {
		return err
	}
	c.name = at.name
	if at.by != byHost && !validTenant(at.name) {
		return c.noTenant()
	}
	body, taken, err := c.receive()
	if err != nil {
		return err
	}
	defer taken()
	if err := c.admit(c.gates.requests, 1); err != nil {
		return err
	}
	request, err := c.parse(body)
	if err != nil {
		return err
	}
	taken()
	if c.tenant, err = c.Service.tenant(c.r.Context(), at); err != nil {
		return err
	}
	if c.tenant == nil {
		return c.noTenant()
	}
	c.name = c.tenant.name
	if c.who, err = c.tenant.verifier.Identify(c.r.Context(), c.r.Header); err != nil {
		return err
	}
	return c.execute(request)
}

// cutError refuses a request whose header has no end: what is cut may be its token.
func cutError(cut *listen.Cut) error {
	if cut.Field == "Authorization" {
		return &auth.Refusal{Status: http.StatusUnauthorized, Code: auth.CodeTooLarge, Message: "the token is too long: " + cut.Err.Error()}
	}
	return &problem{http.StatusRequestHeaderFieldsTooLarge, "HEADER_TOO_LARGE", cut.Err.Error()}
}

func (c *call) noTenant() error {
	return &problem{http.StatusNotFound, "TENANT_UNKNOWN", "No tenant is served at this address."}
}

// key is what fairness is between: tenants.
func (c *call) key() string { return c.name }

func (c *call) admit(g *gate.Gate, cost int64) error { return c.admitWith(g, cost, gate.Waiting{}) }

func (c *call) admitWith(g *gate.Gate, cost int64, how gate.Waiting) error {
	p, err := g.AdmitWith(c.r.Context(), c.key(), cost, how)
	if err != nil {
		return err
	}
	c.waited += p.Waited()
	c.permits = append(c.permits, p)
	return nil
}

func cut(s string) string {
	if len(s) > 60 {
		return strings.ToValidUTF8(s[:60], "") + "…"
	}
	return s
}

func (c *call) execute(request sqlgen.Request) error {
	request.Grow = c.growJSON
	in, err := c.lease(c.r.Context(), c.tenant)
	if err != nil {
		return err
	}
	defer func() { in.Release() }()
	response, err := c.ask(in.Value(), request)
	if undone(response, err) && c.renewNow(c.r.Context(), in.Value()) {
		response.Release()
		in.Release()
		if in, err = c.lease(c.r.Context(), c.tenant); err != nil {
			return err
		}
		response, err = c.ask(in.Value(), request)
	}
	if err != nil {
		return err
	}
	defer response.Release()
	if n := int64(response.Data.Len()); n > c.opt.MaxResponse && !c.changes {
		return &pgpool.TooLarge{Declared: n, Limit: c.opt.MaxResponse}
	}
	if response.Stream == nil { // a client that reads slowly keeps neither the instance nor a place at the door
		in.Release()
		c.leaveDoor(int64(response.Data.Len()))
	}
	return c.answer(response)
}

// ask runs the request on an instance, and has its schema looked at soon if what PostgreSQL says would be explained by a change of it.
func (c *call) ask(in *instance, request sqlgen.Request) (*sqlgen.Response, error) {
	c.lookAgain(in, c.opt.Watch)
	response, err := in.engine.Execute(c.r.Context(), &transaction{c, in}, request)
	if err == nil && slices.ContainsFunc(response.Errors, func(e sqlgen.Error) bool { return outdated(e.Cause) }) {
		c.lookAgain(in, lookSoon)
	}
	return response, err
}

// smallAnswer is what the kernel takes at once, however slowly the client reads.
const smallAnswer = 16 * kib

// leaveDoor makes place for the next request, if the answer is charged for otherwise or small.
func (c *call) leaveDoor(n int64) {
	if missing := n - c.charged; n > smallAnswer && missing > 0 {
		if err := c.admitWith(c.gates.answers, missing, gate.Waiting{Wait: time.Millisecond}); err != nil {
			return
		}
	}
	c.permits[0].Release()
}
