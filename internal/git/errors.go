package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/leveehq/levee/gate"
	"github.com/leveehq/levee/internal/git/child"
	"github.com/leveehq/levee/internal/git/mirror"
	"github.com/leveehq/levee/internal/git/packs"
	"github.com/leveehq/levee/internal/git/pkt"
	"github.com/leveehq/levee/internal/git/upstream"
	"github.com/leveehq/levee/internal/shedcode"
)

// statusClientGone stands in logs and metrics for a request whose client left.
const statusClientGone = 499

// httpError is an error with a status and a text that are meant for the client.
type httpError struct {
	status int
	text   string
}

func (e *httpError) Error() string { return e.text }

// notReady is a mirror that was not made in the time that a client waits.
type notReady struct{ wait time.Duration }

func (e *notReady) Error() string {
	return fmt.Sprintf("the first copy of this repository is still being fetched from upstream, for longer than %v (git.wait); it goes on, come back for it", e.wait)
}

// ShedReason makes it one of the sheds.
func (e *notReady) ShedReason() string { return "cold" }

// ShedBy is who kept the client waiting.
func (e *notReady) ShedBy() string { return "mirror" }

// fail is the one place where an error becomes an answer. It returns the error for the log.
func (c *call) fail(err error) error {
	if c.begun { // whoever began has told it in the answer, or the connection is cut
		if c.r.Context().Err() != nil || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
			c.code, c.outcome = statusClientGone, packs.Canceled
		}
		return err
	}
	if c.r.Context().Err() != nil {
		c.outcome = packs.Canceled
	}
	c.settleBody()
	switch {
	case isShed(err):
		c.outcome = packs.Shed
		c.answerShed(err)
	case isTooLarge(err):
		c.outcome = packs.Refused
		c.answerTooLarge(err)
	default:
		c.answerError(err)
	}
	return err
}

// isShed tells what will go through another time. What is too large never will.
func isShed(err error) bool {
	return !isTooLarge(err) && (errors.Is(err, gate.ErrShed) || errors.As(err, new(*notReady)))
}

// isTooLarge tells what this server has no room for, however long anybody waits: the pack, or the mirror's making.
func isTooLarge(err error) bool {
	var shed *gate.Shed
	var exit *child.ExitError
	switch {
	case errors.Is(err, mirror.ErrNoRoom):
		return true
	case errors.As(err, &shed):
		return shed.Reason == gate.TooLarge
	case errors.As(err, &exit):
		return exit.OutOfMemory
	}
	return false
}

func isDiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// shedSettings says, for the text of a shed, which setting has which gate admit more.
var shedSettings = map[string]shedcode.Setting{
	"git_requests": {Limit: "git.memory", Wait: "git.silent_wait"},
	"git_bodies":   {Limit: "git.memory", Wait: "git.silent_wait"},
	"git_packs":    {Limit: "git.total and git.per_repository", Wait: "git.wait"},
	"git_quick":    {Limit: "git.memory", Wait: "git.silent_wait"},
	"git_rounds":   {Limit: "git.memory", Wait: "git.silent_wait"},
	"git_mirrors":  {Limit: "git.memory", Wait: "git.wait"},
}

var shedCodes = shedcode.Codes{Settings: shedSettings}

func (c *call) answerShed(err error) {
	if c.tellsAsLine() {
		c.told(shedCodes.Text(err))
		return
	}
	c.begun = true
	c.progress()
	c.code = shedCodes.HTTP(c.w, shedcode.Git, err)
}

func (c *call) answerTooLarge(err error) {
	if c.tellsAsLine() {
		_, text := c.answer(err)
		c.told(text)
		return
	}
	c.answerError(err)
}

// tellsAsLine tells whether the client is turned away by a line of the protocol in place of a status.
func (c *call) tellsAsLine() bool {
	return c.opt.ShedAs == ShedErr && c.version == 2 && c.service == upstream.UploadPack
}

// told answers with a line that git shows to people as "remote error".
func (c *call) told(text string) {
	var b bytes.Buffer
	w := pkt.NewWriter(&b)
	w.Error(strings.ReplaceAll(text, "\n", " "))
	w.Flush()
	_ = c.whole(http.StatusOK, uploadPackResult, b.Bytes())
}

func (c *call) answerError(err error) {
	code, text := c.answer(err)
	text += "\n"
	h := c.w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(text)))
	c.begun, c.code = true, code
	c.progress()
	c.w.WriteHeader(code)
	if c.r.Method != http.MethodHead {
		_, _ = io.WriteString(c.w, text) // the status is out; a client that has gone does not need the text
	}
}

