package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Kind of a Failure: one word of a closed set, for metrics.
type Kind string

const (
	Unauthorized Kind = "unauthorized" // 401, 403
	NotFound     Kind = "not_found"    // 404, 410
	RateLimited  Kind = "rate_limited" // 429, 503 with Retry-After, 403 of GitHub's rate limits
	Unavailable  Kind = "unavailable"  // 5xx, refused, cannot be resolved, an error told in the protocol
	Stalled      Kind = "stalled"      // no byte for Options.Stall
	Truncated    Kind = "truncated"    // ended before its end
	Malformed    Kind = "malformed"    // no Git, or protocol that cannot be understood
	Redirected   Kind = "redirected"   // to another host
	NotOurRef    Kind = "not_our_ref"  // upstream knows no such object
	Unsupported  Kind = "unsupported"  // speaks no protocol v2, or more than can be held: forward, do not mirror
)

// Kinds are all of them.
var Kinds = [...]Kind{Unauthorized, NotFound, RateLimited, Unavailable, Stalled, Truncated, Malformed, Redirected, NotOurRef, Unsupported}

const numKinds = len(Kinds)

// Failure is an upstream's.
type Failure struct {
	Kind       Kind
	Status     int           // HTTP, 0 if there was none
	RetryAfter time.Duration // as upstream said, or what is left of it; of RateLimited never 0, else 0 if it did not
	Challenge  []string      // WWW-Authenticate, to be passed on
	OID        string        // of NotOurRef, if upstream named it
	Err        error         // without credentials

	local bool // made here: upstream was not asked
}

// Error is what is wrong. The host is in it, the repository is not: whoever asked knows it.
func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap returns Err.
func (f *Failure) Unwrap() error { return f.Err }

// Outage tells whether upstream could not be asked, so that nothing is known that speaks against an older answer.
func (f *Failure) Outage() bool {
	switch f.Kind {
	case RateLimited, Unavailable, Stalled, Truncated:
		return true
	}
	return false
}

func (h *host) failure(k Kind, format string, args ...any) *Failure {
	return &Failure{Kind: k, Err: fmt.Errorf("%s "+format, append([]any{h.name}, args...)...)}
}

// errStalled is the cause with which the stall clock ends a request.
var errStalled = errors.New("stalled")

// broken makes a Failure of an error met while a request was sent or its answer read. begun tells whether an answer had begun.
// What the caller itself ended is its own cause.
func (h *host) broken(ctx context.Context, err error, begun bool) error {
	var f *Failure
	if errors.As(err, &f) {
		return f
	}
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, errStalled):
		return h.failure(Stalled, "has been silent for too long")
	case cause != nil:
		return cause
	case begun && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)):
		return h.failure(Truncated, "ended its answer before the end")
	case begun:
		return h.failure(Truncated, "ended its answer before the end: %w", err)
	}
	return h.failure(Unavailable, "cannot be reached: %w", err)
}

// status makes a Failure of an answer that is none of what was asked for.
func (h *host) status(resp *http.Response) *Failure {
	f := h.failure(statusKind(resp), "answers %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	f.Status = resp.StatusCode
	f.Challenge = resp.Header.Values("WWW-Authenticate")
	f.RetryAfter, _ = retryAfter(resp.Header, time.Now())
	if f.Kind == RateLimited {
		f.RetryAfter = limitOf(resp, time.Now())
	}
	if f.Kind == Redirected {
		f.Err = fmt.Errorf("%s redirects to %q, which is not followed: repositories are reached only where they are; "+
			"use that URL, and add its host to git.hosts if it is another", h.name, whereTo(resp))
	}
	return f
}

// whereTo is a redirect's target without what may be secret in it: user, password and query.
func whereTo(resp *http.Response) string {
	u, err := resp.Request.URL.Parse(resp.Header.Get("Location"))
	if err != nil {
		return ""
	}
	return clip(u.Scheme + "://" + u.Host + u.EscapedPath())
}

func statusKind(resp *http.Response) Kind {
	switch code := resp.StatusCode; {
	case limits(resp):
		return RateLimited
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return Unauthorized
	case code == http.StatusNotFound || code == http.StatusGone:
		return NotFound
	case code >= 500:
		return Unavailable
	case code >= 300 && code < 400:
		return Redirected
	}
	return Malformed
}

// told makes a Failure of an error that upstream told in the protocol: an ERR packet, or band 3.
func (h *host) told(message string) *Failure {
	if oid, ok := notOurRef(message); ok {
		f := h.failure(NotOurRef, "says: %s", clip(message))
		f.OID = oid
		return f
	}
	return h.failure(Unavailable, "says: %s", clip(message))
}

// notOurRef recognises git's "upload-pack: not our ref <oid>" and JGit's "want <oid> not valid".
func notOurRef(message string) (oid string, ok bool) {
	words := strings.Fields(message)
	for i, w := range words {
		rest := words[i:]
		switch {
		case w == "not" && len(rest) >= 3 && rest[1] == "our" && rest[2] == "ref":
			if len(rest) > 3 && isOID(rest[3]) {
				return rest[3], true
			}
			return "", true
		case w == "want" && len(rest) >= 4 && isOID(rest[1]) && rest[2] == "not" && rest[3] == "valid":
			return rest[1], true
		}
	}
	return "", false
}

func isOID(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdef") == ""
}

// clip makes foreign text fit to be shown: one line of printable characters, and not too many.
func clip(s string) string {
	const most = 300
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\uFFFD' || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, s)
	s = strings.TrimSpace(s)
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
