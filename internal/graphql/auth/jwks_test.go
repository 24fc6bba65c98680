package auth

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// issuer answers for a JWKS without a network, so that time can be virtual.
type issuer struct {
	mu struct {
		sync.Mutex
		body  string
		err   error
		delay time.Duration
		asked int
	}
}

func (i *issuer) RoundTrip(r *http.Request) (*http.Response, error) {
	i.mu.Lock()
	i.mu.asked++
	body, err, delay := i.mu.body, i.mu.err, i.mu.delay
	i.mu.Unlock()
	select {
	case <-time.After(delay):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	if err != nil {
		return nil, err
	}
	status := 200
	if body == "" {
		status = 500
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

func (i *issuer) publish(keys ...jose.JSONWebKey) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.mu.body, i.mu.err = string(must(json.Marshal(jose.JSONWebKeySet{Keys: keys}))), nil
}

func (i *issuer) fail(err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.mu.err = err
}

func (i *issuer) answer(body string, delay time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.mu.body, i.mu.delay = body, delay
}

func (i *issuer) asked() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.mu.asked
}

func newEC() *ecdsa.PrivateKey { return must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)) }

func public(kid string, k *ecdsa.PrivateKey) jose.JSONWebKey {
	return jose.JSONWebKey{Key: k.Public(), KeyID: kid}
}

func signedBy(kid string, k *ecdsa.PrivateKey) http.Header {
	return withToken(sign(jose.ES256, k, `{"role":"person"}`, "kid", kid))
}

func ofIssuer(i *issuer) func(*Options) {
	return func(o *Options) {
		o.JWKSURL, o.HTTPClient = "https://user:pa55word@issuer.example/jwks", &http.Client{Transport: i}
		o.Audience, o.Logger = nil, slog.New(slog.DiscardHandler)
	}
}

// rotating runs a verifier in a bubble until the test ends.
func rotating(t *testing.T, i *issuer, f func(t *testing.T, v *Verifier)) {
	synctest.Test(t, func(t *testing.T) {
		v := verifier(t, ofIssuer(i))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- v.Run(ctx) }()
		f(t, v)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestATokenWaitsForTheFirstKeys(t *testing.T) {
	i, k := &issuer{}, newEC()
	i.publish(public("a", k))
	i.mu.delay = 3 * time.Second
	rotating(t, i, func(t *testing.T, v *Verifier) {
		if id := passes(t, v, signedBy("a", k)); id.Role != "person" {
			t.Errorf("runs as %q", id.Role)
		}
		if n := i.asked(); n != 1 {
			t.Errorf("asked %d times", n)
		}
	})
}

func TestARotatedKeyIsFetchedAtOnceButNotMoreThanEvery30Seconds(t *testing.T) {
	i, old, fresh := &issuer{}, newEC(), newEC()
	i.publish(public("old", old))
	rotating(t, i, func(t *testing.T, v *Verifier) {
		passes(t, v, signedBy("old", old))
		for range 5 {
			wants(t, v, signedBy("none such", fresh), 401, CodeKeyUnknown)
		}
		if n := i.asked(); n != 1 {
			t.Fatalf("asked %d times within 30 s of the first", n)
		}
		i.publish(public("fresh", fresh), public("old", old))
		time.Sleep(askEvery) // virtual
		passes(t, v, signedBy("fresh", fresh))
		passes(t, v, signedBy("old", old))
		if n := i.asked(); n != 2 {
			t.Errorf("asked %d times", n)
		}
	})
}

func TestManyRequestsWithAnUnknownKeyCauseOneRefresh(t *testing.T) {
	i, k := &issuer{}, newEC()
	i.publish(public("a", k))
	rotating(t, i, func(t *testing.T, v *Verifier) {
		synctest.Wait()
		time.Sleep(askEvery)
		i.answer(i.mu.body, time.Second)
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				_, err := v.Identify(t.Context(), signedBy("b", k))
				var r *Refusal
				if !errors.As(err, &r) || r.Code != CodeKeyUnknown {
					t.Errorf("got %v", err)
				}
			})
		}
		all.Wait()
		if n := i.asked(); n != 2 {
			t.Errorf("asked %d times", n)
		}
	})
}

func TestOldKeysStayWhileTheIssuerIsAwayAndNewOnesAre503(t *testing.T) {
	i, k := &issuer{}, newEC()
	i.publish(public("a", k))
	rotating(t, i, func(t *testing.T, v *Verifier) {
		passes(t, v, signedBy("a", k))
		i.fail(errors.New("away"))
		time.Sleep(time.Hour)
		passes(t, v, signedBy("a", k))
		wants(t, v, signedBy("b", k), 503, CodeUnavailable)
		wants(t, v, signedBy("a", newEC()), 401, CodeInvalid)
		i.publish(public("b", k))
		time.Sleep(retryEvery)
		synctest.Wait()
		passes(t, v, signedBy("b", k))
		wants(t, v, signedBy("a", k), 401, CodeKeyUnknown)
	})
}

func TestWithoutRunATokenOfTheIssuerIs503InBoundedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, start := verifier(t, ofIssuer(&issuer{})), time.Now()
		wants(t, v, signedBy("a", ecKey()), 503, CodeUnavailable)
		if d := time.Since(start); d != fetchTimeout {
			t.Errorf("after %v", d)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := v.Identify(ctx, signedBy("a", ecKey())); err == nil || ctx.Err() == nil {
			t.Errorf("a client that left was answered %v", err)
		}
		passes(t, v, withToken(hs(`{"role":"person"}`))) // needs no issuer
	})
}

