package upstream

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// unnamedLimit is how long a limit without Retry-After is held to last.
	unnamedLimit = 10 * time.Second
	// longestLimit is the most that is believed: GitHub's limits end within the hour, and a slip of an upstream's clock must
	// not close it for a day.
	longestLimit = time.Hour
)

// limits tells whether an answer wants fewer requests.
func limits(resp *http.Response) bool {
	_, says := retryAfter(resp.Header, time.Now())
	switch resp.StatusCode {
	case http.StatusTooManyRequests:
		return true
	case http.StatusServiceUnavailable:
		return resp.Header.Get("Retry-After") != ""
	case http.StatusForbidden:
		return says
	}
	return false
}

// retryAfter reads Retry-After, in seconds or as a date, and GitHub's x-ratelimit-reset, in seconds of Unix time, of a limit of
// which nothing remains. It tells whether there is one, too: 0 is one that cannot be read.
func retryAfter(h http.Header, now time.Time) (time.Duration, bool) {
	if v := strings.TrimSpace(h.Get("Retry-After")); v != "" {
		if n, err := strconv.ParseUint(v, 10, 31); err == nil {
			return believed(time.Duration(n) * time.Second), true
		}
		if t, err := http.ParseTime(v); err == nil {
			return believed(t.Sub(now)), true
		}
		return 0, true
	}
	if h.Get("X-Ratelimit-Remaining") != "0" {
		return 0, false
	}
	n, err := strconv.ParseInt(h.Get("X-Ratelimit-Reset"), 10, 64)
	if err != nil {
		return 0, true
	}
	return believed(time.Unix(n, 0).Sub(now)), true
}

// believed is never 0: a time that is over, or "0", is soon, but not now.
func believed(d time.Duration) time.Duration { return min(max(d, time.Second), longestLimit) }

// limitOf is how long the limit that an answer tells of is held to last.
func limitOf(resp *http.Response, now time.Time) time.Duration {
	d, _ := retryAfter(resp.Header, now)
	return or(d, unnamedLimit)
}

// heed begins a back-off if an answer asks for one.
func (h *host) heed(resp *http.Response, key callerKey) {
	if !limits(resp) {
		return
	}
	now := time.Now()
	d := limitOf(resp, now)
	h.o.Logger.Warn("git upstream limits requests", "host", h.name, "status", resp.StatusCode, "retry_after", d)
	if resp.StatusCode == http.StatusServiceUnavailable {
		h.backoff.everyone(now, d)
		return
	}
	h.backoff.caller(key, now, d)
}

// spare fails a request that must not be sent yet.
func (h *host) spare(key callerKey) error {
	left := h.backoff.left(key, time.Now())
	if left == 0 {
		return nil
	}
	h.spared.Add(1)
	f := h.failure(RateLimited, "limits requests, and wants none for another %v", left.Round(time.Second))
	f.RetryAfter, f.local = left, true
	return f
}
