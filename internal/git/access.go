package git

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	"github.com/leveehq/levee/internal/git/mirror"
	"github.com/leveehq/levee/internal/git/upstream"
)

// access remembers who could read what of late, for the time in which upstream cannot be asked. It never lets anybody read
// whom upstream has turned away since.
type access struct {
	grace time.Duration
	key   []byte
	mu    struct {
		sync.Mutex
		seen map[pass]time.Time // when upstream last said yes
	}
}

// pass is a keyed hash of a repository and of what the caller brought.
type pass [16]byte

// maxPasses bounds the memory: 48 bytes each.
const maxPasses = 8192

func newAccess(grace time.Duration) *access {
	a := &access{grace: grace, key: make([]byte, 32)}
	_, _ = rand.Read(a.key) // never fails
	a.mu.seen = map[pass]time.Time{}
	return a
}

func (a *access) pass(repo upstream.Repo, authorization string) (p pass) {
	h := hmac.New(sha256.New, a.key)
	h.Write([]byte(repo.String() + "\x00" + authorization))
	copy(p[:], h.Sum(nil))
	return p
}

func (a *access) granted(p pass) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, known := a.mu.seen[p]; !known && len(a.mu.seen) >= maxPasses {
		for other := range a.mu.seen { // any one: who is forgotten must ask upstream while it is down, and is turned away
			delete(a.mu.seen, other)
			break
		}
	}
	a.mu.seen[p] = time.Now()
}

func (a *access) denied(p pass) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.mu.seen, p)
}

// within tells whether one of the passes was good within the grace time.
func (a *access) within(passes ...pass) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range passes {
		if at, ok := a.mu.seen[p]; ok && time.Since(at) < a.grace {
			return true
		}
	}
	return false
}

// authorize returns nil if upstream lets this caller read now, or has within the grace time and cannot be asked.
func (c *call) authorize() error {
	p := c.access.pass(c.repo, c.r.Header.Get("Authorization"))
	err := c.upstream.Authorize(c.r.Context(), c.repo, c.cred)
	var f *upstream.Failure
	switch {
	case err == nil:
		c.access.granted(p)
		return nil
	case !errors.As(err, &f):
		return err
	case f.Kind == upstream.Unauthorized || f.Kind == upstream.NotFound:
		c.access.denied(p)
		return err
	case f.Outage() && c.access.within(p, c.access.pass(c.repo, "")): // who brings credentials may read what all may
		c.stale = err
		return nil
	}
	return err
}

// refs are upstream's, as fresh as is configured.
func (c *call) refs() (*mirror.View, error) {
	v, err := c.mirrors.Refs(c.r.Context(), c.repo, c.cred)
	if err != nil {
		return nil, err
	}
	if v.Stale != nil {
		c.stale = v.Stale
	}
	c.known.learn(c.repo, v)
	return v, nil
}

// known is what was last seen of repositories' refs, for requests that need not ask again.
type known struct {
	mu struct {
		sync.Mutex
		of    map[upstream.Repo]sighting
		swept time.Time // when old refs were last let go
	}
}

type sighting struct {
	format string
	asked  time.Time
	view   *mirror.View
}

const (
	maxKnown = 1024 // repositories that are remembered

	// keepView is how long refs are kept for those who need not ask again; then they are the mirror's alone.
	keepView = time.Minute
)

func (k *known) learn(repo upstream.Repo, v *mirror.View) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.mu.of == nil {
		k.mu.of = map[upstream.Repo]sighting{}
	}
	if _, ok := k.mu.of[repo]; !ok && len(k.mu.of) >= maxKnown {
		for other := range k.mu.of { // any one: it is asked again
			delete(k.mu.of, other)
			break
		}
	}
	now := time.Now()
	k.mu.of[repo] = sighting{v.Refs.ObjectFormat, now.Add(-v.Age), v}
	if now.Sub(k.mu.swept) < keepView {
		return
	}
	k.mu.swept = now
	for other, s := range k.mu.of {
		if now.Sub(s.asked) > keepView {
			k.mu.of[other] = sighting{format: s.format}
		}
	}
}

func (k *known) forget(repo upstream.Repo) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.mu.of, repo)
}

// view is what was seen within the time given.
func (k *known) view(repo upstream.Repo, within time.Duration) (*mirror.View, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s, ok := k.mu.of[repo]
	return s.view, ok && s.view != nil && time.Since(s.asked) < within
}

func (k *known) format(repo upstream.Repo) (string, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s, ok := k.mu.of[repo]
	return s.format, ok
}