// answer is the status and the text for an error that is no shed.
func (c *call) answer(err error) (int, string) {
	var own *httpError
	var path *upstream.PathError
	var f *upstream.Failure
	var exit *child.ExitError
	var large *packs.TooLarge
	switch {
	case errors.As(err, &own):
		return own.status, own.text
	case errors.As(err, &path):
		return path.Status, path.Text
	case errors.As(err, &f):
		return c.answerFailure(f)
	case c.r.Context().Err() != nil, errors.Is(err, context.Canceled):
		return statusClientGone, "the client closed the connection before the answer"
	case errors.As(err, &large):
		return http.StatusRequestEntityTooLarge, large.Error()
	case errors.Is(err, gate.ErrShed):
		return http.StatusRequestEntityTooLarge, shedCodes.Text(err)
	case errors.Is(err, mirror.ErrNoRoom):
		return http.StatusRequestEntityTooLarge, "the repository is larger than all mirrors may be: raise git.max_size, or set git.too_large to forward"
	case errors.Is(err, mirror.ErrClosed), errors.Is(err, packs.ErrClosed):
		c.retryAfter(time.Second)
		return http.StatusServiceUnavailable, "the server is stopping"
	case isDiskFull(err):
		c.retryAfter(30 * time.Second)
		return http.StatusServiceUnavailable, "the server's disk is full: make room in git.path, or lower git.max_size and git.spool_size"
	case errors.As(err, &exit) && exit.OutOfMemory:
		c.retryAfter(5 * time.Second)
		return http.StatusServiceUnavailable, fmt.Sprintf("git %s ran out of the memory that it is given here: try again, raise git.memory, or set git.too_large to forward", exit.Args)
	case errors.As(err, &exit) && exit.Signal != "":
		c.retryAfter(5 * time.Second)
		return http.StatusServiceUnavailable, fmt.Sprintf("git %s was ended by a signal: try again", exit.Args)
	case errors.As(err, &exit):
		return http.StatusInternalServerError, fmt.Sprintf("git %s failed; the server's log says more", exit.Args)
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		c.retryAfter(5 * time.Second)
		return http.StatusServiceUnavailable, "the server is out of file descriptors: raise the limit of open files"
	}
	return http.StatusInternalServerError, "internal error; the server's log says more"
}

// answerFailure says what upstream did. A failure of load or of rate is passed on as such, and never sooner to be tried again
// than upstream said.
func (c *call) answerFailure(f *upstream.Failure) (int, string) {
	from := "upstream: " + f.Error()
	switch f.Kind {
	case upstream.Unauthorized:
		return c.answerUnauthorized(f, from)
	case upstream.NotFound:
		return http.StatusNotFound, from + ": there is no such repository, or these credentials may not read it"
	case upstream.RateLimited:
		c.retryAfter(max(f.RetryAfter, time.Second))
		if f.Status == http.StatusServiceUnavailable {
			return http.StatusServiceUnavailable, from
		}
		return http.StatusTooManyRequests, from
	case upstream.NotOurRef:
		return http.StatusNotFound, from
	case upstream.Stalled:
		return http.StatusGatewayTimeout, from
	case upstream.Unavailable:
		if f.RetryAfter > 0 {
			c.retryAfter(f.RetryAfter)
			return http.StatusServiceUnavailable, from
		}
	}
	return http.StatusBadGateway, from
}

// answerUnauthorized passes upstream's question for credentials on, so that git asks its user and its helpers.
func (c *call) answerUnauthorized(f *upstream.Failure, text string) (int, string) {
	if f.Status == http.StatusForbidden {
		return http.StatusForbidden, text
	}
	for _, challenge := range f.Challenge {
		c.w.Header().Add("WWW-Authenticate", challenge)
	}
	if len(f.Challenge) == 0 { // without one, git does not ask
		c.w.Header().Set("WWW-Authenticate", fmt.Sprintf("Basic realm=%q", c.repo.Host))
	}
	return http.StatusUnauthorized, text
}

// retryAfter asks the client to wait for d at least, and spreads those who were turned away together.
func (c *call) retryAfter(d time.Duration) {
	spread := min(d/4+time.Second, 30*time.Second)
	secs := int64((d + rand.N(spread) + time.Second - 1) / time.Second)
	c.w.Header().Set("Retry-After", strconv.FormatInt(secs, 10))
}

const (
	// drainShort is read before an answer, so that the connection can go on; drainLong is read and thrown away after it,
	// before the connection is closed: closing on a client that sends makes the kernel reset the connection, which destroys
	// the answer.
	drainShort = 64 * kib
	drainLong  = 64 * mib
	drainTime  = 10 * time.Second
)

// settleBody prepares an answer to a request whose body may be unread.
func (c *call) settleBody() {
	size := c.r.ContentLength
	waits := strings.EqualFold(c.r.Header.Get("Expect"), "100-continue") && !c.bodyBegun
	if size == 0 || waits {
		return // nothing is coming
	}
	_ = c.rc.SetReadDeadline(time.Now().Add(drainTime))
	if n, err := io.CopyN(io.Discard, c.r.Body, drainShort); n < drainShort {
		if err == io.EOF {
			_ = c.rc.SetReadDeadline(time.Time{})
		}
		return
	}
	_ = c.rc.EnableFullDuplex()
	c.w.Header().Set("Connection", "close")
	c.drain = true
}

// finishBody throws the rest of a long body away, behind the answer.
func (c *call) finishBody() {
	if c.drain {
		_ = c.rc.Flush()
		_, _ = io.CopyN(io.Discard, c.r.Body, drainLong)
	}
}
