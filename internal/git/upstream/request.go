package upstream

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/leveehq/levee/internal/git/pkt"
)

// userAgent begins as git's does: some hosts tell by it that a browser is not meant.
const userAgent = "git/levee"

// ask is one request of ours. It only reads, so that it may be sent again.
type ask struct {
	method, url string
	as          string // Authorization, or ""
	accept      string // the only media type that is taken
	contentType string
	body        func() io.Reader // nil is none
	length      int64            // of the body
}

func (q ask) request(ctx context.Context, clock *stallClock) (*http.Request, error) {
	var body io.Reader
	if q.body != nil {
		body = &ticking{r: q.body(), clock: clock}
	}
	req, err := http.NewRequestWithContext(ctx, q.method, q.url, body)
	if err != nil {
		return nil, withoutURL(err)
	}
	req.ContentLength = q.length
	req.Header.Set("User-Agent", userAgent)
	req.Header.Set("Git-Protocol", "version=2")
	req.Header.Set("Accept", q.accept)
	if q.contentType != "" {
		req.Header.Set("Content-Type", q.contentType)
	}
	if q.as != "" {
		req.Header.Set("Authorization", q.as)
	}
	return req, nil
}

// ticking is a body whose sending is a sign of life.
type ticking struct {
	r     io.Reader
	clock *stallClock
}

func (t *ticking) Read(p []byte) (int, error) {
	t.clock.run()
	return t.r.Read(p)
}

// answer is a response that has begun. It holds a slot until Close.
type answer struct {
	*http.Response
	h     *host
	ctx   context.Context
	clock *stallClock
	end   func()
}

// do sends q when pool has room, once more if upstream broke the connection before it said a word and the budget allows it,
// and returns what begins to be answered.
func (c *Client) do(ctx context.Context, h *host, pool slots, q ask) (*answer, error) {
	key := c.hasher.sum(h.name, q.as)
	// Before the wait and after it: neither is a slot to be waited for in vain, nor a limit to be missed meanwhile.
	if err := h.spare(key); err != nil {
		return nil, err
	}
	if err := h.take(ctx, pool); err != nil {
		return nil, err
	}
	a, err := h.sendTwice(ctx, key, q)
	if err != nil {
		pool.give()
		return nil, err
	}
	end := a.end
	a.end = func() { end(); pool.give() }
	return a, nil
}

// take waits for a slot: for a transfer as long as its caller does, for a question as long as for an answer.
func (h *host) take(ctx context.Context, pool slots) error {
	patience := h.o.Stall
	if pool == h.fetches {
		patience = 0
	}
	err := pool.take(ctx, patience)
	if err == errBusy {
		return h.failure(Stalled, "%w", errBusy)
	}
	return err
}

func (h *host) sendTwice(ctx context.Context, key callerKey, q ask) (*answer, error) {
	h.budget.sent()
	a, said, err := h.sendAsk(ctx, key, q)
	if err == nil || said || !lostConnection(err) || !h.budget.spend() {
		return a, err
	}
	if err := pause(ctx, 50*time.Millisecond+rand.N(100*time.Millisecond)); err != nil {
		return nil, err
	}
	h.retries.Add(1)
	a, _, err = h.sendAsk(ctx, key, q)
	return a, err
}

// sendAsk tells besides whether upstream said anything.
func (h *host) sendAsk(ctx context.Context, key callerKey, q ask) (a *answer, said bool, err error) {
	var began atomic.Bool // told by a goroutine of net/http, which may outlive the call
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotFirstResponseByte: func() { began.Store(true) }})
	a, err = h.send(traced, key, h.o.Stall, q.request)
	return a, began.Load(), err
}

// send sends what build makes. The stall clock runs until the answer begins, and while it is read.
func (h *host) send(ctx context.Context, key callerKey, patience time.Duration,
	build func(context.Context, *stallClock) (*http.Request, error)) (*answer, error) {
	if err := h.spare(key); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stalled := func() { cancel(errStalled) }
	sending := newStallClock(patience, stalled)
	defer sending.end()
	req, err := build(ctx, sending)
	if err != nil {
		cancel(nil)
		return nil, err
	}
	h.requests.Add(1)
	resp, err := h.transport.RoundTrip(req)
	if err != nil {
		err = h.broken(ctx, err, false)
		cancel(nil)
		return nil, err
	}
	h.heed(resp, key)
	reading := newStallClock(patience, stalled)
	reading.stop()
	return &answer{Response: resp, h: h, ctx: ctx, clock: reading, end: func() { cancel(nil) }}, nil
}

// lostConnection tells of a failure without an answer that a new connection may mend.
func lostConnection(err error) bool {
	var f *Failure
	if !errors.As(err, &f) || f.Kind != Unavailable || f.Status != 0 {
		return false
	}
	for _, e := range []error{syscall.ECONNRESET, syscall.ECONNREFUSED, syscall.EPIPE, io.EOF, io.ErrUnexpectedEOF} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// expect fails unless the answer is 200 and of that type: a page that asks for a password is 200, too.
func (a *answer) expect(mediaType string) error {
	if a.StatusCode != http.StatusOK {
		return a.h.status(a.Response)
	}
	got, _, _ := mime.ParseMediaType(a.Header.Get("Content-Type"))
	if got == mediaType {
		return nil
	}
	f := a.h.failure(Malformed, "answers with %q instead of %s: no smart HTTP of Git is spoken there", clip(got), mediaType)
	f.Status = a.StatusCode
	return f
}

// Read reads the body.
func (a *answer) Read(p []byte) (int, error) {
	a.clock.run()
	n, err := a.Body.Read(p)
	a.clock.stop()
	if err != nil && err != io.EOF {
		err = a.h.broken(a.ctx, err, true)
	}
	return n, err
}

// failed makes a Failure of an error met in reading packets from a.
func (a *answer) failed(err error) error {
	var remote *pkt.RemoteError
	switch {
	case errors.As(err, &remote):
		return a.h.told(remote.Text)
	case errors.Is(err, pkt.ErrMalformed):
		return a.h.failure(Malformed, "answers with what is no protocol of Git's: %w", err)
	}
	return a.h.broken(a.ctx, err, true)
}

// finish is for an answer that was read to its end, but for what HTTP puts behind it: the connection can be used again.
func (a *answer) finish() {
	a.clock.set(time.Second)
	_, _ = io.CopyN(io.Discard, a.Body, 1<<10)
	a.clock.stop()
}

// Close gives back what a holds. An answer that has not ended is cut.
func (a *answer) Close() {
	a.clock.end()
	_ = a.Body.Close()
	a.end()
}
