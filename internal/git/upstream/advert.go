package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/leveehq/levee/internal/git/pkt"
)

// advert is what a repository's host says of itself in answer to info/refs (gitprotocol-v2, "Capability Advertisement").
type advert struct {
	base string // URL of the repository, redirects followed
	v2   bool
	caps map[string]string // of v2
}

const (
	uploadPackQuery = "service=git-upload-pack"
	maxCapabilities = 100
	maxRedirects    = 3
)

// has tells whether a command, or a capability, has a feature.
func (a *advert) has(capability, feature string) bool {
	return slices.Contains(strings.Fields(a.caps[capability]), feature)
}

func (a *advert) offers(capability string) bool {
	_, ok := a.caps[capability]
	return ok
}

func (a *advert) objectFormat() string { return or(a.caps["object-format"], "sha1") }

// oidLength is that of an object format's names, 0 if it is not known.
func oidLength(format string) int {
	return map[string]int{"sha1": 40, "sha256": 64}[format]
}

// Authorize asks upstream whether the caller may read repo, unless that was asked within AuthTTL.
func (c *Client) Authorize(ctx context.Context, repo Repo, cred Credentials) error {
	h, err := c.hostOf(repo)
	if err != nil {
		return err
	}
	if c.allowed(h, repo, cred) {
		return nil
	}
	_, err = c.ask(ctx, h, repo, cred)
	return err
}

// allowed tells whether upstream said within AuthTTL that the caller may read repo.
func (c *Client) allowed(h *host, repo Repo, cred Credentials) bool {
	_, ok := c.allowedAt.get(c.readerKey(h, repo, cred), c.o.AuthTTL)
	return ok
}

func (c *Client) readerKey(h *host, repo Repo, cred Credentials) callerKey {
	return c.hasher.sum(repo.String(), h.readAs(cred))
}

// ask asks for a repository's advertisement as a caller, and remembers what that says of both. Callers with the same
// credentials share a question.
func (c *Client) ask(ctx context.Context, h *host, repo Repo, cred Credentials) (*advert, error) {
	key := c.readerKey(h, repo, cred)
	return c.flights.do(ctx, key, func() (*advert, error) {
		asked := time.Now()
		ad, err := unlessSilent(c, h, repo, func() (*advert, error) { return c.getAdvert(ctx, h, repo, cred) })
		if err != nil {
			if speaksAgainst(err) {
				c.allowedAt.forget(key)
			}
			return nil, c.count(err)
		}
		c.allowedAt.put(key, struct{}{}, asked)
		c.adverts.put(repo, ad, asked)
		c.learn(h, repo, ad.base)
		return ad, nil
	})
}

// speaksAgainst tells of a failure that is an answer: no.
func speaksAgainst(err error) bool {
	var f *Failure
	return errors.As(err, &f) && !f.Outage()
}

// withAdvert calls f with a repository's capabilities, and once more with new ones if what it met may come from old ones.
func (c *Client) withAdvert(ctx context.Context, h *host, repo Repo, cred Credentials, f func(*advert) error) error {
	ad, known := c.adverts.get(repo, advertTTL)
	if known {
		err := f(ad)
		if !outdated(err) {
			return err
		}
		c.adverts.forget(repo)
	}
	ad, err := c.ask(ctx, h, repo, cred)
	if err != nil {
		return err
	}
	return f(ad)
}

func outdated(err error) bool {
	var f *Failure
	if !errors.As(err, &f) || f.Status == 0 {
		return false
	}
	return f.Kind == NotFound || f.Kind == Redirected || f.Kind == Malformed
}

func (c *Client) getAdvert(ctx context.Context, h *host, repo Repo, cred Credentials) (*advert, error) {
	q := ask{method: http.MethodGet, url: h.base + repo.urlPath() + "/info/refs?" + uploadPackQuery,
		as: h.readAs(cred), accept: "application/x-git-upload-pack-advertisement"}
	for range maxRedirects + 1 {
		a, err := c.do(ctx, h, h.questions, q)
		if err != nil {
			return nil, err
		}
		next, err := h.follow(a.Response)
		if err != nil || next == "" {
			return readAdvertAnswer(a, q, err)
		}
		a.Close()
		q.url = next
	}
	return nil, h.failure(Redirected, "redirects more than %d times", maxRedirects)
}

