package graphql

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/leveehq/levee/internal/graphql/auth"
	"github.com/leveehq/levee/internal/pglocal/pgtest"
)

// claims with changes; nil removes one.
func claims(t *testing.T, change map[string]any) string {
	t.Helper()
	all := map[string]any{"sub": "u1", "role": "visitor", "aud": "levee", "exp": time.Now().Add(time.Hour).Unix()}
	maps.Copy(all, change)
	maps.DeleteFunc(all, func(_ string, v any) bool { return v == nil })
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func signed(t *testing.T, alg jose.SignatureAlgorithm, key any, payload string) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, nil)
	if err != nil {
		t.Fatal(err)
	}
	token, err := signer.Sign([]byte(payload))
	if err != nil {
		t.Fatal(err)
	}
	text, err := token.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// guarded is a tenant whose tokens must be signed by a secret or a key, for us, and end; anybody may be anonymous.
func guarded(t *testing.T, database string) (tenant Tenant, key *rsa.PrivateKey, public string) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	public = string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	tenant = visitors(t, database, "ta")
	tenant.Auth = auth.Options{Secret: testSecret, PublicKeys: []string{public}, Audience: []string{"levee"}, AnonymousRole: "visitor", Roles: []string{"visitor"}}
	return tenant, key, public
}

func bearer(token string) with { return headed("Authorization", "Bearer "+token) }

func TestQ16ABadTokenIs401WithItsCodeAndRunsNothing(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, notes("ta"))
	tenant, key, public := guarded(t, database)
	c := startCase(t, Options{Tenants: []Tenant{tenant}})
	hs := func(change map[string]any) string { return signed(t, jose.HS256, testSecret, claims(t, change)) }
	ago, ahead := time.Now().Add(-time.Hour).Unix(), time.Now().Add(time.Hour).Unix()
	good := hs(nil)
	parts := strings.Split(good, ".")
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + parts[1] + "."

	c.sees("ta", nil) // no token: the anonymous role
	c.sees("ta", []string{"1", "2"}, bearer(good))
	c.sees("ta", []string{"1", "2"}, bearer(signed(t, jose.RS256, key, claims(t, nil))))
	before := c.service.pool.Stats().Requests
	for name, bad := range map[string]struct{ authorization, code string }{
		"expired":                     {"Bearer " + hs(map[string]any{"exp": ago}), auth.CodeExpired},
		"a bad signature":             {"Bearer " + parts[0] + "." + parts[1] + "." + strings.Repeat("A", len(parts[2])), auth.CodeInvalid},
		"another audience":            {"Bearer " + hs(map[string]any{"aud": "others"}), auth.CodeAudience},
		"alg none":                    {"Bearer " + none, auth.CodeAlgorithm},
		"HS256 by the public key":     {"Bearer " + signed(t, jose.HS256, []byte(public), claims(t, nil)), auth.CodeInvalid},
		"exp missing":                 {"Bearer " + hs(map[string]any{"exp": nil}), auth.CodeNoExpiry},
		"nbf in the future":           {"Bearer " + hs(map[string]any{"nbf": ahead}), auth.CodeNotYetValid},
		"two spaces":                  {"Bearer  " + good, auth.CodeMalformed},
		"100 kB":                      {"Bearer " + strings.Repeat("a", 100_000), auth.CodeTooLarge},
		"a claim with NUL":            {"Bearer " + hs(map[string]any{"odd": "a\x00b"}), auth.CodeClaimInvalid},
		"the anonymous role, expired": {"Bearer " + hs(map[string]any{"role": "visitor", "exp": ago}), auth.CodeExpired},
	} {
		a := c.ask("ta", allNotes, headed("Authorization", bad.authorization))
		if a.status != http.StatusUnauthorized || a.code() != bad.code || a.Data != nil || a.header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s: %d %s", name, a.status, a.text)
		}
	}
	if ran := c.service.pool.Stats().Requests - before; ran != 0 {
		t.Errorf("%d of them reached the database", ran)
	}
}

func TestQ16ARoleThatIsNotAllowedIs403AndRunsNothing(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, notes("ta"))
	tenant, _, _ := guarded(t, database)
	c := startCase(t, Options{Tenants: []Tenant{tenant}})
	c.sees("ta", nil)
	before := c.service.pool.Stats().Requests
	for role, code := range map[any]string{"postgres": auth.CodeRoleNotAllowed, "app": auth.CodeRoleNotAllowed, "none": auth.CodeRoleNotAllowed, "Visitor": auth.CodeRoleNotAllowed, nil: auth.CodeRoleMissing} {
		a := c.ask("ta", allNotes, bearer(signed(t, jose.HS256, testSecret, claims(t, map[string]any{"role": role}))))
		if a.status != http.StatusForbidden || a.code() != code || a.Data != nil {
			t.Errorf("%v: %d %s", role, a.status, a.text)
		}
	}
	if ran := c.service.pool.Stats().Requests - before; ran != 0 {
		t.Errorf("%d of them reached the database", ran)
	}
}

func TestQ16ClaimsArriveAsTheyAre(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, notes("ta"))
	tenant, _, _ := guarded(t, database)
	c := startCase(t, Options{Tenants: []Tenant{tenant}})
	for _, odd := range []string{`it's`, `'; reset role; --`, `"double"`, `back\slash`, "line\nbreak", `$1 $$ %s`, "é ☃ 𝄞", strings.Repeat("'", 500)} {
		a := c.ask("ta", `{ who allNotes { nodes { rowId body } } }`, bearer(signed(t, jose.HS256, testSecret, claims(t, map[string]any{"odd": odd}))))
		ids, _ := a.rows()
		if a.Data["who"] != "app visitor u1 "+odd || !slices.Equal(ids, []string{"1", "2"}) {
			t.Errorf("%q: %d %s", odd, a.status, a.text)
		}
		c.sees("ta", nil)
	}
}

func TestQ16TheSkewIsAsConfigured(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, notes("ta"))
	for skew, passes := range map[time.Duration]bool{5 * time.Minute: true, -1: false} {
		tenant, _, _ := guarded(t, database)
		tenant.Auth.Skew = skew
		c := startCase(t, Options{Tenants: []Tenant{tenant}})
		for code, change := range map[string]map[string]any{
			auth.CodeExpired:     {"exp": time.Now().Add(-2 * time.Minute).Unix()},
			auth.CodeNotYetValid: {"nbf": time.Now().Add(2 * time.Minute).Unix()},
		} {
			a := c.ask("ta", allNotes, bearer(signed(t, jose.HS256, testSecret, claims(t, change))))
			if passes && a.status != http.StatusOK || !passes && (a.status != http.StatusUnauthorized || a.code() != code) {
				t.Errorf("skew %v: %d %s", skew, a.status, a.text)
			}
		}
	}
}
