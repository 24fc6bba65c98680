package hostguard

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func newGuard(t *testing.T, hosts ...string) *Guard {
	t.Helper()
	g, err := New(Options{Hosts: hosts, Setting: "listen.hosts"})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestOnlyLoopbackAndConfiguredHostsAreAccepted(t *testing.T) {
	g := newGuard(t, "Cache.internal", "*.Apps.example", "192.0.2.7", "10.0.0.0/8", "[2001:db8::1]")
	for host, want := range map[string]bool{
		"localhost": true, "LOCALHOST:8080": true, "localhost.": true,
		"127.0.0.1:8080": true, "127.8.9.10": true, "[::1]:8080": true, "[::1]": true, "[::ffff:127.0.0.1]:80": true,
		"cache.internal:8080": true, "cache.INTERNAL.": true, "192.0.2.7:1": true, "10.1.2.3:8080": true, "[2001:db8::1]:80": true,
		"": false, ":8080": false, "evil.example:8080": false, "localhost.evil.example": false, "evil.localhost": false,
		"127.0.0.1.evil.example": false, "192.0.2.8": false, "0.0.0.0:8080": false, "[2001:db8::2]:80": false, "127.1": false,
		"cache.internal.evil.example": false, "shop.apps.example:8080": true, "a.b.apps.example": true,
		"apps.example": false, ".apps.example": false, "evilapps.example": false, "shop.apps.example.evil": false, "a b": false,
	} {
		if got := g.Accepts(host); got != want {
			t.Errorf("Accepts(%q) = %v, want %v", host, got, want)
		}
	}
	if !newGuard(t, "*").Accepts("evil.example") {
		t.Error("* does not accept every host")
	}
}

func TestAHostThatIsNoneIsRefusedByName(t *testing.T) {
	for _, h := range []string{"", "http://cache", "cache:8080", "*.", "*.a*", "a b", "10.0.0.0/33"} {
		_, err := New(Options{Hosts: []string{h}, Setting: "listen.hosts"})
		if err == nil || !strings.Contains(err.Error(), "listen.hosts") {
			t.Errorf("host %q: error is %v", h, err)
		}
	}
}

func TestAWebPageCannotWrite(t *testing.T) {
	type headers map[string]string
	tests := []struct {
		name, method, host string
		headers            headers
		want               int
	}{
		{"a build tool", "PUT", "127.0.0.1:8080", nil, 200},
		{"a name that was pointed at us", "PUT", "evil.example:8080", nil, 403},
		{"a name that was pointed at us, reading", "GET", "evil.example:8080", nil, 403},
		{"a page of another site", "PUT", "localhost:8080", headers{"Sec-Fetch-Site": "cross-site"}, 403},
		{"a page on another port of this machine", "PUT", "localhost:8080", headers{"Sec-Fetch-Site": "same-site"}, 403},
		{"an old browser", "PUT", "localhost:8080", headers{"Origin": "http://localhost:3000"}, 403},
		{"a sandboxed page", "PUT", "localhost:8080", headers{"Origin": "null"}, 403},
		{"a page of our own", "PUT", "localhost:8080", headers{"Origin": "http://localhost:8080"}, 200},
		{"a link to the status page", "GET", "localhost:8080", headers{"Sec-Fetch-Site": "cross-site"}, 200},
	}
	h := newGuard(t).Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200) }))
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest(tt.method, "/cas/x", nil)
			r.Host = tt.host
			for k, v := range tt.headers {
				r.Header.Set(k, v)
			}
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, r)
			if rec.Code != tt.want {
				t.Errorf("status %d, want %d: %s", rec.Code, tt.want, rec.Body)
			}
			if rec.Code == 403 && tt.host == "evil.example:8080" && !strings.Contains(rec.Body.String(), "add it to listen.hosts") {
				t.Errorf("the text does not say what to change: %s", rec.Body)
			}
		})
	}
}
