package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/leveehq/levee/internal/git/pkt"
)

// Fetch is one v2 fetch. The pack may be thin, if there are haves, and has offset deltas.
type Fetch struct {
	Wants, Haves []string
	Filter       string            // a host that knows no filters is Unsupported
	Depth        int               // 0 is all
	Pack         io.Writer         // receives the pack; its error is Fetch's, as it is
	Progress     func(line string) // of band 2; may be nil
}

// Fetch asks for a pack and writes it. The pack is whole if and only if the error is nil.
func (c *Client) Fetch(ctx context.Context, repo Repo, cred Credentials, f Fetch) error {
	h, err := c.hostOf(repo)
	if err != nil {
		return err
	}
	return c.withAdvert(ctx, h, repo, cred, func(ad *advert) error {
		return c.count(c.fetch(ctx, h, ad, h.readAs(cred), f))
	})
}

func (c *Client) fetch(ctx context.Context, h *host, ad *advert, as string, f Fetch) error {
	body, err := h.fetchBody(ad, f)
	if err != nil {
		return err
	}
	a, err := c.do(ctx, h, h.fetches, uploadPackAsk(ad, as, body))
	if err != nil {
		return err
	}
	defer a.Close()
	if err := a.expect(resultType); err != nil {
		return err
	}
	r := pkt.NewReader(a)
	switch err := skipToPack(r, f.Depth > 0); {
	case errors.Is(err, errShallow):
		return h.failure(Unsupported, "has the repository without all of its history (it is a shallow clone itself)")
	case err != nil:
		return a.failed(err)
	}
	pack := &packWriter{w: f.Pack}
	n, err := pkt.NewDemuxer(r, f.Progress).WriteTo(pack)
	switch {
	case pack.err != nil:
		return pack.err
	case err != nil:
		return a.failed(err)
	case n == 0:
		return h.failure(Malformed, "answers with an empty pack")
	}
	a.finish()
	return nil
}

// fetchBody makes the request. It has "done": what the mirror has is told at once, and one answer is the pack.
func (h *host) fetchBody(ad *advert, f Fetch) (*body, error) {
	if err := h.mustOffer(ad, "fetch"); err != nil {
		return nil, err
	}
	switch {
	case f.Filter != "" && !ad.has("fetch", "filter"):
		return nil, h.failure(Unsupported, "knows no filters")
	case f.Depth > 0 && !ad.has("fetch", "shallow"):
		return nil, h.failure(Unsupported, "knows no shallow fetches")
	}
	for _, list := range [][]string{f.Wants, f.Haves} {
		for _, oid := range list {
			if len(oid) != oidLength(ad.objectFormat()) || !isOID(oid) {
				return nil, fmt.Errorf("git upstream: %q is no %s object", oid, ad.objectFormat())
			}
		}
	}
	var head bytes.Buffer
	w := beginCommand(&head, ad, "fetch")
	for _, option := range []string{"thin-pack", "include-tag", "ofs-delta"} {
		w.Line(option)
	}
	if f.Progress == nil {
		w.Line("no-progress")
	}
	if f.Depth > 0 {
		w.Line("deepen ", strconv.Itoa(f.Depth))
	}
	if f.Filter != "" {
		w.Line("filter ", f.Filter)
	}
	var tail bytes.Buffer
	end := pkt.NewWriter(&tail)
	end.Line("done")
	end.Flush()
	return newBody(head.Bytes()).objects("want ", f.Wants).objects("have ", f.Haves).bytes(tail.Bytes()), nil
}

// errShallow is where upstream's own history ends, for one who wants all of it.
var errShallow = errors.New("the repository is shallow")

// skipToPack reads what comes before the pack. A mirror has no use for any of it: it knows what it asked for. But where it did not
// ask for a depth, it must not be told of one.
func skipToPack(r *pkt.Reader, deep bool) error {
	for {
		kind, line, err := nextLine(r)
		switch {
		case err != nil:
			return err
		case kind == pkt.Data && string(line) == "packfile":
			return nil
		case kind == pkt.Data && string(line) == "shallow-info" && !deep:
			return errShallow
		case kind != pkt.Data && kind != pkt.Delim:
			return fmt.Errorf("%w: the answer to a fetch ends without a pack", pkt.ErrMalformed)
		}
	}
}

// packWriter tells an error of the writer from one of upstream.
type packWriter struct {
	w   io.Writer
	err error
}

func (p *packWriter) Write(b []byte) (int, error) {
	n, err := p.w.Write(b)
	p.err = err
	return n, err
}
