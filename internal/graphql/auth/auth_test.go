package auth

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

func TestQ16NoTokenIsTheAnonymousRole(t *testing.T) {
	for _, h := range []http.Header{nil, header(), header("Authorization", ""), header("X-Role", "admin", "X-Claim-A", "1")} {
		if id := passes(t, verifier(t, nil), h); id.Role != "visitor" || id.Settings != nil || id.Key != "" {
			t.Errorf("%v runs as %+v", h, id)
		}
	}
}

func TestQ16NoTokenIsRefusedWhereThereIsNoAnonymousRole(t *testing.T) {
	wants(t, verifier(t, func(o *Options) { o.AnonymousRole = "" }), nil, 401, CodeRequired)
}

func TestTheConnectionsRoleIsTakenOnlyInSoManyWords(t *testing.T) {
	v := verifier(t, func(o *Options) { o.AnonymousRole, o.DefaultRole = ConnectionRole, ConnectionRole })
	for _, h := range []http.Header{nil, withToken(hs(`{"sub":"7"}`))} {
		if id := passes(t, v, h); id.Role != "" {
			t.Errorf("runs as %q", id.Role)
		}
	}
	wants(t, v, withToken(hs(`{"role":"NONE"}`)), 403, CodeRoleNotAllowed)
	wants(t, v, withToken(hs(`{"role":"none\u0000"}`)), 403, CodeRoleNotAllowed)
	wants(t, v, withToken(hs(`{"role":"none"}`)), 403, CodeRoleNotAllowed)
	wants(t, v, withToken(hs(`{"role":""}`)), 403, CodeRoleNotAllowed)
}

