package auth

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-jose/go-jose/v4"
)

func FuzzToken(f *testing.F) {
	o := options()
	strict(&o)
	o.Logger = slog.New(slog.DiscardHandler)
	v := must(New(o))
	for _, bad := range badTokens() {
		if len(bad.authorization) < 2000 {
			f.Add(bad.authorization)
		}
	}
	f.Add("Bearer " + sign(jose.RS256, rsaKey(), `{"role":"person","exp":2900000000,"aud":"levee","iss":"us"}`))
	f.Fuzz(func(t *testing.T, authorization string) {
		id, err := v.Identify(t.Context(), http.Header{"Authorization": {authorization}})
		var r *Refusal
		switch {
		case authorization == "":
			if err != nil || id.Role != "visitor" {
				t.Fatalf("no token: %+v, %v", id, err)
			}
		case err == nil:
			if id.Role == "visitor" && len(id.Settings) == 0 || id.Role == "" {
				t.Fatalf("a token became anonymous: %+v", id)
			}
		case !errors.As(err, &r) || r.Status != 401 && r.Status != 403 || r.Code == "" || r.Message == "":
			t.Fatalf("refused by %v", err)
		}
	})
}

// FuzzClaims signs what it is given: what a trusted issuer writes must not break the settings either.
func FuzzClaims(f *testing.F) {
	o := options()
	o.Logger = slog.New(slog.DiscardHandler)
	v := must(New(o))
	for _, p := range []string{`{"role":"person"}`, `{"role":"person","a":{"b":[1e400,"\u0000"]},"a.b":-0.0,"A":null}`, `{"role":"visitor","x":"'\\"}`, `{"role":"person","n":1e15,"exp":1e300,"nbf":-5}`} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, payload string) {
		id, err := v.Identify(t.Context(), withToken(sign(jose.HS256, secret, payload)))
		if err != nil {
			var r *Refusal
			if !errors.As(err, &r) || r.Status != 401 && r.Status != 403 {
				t.Fatalf("refused by %v", err)
			}
			return
		}
		if !v.allowed[id.Role] || id.Role == "" {
			t.Fatalf("runs as %q", id.Role)
		}
		for i, s := range id.Settings {
			claim, ok := strings.CutPrefix(s.Name, defaultPrefix)
			if !ok || !settable(claim) || strings.Contains(s.Value, "\x00") || !utf8.ValidString(s.Value) {
				t.Fatalf("sets %q to %q", s.Name, s.Value)
			}
			if i > 0 && id.Settings[i-1].Name >= s.Name {
				t.Fatalf("settings are not sorted: %v", id.Settings)
			}
		}
	})
}
