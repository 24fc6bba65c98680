package git

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/leveehq/levee/internal/git/child"
	"github.com/leveehq/levee/internal/git/pkt"
	"github.com/leveehq/levee/internal/git/upstream"
)

// forwardedAs is the outcome of a request that went upstream.
const forwardedAs = "forwarded"

// orForward forwards a request to an upstream of which no mirror can be made; any other error stays one.
func (c *call) orForward(err error) error {
	if isUnsupported(err) {
		return c.forward()
	}
	return err
}

// orForwardBody forwards a fetch, whose body was read, to an upstream of which no mirror can be made, or for whose pack or
// mirror there is no room here, if that is wanted.
func (c *call) orForwardBody(q *pkt.Request, err error) error {
	if isUnsupported(err) {
		c.known.forget(c.repo) // from now on upstream advertises for itself
	}
	if isUnsupported(err) || (isTooLarge(err) || isDiskFull(err)) && c.opt.TooLarge == ForwardTooLarge {
		return c.forwardBody(q)
	}
	return err
}

// forwardWhatFailed forwards what git gave up on, too. Be it for the request (a filter that is none) or for a damaged mirror:
// upstream's is the right answer, and a 5xx of ours is not.
func (c *call) forwardWhatFailed(q *pkt.Request, err error) error {
	if errors.As(err, new(*child.ExitError)) && !isTooLarge(err) {
		c.gaveUp = err
		return c.forwardBody(q)
	}
	return c.orForwardBody(q, err)
}

func isUnsupported(err error) bool {
	var f *upstream.Failure
	return errors.As(err, &f) && f.Kind == upstream.Unsupported
}

// forward passes the request on, and the answer back.
func (c *call) forward() error {
	c.bodyBegun = true // upstream's client watches its progress
	return c.forwardRequest(c.r)
}

// forwardBody passes on a request whose body was read and is whole.
func (c *call) forwardBody(q *pkt.Request) error {
	r := c.r.Clone(c.r.Context())
	r.Header.Del("Content-Encoding")
	r.Header.Del("Transfer-Encoding")
	r.TransferEncoding = nil
	r.ContentLength = int64(len(q.Body))
	r.Body = io.NopCloser(bytes.NewReader(q.Body))
	if c.prologue {
		return c.forwardRest(r)
	}
	return c.forwardRequest(r)
}

// forwardRest forwards a request whose answer has begun: of upstream's, what is behind the same beginning follows.
func (c *call) forwardRest(r *http.Request) error {
	c.outcome = forwardedAs
	r.Header.Del("Accept-Encoding") // what is compressed has another beginning
	w := &rest{out: out{call: c, skip: packfileHeader}, header: http.Header{}}
	if err := c.upstream.Forward(w, r, c.repo, c.rest); err != nil {
		return err
	}
	if w.failed != 0 {
		return &httpError{http.StatusBadGateway, fmt.Sprintf("upstream: %s answers %d %s", c.repo.Host, w.failed, http.StatusText(w.failed))}
	}
	c.prologue, c.origin = false, theirs
	return nil
}

// rest is the client as upstream's answer sees it when its beginning is out. The body of an answer that is a failure is
// dropped: it is no pack.
type rest struct {
	out
	header http.Header
	failed int
}

func (w *rest) Header() http.Header { return w.header }

func (w *rest) WriteHeader(code int) {
	if code >= 300 {
		w.failed = code
	}
}

func (w *rest) Write(p []byte) (int, error) {
	if w.failed != 0 {
		return len(p), nil
	}
	return w.out.Write(p)
}

// Unwrap lets http.NewResponseController find what it needs.
func (w *rest) Unwrap() http.ResponseWriter { return w.w }

func (c *call) forwardRequest(r *http.Request) error {
	c.outcome = forwardedAs
	w := &forwarded{call: c}
	err := c.upstream.Forward(w, r, c.repo, c.rest)
	if w.wrote {
		c.origin = theirs
	}
	return err
}

// forwarded is the client as upstream's answer sees it.
type forwarded struct {
	*call
	wrote bool
}

func (w *forwarded) Header() http.Header { return w.w.Header() }

func (w *forwarded) WriteHeader(code int) {
	if code >= 200 { // 100 and its like are no answer
		w.wrote, w.begun, w.code = true, true, code
	}
	w.progress()
	w.w.WriteHeader(code)
}

func (w *forwarded) Write(p []byte) (int, error) {
	if !w.wrote {
		w.WriteHeader(http.StatusOK)
	}
	w.progress()
	n, err := w.w.Write(p)
	w.bytes += int64(n)
	return n, err
}

// Unwrap lets http.NewResponseController find what it needs.
func (w *forwarded) Unwrap() http.ResponseWriter { return w.w }
