package git

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/leveehq/levee/gate"
	"github.com/leveehq/levee/internal/git/pkt"
)

const (
	// minProgress is what a client must bring of its body within the stall time, if it is not the end.
	minProgress = 4 * kib

	// inflation is how much longer than its compressed form a body is taken to be: twice what object ids allow. One that is
	// longer must find room while it is read.
	inflation = 8
)

// errBroken is a body whose encoding is none.
var errBroken = errors.New("the body's encoding is broken")

// request reads and parses the body. What is longer than smallBody has a permit while the request lasts.
func (c *call) request() (*pkt.Request, error) {
	if t, _, _ := mime.ParseMediaType(c.r.Header.Get("Content-Type")); t != uploadPackRequest {
		return nil, &httpError{http.StatusUnsupportedMediaType, fmt.Sprintf("the body must be %s, and is said to be %q", uploadPackRequest, clip(t, 80))}
	}
	body, err := c.readBody()
	if err != nil {
		return nil, err
	}
	limits := pkt.Limits{Bytes: c.opt.MaxBody}
	var q *pkt.Request
	if c.version == 2 {
		q, err = pkt.ParseV2(body, limits)
	} else {
		q, err = pkt.ParseV0(c.version, body, limits)
	}
	switch {
	case errors.Is(err, pkt.ErrTooLarge):
		return nil, &httpError{http.StatusRequestEntityTooLarge, err.Error()}
	case err != nil:
		return nil, &httpError{http.StatusBadRequest, err.Error()}
	}
	return q, nil
}

// readBody reads the body whole, undoes its encoding, and sees its end, so that net/http watches for the client's leaving.
func (c *call) readBody() ([]byte, error) {
	wire := &wireBody{call: c}
	c.bodyBegun = true
	var plain io.Reader = wire
	gzipped := false
	switch enc := strings.ToLower(c.r.Header.Get("Content-Encoding")); enc {
	case "", "identity":
	case "gzip", "x-gzip":
		gzipped = true
		z, err := gzip.NewReader(bufio.NewReaderSize(wire, 4*kib))
		if err != nil {
			return nil, c.broken(err)
		}
		plain = z
	default:
		return nil, &httpError{http.StatusUnsupportedMediaType, fmt.Sprintf("the body has the encoding %q, and only gzip is undone here", clip(enc, 40))}
	}
	var b bytes.Buffer
	if err := c.readUpTo(&b, plain, smallBody); err != nil {
		return nil, err
	}
	if int64(b.Len()) > smallBody {
		if err := c.readLong(&b, plain, gzipped); err != nil {
			return nil, err
		}
	}
	// Behind the end of a gzip stream nothing must come, and the end of the body must be seen.
	if n, err := io.Copy(io.Discard, io.LimitReader(wire, 1)); err != nil || n > 0 {
		return nil, c.broken(errors.Join(err, errors.New("there are bytes behind its end")))
	}
	return b.Bytes(), nil
}

// readUpTo reads to the end, or to the first byte above most.
func (c *call) readUpTo(b *bytes.Buffer, r io.Reader, most int64) error {
	if _, err := io.Copy(b, io.LimitReader(r, most+1-int64(b.Len()))); err != nil {
		return c.broken(err)
	}
	return nil
}

// readLong reads what smallBody has no room for. Its permit is for what may come, and then for what came.
func (c *call) readLong(b *bytes.Buffer, r io.Reader, gzipped bool) error {
	guess := c.opt.MaxBody
	if n := c.r.ContentLength; n > 0 && !gzipped {
		guess = n
	} else if n > 0 {
		guess = n * inflation
	}
	if guess > c.opt.MaxBody && !gzipped {
		return c.tooLong()
	}
	guess = min(guess, c.opt.MaxBody)
	if err := c.admit(c.gates.bodies, bodyCost(guess)); err != nil {
		return err
	}
	at := len(c.permits) - 1
	b.Grow(int(min(guess, 1*mib)))
	if err := c.readUpTo(b, r, guess); err != nil {
		return err
	}
	if int64(b.Len()) > guess && guess < c.opt.MaxBody {
		// Waiting for more while holding some could end with everybody waiting for everybody.
		more, err := c.gates.bodies.TryAdmit(c.peer, bodyCost(c.opt.MaxBody-guess))
		if err != nil {
			return err
		}
		c.permits = append(c.permits, more)
		if err := c.readUpTo(b, r, c.opt.MaxBody); err != nil {
			return err
		}
	}
	if int64(b.Len()) > c.opt.MaxBody {
		return c.tooLong()
	}
	c.settle(at, bodyCost(int64(b.Cap())))
	return nil
}

// settle replaces the permits from at on by one for cost, if there is room for both at this moment; else they stay.
func (c *call) settle(at int, cost int64) {
	held := int64(0)
	for _, p := range c.permits[at:] {
		held += p.Cost()
	}
	if cost >= held {
		return
	}
	exact, err := c.gates.bodies.TryAdmit(c.peer, cost)
	if err != nil {
		return
	}
	for _, p := range c.permits[at:] {
		p.Release()
	}
	c.permits = append(c.permits[:at], exact)
}

func (c *call) tooLong() error {
	return &httpError{http.StatusRequestEntityTooLarge, fmt.Sprintf(
		"the request is longer than %d bytes when its encoding is undone (git.max_body)", c.opt.MaxBody)}
}

// broken says whose fault an error of reading is.
func (c *call) broken(err error) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &httpError{http.StatusRequestTimeout, "the request's body made no progress"}
	case c.r.Context().Err() != nil, errors.Is(err, gate.ErrShed):
		return err
	}
	return &httpError{http.StatusBadRequest, fmt.Errorf("%w: %w", errBroken, err).Error()}
}

// wireBody is the body as it comes, which watches its own progress.
type wireBody struct {
	call  *call
	read  int64
	mark  int64
	armed bool
}

func (b *wireBody) Read(p []byte) (int, error) {
	c := b.call
	if !b.armed || b.read-b.mark >= minProgress {
		b.armed, b.mark = true, b.read
		if err := c.rc.SetReadDeadline(time.Now().Add(c.opt.Stall)); err != nil {
			return 0, err
		}
	}
	n, err := c.r.Body.Read(p)
	b.read += int64(n)
	if errors.Is(err, io.EOF) {
		// net/http now watches the connection for the client's leaving; our deadline would look like it.
		_ = c.rc.SetReadDeadline(time.Time{})
	}
	return n, err
}