func TestASlowIssuerIsGivenUp(t *testing.T) {
	i := &issuer{}
	i.answer("{}", time.Hour)
	rotating(t, i, func(t *testing.T, v *Verifier) {
		wants(t, v, signedBy("a", ecKey()), 503, CodeUnavailable)
	})
}

func TestAKeyThatIsNoLongerPublishedVerifiesNothingNotEvenFromTheCache(t *testing.T) {
	i, k := &issuer{}, newEC()
	i.publish(public("a", k))
	synctest.Test(t, func(t *testing.T) {
		v := verifier(t, func(o *Options) { ofIssuer(i)(o); o.CacheBytes = 1 << 20 })
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go v.Run(ctx)
		h := signedBy("a", k)
		passes(t, v, h)
		passes(t, v, h)
		i.publish(public("b", k))
		time.Sleep(11 * time.Minute)
		synctest.Wait()
		wants(t, v, h, 401, CodeKeyUnknown)
	})
}

func TestAJWKSGivesItsUsableKeysOnly(t *testing.T) {
	k := newEC()
	sig, enc, oct, private := public("sig", k), public("enc", k), jose.JSONWebKey{Key: secret, KeyID: "oct"}, jose.JSONWebKey{Key: k, KeyID: "private"}
	sig.Use, sig.Algorithm, enc.Use = "sig", "ES256", "enc"
	var raw []string
	for _, j := range []jose.JSONWebKey{sig, enc, oct, private} {
		raw = append(raw, string(must(json.Marshal(j))))
	}
	raw = append(raw, `{"kty":"new"}`, `7`, `{"kty":"RSA","n":"AQAB","e":"AQAB"}`)
	keys, err := readJWKS([]byte(`{"keys":[` + strings.Join(raw, ",") + `],"more":1}`))
	if err != nil || len(keys) != 1 || keys[0].id != "sig" || !keys[0].fits(jose.ES256, "sig") || keys[0].fits(jose.ES256, "x") || keys[0].fits(jose.HS256, "sig") {
		t.Errorf("keys %+v, %v", keys, err)
	}
	for _, bad := range []string{"", "[]", `{"keys":7}`, `{"keys":[]}`, `{"keys":[` + raw[2] + `]}`, `{"keys":[` + strings.Repeat(raw[0]+",", maxKeys) + raw[0] + `]}`} {
		if keys, err := readJWKS([]byte(bad)); err == nil {
			t.Errorf("%.40s gives %v", bad, keys)
		}
	}
}

func TestAJWKSIsReadUpToItsBoundAndItsURLStaysSecret(t *testing.T) {
	i := &issuer{}
	i.answer(`{"keys":[],"x":"`+strings.Repeat("x", maxJWKS)+`"}`, 0)
	var log bytes.Buffer
	v := verifier(t, func(o *Options) { ofIssuer(i)(o); o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	if err := v.jwks.refresh(t.Context()); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("a large answer: %v", err)
	}
	i.fail(errors.New("refused"))
	if err := v.jwks.refresh(t.Context()); err == nil || err.Error() != "refused" {
		t.Errorf("no answer: %v", err)
	}
	if strings.Contains(log.String(), "pa55word") || !strings.Contains(log.String(), "issuer.example") {
		t.Error(log.String())
	}
}

func TestATokenOfTheJWKSIsNeverVerifiedByTheSecret(t *testing.T) {
	i, k := &issuer{}, newEC()
	i.publish(public("a", k))
	synctest.Test(t, func(t *testing.T) {
		v := must(New(Options{JWKSURL: "https://issuer.example/", HTTPClient: &http.Client{Transport: i}, Roles: []string{"person"}, Logger: slog.New(slog.DiscardHandler)}))
		for _, key := range [][]byte{[]byte(publicPEM(k.Public())), []byte(i.mu.body)} {
			wants(t, v, withToken(sign(jose.HS256, key, `{"role":"person"}`, "kid", "a")), 401, CodeAlgorithm)
		}
	})
}

func TestATokenStopsToPassWhenItExpiresAlsoFromTheCache(t *testing.T) {
	for _, size := range []int{0, 1 << 20} {
		synctest.Test(t, func(t *testing.T) {
			v := verifier(t, func(o *Options) { o.CacheBytes = size })
			h := withToken(hs(fmt.Sprintf(`{"role":"person","nbf":%d,"exp":%d}`, in(time.Minute), in(2*time.Minute))))
			wants(t, v, h, 401, CodeNotYetValid)
			time.Sleep(30 * time.Second)
			passes(t, v, h)
			time.Sleep(2*time.Minute - time.Millisecond)
			passes(t, v, h)
			time.Sleep(time.Millisecond)
			wants(t, v, h, 401, CodeExpired)
		})
	}
}

func TestTheSkewIsAsConfigured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := withToken(hs(fmt.Sprintf(`{"role":"person","exp":%d}`, in(-45*time.Second))))
		wants(t, verifier(t, nil), h, 401, CodeExpired)
		passes(t, verifier(t, func(o *Options) { o.Skew = time.Minute }), h)
		now := withToken(hs(fmt.Sprintf(`{"role":"person","exp":%d}`, in(0))))
		passes(t, verifier(t, nil), now)
		wants(t, verifier(t, func(o *Options) { o.Skew = -1 }), now, 401, CodeExpired)
	})
}
