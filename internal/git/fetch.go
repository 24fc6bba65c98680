package git

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/leveehq/levee/internal/git/mirror"
	"github.com/leveehq/levee/internal/git/packs"
	"github.com/leveehq/levee/internal/git/pkt"
	"github.com/leveehq/levee/internal/git/upstream"
)

func (c *call) uploadPack() error {
	c.method = "upload-pack"
	if err := c.allow(http.MethodPost); err != nil {
		return err
	}
	// Before the body is read: a caller who may not read must not make us hold anything, and a body that goes upstream goes as
	// it came.
	if err := c.authorize(); err != nil {
		return c.orForward(err)
	}
	q, err := c.request()
	if err != nil {
		return err
	}
	switch q.Command {
	case "ls-refs":
		return c.lsRefs(q)
	case "fetch":
		return c.fetch(q)
	case "": // git asks so whether its credentials are good before it sends a long body
		c.method = "probe"
		return c.whole(http.StatusOK, uploadPackResult, nil)
	}
	c.method = "other"
	c.told("the command " + q.Command + " is not supported here, and is not advertised")
	return nil
}

func (c *call) fetch(q *pkt.Request) error {
	c.method = "fetch"
	if len(q.Wants) == 0 && len(q.WantRefs) == 0 && q.Version != 2 {
		return c.whole(http.StatusOK, uploadPackResult, nil) // as upload-pack: nothing is wanted, nothing is said
	}
	err := c.answerFetch(q)
	if err != nil && c.prologue {
		return c.failInBand(q, err)
	}
	return err
}

func (c *call) answerFetch(q *pkt.Request) error {
	le, v, err := c.leaseTold(q)
	switch {
	case isUnsupported(err) && v != nil && q.Version < 2:
		// Our advertisement did not say where upstream's history ends, and the client does not expect it of the pack.
		c.known.forget(c.repo)
		c.told(err.Error() + "; its own refs are shown from now on: try again")
		return nil
	case err != nil:
		return c.orForwardBody(q, err)
	}
	defer le.Release()
	missing, err := le.Ensure(c.r.Context(), c.cred, q.Wants)
	if err != nil {
		return c.orForwardBody(q, err)
	}
	if len(missing) > 0 {
		c.outcome = "not_our_ref"
		return c.notOurRef(missing[0])
	}
	return c.makePack(q, le, isClone(q, v))
}

// notOurRef answers in upload-pack's words, which git's tests and other tools look for.
func (c *call) notOurRef(oid pkt.OID) error {
	text := "upload-pack: not our ref " + string(oid)
	if c.prologue {
		return &httpError{http.StatusNotFound, text}
	}
	c.told(text)
	return nil
}

// lease is the repository's mirror, made if it must be, with what is shown of it.
func (c *call) lease(progress func(string)) (lease, *mirror.View, error) {
	v, err := c.fetchView()
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeoutCause(c.r.Context(), c.opt.Wait, &notReady{c.opt.Wait})
	defer cancel()
	le, err := c.mirrors.Lease(ctx, c.repo, c.cred, v, progress)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return le, v, err
}

// seenLately is how old refs may be for a fetch whose wants they do not name: it is how long "may read" is believed, too.
const seenLately = 15 * time.Second

// fetchView asks for refs unless that was done a moment ago, as it was by the same client in most cases: a fetch names
// objects, and what the mirror does not have is asked for by name. A blame in a partial clone makes hundreds of fetches.
func (c *call) fetchView() (*mirror.View, error) {
	if v, ok := c.known.view(c.repo, max(seenLately, c.opt.MaxStaleness)); ok {
		return v, nil
	}
	return c.refs()
}

func (c *call) makePack(q *pkt.Request, le lease, clone bool) error {
	held, _ := le.(*mirror.Lease)
	if clone {
		c.count.clonesAttempted.Add(1)
	}
	o := &out{call: c}
	if c.prologue {
		o.skip = packfileHeader
	}
	start := time.Now()
	result, err := c.packs.Serve(c.r.Context(), packs.Job{Lease: held, Request: q, Caller: c.peer, Clone: clone}, o)
	c.waited += result.Waited
	c.outcome = result.Outcome
	c.count.result(err, result.Waited)
	if err == nil && result.Outcome == packs.Generated {
		c.count.generated(time.Since(start) - result.Waited)
	}
	if result.Began {
		c.prologue = false                          // what went wrong has been told
		c.cut = err != nil && q.SidebandSize() == 0 // or could not be
	} else if err != nil {
		return c.forwardWhatFailed(q, err)
	}
	if err == nil {
		c.count.served(c.repo)
		if clone {
			c.count.clonesServed.Add(1)
		}
	}
	return err
}

// isClone tells a clone from a lazy fetch, which may be byte for byte of the same shape: a clone has nothing, and wants what is
// advertised.
func isClone(q *pkt.Request, v *mirror.View) bool {
	if len(q.Haves) > 0 || len(q.Wants) == 0 || len(q.Shallows) > 0 {
		return false
	}
	want := string(q.Wants[0])
	return slices.ContainsFunc(v.Refs.List, func(r upstream.Ref) bool { return r.OID == want })
}

// out is the client as packs sees it.
type out struct {
	*call
	skip string // what packs begins with and the client has already
}

func (o *out) Write(p []byte) (int, error) {
	skipped := min(len(o.skip), len(p))
	if string(p[:skipped]) != o.skip[:skipped] {
		return 0, errors.New("the answer has another section before its pack")
	}
	o.skip = o.skip[skipped:]
	if !o.begun {
		o.begin(http.StatusOK, uploadPackResult)
	}
	o.progress()
	n, err := o.w.Write(p[skipped:])
	o.bytes += int64(n)
	return skipped + n, err
}

func (o *out) Flush() error { return o.rc.Flush() }

func (o *out) Progress() { o.progress() }