func readAdvertAnswer(a *answer, q ask, err error) (*advert, error) {
	defer a.Close()
	if err != nil {
		return nil, err
	}
	if err := a.expect(q.accept); err != nil {
		return nil, err
	}
	ad, err := readAdvert(pkt.NewReader(a))
	if err != nil {
		return nil, a.failed(err)
	}
	if ad.v2 {
		a.finish()
	}
	ad.base, _, _ = strings.Cut(q.url, "/info/refs?")
	return ad, nil
}

// follow says where a GET of info/refs is to go on: nowhere, or at another repository of the same host, by the same scheme.
// Credentials go along, so whoever answers there must be who they are for.
func (h *host) follow(resp *http.Response) (string, error) {
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
	default:
		return "", nil
	}
	from := resp.Request.URL
	to, err := from.Parse(resp.Header.Get("Location"))
	if err != nil {
		return "", h.failure(Redirected, "redirects to what is no URL")
	}
	_, err = decodeSegments(strings.TrimPrefix(to.EscapedPath(), "/"))
	if err != nil || to.User != nil || !sameOrigin(from, to) || to.RawQuery != from.RawQuery || !strings.HasSuffix(to.Path, "/info/refs") {
		return "", h.status(resp)
	}
	return to.String(), nil
}

func sameOrigin(a, b *url.URL) bool {
	port := func(u *url.URL) string { return or(u.Port(), defaultPort(u.Scheme)) }
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && port(a) == port(b)
}

// readAdvert reads an advertisement of v2 to its end, and of older ones the beginning.
func readAdvert(r *pkt.Reader) (*advert, error) {
	kind, line, err := nextLine(r)
	if err == nil && kind == pkt.Data && bytes.HasPrefix(line, []byte("# service=")) {
		if kind, _, err = nextLine(r); err == nil && kind != pkt.Flush {
			return nil, fmt.Errorf("%w: no flush packet behind the service's name", pkt.ErrMalformed)
		}
		if err == nil {
			kind, line, err = nextLine(r)
		}
	}
	switch {
	case err != nil:
		return nil, err
	case kind != pkt.Data:
		return nil, fmt.Errorf("%w: an advertisement begins with %v", pkt.ErrMalformed, kind)
	case string(line) == "version 2":
		return readCapabilities(r)
	}
	first, _, _ := bytes.Cut(line, []byte(" "))
	if string(line) != "version 1" && !isOID(string(first)) {
		return nil, fmt.Errorf("%w: an advertisement begins with %q", pkt.ErrMalformed, clip(string(line)))
	}
	return &advert{}, nil
}

func readCapabilities(r *pkt.Reader) (*advert, error) {
	ad := &advert{v2: true, caps: map[string]string{}}
	for range maxCapabilities {
		kind, line, err := nextLine(r)
		switch {
		case err != nil:
			return nil, err
		case kind == pkt.Flush:
			return ad, nil
		case kind != pkt.Data:
			return nil, fmt.Errorf("%w: %v among capabilities", pkt.ErrMalformed, kind)
		}
		name, value, _ := strings.Cut(string(line), "=")
		ad.caps[name] = value
	}
	return nil, fmt.Errorf("%w: more than %d capabilities", pkt.ErrMalformed, maxCapabilities)
}

// nextLine is the next packet without its line feed. That the bytes end is io.ErrUnexpectedEOF or io.EOF, an ERR line an error.
func nextLine(r *pkt.Reader) (pkt.Kind, []byte, error) {
	kind, line, err := r.Next()
	if err != nil || kind != pkt.Data {
		return kind, nil, err
	}
	if err := pkt.ErrorLine(line); err != nil {
		return kind, nil, err
	}
	return kind, bytes.TrimSuffix(line, []byte("\n")), nil
}
