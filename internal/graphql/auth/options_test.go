package auth

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"
	"time"
)

func TestOptionsThatCannotBeRightAreRefusedByName(t *testing.T) {
	private := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: must(x509.MarshalPKCS8PrivateKey(ecKey()))}))
	weak := publicPEM(must(rsa.GenerateKey(rand.Reader, 1024)).Public())
	for name, c := range map[string]struct {
		setting string
		change  func(*Options)
	}{
		"a short secret":             {"Secret", func(o *Options) { o.Secret = []byte("short") }},
		"a private key":              {"PublicKeys", func(o *Options) { o.PublicKeys = []string{private} }},
		"a weak key":                 {"PublicKeys", func(o *Options) { o.PublicKeys = []string{weak} }},
		"no PEM":                     {"PublicKeys", func(o *Options) { o.PublicKeys = []string{"key"} }},
		"text behind the PEM":        {"PublicKeys", func(o *Options) { o.PublicKeys = []string{publicPEM(ecKey().Public()) + "x"} }},
		"http":                       {"JWKSURL", func(o *Options) { o.JWKSURL = "http://issuer.example/" }},
		"a file":                     {"JWKSURL", func(o *Options) { o.JWKSURL = "file:///keys" }},
		"refreshed too often":        {"JWKSEvery", func(o *Options) { o.JWKSURL, o.JWKSEvery = "https://issuer.example/", time.Second }},
		"the algorithm none":         {"Algorithms", func(o *Options) { o.Algorithms = []string{"none"} }},
		"an algorithm without a key": {"Algorithms", func(o *Options) { o.Algorithms = []string{"RS256"} }},
		"a large skew":               {"Skew", func(o *Options) { o.Skew = time.Hour }},
		"an empty step":              {"RoleClaim", func(o *Options) { o.RoleClaim = []string{"a", ""} }},
		"the connection's role":      {"Roles", func(o *Options) { o.Roles = []string{"none"} }},
		"an empty role":              {"Roles", func(o *Options) { o.Roles = []string{""} }},
		"a long role":                {"AnonymousRole", func(o *Options) { o.AnonymousRole = strings.Repeat("r", 64) }},
		"NUL in a role":              {"DefaultRole", func(o *Options) { o.DefaultRole = "a\x00" }},
		"no role for tokens":         {"Roles", func(o *Options) { o.Roles = nil }},
		"nobody to serve":            {"AnonymousRole", func(o *Options) { *o = Options{} }},
		"the header of tokens":       {"RoleHeader", func(o *Options) { o.RoleHeader = "authorization" }},
		"a header with a space":      {"ClaimHeader", func(o *Options) { o.ClaimHeader = "X Claim-" }},
		"a header's open end":        {"ClaimHeader", func(o *Options) { o.ClaimHeader = "X" }},
		"a negative bound":           {"MaxToken", func(o *Options) { o.MaxToken = -1 }},
	} {
		o := options()
		c.change(&o)
		v, err := New(o)
		if err == nil || v != nil || !strings.Contains(err.Error(), c.setting+": ") && !strings.Contains(err.Error(), c.setting+", ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNoPrefixReachesPostgreSQLsOwnSettings(t *testing.T) {
	for _, p := range []string{"claims", ".", ".claims.", "jwt..", "jwt claims.", "7.", "jwt.7", "é.", "jwt.\x00", "plpgsql.", "PLpgSQL.x.", "pg_trgm.", "auto_explain.", strings.Repeat("p", 64) + "."} {
		o := options()
		o.ClaimPrefix = p
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), "ClaimPrefix: ") {
			t.Errorf("%q: %v", p, err)
		}
	}
	for _, p := range []string{"jwt.", "jwt.claims.", "app.user_", "_._"} {
		o := options()
		o.ClaimPrefix = p
		if _, err := New(o); err != nil {
			t.Error(err)
		}
	}
}

func TestAnErrorOfTheOptionsContainsNoSecret(t *testing.T) {
	o := options()
	o.Secret = []byte("hunter2")
	o.JWKSURL = "ftp://user:hunter2@issuer.example/"
	if _, err := New(o); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Error(err)
	}
	o = options()
	o.JWKSURL = "https://user:hunter2@issuer.example:port/%zz"
	if _, err := New(o); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Error(err)
	}
}
