// Package upstream speaks to the Git hosts that Levee stands in front of.
//
// It refuses to speak to a host that is not named in its Options, to an address in a private range unless that is allowed,
// to follow a redirect to another host, to keep or print a credential, and to try again before an upstream's Retry-After is
// over. It keeps nothing on disk.
package upstream

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"time"
)

// Host is an allowed upstream.
type Host struct {
	// URL is scheme and authority: "https://github.com", "http://127.0.0.1:8081". A repository is then
	// github.com/org/repo, 127.0.0.1:8081/org/repo.
	URL string
	// Token, if not empty, is sent as "Authorization: Bearer/Basic …" with reads of callers that bring no credentials of their
	// own. Never with a push. It makes what it can read public to all callers, so it is the operator's explicit choice.
	Token string
	// AllowPrivate lets the host resolve to loopback, private and link-local addresses. A URL whose host is written as such an
	// address allows that address.
	AllowPrivate bool
}

// Options of a Client. Zero values are right but for Hosts.
type Options struct {
	Hosts          []Host
	ConnectTimeout time.Duration // 0 is 10 s
	Stall          time.Duration // without a byte for so long a transfer fails; 0 is 60 s
	AuthTTL        time.Duration // how long "may read" is believed for a caller; 0 is 15 s. "May not" is never kept
	Connections    int           // per host; 0 is 16
	Logger         *slog.Logger
	Transport      http.RoundTripper // nil is the guarded one; tests alone set it
}

// Repo is the identity of a repository: of its mirror, its gate key and its metrics. Paths are case-sensitive as URLs are,
// except on hosts known to fold case and the suffix .git (github.com, gitlab.com, bitbucket.org): there one repository has
// one identity however it is written.
type Repo struct{ Host, Path string }

func (r Repo) String() string { return r.Host + "/" + r.Path }

// Service is what of a repository a request is for.
type Service string

const (
	InfoRefs    Service = "info/refs"
	UploadPack  Service = "git-upload-pack"
	ReceivePack Service = "git-receive-pack"
	LFS         Service = "info/lfs" // and all below it
	EnsureRefs  Service = "ensure-refs"
)

// Credentials are what a caller brought. They print as nothing, and are compared by a keyed hash.
type Credentials struct{ authorization string }

// CredentialsOf takes them from a request; none is a value, too.
func CredentialsOf(h http.Header) Credentials { panic("contract") }

// Empty tells whether there are none.
func (c Credentials) Empty() bool { return c.authorization == "" }

// Kind of a Failure: one word of a closed set, for metrics.
type Kind string

const (
	Unauthorized Kind = "unauthorized" // 401, 403
	NotFound     Kind = "not_found"    // 404, 410
	RateLimited  Kind = "rate_limited" // 429, 503 with Retry-After, 403 of GitHub's rate limits
	Unavailable  Kind = "unavailable"  // 5xx, refused, cannot be resolved
	Stalled      Kind = "stalled"      // no byte for Options.Stall
	Truncated    Kind = "truncated"    // ended before its end
	Malformed    Kind = "malformed"    // no Git, or protocol that cannot be understood
	Redirected   Kind = "redirected"   // to another host
	NotOurRef    Kind = "not_our_ref"  // upstream knows no such object
	Unsupported  Kind = "unsupported"  // speaks no protocol v2: forward, do not mirror
)

// Failure is an upstream's.
type Failure struct {
	Kind       Kind
	Status     int           // HTTP, 0 if there was none
	RetryAfter time.Duration // as upstream said; 0 if it did not
	Challenge  []string      // WWW-Authenticate, to be passed on
	Err        error         // without credentials
}

func (f *Failure) Error() string { panic("contract") }
func (f *Failure) Unwrap() error { return f.Err }

// Refs is an advertisement.
type Refs struct {
	ObjectFormat string
	List         []Ref // in upstream's order; HEAD first if there is one
}

// Ref of an advertisement.
type Ref struct {
	Name   string
	OID    string // "" for an unborn HEAD
	Peeled string // of an annotated tag
	Symref string // target
}

// Client is safe for concurrent use.
type Client struct{}

// New checks o and starts nothing.
func New(o Options) (*Client, error) { panic("contract") }

// Resolve takes the undecoded path of a URL behind /git/ apart: host, repository, service. Empty, ".", ".." segments,
// encoded slashes, backslashes, control characters and segments that begin with "-" are errors; so is a host that is not
// allowed, whose error says how to allow it.
func (c *Client) Resolve(rawPath string) (Repo, Service, string, error) { panic("contract") }

// Authorize asks upstream whether the caller may read repo, unless that was asked within AuthTTL.
func (c *Client) Authorize(ctx context.Context, repo Repo, cred Credentials) error { panic("contract") }

// LsRefs returns what upstream advertises to the caller, all of it, with symrefs and peeled tags (protocol v2). It counts as
// Authorize.
func (c *Client) LsRefs(ctx context.Context, repo Repo, cred Credentials) (*Refs, error) {
	panic("contract")
}

// Fetch is one v2 fetch.
type Fetch struct {
	Wants, Haves []string
	Filter       string
	Depth        int
	Pack         io.Writer         // receives the pack
	Progress     func(line string) // of band 2; may be nil
}

// Fetch asks for a pack and writes it. The pack is whole if and only if the error is nil.
func (c *Client) Fetch(ctx context.Context, repo Repo, cred Credentials, f Fetch) error {
	panic("contract")
}

// Forward passes a request on with the caller's own credentials, and its answer back, both streamed; hop-by-hop fields and
// what is ours stay here. It is for pushes, LFS and what is not served from a mirror. Retry-After is kept.
func (c *Client) Forward(w http.ResponseWriter, r *http.Request, repo Repo, rest string) error {
	panic("contract")
}

// Stats counts failures by kind and requests by host; for metrics.
func (c *Client) Stats() Stats { panic("contract") }

// Stats is a snapshot.
type Stats struct {
	Requests uint64
	Failures map[Kind]uint64
}
