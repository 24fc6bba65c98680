package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// Forward passes a request on with the caller's own credentials, and its answer back, both streamed; hop-by-hop fields stay
// here, and nothing of ours is added. It is for pushes, LFS and what is not served from a mirror. Retry-After is kept.
//
// Redirects of info/refs on the same host are followed, those of LFS are passed on, others are a Failure. An error that is
// not http.ErrAbortHandler came before anything was written, and is the caller's to answer. One that is (errors.Is) means
// that the answer was cut: the caller must not end it in order.
func (c *Client) Forward(w http.ResponseWriter, r *http.Request, repo Repo, rest string) error {
	h, err := c.hostOf(repo)
	if err != nil {
		return err
	}
	if !forwardable(r.Method) {
		return &PathError{Status: http.StatusMethodNotAllowed, Text: fmt.Sprintf("the method %q is not passed on", clip(r.Method))}
	}
	if err := h.forwards.take(r.Context(), 0); err != nil {
		return err
	}
	defer h.forwards.give()
	p := &passage{c: c, h: h, repo: repo, rest: rest, w: w, r: r, rc: http.NewResponseController(w), as: r.Header.Get("Authorization")}
	if p.as == "" && p.isRead() {
		p.as = h.token
	}
	return c.count(p.run())
}

func forwardable(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		return true
	}
	return false
}

// passage is one request on its way through.
type passage struct {
	c    *Client
	h    *host
	repo Repo
	rest string
	w    http.ResponseWriter
	r    *http.Request
	rc   *http.ResponseController
	as   string // Authorization
	up   *upload
}

// isRead tells what a Host.Token may go with. The query is compared as a whole: one that names two services is no read.
func (p *passage) isRead() bool {
	return p.rest == string(UploadPack) || p.rest == string(InfoRefs) && p.r.URL.RawQuery == uploadPackQuery
}

func (p *passage) isLFS() bool { return strings.HasPrefix(p.rest, string(LFS)) }

// patience is how long upstream may be silent.
func (p *passage) patience() time.Duration {
	if p.rest == string(ReceivePack) {
		return pushPatience * p.h.o.Stall
	}
	return p.h.o.Stall
}

func (p *passage) run() error {
	defer func() { p.up.stop() }()
	url := p.target()
	for range maxRedirects + 1 {
		a, err := p.send(url)
		if err != nil {
			return err
		}
		if url, err = p.redirected(a); err != nil || url == "" {
			return p.answer(a, err)
		}
		a.Close()
	}
	return p.h.failure(Redirected, "redirects more than %d times", maxRedirects)
}

// target is where the request goes: what info/refs was redirected to is where a POST belongs, as git's own client has it.
func (p *passage) target() string {
	base := p.h.base + p.repo.urlPath()
	if moved, ok := p.c.moved.get(p.repo, movedTTL); ok && p.rest != string(InfoRefs) {
		base = moved
	}
	return withQuery(base+"/"+p.rest, p.r.URL.RawQuery)
}

func withQuery(url, query string) string {
	if query == "" {
		return url
	}
	return url + "?" + query
}

func (p *passage) send(url string) (*answer, error) {
	key := p.c.hasher.sum(p.h.name, p.as)
	a, err := p.h.send(p.r.Context(), key, p.patience(), func(ctx context.Context, clock *stallClock) (*http.Request, error) {
		return p.request(ctx, url, clock)
	})
	if failed := p.up.failure(); err != nil && failed != nil {
		// What the caller did not send is why upstream got nothing.
		return nil, bodyError(failed)
	}
	return a, err
}

func bodyError(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return &PathError{Status: http.StatusRequestTimeout, Text: "the request's body stopped coming", Err: err}
	}
	return &PathError{Status: http.StatusBadRequest, Text: "the request's body ended before its end", Err: err}
}

func (p *passage) request(ctx context.Context, url string, clock *stallClock) (*http.Request, error) {
	var body io.Reader
	if p.r.ContentLength != 0 && p.r.Body != nil && p.r.Body != http.NoBody {
		p.up = &upload{body: p.r.Body, rc: p.rc, clock: clock, patience: p.h.o.Stall}
		body = p.up
	}
	req, err := http.NewRequestWithContext(ctx, p.r.Method, url, body)
	if err != nil {
		return nil, withoutURL(err)
	}
	req.Header = endToEnd(p.r.Header)
	if body != nil {
		req.ContentLength = p.r.ContentLength // -1 is chunked
	}
	if p.as != "" {
		req.Header.Set("Authorization", p.as)
	}
	if _, ok := req.Header["User-Agent"]; !ok {
		req.Header["User-Agent"] = nil // else net/http adds its own
	}
	return req, nil
}