// badTokens are refused by a verifier with a secret and an RSA key, exp required, an audience and an issuer.
func badTokens() map[string]struct {
	authorization, code string
} {
	type bad = struct{ authorization, code string }
	claims := func(more string) string {
		return fmt.Sprintf(`{"role":"person","aud":"levee","iss":"us","exp":%d%s}`, in(time.Hour), more)
	}
	good := hs(claims(""))
	parts := strings.Split(good, ".")
	raw := base64.RawURLEncoding.EncodeToString
	none := raw([]byte(`{"alg":"none"}`)) + "." + parts[1] + "."
	return map[string]bad{
		"expired":                     {"Bearer " + hs(fmt.Sprintf(`{"role":"person","aud":"levee","iss":"us","exp":%d}`, in(-time.Minute))), CodeExpired},
		"exp 0":                       {"Bearer " + hs(`{"role":"person","aud":"levee","iss":"us","exp":0}`), CodeExpired},
		"exp negative":                {"Bearer " + hs(`{"role":"person","aud":"levee","iss":"us","exp":-1e300}`), CodeExpired},
		"exp missing":                 {"Bearer " + hs(`{"role":"person","aud":"levee","iss":"us"}`), CodeNoExpiry},
		"exp null":                    {"Bearer " + hs(`{"role":"person","aud":"levee","iss":"us","exp":null}`), CodeNoExpiry},
		"exp a string":                {"Bearer " + hs(`{"role":"person","aud":"levee","iss":"us","exp":"2999999999"}`), CodeClaimInvalid},
		"exp too large for a number":  {"Bearer " + hs(`{"role":"person","aud":"levee","iss":"us","exp":1e999}`), CodeClaimInvalid},
		"nbf in the future":           {"Bearer " + hs(claims(fmt.Sprintf(`,"nbf":%d`, in(time.Minute)))), CodeNotYetValid},
		"nbf no number":               {"Bearer " + hs(claims(`,"nbf":true`)), CodeClaimInvalid},
		"another audience":            {"Bearer " + hs(fmt.Sprintf(`{"role":"person","aud":["a","b"],"iss":"us","exp":%d}`, in(time.Hour))), CodeAudience},
		"no audience":                 {"Bearer " + hs(fmt.Sprintf(`{"role":"person","iss":"us","exp":%d}`, in(time.Hour))), CodeAudience},
		"another issuer":              {"Bearer " + hs(fmt.Sprintf(`{"role":"person","aud":"levee","iss":"them","exp":%d}`, in(time.Hour))), CodeIssuer},
		"another secret":              {"Bearer " + sign(jose.HS256, []byte(strings.Repeat("x", 32)), claims("")), CodeInvalid},
		"another key":                 {"Bearer " + sign(jose.ES256, ecKey(), claims("")), CodeAlgorithm},
		"no algorithm":                {"Bearer " + none, CodeAlgorithm},
		"no algorithm, by other case": {"Bearer " + raw([]byte(`{"alg":"nOnE"}`)) + "." + parts[1] + ".", CodeAlgorithm},
		"no alg at all":               {"Bearer " + raw([]byte(`{}`)) + "." + parts[1] + "." + parts[2], CodeAlgorithm},
		"an algorithm not listed":     {"Bearer " + sign(jose.HS512, append(secret, secret...), claims("")), CodeAlgorithm},
		"HS256 by the public key":     {"Bearer " + sign(jose.HS256, []byte(publicPEM(rsaKey().Public())), claims("")), CodeInvalid},
		"RS256 header, HMAC below":    {"Bearer " + raw([]byte(`{"alg":"RS256"}`)) + "." + parts[1] + "." + parts[2], CodeInvalid},
		"a changed payload":           {"Bearer " + parts[0] + "." + raw([]byte(claims(`,"x":1`))) + "." + parts[2], CodeInvalid},
		"no signature":                {"Bearer " + parts[0] + "." + parts[1] + ".", CodeInvalid},
		"two parts":                   {"Bearer " + parts[0] + "." + parts[1], CodeMalformed},
		"five parts":                  {"Bearer " + good + ".a.b", CodeMalformed},
		"two spaces":                  {"Bearer  " + good, CodeMalformed},
		"a tab":                       {"Bearer\t" + good, CodeMalformed},
		"a tab within":                {"Bearer " + parts[0] + ".\t" + parts[1] + "." + parts[2], CodeMalformed},
		"a line break within":         {"Bearer " + parts[0] + "." + parts[1] + ".\n" + parts[2], CodeMalformed},
		"a space behind":              {"Bearer " + good + " ", CodeMalformed},
		"two tokens":                  {"Bearer " + good + ", Bearer " + good, CodeMalformed},
		"no token":                    {"Bearer", CodeMalformed},
		"no token but a space":        {"Bearer ", CodeMalformed},
		"a space":                     {" ", CodeMalformed},
		"another scheme":              {"Basic dTpw", CodeMalformed},
		"the token alone":             {good, CodeMalformed},
		"100 kB":                      {"Bearer " + strings.Repeat("a", 100_000), CodeTooLarge},
		"a list":                      {"Bearer " + hs(`[]`), CodeMalformed},
		"null":                        {"Bearer " + hs(`null`), CodeMalformed},
		"no JSON":                     {"Bearer " + hs(`role`), CodeMalformed},
		"a claim twice":               {"Bearer " + hs(claims(`,"role":"admin"`)), CodeMalformed},
		"bytes that are not UTF-8":    {"Bearer " + hs(claims(",\"x\":[\"\xff\"]")), CodeMalformed},
		"a critical header":           {"Bearer " + withCritical(claims("")), CodeInvalid},
		"NUL in a claim":              {"Bearer " + hs(claims(`,"name":"a\u0000b"`)), CodeClaimInvalid},
		"two claims, one setting":     {"Bearer " + hs(claims(`,"name":"a","Name":"b"`)), CodeClaimInvalid},
		"100 claims":                  {"Bearer " + hs(claims(manyClaims(100))), CodeTooManyClaims},
	}
}

