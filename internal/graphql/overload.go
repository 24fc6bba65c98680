package graphql

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/leveehq/levee/gate"
	"github.com/leveehq/levee/internal/graphql/auth"
	"github.com/leveehq/levee/internal/graphql/pgpool"
	"github.com/leveehq/levee/internal/graphql/sqlgen"
	"github.com/leveehq/levee/residency"
)

// The codes of requests that are turned away for now. They come with status 503 and Retry-After, whoever turns them away: the
// door, the builder, or a wait that was joined.
const (
	CodeOverloaded  = "SERVICE_OVERLOADED"   // no room: for the request, its connection, its answer, or its tenant's instance
	CodeBuild       = "BUILD_TIMEOUT"        // the instance is being built, and will be there when that ends
	CodeRotating    = "SERVICE_ROTATING"     // the former instance has not gone yet, or the server is shutting down
	CodeUnavailable = "DATABASE_UNAVAILABLE" // PostgreSQL cannot be reached
)

const statusClientClosed = 499 // what is logged when nobody is there to be answered

// fail answers an error, once, and returns what the log is to say.
func (c *call) fail(err error) error {
	var (
		p       *problem
		refused *auth.Refusal
		large   *pgpool.TooLarge
	)
	if code, after, ok := overload(err); ok {
		c.count.shed(code)
		c.w.Header().Set("Retry-After", strconv.Itoa(after))
		text := overloadText(code)
		if lost := (*pgpool.Unavailable)(nil); code == CodeUnavailable && errors.As(err, &lost) {
			text += inLog(lost.ID)
		}
		c.answerError(http.StatusServiceUnavailable, code, text)
		return err
	}
	switch {
	case errors.As(err, &p):
		c.answerError(p.status, p.code, p.message)
	case errors.As(err, &refused):
		c.refuse(refused)
	case errors.As(err, &large):
		c.answerError(http.StatusBadRequest, "RESPONSE_TOO_LARGE", fmt.Sprintf("The answer would be larger than %d bytes (graphql.max_response): ask for less at a time.", c.opt.MaxResponse))
	case c.r.Context().Err() != nil:
		c.code, c.outcome = statusClientClosed, "canceled"
	case isUnsafe(err):
		c.masked(http.StatusInternalServerError, "UNSAFE_LOGIN", err)
	default:
		c.masked(http.StatusInternalServerError, "INTERNAL_ERROR", err)
	}
	return err
}

// masked answers with an id; the log has the rest.
func (c *call) masked(status int, code string, err error) {
	id := newID()
	c.logger.Error("graphql request failed", "id", id, "tenant", c.name, "code", code, "error", err.Error())
	text := "The request cannot be served." + inLog(id)
	if c.opt.ShowErrors {
		text = err.Error()
	}
	c.answerError(status, code, text)
}

func (c *call) refuse(r *auth.Refusal) {
	switch r.Status {
	case http.StatusUnauthorized:
		c.w.Header().Set("WWW-Authenticate", "Bearer")
	case http.StatusServiceUnavailable:
		c.w.Header().Set("Retry-After", "5")
	}
	c.answerError(r.Status, r.Code, r.Message)
}

// overload tells whether a request was turned away for now, with which code, and after how many seconds to come back.
func overload(err error) (code string, after int, ok bool) {
	var (
		atGate  *gate.Shed
		atCache *residency.Shed
		lost    *pgpool.Unavailable
	)
	switch {
	case errors.As(err, &atGate):
		if atGate.Reason == gate.Closed {
			return CodeRotating, seconds(atGate.RetryAfter), true
		}
		return CodeOverloaded, seconds(atGate.RetryAfter), true
	case errors.As(err, &atCache):
		return codeOf(atCache.Reason), seconds(atCache.RetryAfter), true
	case errors.As(err, &lost):
		return CodeUnavailable, 1, true
	case errors.Is(err, sqlgen.ErrChanged):
		return CodeRotating, 1, true
	case errors.Is(err, context.DeadlineExceeded):
		return CodeOverloaded, 1, true
	}
	return "", 0, false
}

func codeOf(r residency.Reason) string {
	switch r {
	case residency.BuildTimeout:
		return CodeBuild
	case residency.Rotating, residency.Closed:
		return CodeRotating
	default:
		return CodeOverloaded
	}
}

func seconds(d time.Duration) int { return max(1, int((d+time.Second-1)/time.Second)) }

func overloadText(code string) string {
	switch code {
	case CodeBuild:
		return "The API of this tenant is being made ready. Try again in a moment."
	case CodeRotating:
		return "The API of this tenant is being replaced. Try again in a moment."
	case CodeUnavailable:
		return "The database cannot be reached. Try again in a moment."
	default:
		return "The server has no room for this request. Try again in a moment."
	}
}
