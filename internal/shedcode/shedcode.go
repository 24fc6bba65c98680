// Package shedcode turns a shed into the answer that makes the client at hand behave best.
//
// It refuses to decide whether something is shed, and to log or count it. It knows one table, the one of the design:
//
//	class        gRPC                                   HTTP
//	BazelWrite   FAILED_PRECONDITION (configurable)     507 (configurable)
//	BazelRead    RESOURCE_EXHAUSTED                     503
//	BazelAC      RESOURCE_EXHAUSTED, but NOT_FOUND      503
//	             once the queue is full
//	Git          does not speak gRPC                    429; what can never fit: 413
//
// Two rules cut across it. A hint to come back (RetryInfo, Retry-After) goes only with a code that clients retry:
// RESOURCE_EXHAUSTED, 503 and 429. And what can never fit (too_large) gets no code that is retried: the same request
// would be turned away for ever.
package shedcode

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/leveehq/levee/gate"
)

// Class of work that was shed.
type Class int

const (
	BazelWrite Class = iota // Write, BatchUpdateBlobs, UpdateActionResult; HTTP PUT
	BazelRead               // ByteStream.Read, BatchReadBlobs, GetTree, FindMissingBlobs; HTTP GET, HEAD
	BazelAC                 // GetActionResult; HTTP GET, HEAD of an action result
	Git                     // all of Git's smart HTTP: stock git retries nothing, and 429 trips no outlier ejection as a 5xx does
)

// Reasoner is a shed that no gate decided, such as a write that the full disk turned away. The reason is one word of a
// closed set, so that it may label a metric; Error says the rest, with the remedy.
type Reasoner interface {
	error
	ShedReason() string
}

// Setting names what an operator changes to have a gate admit more, as it is written in the configuration. An empty
// name means that there is no such setting, and the text does not mention one.
type Setting struct {
	Limit string // raises what may be in use at once
	Queue string // raises how many may wait
	Wait  string // raises how long they may wait
}

// Codes is the table. Its zero value is the table of the design.
type Codes struct {
	// Write is the gRPC code of a shed write. The default, FAILED_PRECONDITION, makes Bazel warn once and go on without
	// the upload. RESOURCE_EXHAUSTED and UNAVAILABLE make it retry up to five times, which multiplies the load at the
	// worst moment; they are for clients that take a permanent code for a broken cache.
	Write codes.Code

	// HTTPPut is the status of a shed PUT. The default, 507, is final for Bazel; 500, 502, 503 and 504 are retried.
	HTTPPut int

	// Settings says, by gate name, which settings the text for people points to. A gate that is absent is named
	// without a remedy of its own.
	Settings map[string]Setting
}

// Validate returns an error that names the field that no shed can use.
func (c Codes) Validate() error {
	switch c.Write {
	case codes.OK, codes.FailedPrecondition, codes.ResourceExhausted, codes.Unavailable:
	default:
		return fmt.Errorf("a shed write cannot be answered with %v: use FAILED_PRECONDITION, RESOURCE_EXHAUSTED or UNAVAILABLE", c.Write)
	}
	if c.HTTPPut != 0 && (c.HTTPPut < 400 || c.HTTPPut > 599) {
		return fmt.Errorf("a shed PUT cannot be answered with HTTP status %d: use one from 400 to 599", c.HTTPPut)
	}
	return nil
}

// GRPC returns the error that ends the call: its status is the table's, and errors.As still finds the cause in it, so
// that the access log can say which gate it was. err is a *gate.Shed, a Reasoner, or any other error, whose text is then
// the reason.
func (c Codes) GRPC(class Class, err error) error {
	s := newShed(err)
	code := c.code(class, s.reason)
	st := status.New(code, c.text(s))
	if code == codes.ResourceExhausted {
		hint := &errdetails.RetryInfo{RetryDelay: durationpb.New(s.retryAfter())}
		if d, detailErr := st.WithDetails(hint); detailErr == nil {
			st = d // WithDetails fails only for OK, which code never returns
		}
	}
	return &statusError{st: st, cause: err}
}