func manyClaims(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"c%d":%d`, i, i)
	}
	return b.String()
}

func withCritical(payload string) string {
	opt := (&jose.SignerOptions{}).WithHeader("crit", []string{"odd"}).WithHeader("odd", true)
	return must(must(must(jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: secret}, opt)).Sign([]byte(payload))).CompactSerialize())
}

func strict(o *Options) {
	o.PublicKeys = []string{publicPEM(rsaKey().Public())}
	o.AllowNoExp, o.Audience, o.Issuer = false, []string{"levee", "other"}, "us"
}

func TestQ16ABadTokenIs401WithACodeNeverAnonymous(t *testing.T) {
	v := verifier(t, strict)
	for name, bad := range badTokens() {
		t.Run(name, func(t *testing.T) {
			r := wants(t, v, header("Authorization", bad.authorization), 401, bad.code)
			for _, part := range strings.FieldsFunc(bad.authorization, func(r rune) bool { return r == '.' || r == ' ' }) {
				if len(part) > 6 && strings.Contains(r.Error(), part) {
					t.Errorf("the text repeats the token: %s", r.Error())
				}
			}
		})
	}
}

func TestQ16TwoAuthorizationHeadersAreRefused(t *testing.T) {
	good := "Bearer " + hs(`{"role":"person"}`)
	for _, other := range []string{good, "", "Basic dTpw"} {
		wants(t, verifier(t, nil), header("Authorization", good, "Authorization", other), 401, CodeConflict)
		wants(t, verifier(t, nil), header("Authorization", other, "Authorization", good), 401, CodeConflict)
	}
}

func TestATokenNeedsAKeyEvenWhereNoneIsConfigured(t *testing.T) {
	v := must(New(Options{AnonymousRole: "visitor"}))
	wants(t, v, withToken(hs(`{"role":"visitor"}`)), 401, CodeAlgorithm)
}

func TestQ16AGoodTokenOfEveryKindPasses(t *testing.T) {
	v := verifier(t, func(o *Options) {
		strict(o)
		o.PublicKeys = append(o.PublicKeys, publicPEM(ecKey().Public()))
	})
	payload := fmt.Sprintf(`{"role":"person","sub":"7","aud":["x","levee"],"iss":"us","nbf":%d,"exp":%d.5}`, in(0), in(time.Hour))
	for alg, key := range map[jose.SignatureAlgorithm]any{jose.HS256: secret, jose.RS256: rsaKey(), jose.ES256: ecKey()} {
		for _, scheme := range []string{"Bearer ", "bearer ", "BEARER "} {
			id := passes(t, v, header("Authorization", scheme+sign(alg, key, payload, "kid", "whatever")))
			if id.Role != "person" || id.Key != "7" || value(id, "jwt.claims.sub") != "7" || value(id, "jwt.claims.aud") != `["x","levee"]` {
				t.Errorf("%s: runs as %+v", alg, id)
			}
		}
	}
}

func TestQ16ARoleThatIsNotListedIs403(t *testing.T) {
	v := verifier(t, nil)
	for _, role := range []string{`"postgres"`, `"Person"`, `"person "`, `"person\u0000"`, `"\"person\""`, `"public"`, `"session_user"`, `["person"]`, `7`, `{}`, `true`} {
		wants(t, v, withToken(hs(`{"role":`+role+`}`)), 403, CodeRoleNotAllowed)
	}
	for _, role := range []string{"person", "admin", "visitor"} {
		if id := passes(t, v, withToken(hs(`{"role":"`+role+`"}`))); id.Role != role {
			t.Errorf("%s runs as %q", role, id.Role)
		}
	}
}

func TestQ16ATokenWithoutARoleIs403UnlessThereIsADefaultRole(t *testing.T) {
	for _, payload := range []string{`{}`, `{"role":null}`, `{"Role":"admin"}`} {
		wants(t, verifier(t, nil), withToken(hs(payload)), 403, CodeRoleMissing)
		if id := passes(t, verifier(t, func(o *Options) { o.DefaultRole = "member" }), withToken(hs(payload))); id.Role != "member" {
			t.Errorf("%s runs as %q", payload, id.Role)
		}
	}
}

func TestTheRoleIsFoundByItsPath(t *testing.T) {
	for _, c := range []struct {
		path    []string
		payload string
	}{
		{[]string{"realm_access", "role"}, `{"realm_access":{"role":"person"},"role":"admin"}`},
		{[]string{"https://example.com/role"}, `{"https://example.com/role":"person"}`},
		{[]string{"a.b", "c", "d"}, `{"a.b":{"c":{"d":"person"}}}`},
	} {
		v := verifier(t, func(o *Options) { o.RoleClaim = c.path })
		if id := passes(t, v, withToken(hs(c.payload))); id.Role != "person" {
			t.Errorf("%v runs as %q", c.path, id.Role)
		}
		for _, other := range []string{`{}`, `{"a.b":7}`, `{"realm_access":["role"]}`, `{"role":"person"}`} {
			wants(t, v, withToken(hs(other)), 403, CodeRoleMissing)
		}
	}
}
