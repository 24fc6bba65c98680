package auth

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/go-jose/go-jose/v4"
)

func TestTheCacheGivesWhatVerificationGave(t *testing.T) {
	v := verifier(t, func(o *Options) { o.CacheBytes = 8 << 10 })
	for n := range 200 {
		for range 2 {
			id := passes(t, v, withToken(hs(fmt.Sprintf(`{"role":"person","sub":"%d"}`, n))))
			if id.Key != fmt.Sprint(n) || value(id, "jwt.claims.sub") != id.Key {
				t.Fatalf("token %d runs as %+v", n, id)
			}
		}
	}
	good := hs(`{"role":"person"}`)
	passes(t, v, withToken(good))
	wants(t, v, withToken(good[:len(good)-3]), 401, CodeInvalid)
}

func TestTheCacheKeepsItsBound(t *testing.T) {
	const bound = 1 << 20
	v := verifier(t, func(o *Options) { o.CacheBytes = bound })
	passes(t, v, withToken(hs(`{"role":"person"}`)))
	before := heap()
	for n := range 4000 {
		passes(t, v, withToken(hs(fmt.Sprintf(`{"role":"person","sub":"%d","name":"a name of usual length","admin":false}`, n))))
	}
	if grown := heap() - before; grown > bound {
		t.Errorf("the cache took %d bytes, more than its bound of %d", grown, bound)
	}
	if n := len(v.cache.mu.young) + len(v.cache.mu.old); n < 500 {
		t.Errorf("it holds only %d tokens", n)
	}
	runtime.KeepAlive(v)
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func BenchmarkIdentify(b *testing.B) {
	payload := `{"role":"person","sub":"7","person_id":3,"tenant":"acme","aud":"levee","iss":"https://issuer.example/","iat":1700000000,"exp":2900000000}`
	for _, alg := range []struct {
		name jose.SignatureAlgorithm
		key  any
	}{{jose.HS256, secret}, {jose.RS256, rsaKey()}, {jose.ES256, ecKey()}} {
		for _, size := range []int{0, 1 << 20} {
			b.Run(fmt.Sprintf("%s/cache=%t", alg.name, size > 0), func(b *testing.B) {
				v := verifier(b, func(o *Options) {
					o.PublicKeys = []string{publicPEM(rsaKey().Public()), publicPEM(ecKey().Public())}
					o.CacheBytes = size
				})
				h := withToken(sign(alg.name, alg.key, payload))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := v.Identify(b.Context(), h); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