// redirected says where the request is to go on; "" is nowhere.
func (p *passage) redirected(a *answer) (string, error) {
	if a.StatusCode < 300 || a.StatusCode >= 400 || a.StatusCode == http.StatusNotModified || p.isLFS() {
		return "", nil
	}
	if p.rest != string(InfoRefs) || p.r.Method != http.MethodGet || p.up != nil { // a body is sent but once
		p.c.moved.forget(p.repo)
		return "", p.h.status(a.Response)
	}
	next, err := p.h.follow(a.Response)
	if err == nil && next == "" {
		err = p.h.status(a.Response)
	}
	if base, _, ok := strings.Cut(next, "/info/refs?"); ok {
		p.c.learn(p.h, p.repo, base)
	}
	return next, err
}

// answer passes the answer back.
func (p *passage) answer(a *answer, err error) error {
	defer a.Close()
	if err != nil {
		return err
	}
	header := p.w.Header()
	for name, values := range endToEnd(a.Header) {
		header[name] = values
	}
	if p.up.unread() {
		// Else net/http would read the rest of the request first, which the caller may not send before it has the answer.
		header.Set("Connection", "close")
	}
	p.extendWrite()
	p.w.WriteHeader(a.StatusCode)
	if err := p.copyBody(a); err != nil {
		return fmt.Errorf("%w: %w", http.ErrAbortHandler, err)
	}
	if a.StatusCode >= 400 {
		// Passed on as it is, and counted.
		_ = p.c.count(p.h.status(a.Response))
	}
	return nil
}

// copyBody flushes what upstream sent before it waits for more: a person may be watching progress.
func (p *passage) copyBody(a *answer) error {
	buf := copyBuffers.Get().(*[copyBuffer]byte)
	defer copyBuffers.Put(buf)
	for {
		n, err := a.Read(buf[:])
		if n > 0 {
			p.extendWrite()
			if _, werr := p.w.Write(buf[:n]); werr != nil {
				return or(context.Cause(p.r.Context()), werr)
			}
			_ = p.rc.Flush()
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// extendWrite gives the caller as long to take something as upstream has to send something.
func (p *passage) extendWrite() { _ = p.rc.SetWriteDeadline(time.Now().Add(p.h.o.Stall)) }

const copyBuffer = 32 << 10

var copyBuffers = sync.Pool{New: func() any { return new([copyBuffer]byte) }}

// hopByHop are the fields that are for the next hop alone (RFC 9110, 7.6.1), besides those that Connection names.
var hopByHop = []string{"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection", "Te", "Trailer",
	"Transfer-Encoding", "Upgrade"}

func endToEnd(h http.Header) http.Header {
	out := h.Clone()
	for _, v := range h.Values("Connection") {
		for name := range strings.SplitSeq(v, ",") {
			out.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range hopByHop {
		out.Del(name)
	}
	return out
}

// movedTTL is how long a redirect is believed.
const movedTTL = time.Hour

// learn remembers where a repository is, if that is not where its name says.
func (c *Client) learn(h *host, repo Repo, base string) {
	if base == h.base+repo.urlPath() {
		c.moved.forget(repo)
		return
	}
	c.moved.put(repo, base, time.Now())
}

// errUploadOver is of a body that is asked for after its request has ended.
var errUploadOver = errors.New("the request has ended")

// upload is a caller's body on its way. While the caller is waited for, upstream's clock stands still.
type upload struct {
	body     io.Reader
	rc       *http.ResponseController
	clock    *stallClock
	patience time.Duration

	mu struct {
		sync.Mutex
		err  error // why the body could not be read
		read bool  // to its end
		over bool
	}
}

func (u *upload) Read(p []byte) (int, error) {
	if !u.begin() {
		return 0, errUploadOver
	}
	u.clock.stop()
	defer u.clock.run()
	n, err := u.body.Read(p)
	if err != nil {
		u.end(err)
	}
	return n, err
}

// begin sets the deadline under the lock, so that stop's is never overwritten.
func (u *upload) begin() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.mu.over {
		_ = u.rc.SetReadDeadline(time.Now().Add(u.patience))
	}
	return !u.mu.over
}

// end takes the deadline away behind a whole body: net/http goes on reading, to learn whether the caller leaves.
func (u *upload) end(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err != io.EOF {
		u.mu.err = err
		return
	}
	u.mu.read = true
	if !u.mu.over {
		_ = u.rc.SetReadDeadline(time.Time{})
	}
}

// unread tells whether the caller may still have something to send.
func (u *upload) unread() bool {
	if u == nil {
		return false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return !u.mu.read
}

func (u *upload) failure() error {
	if u == nil {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.mu.err
}

// lingering is how long a caller that was answered in mid-body may go on sending: a connection that is closed over unread
// bytes is reset, and the answer with it.
const lingering = 500 * time.Millisecond

// stop ends a Read that still waits for the caller, when the handler returns. What the caller sends after that belongs to no
// request, and the connection ends.
func (u *upload) stop() {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.mu.over = true
	if !u.mu.read {
		_ = u.rc.SetReadDeadline(time.Now().Add(lingering))
	}
}
