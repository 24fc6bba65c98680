package graphql

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/leveehq/levee/internal/graphql/auth"
	"github.com/leveehq/levee/internal/graphql/pgpool"
)

// instanceKey is what a tenant resolves to. Two tenants that resolve to the same share an instance, and one that resolves to
// something else from now on gets another.
type instanceKey string

// resolved is a tenant, ready to serve.
type resolved struct {
	name     string
	url      string
	schemas  []string
	settings []pgpool.Setting // sorted
	bypass   bool
	verifier *auth.Verifier
	key      instanceKey
}

func (s *Service) resolve(t Tenant) (*resolved, error) {
	v, err := s.verifier(t.Auth)
	if err != nil {
		return nil, fmt.Errorf("graphql tenant %q: %w", t.Name, err)
	}
	r := &resolved{name: t.Name, url: t.DatabaseURL, schemas: t.Schemas, bypass: t.AllowBypassRLS, verifier: v}
	for _, name := range slices.Sorted(maps.Keys(t.Settings)) {
		r.settings = append(r.settings, pgpool.Setting{Name: name, Value: t.Settings[name]})
	}
	parts, err := json.Marshal([]any{t.DatabaseURL, t.Schemas, t.Auth.AnonymousRole, t.Auth.DefaultRole, t.Auth.Roles, r.settings, t.AllowBypassRLS})
	if err != nil {
		return nil, err
	}
	r.key = instanceKey(parts)
	return r, nil
}

// verifier returns one for the options, shared by all who have equal ones: a set of keys is fetched once.
func (s *Service) verifier(o auth.Options) (*auth.Verifier, error) {
	id := fmt.Sprintf("%x %q %q %v %q %q %v %v %q %q %q %q %q %v %q %q %d", o.Secret, o.PublicKeys, o.JWKSURL, o.JWKSEvery, o.Algorithms, o.Audience, o.Issuer, o.Skew,
		fmt.Sprint(o.AllowNoExp), o.RoleClaim, o.ClaimPrefix, o.AnonymousRole, o.DefaultRole, o.Roles, fmt.Sprint(o.TrustedHeaders), o.RoleHeader+"|"+o.ClaimHeader, o.MaxToken)
	s.verifiers.Lock()
	defer s.verifiers.Unlock()
	if v, ok := s.verifiers.by[id]; ok {
		return v, nil
	}
	if len(s.verifiers.by) >= maxVerifiers {
		return nil, fmt.Errorf("there are %d different sets of roles and keys already: let tenants share them", maxVerifiers)
	}
	v, err := auth.New(s.tokenCache(o))
	if err != nil {
		return nil, err
	}
	s.verifiers.by[id] = v
	select {
	case s.verifiers.added <- v:
	default: // Run is not there yet; it begins with all of them
	}
	return v, nil
}

// maxVerifiers bounds different sets of roles and keys: each has a goroutine and a share of the tokens' memory.
const maxVerifiers = 64

type verifiers struct {
	sync.Mutex
	by    map[string]*auth.Verifier
	added chan *auth.Verifier
}

func (s *Service) verifiersPlanned() int {
	if s.opt.Resolver != nil {
		return maxVerifiers
	}
	return min(len(s.opt.Tenants), maxVerifiers)
}

// address is what a request asks for, and what says so.
type address struct {
	name string
	by   source
}

type source int

const (
	byPath source = iota
	byHeader
	byHost
)

