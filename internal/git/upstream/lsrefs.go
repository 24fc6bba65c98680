package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/leveehq/levee/internal/git/pkt"
)

// Refs is an advertisement.
type Refs struct {
	ObjectFormat string
	List         []Ref // in upstream's order; HEAD first if there is one
}

// Ref of an advertisement. Its name is one that git takes: others are left out, as git's fetch does.
type Ref struct {
	Name   string
	OID    string // "" for an unborn HEAD
	Peeled string // of an annotated tag
	Symref string // target
}

// errTooManyRefs is of an advertisement above Options.MaxRefs.
var errTooManyRefs = errors.New("too many refs")

// LsRefs returns what upstream advertises to the caller, all of it, with symrefs and peeled tags (protocol v2). It counts as
// Authorize.
func (c *Client) LsRefs(ctx context.Context, repo Repo, cred Credentials) (*Refs, error) {
	h, err := c.hostOf(repo)
	if err != nil {
		return nil, err
	}
	var refs *Refs
	err = c.withAdvert(ctx, h, repo, cred, func(ad *advert) (err error) {
		asked := time.Now()
		refs, err = unlessSilent(c, h, repo, func() (*Refs, error) { return c.lsRefs(ctx, h, ad, h.readAs(cred)) })
		key := c.readerKey(h, repo, cred)
		switch {
		case err == nil:
			c.allowedAt.put(key, struct{}{}, asked)
		case isKind(err, Unauthorized) || isKind(err, NotFound):
			c.allowedAt.forget(key)
		}
		return c.count(err)
	})
	if err != nil {
		return nil, err
	}
	return refs, nil
}

func isKind(err error, k Kind) bool {
	var f *Failure
	return errors.As(err, &f) && f.Kind == k
}

func (c *Client) lsRefs(ctx context.Context, h *host, ad *advert, as string) (*Refs, error) {
	if err := h.mustOffer(ad, "ls-refs"); err != nil {
		return nil, err
	}
	var line bytes.Buffer
	w := beginCommand(&line, ad, "ls-refs")
	w.Line("peel")
	w.Line("symrefs")
	if ad.has("ls-refs", "unborn") {
		w.Line("unborn")
	}
	w.Flush()

	a, err := c.do(ctx, h, h.questions, uploadPackAsk(ad, as, newBody(line.Bytes())))
	if err != nil {
		return nil, err
	}
	defer a.Close()
	if err := a.expect(resultType); err != nil {
		return nil, err
	}
	refs, err := readRefs(pkt.NewReader(a), ad.objectFormat(), c.o.MaxRefs)
	switch {
	case errors.Is(err, errTooManyRefs):
		return nil, h.failure(Unsupported, "advertises more than %d bytes of refs, which is more than a mirror holds", c.o.MaxRefs)
	case err != nil:
		return nil, a.failed(err)
	}
	a.finish()
	return refs, nil
}

const resultType = "application/x-git-upload-pack-result"

func uploadPackAsk(ad *advert, as string, b *body) ask {
	return ask{method: http.MethodPost, url: ad.base + "/git-upload-pack", as: as, accept: resultType,
		contentType: "application/x-git-upload-pack-request", body: b.reader, length: b.length}
}

// mustOffer fails for a host without that command of protocol v2, or with objects that have other names than git's.
func (h *host) mustOffer(ad *advert, command string) error {
	switch {
	case !ad.v2:
		return h.failure(Unsupported, "speaks no protocol v2 of Git")
	case !ad.offers(command):
		return h.failure(Unsupported, "speaks protocol v2 of Git, but without %s", command)
	case oidLength(ad.objectFormat()) == 0:
		return h.failure(Unsupported, "has objects of the format %q, which is not known here", clip(ad.objectFormat()))
	}
	return nil
}

// beginCommand writes a command and the capabilities that the host wants to see, to where its arguments begin.
func beginCommand(body *bytes.Buffer, ad *advert, command string) *pkt.Writer {
	w := pkt.NewWriter(body)
	w.Line("command=", command)
	if ad.offers("agent") {
		w.Line("agent=", userAgent)
	}
	if ad.offers("object-format") {
		w.Line("object-format=", ad.objectFormat())
	}
	w.Delim()
	return w
}

// leastRef is what a line counts at least against Options.MaxRefs: what is held for it does not shrink with it.
const leastRef = 48

// readRefs reads the answer to ls-refs, at most so many bytes.
func readRefs(r *pkt.Reader, format string, most int64) (*Refs, error) {
	refs := &Refs{ObjectFormat: format}
	for {
		kind, line, err := nextLine(r)
		switch {
		case err != nil:
			return nil, err
		case kind == pkt.Flush:
			return refs, nil
		case kind != pkt.Data:
			return nil, fmt.Errorf("%w: %v among refs", pkt.ErrMalformed, kind)
		}
		if most -= int64(max(len(line), leastRef)); most < 0 {
			return nil, errTooManyRefs
		}
		ref, err := parseRef(string(line), oidLength(format))
		if err != nil {
			return nil, err
		}
		if isRefName(ref.Name) {
			refs.List = append(refs.List, ref)
		}
	}
}

// parseRef takes "<oid> <name> [symref-target:<name>] [peeled:<oid>]" apart. What it returns shares line's memory.
func parseRef(line string, oidLen int) (Ref, error) {
	oid, rest, _ := strings.Cut(line, " ")
	name, attributes, _ := strings.Cut(rest, " ")
	ref := Ref{Name: name, OID: oid}
	if oid == "unborn" {
		ref.OID = ""
	} else if len(oid) != oidLen || !isOID(oid) {
		return Ref{}, fmt.Errorf("%w: %q is no ref", pkt.ErrMalformed, clip(line))
	}
	for attribute := range strings.FieldsSeq(attributes) {
		key, value, _ := strings.Cut(attribute, ":")
		switch key {
		case "symref-target":
			if isRefName(value) {
				ref.Symref = value
			}
		case "peeled":
			if len(value) != oidLen || !isOID(value) {
				return Ref{}, fmt.Errorf("%w: %q is no peeled tag", pkt.ErrMalformed, clip(line))
			}
			ref.Peeled = value
		}
	}
	return ref, nil
}

// isRefName tells whether git takes a name (git-check-ref-format(1)); HEAD is the only one outside refs/. Names are written
// to the input of git's commands, where a line feed would begin another command.
func isRefName(name string) bool {
	if name == "HEAD" {
		return true
	}
	if !strings.HasPrefix(name, "refs/") || strings.Contains(name, "..") || strings.Contains(name, "@{") || strings.HasSuffix(name, ".") {
		return false
	}
	for i := range len(name) {
		if name[i] <= ' ' || name[i] == 0x7f || strings.IndexByte("~^:?*[\\", name[i]) >= 0 {
			return false
		}
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part[0] == '.' || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return true
}
