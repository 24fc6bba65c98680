package auth

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-jose/go-jose/v4"
)

// ConnectionRole, as AnonymousRole or DefaultRole, is no role at all: SQL runs as the role that the connection logged in
// with. It is PostgreSQL's own word for that, so no role can have this name. No token and no header can ask for it.
const ConnectionRole = "none"

const (
	minSecret     = 32 // RFC 7518, section 3.2
	maxRole       = 63 // bytes of a PostgreSQL identifier
	maxPrefix     = 64
	maxSkew       = 10 * time.Minute
	minJWKSEvery  = 30 * time.Second
	defaultPrefix = "jwt.claims."
)

// Options of a Verifier. Zero means the default.
type Options struct {
	// Secret verifies HS256, HS384 and HS512. It has at least 32 bytes: a shorter one can be found by trying.
	Secret []byte

	// PublicKeys verify RS, PS, ES and EdDSA: PEM text, one or more blocks each, of public keys or certificates. A
	// certificate stands for its key only; its dates and issuer are not checked.
	PublicKeys []string

	// JWKSURL is where an issuer publishes its keys: https, or http on the machine itself. Run reads it every JWKSEvery
	// (10 min by default; at least 30 s), by HTTPClient (by default one that gives up after 5 s).
	JWKSURL    string
	JWKSEvery  time.Duration
	HTTPClient *http.Client

	// Algorithms that tokens may be signed by. By default those of the keys that are given: HS256 for a secret, RS256 for RSA
	// keys, ES256, ES384 or ES512 for the curve at hand, EdDSA, and RS256 with ES256 for a JWKS.
	Algorithms []string

	// Audience: a token must be for one of these. None means that aud is not looked at, which is right only if the issuer's
	// keys sign for nobody else. Issuer, if set, is what iss must be.
	Audience []string
	Issuer   string

	// Skew is how far the issuer's clock may be from ours: 30 s by default, at most 10 min; negative means not at all.
	Skew time.Duration

	// AllowNoExp lets tokens without exp pass. They are good for ever: only a new key ends them.
	AllowNoExp bool

	// RoleClaim is the path to the role's name; {"role"} by default. {"https://example.com/claims", "role"} is a member of an
	// object.
	RoleClaim []string

	// ClaimPrefix goes before a claim's name to make a setting's; "jwt.claims." by default. It contains a dot.
	ClaimPrefix string

	// AnonymousRole runs requests without credentials; "" turns them away. DefaultRole runs those whose valid token names no
	// role; "" turns them away too. ConnectionRole ("none") makes either run as the connection's own role.
	AnonymousRole string
	DefaultRole   string

	// Roles that tokens and trusted headers may name, to the letter; the two above are among them. If it is empty tokens may
	// name no other, and trusted headers may name any.
	Roles []string

	// TrustedHeaders makes RoleHeader ("X-Role") and headers that begin with ClaimHeader ("X-Claim-") as good as a token.
	// Whoever can reach the listener can then be anybody.
	TrustedHeaders bool
	RoleHeader     string
	ClaimHeader    string

	// MaxToken is the longest token, and the most that trusted headers have together, in bytes; 8 KiB by default.
	MaxToken int

	// CacheBytes bounds what is kept of verified tokens, so that they are not verified again; 0 keeps nothing. One entry takes
	// 1 to 2 KiB. It saves what a signature costs: microseconds for HS256, tens of them for RS256 and ES256.
	CacheBytes int

	// Logger is for what an operator must learn; nil is slog's.
	Logger *slog.Logger
}

// kinds says which key an algorithm needs.
var kinds = map[jose.SignatureAlgorithm]string{
	jose.HS256: "secret", jose.HS384: "secret", jose.HS512: "secret",
	jose.RS256: "RSA", jose.RS384: "RSA", jose.RS512: "RSA", jose.PS256: "RSA", jose.PS384: "RSA", jose.PS512: "RSA",
	jose.ES256: "P-256", jose.ES384: "P-384", jose.ES512: "P-521",
	jose.EdDSA: "Ed25519",
}

// usual says which algorithm a kind of key stands for when none are named.
var usual = map[string]jose.SignatureAlgorithm{
	"secret": jose.HS256, "RSA": jose.RS256, "P-256": jose.ES256, "P-384": jose.ES384, "P-521": jose.ES512, "Ed25519": jose.EdDSA,
}

func (o Options) withDefaults() Options {
	o.JWKSEvery = cmp.Or(o.JWKSEvery, 10*time.Minute)
	o.Skew = cmp.Or(o.Skew, 30*time.Second)
	o.ClaimPrefix = cmp.Or(o.ClaimPrefix, defaultPrefix)
	o.RoleHeader = http.CanonicalHeaderKey(cmp.Or(o.RoleHeader, "X-Role"))
	o.ClaimHeader = http.CanonicalHeaderKey(cmp.Or(o.ClaimHeader, "X-Claim-"))
	o.MaxToken = cmp.Or(o.MaxToken, 8<<10)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	if len(o.RoleClaim) == 0 {
		o.RoleClaim = []string{"role"}
	}
	return o
}

