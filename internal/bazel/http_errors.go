package bazel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/leveehq/levee/gate"
	"github.com/leveehq/levee/internal/blobstore"
	"github.com/leveehq/levee/internal/shedcode"
)

// statusClientGone stands in logs and metrics for a call whose client left.
const statusClientGone = 499

// httpError is an error with a status and a text that are meant for the client.
type httpError struct {
	status int
	text   string
}

func (e *httpError) Error() string { return e.text }

func badRequest(format string, args ...any) error {
	return &httpError{status: http.StatusBadRequest, text: fmt.Errorf(format, args...).Error()}
}

// fail is the one place where an error becomes an answer. It returns the error for the log, nil if there is nothing to
// report: a miss is no failure.
func (c *httpCall) fail(err error) error {
	var full *blobstore.NoSpace
	if errors.As(err, &full) {
		err = noSpace{full}
	}
	if c.begun {
		// The connection is cut by net/http, because fewer bytes were sent than announced.
		if c.r.Context().Err() != nil || isTimeout(err) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
			c.code = statusClientGone
		}
		return err
	}
	// Even a client that has gone gets an answer: without one net/http would send 200, and one that has only closed its
	// sending side would take its upload for stored.
	c.setHeaders()
	c.settleBody(isTimeout(err), func() { c.answerError(err) })
	if c.code == http.StatusNotFound {
		return nil
	}
	return err
}

func (c *httpCall) answerError(err error) {
	c.begun = true
	_ = c.rc.SetWriteDeadline(time.Now().Add(c.stall)) // the one that the server set began with the request
	if errors.Is(err, gate.ErrShed) || errors.As(err, new(noSpace)) {
		c.code = c.codes.HTTP(c.w, c.shedClass(), err)
		return
	}
	var text string
	c.code, text = httpAnswer(err)
	if c.code == http.StatusServiceUnavailable {
		c.w.Header().Set("Retry-After", "2")
	}
	text += "\n"
	h := c.w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(text)))
	c.w.WriteHeader(c.code)
	if c.r.Method != http.MethodHead {
		_, _ = io.WriteString(c.w, text) // the status is out; a client that has gone does not need the text
	}
}

func (c *httpCall) shedClass() shedcode.Class {
	switch {
	case c.r.Method == http.MethodPut:
		return shedcode.BazelWrite
	case c.path.kind == blobstore.AC:
		return shedcode.BazelAC
	}
	return shedcode.BazelRead
}

// httpAnswer is the status and the text for an error that is no shed. What is not known here is trouble of ours, which
// must never look like a miss: it is 500, and its text stays in the log.
func httpAnswer(err error) (int, string) {
	var own *httpError
	switch {
	case errors.As(err, &own):
		return own.status, own.text
	case errors.Is(err, blobstore.ErrNotExist):
		return http.StatusNotFound, "not in the cache"
	case errors.Is(err, blobstore.ErrTooLarge):
		return http.StatusRequestEntityTooLarge, err.Error() + " (bazel.max_blob)"
	case errors.Is(err, blobstore.ErrDigest), errors.Is(err, blobstore.ErrSize):
		return http.StatusBadRequest, "nothing was stored: " + err.Error()
	case isTimeout(err):
		return http.StatusRequestTimeout, "nothing was stored: the upload made no progress"
	case errors.Is(err, context.Canceled):
		return statusClientGone, "the client closed the connection before the answer"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return http.StatusBadRequest, "nothing was stored: the body ended early"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return http.StatusServiceUnavailable, "out of file descriptors: raise the limit of open files or lower bazel.max_connections"
	}
	return http.StatusInternalServerError, "internal error; the server's log says more"
}

func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

// tooLarge names both sizes, so that nobody has to guess which limit was hit.
func tooLarge(size, limit int64) error {
	return &httpError{status: http.StatusRequestEntityTooLarge,
		text: fmt.Sprintf("the body is %d bytes, and the largest blob accepted is %d bytes (bazel.max_blob)", size, limit)}
}
