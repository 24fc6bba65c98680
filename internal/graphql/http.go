package graphql

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/leveehq/levee/gate"
	"github.com/leveehq/levee/internal/graphql/auth"
	"github.com/leveehq/levee/internal/graphql/sqlgen"
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
}

// bodyPatience is how long a client may take to send its request: it holds a permit.
const bodyPatience = 10 * time.Second

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
	if err := c.admit(c.gates.requests, 1); err != nil {
		return err
	}
	request, err := c.read()
	if err != nil {
		return err
	}
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

func (c *call) noTenant() error {
	return &problem{http.StatusNotFound, "TENANT_UNKNOWN", "No tenant is served at this address."}
}

// key is what fairness is between: tenants.
func (c *call) key() string { return c.name }

func (c *call) admit(g *gate.Gate, cost int64) error {
	p, err := g.Admit(c.r.Context(), c.key(), cost)
	if err != nil {
		return err
	}
	c.waited += p.Waited()
	c.permits = append(c.permits, p)
	return nil
}

// read takes in the body. What is longer than it may be is not read to its end.
func (c *call) read() (sqlgen.Request, error) {
	rc := http.NewResponseController(c.w)
	_ = rc.SetReadDeadline(c.start.Add(bodyPatience))
	_ = rc.SetWriteDeadline(time.Time{}) // some wait for a build; ours begins with the answer
	body, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, c.opt.MaxBody))
	_ = rc.SetReadDeadline(time.Time{})
	var large *http.MaxBytesError
	var slow net.Error
	switch {
	case errors.As(err, &large):
		return sqlgen.Request{}, &problem{http.StatusRequestEntityTooLarge, "REQUEST_TOO_LARGE", fmt.Sprintf("The request is longer than %d bytes (graphql.max_body).", c.opt.MaxBody)}
	case errors.As(err, &slow) && slow.Timeout():
		return sqlgen.Request{}, &problem{http.StatusRequestTimeout, "REQUEST_TIMEOUT", fmt.Sprintf("The request did not arrive within %v.", bodyPatience)}
	case err != nil:
		return sqlgen.Request{}, fmt.Errorf("reading the request: %w", context.Canceled)
	}
	return parseBody(c.r.Header.Get("Content-Type"), body)
}

func parseBody(contentType string, body []byte) (r sqlgen.Request, err error) {
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil && contentType != "" {
		media = contentType
	}
	switch media {
	case "application/graphql":
		r.Query = string(body)
		return r, nil
	case "application/json":
	default:
		return r, &problem{http.StatusUnsupportedMediaType, "MEDIA_TYPE", fmt.Sprintf("Media type '%s' is not allowed; send application/json", cut(media))}
	}
	bad := func(text string) error { return &problem{http.StatusBadRequest, "BAD_REQUEST", text} }
	var in struct {
		Query         *string         `json:"query"`
		OperationName *string         `json:"operationName"`
		Variables     json.RawMessage `json:"variables"`
	}
	if trimmed := bytes.TrimLeft(body, " \t\r\n"); len(trimmed) > 0 && trimmed[0] != '{' {
		return r, bad("Invalid body; expected object")
	}
	if err := json.Unmarshal(body, &in); err != nil {
		var kind *json.UnmarshalTypeError
		if errors.As(err, &kind) {
			return r, bad(kind.Field + " must be a string")
		}
		return r, bad("Parsing failed, please check that the data you're sending to the server is correct")
	}
	if in.Query == nil {
		return r, bad("query must be a string")
	}
	r.Query = *in.Query
	if in.OperationName != nil {
		r.OperationName = *in.OperationName
	}
	if len(in.Variables) == 0 || string(in.Variables) == "null" {
		return r, nil
	}
	d := json.NewDecoder(bytes.NewReader(in.Variables))
	d.UseNumber()
	if err := d.Decode(&r.Variables); err != nil {
		return r, bad("variables must be an object")
	}
	return r, nil
}

func cut(s string) string {
	if len(s) > 60 {
		return strings.ToValidUTF8(s[:60], "") + "…"
	}
	return s
}

func (c *call) execute(request sqlgen.Request) error {
	in, err := c.lease(c.r.Context(), c.tenant)
	if err != nil {
		return err
	}
	defer in.Release()
	c.lookAgain(in.Value(), c.opt.Watch)
	response, err := in.Value().engine.Execute(c.r.Context(), &transaction{c, in.Value()}, request)
	if err != nil {
		return err
	}
	return c.answer(response)
}
