package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

var (
	secret = []byte("thirty-two bytes of test secret!")
	rsaKey = sync.OnceValue(func() *rsa.PrivateKey { return must(rsa.GenerateKey(rand.Reader, 2048)) })
	ecKey  = sync.OnceValue(func() *ecdsa.PrivateKey { return must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)) })
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func publicPEM(k crypto.PublicKey) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: must(x509.MarshalPKIXPublicKey(k))}))
}

// sign makes a token of a payload as it is written.
func sign(alg jose.SignatureAlgorithm, key any, payload string, headers ...string) string {
	opt := &jose.SignerOptions{}
	for i := 0; i+1 < len(headers); i += 2 {
		opt.WithHeader(jose.HeaderKey(headers[i]), headers[i+1])
	}
	s := must(jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, opt))
	return must(must(s.Sign([]byte(payload))).CompactSerialize())
}

func hs(payload string) string { return sign(jose.HS256, secret, payload) }

// options that suit most tests: every token of these tests that is meant to pass needs no exp.
func options() Options {
	return Options{Secret: secret, AllowNoExp: true, AnonymousRole: "visitor", Roles: []string{"person", "admin"}}
}

func verifier(t testing.TB, change func(*Options)) *Verifier {
	t.Helper()
	o := options()
	if change != nil {
		change(&o)
	}
	v, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func header(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i+1 < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

func withToken(token string) http.Header { return header("Authorization", "Bearer "+token) }

// wants checks that headers are refused with this status and code, and that nothing of the identity is there.
func wants(t *testing.T, v *Verifier, h http.Header, status int, code string) *Refusal {
	t.Helper()
	id, err := v.Identify(t.Context(), h)
	var r *Refusal
	if !errors.As(err, &r) {
		t.Fatalf("got %+v, %v; want the refusal %s", id, err, code)
	}
	if r.Status != status || r.Code != code {
		t.Errorf("got %d %s (%s), want %d %s", r.Status, r.Code, r.Message, status, code)
	}
	if id.Role != "" || id.Settings != nil || id.Key != "" {
		t.Errorf("a refusal came with the identity %+v", id)
	}
	return r
}

func passes(t *testing.T, v *Verifier, h http.Header) Identity {
	t.Helper()
	id, err := v.Identify(t.Context(), h)
	if err != nil {
		t.Fatalf("refused: %v", err)
	}
	return id
}

func value(id Identity, name string) string {
	for _, s := range id.Settings {
		if s.Name == name {
			return s.Value
		}
	}
	return "(not set)"
}

func in(d time.Duration) int64 { return time.Now().Add(d).Unix() }
