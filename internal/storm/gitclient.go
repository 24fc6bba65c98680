package storm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// gitHTTP speaks to repositories as Git would, without unpacking what it gets.
type gitHTTP struct{ http *http.Client }

// slowBuffer is the receive buffer of a client that is to be felt as slow: the kernel's own would swallow megabytes first.
const slowBuffer = 32 << 10

// newGitHTTP returns a client with connections of its own; receiveBuffer 0 is the system's choice.
func newGitHTTP(receiveBuffer int) *gitHTTP {
	dialer := net.Dialer{Timeout: 10 * time.Second}
	if receiveBuffer > 0 {
		dialer.Control = func(_, _ string, c syscall.RawConn) error {
			var failed error
			err := c.Control(func(fd uintptr) {
				failed = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, receiveBuffer)
			})
			return errors.Join(err, failed)
		}
	}
	return &gitHTTP{http: &http.Client{Transport: &http.Transport{
		DialContext:         dialer.DialContext,
		DisableCompression:  true,
		MaxIdleConnsPerHost: maxGitClients,
	}}}
}

func (c *gitHTTP) close() { c.http.CloseIdleConnections() }

// refusal is an answer whose status is not 200.
type refusal struct {
	status     int
	retryAfter string
	text       string
}

func (e *refusal) Error() string { return fmt.Sprintf("HTTP status %d: %s", e.status, e.text) }

// post sends a request to upload-pack; its answer's body is the caller's to close.
func (c *gitHTTP) post(ctx context.Context, repo string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, repo+"/git-upload-pack", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-git-upload-pack-request")
	req.Header.Set("Accept", "application/x-git-upload-pack-result")
	return c.do(req)
}

func (c *gitHTTP) do(req *http.Request) (*http.Response, error) {
	req.Header.Set("User-Agent", "git/levee-storm")
	req.Header.Set("Git-Protocol", "version=2")
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	const enough = 4 << 10
	text, _ := io.ReadAll(io.LimitReader(resp.Body, enough)) // the status is what matters
	return nil, &refusal{resp.StatusCode, resp.Header.Get("Retry-After"), strings.TrimSpace(string(text))}
}

// capabilities are what a server of protocol v2 says that it can do. A server that speaks another protocol is an error.
func (c *gitHTTP) capabilities(ctx context.Context, repo string) ([]string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, repo+"/info/refs?service=git-upload-pack", nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return readCapabilities(resp.Body)
}

// lsRemote is what `git ls-remote` does: the capabilities, then all refs.
func (c *gitHTTP) lsRemote(ctx context.Context, repo string) ([]string, error) {
	if _, err := c.capabilities(ctx, repo); err != nil {
		return nil, err
	}
	resp, err := c.post(ctx, repo, lsRefsRequest())
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return readRefs(resp.Body)
}

// fetch sends body and reads the pack that comes. read, which may be nil, stands between the answer and its reader.
func (c *gitHTTP) fetch(ctx context.Context, repo string, body []byte, read func(io.Reader) io.Reader) (*packAnswer, error) {
	resp, err := c.post(ctx, repo, body)
	if err != nil {
		return &packAnswer{}, err
	}
	defer resp.Body.Close()
	if read == nil {
		return readPack(resp.Body)
	}
	return readPack(read(resp.Body))
}

// paced lets through rate bytes a second.
type paced struct {
	ctx  context.Context
	r    io.Reader
	rate int64
}

func (p *paced) Read(b []byte) (int, error) {
	const perSecond = 20
	b = b[:min(int64(len(b)), max(p.rate/perSecond, 1))]
	n, err := p.r.Read(b)
	if err == nil && !sleep(p.ctx, time.Duration(n)*time.Second/time.Duration(p.rate)) {
		err = context.Cause(p.ctx)
	}
	return n, err
}

// oneFetch is a fetch with its books: an honest client gets a whole pack, or is shed before the first byte of one.
func (r *gitRun) oneFetch(ctx context.Context, c *gitHTTP, t *tally, repo string, body []byte) {
	t.offered.Add(1)
	t.open.Add(1)
	defer t.open.Add(-1)
	began := time.Now()
	a, err := c.fetch(ctx, repo, body, nil)
	t.bytes.Add(a.bytes)
	t.told(a.progress)
	if err != nil {
		t.gitFailed(err, a.bytes)
		return
	}
	t.latency.add(time.Since(began))
	t.ok.Add(1)
}

// gitFailed books a request that did not get what it asked for, of which begun bytes of a pack had come.
func (t *tally) gitFailed(err error, begun int64) {
	code, text := "no answer", err.Error()
	var status *refusal
	var inside *gitError
	switch {
	case errors.As(err, &status):
		code, text = fmt.Sprint(status.status), status.text
	case errors.As(err, &inside):
		code, text = inside.where, inside.text
	}
	gate, reason, shed := gitShedText(text)
	shed = shed || status != nil && status.status == http.StatusTooManyRequests
	t.gitOutcome(shed, Outcome{Code: code, Gate: gate, Reason: reason}, text)
	switch {
	case shed && begun > 0:
		t.breaks("a request was shed after bytes of its pack: " + text)
	case shed && status != nil && status.status >= 500:
		t.breaks(fmt.Sprintf("a shed request was answered %d, which trips outlier ejection: %s", status.status, text))
	case shed && status != nil && status.retryAfter == "":
		t.breaks("a shed request got no Retry-After")
	case !shed:
		t.breaks("a request failed without being shed: " + err.Error())
	}
}

// gitBusy is how a server turns somebody away who is in the queue already, in words for people.
var gitBusy = regexp.MustCompile(`\bGit cache is busy \((\w+)\)`)

func gitShedText(text string) (gate, reason string, shed bool) {
	if m := gitBusy.FindStringSubmatch(text); m != nil {
		return "", m[1], true
	}
	return shedText(text)
}

func (t *tally) gitOutcome(shed bool, key Outcome, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if shed {
		t.mu.shed[key]++
		return
	}
	key.Reason = firstWords(text)
	t.mu.failed[key]++
}

// told keeps the first line that somebody was told in the queue.
func (t *tally) told(lines []string) {
	if len(lines) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.mu.notes) == 0 {
		t.mu.notes = append(t.mu.notes, "a client was told: "+strings.TrimSpace(lines[0]))
	}
}
