package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leveehq/levee/gate"
	"github.com/leveehq/levee/internal/git/child"
	"github.com/leveehq/levee/internal/git/mirror"
	"github.com/leveehq/levee/internal/git/packs"
	"github.com/leveehq/levee/internal/git/upstream"
)

func TestUpstreamsFailuresAreToldAsWhatTheyAre(t *testing.T) {
	fail := func(k upstream.Kind, status int, after time.Duration) *upstream.Failure {
		return &upstream.Failure{Kind: k, Status: status, RetryAfter: after, Err: errors.New("git.example " + string(k))}
	}
	for _, test := range []struct {
		err        error
		want       int
		retryAfter int
		text       string
	}{
		{fail(upstream.RateLimited, 429, 7*time.Second), 429, 7, "rate_limited"},
		{fail(upstream.RateLimited, 503, 5*time.Second), 503, 5, "rate_limited"},
		{fail(upstream.Unavailable, 0, 0), 502, 0, "unavailable"},
		{fail(upstream.Unavailable, 500, 9*time.Second), 503, 9, "unavailable"},
		{fail(upstream.Stalled, 0, 0), 504, 0, "stalled"},
		{fail(upstream.Truncated, 0, 0), 502, 0, "truncated"},
		{fail(upstream.Malformed, 0, 0), 502, 0, "malformed"},
		{fail(upstream.NotFound, 404, 0), 404, 0, "no such repository"},
		{fail(upstream.Unauthorized, 403, 0), 403, 0, "unauthorized"},
		{&child.ExitError{Args: "index-pack", OutOfMemory: true}, 503, 5, "git.memory"},
		{&child.ExitError{Args: "index-pack", Status: 128, DiskFull: true, Stderr: "a secret path"}, 503, 30, "disk is full"},
		{&child.ExitError{Args: "index-pack", Status: 128, Stderr: "a secret path"}, 500, 0, "git index-pack failed"},
		{fmt.Errorf("a secret path: %w", mirror.ErrNoRoom), 413, 0, "git.max_size"},
		{&packs.TooLarge{Repo: "r", Bytes: 1 << 30, Shed: &gate.Shed{Reason: gate.TooLarge, Limit: 1 << 20}}, 413, 0, "git.memory"},
		{&os.PathError{Op: "write", Path: "a secret path", Err: syscall.ENOSPC}, 503, 30, "disk is full"},
		{mirror.ErrClosed, 503, 1, "stopping"},
		{errors.New("a secret path"), 500, 0, "internal error"},
	} {
		r := newStage(t, func(o *Options) { o.TooLarge = RefuseTooLarge })
		r.view = func() (*mirror.View, error) { return nil, test.err }
		resp := r.fetch(oidA)
		got := text(t, resp)
		n, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		if resp.StatusCode != test.want || n < test.retryAfter || test.retryAfter == 0 && n != 0 || !strings.Contains(got, test.text) || strings.Contains(got, "secret") {
			t.Errorf("%v: %s, Retry-After %d: %s", test.err, resp.Status, n, got)
		}
	}
}

// CASES.md G5.
func TestWhoMayNotReadIsAskedForCredentialsOnEveryPath(t *testing.T) {
	r := newStage(t, nil)
	r.authorize = func(context.Context, upstream.Repo, string) error {
		return &upstream.Failure{Kind: upstream.Unauthorized, Status: 401, Challenge: []string{`Basic realm="them"`}, Err: errors.New("401")}
	}
	for _, resp := range []*http.Response{
		r.do(http.MethodGet, repoPath+"/info/refs?service=git-upload-pack", nil),
		r.do(http.MethodGet, repoPath+"/info/refs?service=git-upload-pack", nil, "Git-Protocol", ""),
		r.fetch(oidA),
		r.do(http.MethodPost, repoPath+"/ensure-refs", strings.NewReader(`{}`)),
	} {
		if resp.StatusCode != http.StatusUnauthorized || resp.Header.Get("WWW-Authenticate") != `Basic realm="them"` {
			t.Errorf("%s, %q", resp.Status, resp.Header)
		}
	}
	if r.mu.asked > 0 {
		t.Error("the mirror was asked")
	}
}

func TestAnOutageIsBridgedOnlyForThoseWhomUpstreamKnew(t *testing.T) {
	r := newStage(t, nil)
	var fails error
	r.authorize = func(context.Context, upstream.Repo, string) error { return fails }
	as := func(user string) *http.Response {
		return r.do(http.MethodGet, repoPath+"/info/refs?service=git-upload-pack", nil, "Authorization", user)
	}
	if resp := as("Basic alice"); resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status)
	}
	fails = &upstream.Failure{Kind: upstream.Unavailable, Err: errors.New("git.example cannot be reached")}
	if resp := as("Basic alice"); resp.StatusCode != http.StatusOK || !strings.Contains(resp.Header.Get("Levee-Stale"), "cannot be reached") || resp.Header.Get("Warning") == "" {
		t.Errorf("alice: %s %v", resp.Status, resp.Header)
	}
	if resp := as("Basic mallory"); resp.StatusCode != http.StatusBadGateway {
		t.Errorf("mallory: %s", resp.Status)
	}
	if resp := as(""); resp.StatusCode != http.StatusBadGateway {
		t.Errorf("nobody: %s", resp.Status)
	}
	if r.s.Status().Stale != 1 {
		t.Errorf("stale %d", r.s.Status().Stale)
	}
	fails = &upstream.Failure{Kind: upstream.Unauthorized, Status: 401, Err: errors.New("401")}
	as("Basic alice")
	fails = &upstream.Failure{Kind: upstream.RateLimited, Status: 429, Err: errors.New("429")}
	if resp := as("Basic alice"); resp.StatusCode != http.StatusTooManyRequests {
		t.Errorf("alice, once turned away: %s", resp.Status)
	}
	if resp := as("Basic alice"); strings.Contains(r.log.String(), "alice") {
		t.Errorf("a credential is in the log: %s %s", resp.Status, &r.log)
	}
}

func TestWhatThereIsNoRoomForGoesUpstream(t *testing.T) {
	for _, err := range []error{
		fmt.Errorf("500 GiB: %w", mirror.ErrNoRoom), &child.ExitError{Args: "index-pack", OutOfMemory: true},
		&os.PathError{Op: "write", Path: "config", Err: syscall.ENOSPC},
	} {
		r := newStage(t, nil)
		r.leased = func(context.Context) error { return err }
		r.forwards = func(w http.ResponseWriter, req *http.Request, _ upstream.Repo, _ string) error {
			_, err := io.Copy(w, req.Body)
			return err
		}
		resp := r.fetch(oidA)
		if got := text(t, resp); resp.StatusCode != http.StatusOK || got != fetchBody(oidA) {
			t.Errorf("%v: %s %q", err, resp.Status, got)
		}
	}
}