func (o Options) validate() error {
	if len(o.Secret) > 0 && len(o.Secret) < minSecret {
		return fmt.Errorf("Secret: has %d bytes; it needs at least %d, made by chance", len(o.Secret), minSecret)
	}
	if o.Skew > maxSkew {
		return fmt.Errorf("Skew: %v is more than %v; set the clocks right instead", o.Skew, maxSkew)
	}
	if o.MaxToken < 0 || o.CacheBytes < 0 {
		return errors.New("MaxToken, CacheBytes: must not be negative")
	}
	if slices.Contains(o.RoleClaim, "") {
		return errors.New("RoleClaim: a step of the path is empty")
	}
	return errors.Join(o.validateJWKS(), o.validateRoles(), o.validateHeaders(), validatePrefix(o.ClaimPrefix))
}

func (o Options) validateJWKS() error {
	if o.JWKSURL == "" {
		return nil
	}
	if o.JWKSEvery < minJWKSEvery {
		return fmt.Errorf("JWKSEvery: %v is less than %v", o.JWKSEvery, minJWKSEvery)
	}
	u, err := url.Parse(o.JWKSURL)
	if err != nil || u.Host == "" {
		return errors.New("JWKSURL: is not a URL such as https://issuer.example/.well-known/jwks.json")
	}
	if !fetchable(u) {
		return errors.New("JWKSURL: must be https, or http on this machine: whoever can change the answer can sign tokens")
	}
	return nil
}

// fetchable says whether nobody but the host itself can have written what is read there.
func fetchable(u *url.URL) bool {
	if u.Scheme == "https" {
		return true
	}
	ip := net.ParseIP(u.Hostname())
	return u.Scheme == "http" && (u.Hostname() == "localhost" || ip != nil && ip.IsLoopback())
}

func (o Options) validateRoles() error {
	for _, r := range o.Roles {
		if r == ConnectionRole {
			return fmt.Errorf("Roles: %q would let tokens run as the connection's own role; set DefaultRole if that is meant", r)
		}
		if err := validateRole("Roles", r); err != nil {
			return err
		}
	}
	for _, r := range []struct{ setting, role string }{{"AnonymousRole", o.AnonymousRole}, {"DefaultRole", o.DefaultRole}} {
		if r.role == "" {
			continue
		}
		if err := validateRole(r.setting, r.role); err != nil {
			return err
		}
	}
	keys := len(o.Secret) > 0 || len(o.PublicKeys) > 0 || o.JWKSURL != ""
	if !keys && !o.TrustedHeaders && o.AnonymousRole == "" {
		return errors.New("AnonymousRole: nobody could be served: give a key for tokens (Secret, PublicKeys, JWKSURL), or a role for requests without one")
	}
	if keys && len(o.Roles) == 0 && o.DefaultRole == "" {
		return errors.New("Roles: no token could be served: list the roles that tokens may name, or set DefaultRole")
	}
	return nil
}

func validateRole(setting, role string) error {
	if !possibleRole(role) {
		return fmt.Errorf("%s: %.80q is not the name of a role: 1 to %d bytes of UTF-8 without NUL", setting, role, maxRole)
	}
	return nil
}

func possibleRole(role string) bool {
	return role != "" && len(role) <= maxRole && utf8.ValidString(role) && !strings.Contains(role, "\x00")
}

func (o Options) validateHeaders() error {
	for _, h := range []struct{ setting, name string }{{"RoleHeader", o.RoleHeader}, {"ClaimHeader", o.ClaimHeader}} {
		if !headerName.MatchString(h.name) || h.name == "Authorization" {
			return fmt.Errorf("%s: %.80q is not the name of a header that can be used for this", h.setting, h.name)
		}
	}
	if !strings.HasSuffix(o.ClaimHeader, "-") {
		return fmt.Errorf("ClaimHeader: %.80q does not end in -, so other headers could begin with it by chance", o.ClaimHeader)
	}
	return nil
}

var (
	headerName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*$`)
	prefixForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*\.([A-Za-z_][A-Za-z0-9_]*\.)*([A-Za-z_][A-Za-z0-9_]*)?$`)
)

// owned are the first parts of settings that PostgreSQL's languages and extensions read.
var owned = []string{"plpgsql", "plperl", "plperlu", "plpython", "plpython3u", "pltcl", "pltclu", "plv8", "auto_explain", "auth_delay", "passwordcheck", "postgres_fdw", "dblink", "sepgsql", "basic_archive"}

func validatePrefix(p string) error {
	if len(p) > maxPrefix || !prefixForm.MatchString(p) {
		return fmt.Errorf("ClaimPrefix: %.80q must be names with a dot, such as %q: claims must not reach PostgreSQL's own settings, which have none", p, defaultPrefix)
	}
	first, _, _ := strings.Cut(strings.ToLower(p), ".")
	if strings.HasPrefix(first, "pg_") || slices.Contains(owned, first) {
		return fmt.Errorf("ClaimPrefix: settings that begin with %q belong to an extension of PostgreSQL's; choose another", first+".")
	}
	return nil
}
