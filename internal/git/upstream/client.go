package upstream

import (
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"
)

// Client is safe for concurrent use.
type Client struct {
	o       Options // with defaults
	hosts   map[string]*host
	ordered []*host // as in Options
	hasher  hasher

	// allowedAt is when upstream was asked that last said "may read".
	allowedAt *recent[callerKey, struct{}]
	// adverts are capabilities of repositories, so that a question about refs is one request, not two.
	adverts *recent[Repo, *advert]
	// moved is where repositories are that upstream redirects.
	moved *recent[Repo, string]
	// silent are repositories of which upstream said nothing when it was asked, and how that failed.
	silent  *recent[Repo, *Failure]
	flights flights

	failures [numKinds]atomic.Uint64
}

const (
	// Bounds of what is remembered: about 200, 1000, 300 and 500 bytes each.
	maxAllowed = 8192
	maxAdverts = 2048
	maxMoved   = 1024
	maxSilent  = 256

	// advertTTL is how long a repository's capabilities are believed without a question. What a host learns to speak it
	// speaks for months; what it unlearns is noticed by its answer.
	advertTTL = 5 * time.Minute
)

// New checks o and starts nothing.
func New(o Options) (*Client, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	c := &Client{o: o, hosts: map[string]*host{}, hasher: newHasher(),
		allowedAt: newRecent[callerKey, struct{}](maxAllowed), adverts: newRecent[Repo, *advert](maxAdverts),
		moved: newRecent[Repo, string](maxMoved), silent: newRecent[Repo, *Failure](maxSilent)}
	c.flights.mu.under = map[callerKey]*flight{}
	for _, given := range o.Hosts {
		h, err := newHost(given, o)
		if err != nil {
			return nil, err
		}
		if c.hosts[h.name] != nil {
			return nil, fmt.Errorf("git host %q is named twice", h.name)
		}
		c.hosts[h.name] = h
		c.ordered = append(c.ordered, h)
	}
	return c, nil
}

// Close ends idle connections. It may be called more than once; a request after it makes new ones.
func (c *Client) Close() {
	for _, h := range c.ordered {
		if t, ok := h.transport.(*http.Transport); ok {
			t.CloseIdleConnections()
		}
	}
}

// host is one upstream: what is bounded, backed off and counted per host.
type host struct {
	o         *Options
	name      string // by which clients know it
	base      string // scheme and authority
	token     string // an Authorization
	transport http.RoundTripper

	questions, fetches, forwards slots
	backoff                      backoff
	budget                       budget

	requests, retries, spared atomic.Uint64
}

func newHost(given Host, o Options) (*host, error) {
	u, name, err := parseHost(given)
	if err != nil {
		return nil, err
	}
	h := &host{o: &o, name: name, base: u.String(), token: tokenAuthorization(name, given.Token), transport: o.Transport,
		questions: newSlots(o.Connections), fetches: newSlots(o.Connections), forwards: newSlots(o.Connections)}
	if h.transport == nil {
		h.transport = newTransport(u, &guard{host: name, private: given.AllowPrivate, written: literal(u), buffer: o.ReceiveBuffer}, o)
	}
	return h, nil
}

// hostOf finds the host of a Repo, which Resolve made.
func (c *Client) hostOf(r Repo) (*host, error) {
	if h := c.hosts[r.Host]; h != nil && r.Path != "" {
		return h, nil
	}
	return nil, fmt.Errorf("git upstream: %q is no repository of a host that is allowed", r.String())
}

// readAs is the Authorization for a read.
func (h *host) readAs(cred Credentials) string {
	if cred.Empty() {
		return h.token
	}
	return cred.field()
}

// Stats is a snapshot.
type Stats struct {
	Requests uint64 // sent, retries among them
	Failures map[Kind]uint64
	Hosts    []HostStats // in the order of Options
}

// HostStats is one host's.
type HostStats struct {
	Name     string
	Requests uint64
	Retries  uint64
	// Spared counts requests that failed here, unsent, because a Retry-After was not over or upstream had just been silent.
	Spared uint64
	// Backoff is what is left of the Retry-After that holds for all of the host; 0 is none.
	Backoff time.Duration
	// Questions, Fetches and Forwards are under way.
	Questions, Fetches, Forwards int
}

// Stats counts failures by kind and requests by host; for metrics.
func (c *Client) Stats() Stats {
	s := Stats{Failures: map[Kind]uint64{}}
	for i, k := range Kinds {
		s.Failures[k] = c.failures[i].Load()
	}
	for _, h := range c.ordered {
		hs := HostStats{Name: h.name, Requests: h.requests.Load(), Retries: h.retries.Load(), Spared: h.spared.Load(),
			Backoff: h.backoff.host(time.Now()), Questions: h.questions.inUse(), Fetches: h.fetches.inUse(), Forwards: h.forwards.inUse()}
		s.Requests += hs.Requests
		s.Hosts = append(s.Hosts, hs)
	}
	return s
}

// count remembers an upstream's failure, and passes it on.
func (c *Client) count(err error) error {
	var f *Failure
	if !errors.As(err, &f) || f.local {
		return err
	}
	for i, k := range Kinds {
		if k == f.Kind {
			c.failures[i].Add(1)
		}
	}
	return err
}