// HTTP writes the answer as plain text and returns its status. It must be called before anything else was written.
func (c Codes) HTTP(w http.ResponseWriter, class Class, err error) int {
	s := newShed(err)
	code := c.httpStatus(class, s.reason)
	h := w.Header()
	if code == http.StatusServiceUnavailable || code == http.StatusTooManyRequests {
		// Rounded up: a delay of 1.2 s must not become an invitation to come back after one.
		secs := int64((s.retryAfter() + time.Second - 1) / time.Second)
		h.Set("Retry-After", strconv.FormatInt(secs, 10))
	}
	body := c.text(s) + "\n"
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(code)
	_, _ = w.Write([]byte(body)) // the status is out; a client that has gone does not need the text
	return code
}

// Text is what HTTP writes, for answers that have another place for it.
func (c Codes) Text(err error) string { return c.text(newShed(err)) }

func (c Codes) code(class Class, r gate.Reason) codes.Code {
	switch {
	case class == BazelWrite && c.Write != codes.OK:
		return c.Write
	case class == BazelWrite, r == gate.TooLarge:
		return codes.FailedPrecondition
	case class == BazelAC && (r == gate.QueueFull || r == gate.KeyQueueFull):
		return codes.NotFound
	}
	return codes.ResourceExhausted
}

func (c Codes) httpStatus(class Class, r gate.Reason) int {
	switch {
	case class == BazelWrite && c.HTTPPut != 0:
		return c.HTTPPut
	case class == Git && r == gate.TooLarge:
		return http.StatusRequestEntityTooLarge
	case class == Git:
		return http.StatusTooManyRequests
	case class == BazelWrite, r == gate.TooLarge:
		return http.StatusInsufficientStorage
	}
	return http.StatusServiceUnavailable
}

// shed is what the table and the text need of an error.
type shed struct {
	gate   *gate.Shed // nil if no gate decided
	reason gate.Reason
	text   string // of an error that is no *gate.Shed
}

func newShed(err error) shed {
	var g *gate.Shed
	if errors.As(err, &g) {
		return shed{gate: g, reason: g.Reason}
	}
	var r Reasoner
	if errors.As(err, &r) {
		return shed{reason: gate.Reason(r.ShedReason()), text: err.Error()}
	}
	if err == nil {
		return shed{text: "no reason was given"}
	}
	return shed{text: err.Error()}
}

// retryAfter spreads the hint over an interval at least as long as itself, and at least 4 s: clients that were turned
// away together must not come back together.
func (s shed) retryAfter() time.Duration {
	d := time.Second
	if s.gate != nil {
		d = max(d, s.gate.RetryAfter)
	}
	return d + rand.N(max(d, 4*time.Second))
}

func (c Codes) text(s shed) string {
	if s.gate == nil {
		return "shed: " + s.text
	}
	g := s.gate
	return fmt.Sprintf("shed by gate %s: %s (cost %d, %d of %d in use, %d waiting, waited %v)%s",
		g.Gate, g.Reason, g.Cost, g.InUse, g.Limit, g.Queued, g.Waited.Round(time.Millisecond), c.remedy(g))
}

// remedy is for the operator that a person with a failed build sends the text to.
func (c Codes) remedy(g *gate.Shed) string {
	set := c.Settings[g.Gate]
	raise := ""
	switch g.Reason {
	case gate.Pressure:
		return "; memory is short: raise memory_limit or offer less at once"
	case gate.Closed:
		return "; the server is stopping"
	case gate.QueueFull, gate.KeyQueueFull:
		raise = either(set.Queue, set.Limit)
	case gate.Timeout:
		raise = either(set.Limit, set.Wait)
	default:
		raise = either(set.Limit, "")
	}
	if raise == "" {
		return ""
	}
	return "; to admit more, raise " + raise
}

func either(a, b string) string {
	switch {
	case a == "":
		return b
	case b == "":
		return a
	}
	return a + " or " + b
}

// statusError is a gRPC status that remembers the shed it stands for.
type statusError struct {
	st    *status.Status
	cause error
}

func (e *statusError) Error() string              { return e.st.Message() }
func (e *statusError) GRPCStatus() *status.Status { return e.st }
func (e *statusError) Unwrap() error              { return e.cause }
