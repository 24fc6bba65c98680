package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/json"
)

const (
	fetchTimeout = 5 * time.Second
	askEvery     = 30 * time.Second // between two refreshes that tokens cause
	retryEvery   = 10 * time.Second // after a refresh that failed
	maxJWKS      = 256 << 10        // bytes of an answer
	maxKeys      = 32               // of one answer: a token without kid is tried with all of them
)

// keySet is an issuer's published keys. Run alone fetches; requests ask it to, and wait.
type keySet struct {
	url    *url.URL
	client *http.Client
	every  time.Duration
	logger *slog.Logger
	wake   chan struct{} // holds one; sent to by whoever makes pending, under mu

	mu struct {
		sync.Mutex
		keys       []key
		digest     [sha256.Size]byte // of the answer the keys are from
		generation uint64            // counts the answers that differed
		fetched    bool              // keys are from an answer
		failing    bool              // the last refresh failed
		askFrom    time.Time         // when an unknown kid may next cause a refresh
		pending    chan struct{}     // closed when the refresh ends that is asked for or under way; nil if none is
	}
}

func newKeySet(o Options) *keySet {
	u, _ := url.Parse(o.JWKSURL) // validated
	client := o.HTTPClient
	if client == nil {
		client = &http.Client{Timeout: fetchTimeout, CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if len(via) > 3 || !fetchable(r.URL) {
				return errors.New("redirected too often, or to where the answer could be changed on its way")
			}
			return nil
		}}
	}
	return &keySet{url: u, client: client, every: o.JWKSEvery, logger: o.Logger, wake: make(chan struct{}, 1)}
}

func (s *keySet) run(ctx context.Context) {
	for ctx.Err() == nil {
		wait := s.every
		if err := s.refresh(ctx); err != nil {
			wait = retryEvery
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-s.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// refresh fetches the keys once. Old keys stay when it fails: those who hold tokens are not to blame.
func (s *keySet) refresh(ctx context.Context) error {
	s.mu.Lock()
	if s.mu.pending == nil {
		s.mu.pending = make(chan struct{})
	}
	select {
	case <-s.wake: // answered by this very refresh
	default:
	}
	s.mu.Unlock()

	keys, digest, err := s.fetch(ctx)
	if err != nil && ctx.Err() == nil {
		s.logger.Warn("graphql: the keys of the tokens' issuer could not be read; those of the last time are used", "url", s.url.Redacted(), "err", err)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && (!s.mu.fetched || digest != s.mu.digest) {
		s.mu.keys, s.mu.digest, s.mu.fetched = keys, digest, true
		s.mu.generation++
	}
	s.mu.failing = err != nil
	s.mu.askFrom = time.Now().Add(askEvery)
	close(s.mu.pending)
	s.mu.pending = nil
	return err
}

func (s *keySet) fetch(ctx context.Context) ([]key, [sha256.Size]byte, error) {
	var none [sha256.Size]byte
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url.String(), nil)
	if err != nil {
		return nil, none, err
	}
	r.Header.Set("Accept", "application/jwk-set+json, application/json")
	answer, err := s.client.Do(r)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // without the URL, which may hold a password
		}
		return nil, none, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, none, fmt.Errorf("status %d", answer.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxJWKS+1))
	if err != nil {
		return nil, none, err
	}
	if len(body) > maxJWKS {
		return nil, none, fmt.Errorf("more than %d bytes", maxJWKS)
	}
	keys, err := readJWKS(body)
	return keys, sha256.Sum256(body), err
}

// readJWKS takes the keys that can be used and leaves the others, as RFC 7517, section 5, asks for. Symmetric and private
// keys are among the others: what is published is no secret.
func readJWKS(body []byte) ([]key, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(body, &set); err != nil {
		return nil, errors.New("not a JWKS")
	}
	var keys []key
	for _, raw := range set.Keys {
		var j jose.JSONWebKey
		if json.Unmarshal(raw, &j) != nil || j.Use != "" && j.Use != "sig" {
			continue
		}
		k, err := publicKey(j.Key)
		if err != nil {
			continue
		}
		k.id, k.algorithm = j.KeyID, j.Algorithm
		if keys = append(keys, k); len(keys) > maxKeys {
			return nil, fmt.Errorf("more than %d keys", maxKeys)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("no key that tokens could be verified with")
	}
	return keys, nil
}

// find gives the keys that may have signed a token, after a refresh if there are none and the time has come for one.
func (s *keySet) find(ctx context.Context, alg jose.SignatureAlgorithm, kid string) ([]key, *Refusal) {
	if keys := s.known(alg, kid); len(keys) > 0 {
		return keys, nil
	}
	s.await(ctx)
	if keys := s.known(alg, kid); len(keys) > 0 {
		return keys, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.mu.fetched || s.mu.failing {
		return nil, &Refusal{Status: http.StatusServiceUnavailable, Code: CodeUnavailable,
			Message: "the keys that would verify this token cannot be read from its issuer now; try again"}
	}
	return nil, unauthorized(CodeKeyUnknown, "the token is signed by a key that its issuer does not publish; get a new token")
}

func (s *keySet) known(alg jose.SignatureAlgorithm, kid string) []key {
	s.mu.Lock()
	all := s.mu.keys // never written again
	s.mu.Unlock()
	var keys []key
	for _, k := range all {
		if k.fits(alg, kid) {
			keys = append(keys, k)
		}
	}
	return keys
}

// await asks for a refresh, unless the last one is too fresh, and waits for its end.
func (s *keySet) await(ctx context.Context) {
	pending := s.ask()
	if pending == nil {
		return
	}
	timer := time.NewTimer(fetchTimeout)
	defer timer.Stop()
	select {
	case <-pending:
	case <-ctx.Done():
	case <-timer.C:
	}
}

func (s *keySet) ask() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.pending != nil {
		return s.mu.pending
	}
	if time.Now().Before(s.mu.askFrom) {
		return nil
	}
	s.mu.pending = make(chan struct{})
	s.wake <- struct{}{} // never blocks: it is sent only here, and drained by the refresh that ends pending
	return s.mu.pending
}

// generation changes with the keys, so that what old ones verified can be told.
func (s *keySet) generation() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.generation
}