// addressOf is the part of the path behind the prefix, or else the header that is trusted to say it, or else the Host. A header
// that is there and says nothing is not overruled by the Host: it leads nowhere.
func (s *Service) addressOf(r *http.Request) (address, error) {
	if rest, ok := strings.CutPrefix(r.URL.Path, Prefix+"/"); ok && rest != "" {
		return address{rest, byPath}, nil
	}
	if header := s.opt.TenantHeader; header != "" {
		switch values := r.Header.Values(header); len(values) {
		case 0:
		case 1:
			return address{values[0], byHeader}, nil
		default:
			return address{}, &problem{http.StatusBadRequest, "BAD_REQUEST", fmt.Sprintf("The header %s is there more than once.", header)}
		}
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return address{strings.ToLower(host), byHost}, nil
}

// tenant finds who a request is for. Without an error and a tenant there is none.
func (s *Service) tenant(ctx context.Context, a address) (*resolved, error) {
	if t := s.listed(a); t != nil || s.opt.Resolver == nil {
		return t, nil
	}
	return s.routes.find(ctx, a.name)
}

// listed finds a tenant of the configuration; nil if it is none of them.
func (s *Service) listed(a address) *resolved {
	switch a.by {
	case byHost:
		if t := s.byHost[a.name]; t != nil {
			return t
		}
		return s.byName[""]
	case byHeader:
		if t := s.byHost[strings.ToLower(a.name)]; t != nil {
			return t
		}
	}
	if a.name == "" {
		return nil
	}
	return s.byName[a.name]
}

// routes asks the operator's statement which tenant a name is, and believes the answer for a moment. A name has one asker at a
// time; the others wait for its answer.
type routes struct {
	ask      func(ctx context.Context, name string) (*resolved, error)
	left     func(key instanceKey) // no name leads to it any more
	ttl      time.Duration
	negative time.Duration
	mu       struct {
		sync.Mutex
		known map[string]*route
	}
}

type route struct {
	done  chan struct{} // closed when the answer is there
	until time.Time
	to    *resolved
	err   error

	before *resolved // what the name led to when that was last known
}

// maxRoutes bounds the names that are remembered: they come from clients.
const maxRoutes = 10_000

func (r *routes) find(ctx context.Context, name string) (*resolved, error) {
	r.mu.Lock()
	e, ok := r.mu.known[name]
	var before *resolved
	if ok && e.answered() && time.Now().After(e.until) {
		ok = false
		before = e.last()
	}
	if !ok {
		e = &route{done: make(chan struct{}), before: before}
		r.makeRoomLocked()
		r.mu.known[name] = e
	}
	r.mu.Unlock()
	if !ok {
		// The one who asks may leave, and others wait for the answer: so it is asked for on behalf of all.
		asked, cancel := context.WithTimeout(context.WithoutCancel(ctx), routeTimeout)
		e.to, e.err = r.ask(asked, name)
		cancel()
		e.until = time.Now().Add(r.lifetime(e))
		close(e.done)
		r.leave(e)
	}
	select {
	case <-e.done:
		return e.to, e.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

const routeTimeout = 5 * time.Second

func (e *route) answered() bool {
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}

// last is what the name is known to have led to. A failure tells nothing of it.
func (e *route) last() *resolved {
	if e.err != nil {
		return e.before
	}
	return e.to
}

// leave says so if what the name led to before is what no name leads to now.
func (r *routes) leave(e *route) {
	now := e.last()
	if e.before == nil || now != nil && now.key == e.before.key {
		return
	}
	r.mu.Lock()
	for _, other := range r.mu.known {
		if other.answered() && other.last() != nil && other.last().key == e.before.key {
			r.mu.Unlock()
			return
		}
	}
	r.mu.Unlock()
	r.left(e.before.key)
}

// lifetime of a failure is nothing: the next one asks again, and the pool's own back-off bounds how often that is.
func (r *routes) lifetime(e *route) time.Duration {
	switch {
	case e.err != nil:
		return 0
	case e.to == nil:
		return r.negative
	}
	return r.ttl
}

func (r *routes) makeRoomLocked() {
	if r.mu.known == nil {
		r.mu.known = map[string]*route{}
	}
	if len(r.mu.known) < maxRoutes {
		return
	}
	now := time.Now()
	maps.DeleteFunc(r.mu.known, func(_ string, e *route) bool { return e.answered() && now.After(e.until) })
	for name, e := range r.mu.known { // all are fresh: any will do, and the map's order is random
		if len(r.mu.known) < maxRoutes*7/8 { // so that not everyone who comes has to look at all
			return
		}
		if e.answered() {
			delete(r.mu.known, name)
		}
	}
}

// forget makes the next request of the name ask again; "" means of all.
func (r *routes) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if name == "" {
		r.mu.known = nil
		return
	}
	delete(r.mu.known, name)
}
