package upstream

import (
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// Host is an allowed upstream.
type Host struct {
	// URL is scheme and authority: "https://github.com", "http://127.0.0.1:8081". A repository is then
	// github.com/org/repo, 127.0.0.1:8081/org/repo.
	URL string

	// Token, if not empty, is sent with reads of callers that bring no credentials of their own: with info/refs for
	// upload-pack and with git-upload-pack, never with a push and never with LFS, whose uploads cannot be told by their
	// URL. It makes what it can read public to all callers, so it is the operator's explicit choice. "user:password" and a
	// bare token are sent as Basic; what has a space ("Bearer x") is sent as it is.
	Token string

	// AllowPrivate lets the host resolve to loopback, private and link-local addresses. A URL whose host is written as such
	// an address allows that address.
	AllowPrivate bool
}

// Options of a Client. Zero values are right but for Hosts.
type Options struct {
	Hosts []Host

	// ConnectTimeout is for resolving, connecting and TLS. 0 is 10 s.
	ConnectTimeout time.Duration

	// Stall: without a byte for so long a transfer fails. Too low: a host that counts objects without a word is taken for
	// dead. Too high: clients wait for a dead one. 0 is 60 s. The answer to a push may take ten times as long: a host may
	// run its hooks in silence, and nobody knows what became of a push that was cut.
	Stall time.Duration

	// AuthTTL is how long "may read" is believed for a caller. Too low: an upstream request more for each of ours. Too high:
	// who lost the right still reads. "May not" is never kept. 0 is 15 s.
	AuthTTL time.Duration

	// Connections bounds fetches per host; 0 is 16. Forwarded requests have as many again, and so have questions (may this
	// caller read, which refs are there): nobody's slow push is waited for by a mirror, and no transfer by a question.
	Connections int

	// MaxRefs bounds what is read of one advertisement, in bytes. Four times as much is held at most while it is read, three
	// times as much by its Refs. A larger one is Unsupported: it is to be forwarded. 0 is 64 MiB, about 800,000 refs.
	MaxRefs int64

	// ReceiveBuffer is SO_RCVBUF of each connection, of which the kernel may use twice as much. Too low: a distant host is
	// slow. 0 leaves it to the kernel, which bounds it by net.ipv4.tcp_rmem (6 MiB by default).
	ReceiveBuffer int

	Logger    *slog.Logger
	Transport http.RoundTripper // nil is the guarded one; tests alone set it
}

const (
	defaultConnectTimeout = 10 * time.Second
	defaultStall          = 60 * time.Second
	defaultAuthTTL        = 15 * time.Second
	defaultConnections    = 16
	defaultMaxRefs        = 64 << 20

	// pushPatience is how many times Stall the answer to a push may take.
	pushPatience = 10
)

func (o Options) withDefaults() Options {
	o.ConnectTimeout = or(o.ConnectTimeout, defaultConnectTimeout)
	o.Stall = or(o.Stall, defaultStall)
	o.AuthTTL = or(o.AuthTTL, defaultAuthTTL)
	o.Connections = or(o.Connections, defaultConnections)
	o.MaxRefs = or(o.MaxRefs, defaultMaxRefs)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// ConnectionBytes is what a connection with TLS and what is done with it hold at most, without its socket.
const ConnectionBytes = 128 << 10

// pools are the kinds of requests that have Options.Connections each.
const pools = 3

// MaxConnections is how many connections there may be at once, to all hosts.
func (o Options) MaxConnections() int {
	return len(o.Hosts) * pools * o.withDefaults().Connections
}

// or is v, or d if v is zero.
func or[T comparable](v, d T) T {
	var zero T
	if v == zero {
		return d
	}
	return v
}

func (o *Options) validate() error {
	switch {
	case o.ConnectTimeout < 0 || o.Stall < 0 || o.AuthTTL < 0:
		return fmt.Errorf("git upstream: ConnectTimeout, Stall and AuthTTL must not be negative")
	case o.Connections < 0 || o.MaxRefs < 0 || o.ReceiveBuffer < 0:
		return fmt.Errorf("git upstream: Connections, MaxRefs and ReceiveBuffer must not be negative")
	}
	return nil
}

// parseHost checks what an operator wrote and returns its URL and its name, by which clients know it.
func parseHost(h Host) (*url.URL, string, error) {
	u, err := url.Parse(h.URL)
	if err != nil {
		return nil, "", fmt.Errorf("git host: %w", withoutURL(err))
	}
	switch {
	case u.User != nil:
		// Said without the URL: it has a password in it.
		return nil, "", fmt.Errorf("git host %q: write it without user and password; a token has an option of its own", u.Host)
	case u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "":
		return nil, "", fmt.Errorf("git host %q: write it as https://example.com or http://example.com:8081", h.URL)
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		return nil, "", fmt.Errorf("git host %q: write scheme, host and port alone; all repositories of a host are reached", h.URL)
	case strings.HasSuffix(u.Hostname(), "."):
		return nil, "", fmt.Errorf("git host %q: write the name without a dot at its end", h.URL)
	}
	name := strings.ToLower(u.Host)
	if p := u.Port(); p == "" || p == defaultPort(u.Scheme) {
		name = strings.TrimSuffix(name, ":"+p)
	}
	return &url.URL{Scheme: u.Scheme, Host: name}, name, nil
}

func defaultPort(scheme string) string {
	if scheme == "http" {
		return "80"
	}
	return "443"
}

// withoutURL is the reason alone of a parse error, whose text quotes a URL that may have a password in it.
func withoutURL(err error) error {
	if e, ok := err.(*url.Error); ok {
		return e.Err
	}
	return err
}

// literal is the address that a host is written as, if it is.
func literal(u *url.URL) netip.Addr {
	a, err := netip.ParseAddr(u.Hostname())
	if err != nil {
		return netip.Addr{}
	}
	return a.Unmap()
}

// basicUsers are the user names under which hosts take a bare token; others take any.
var basicUsers = map[string]string{"bitbucket.org": "x-token-auth", "gitlab.com": "oauth2"}

// tokenAuthorization is the field that a Host.Token is sent as.
func tokenAuthorization(name, token string) string {
	switch {
	case token == "" || strings.Contains(token, " "):
		return token
	case strings.Contains(token, ":"):
		return basic(token)
	}
	return basic(or(basicUsers[name], "x-access-token") + ":" + token)
}

func basic(userPassword string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(userPassword))
}
