package auth

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Setting is a transaction-local setting of PostgreSQL's. Its name has a dot and is made of ASCII letters, digits, _, $ and
// dots; its value is UTF-8 without NUL.
type Setting struct{ Name, Value string }

// Identity is what a request runs as. It is shared with other requests: nobody changes Settings.
type Identity struct {
	Role     string    // "": none is set; the connection's own, which only ConnectionRole in the options allows
	Settings []Setting // sorted by name, each once
	Key      string    // the principal that fairness is between: the claim sub, or "" if there is none
}

// Verifier turns credentials into identities. It may be used by many goroutines.
type Verifier struct {
	opt        Options
	skew       float64 // seconds
	static     []key
	algorithms []jose.SignatureAlgorithm
	allowed    map[string]bool // roles that credentials may name
	jwks       *keySet         // nil if there is no URL
	cache      *cache          // nil if it may keep nothing
	skipped    sync.Once       // the log record of claims whose names are no setting's
}

// New checks the options and starts nothing. Its errors name the option.
func New(opt Options) (*Verifier, error) {
	opt = opt.withDefaults()
	if err := opt.validate(); err != nil {
		return nil, fmt.Errorf("auth: %w", err)
	}
	static, err := opt.staticKeys()
	if err != nil {
		return nil, fmt.Errorf("auth: %w", err)
	}
	algorithms, err := opt.algorithms(static)
	if err != nil {
		return nil, fmt.Errorf("auth: %w", err)
	}
	v := &Verifier{opt: opt, skew: max(opt.Skew, 0).Seconds(), static: static, algorithms: algorithms, allowed: map[string]bool{}}
	for _, r := range append([]string{opt.AnonymousRole, opt.DefaultRole}, opt.Roles...) {
		v.allowed[r] = r != "" && r != ConnectionRole
	}
	if opt.JWKSURL != "" {
		v.jwks = newKeySet(opt)
	}
	if opt.CacheBytes > 0 {
		v.cache = newCache(opt.CacheBytes)
	}
	return v, nil
}

// Run keeps the JWKS fresh until the context ends. Without it, and before its first answer, tokens that need the JWKS are
// refused with JWKS_UNAVAILABLE.
func (v *Verifier) Run(ctx context.Context) error {
	if v.jwks == nil {
		<-ctx.Done()
		return nil
	}
	if len(v.opt.Audience) == 0 {
		v.opt.Logger.Warn("graphql: a JWKS without an audience accepts tokens that its issuer made for other services; set the audience")
	}
	v.jwks.run(ctx)
	return nil
}

// Identify says what a request with these headers runs as. An error is a *Refusal. It waits for the network only if the token
// is signed by a key of the JWKS that is not known yet.
func (v *Verifier) Identify(ctx context.Context, h http.Header) (Identity, error) {
	token, r := bearer(h.Values("Authorization"), v.opt.MaxToken)
	if r != nil {
		return Identity{}, r
	}
	headers := v.opt.TrustedHeaders && v.carriesTrusted(h)
	var id Identity
	switch {
	case token != "" && headers:
		r = unauthorized(CodeConflict, "the request has a token and trusted headers; send one of them")
	case token != "":
		id, r = v.byToken(ctx, token)
	case headers:
		id, r = v.byHeaders(h)
	case v.opt.AnonymousRole == "":
		r = unauthorized(CodeRequired, "this needs a token: Authorization: Bearer ...")
	default:
		id.Role = loginRole(v.opt.AnonymousRole)
	}
	if r != nil { // a nil *Refusal must not become an error
		return Identity{}, r
	}
	return id, nil
}

// bearer gives the token of the Authorization headers; "" if there is none. One that is empty counts as none.
func bearer(values []string, maxToken int) (string, *Refusal) {
	if len(values) == 0 || len(values) == 1 && values[0] == "" {
		return "", nil
	}
	if len(values) > 1 {
		return "", unauthorized(CodeConflict, "the request has more than one Authorization header; send one")
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", unauthorized(CodeMalformed, "the Authorization header is not Bearer, one space and a token")
	}
	if len(token) > maxToken {
		return "", unauthorized(CodeTooLarge, fmt.Sprintf("the token is longer than %d bytes", maxToken))
	}
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return !tokenRune(r) }) {
		return "", unauthorized(CodeMalformed, "the Authorization header is not Bearer, one space and a token")
	}
	return token, nil
}

// tokenRune says what a compact JWS consists of. Decoders of base64 may skip line breaks; here they are not let in.
func tokenRune(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '_' || r == '.'
}

// role decides what credentials that name this role run as. named is false if they name none.
func (v *Verifier) role(name string, named, any bool) (string, *Refusal) {
	if !named {
		if v.opt.DefaultRole == "" {
			return "", forbidden(CodeRoleMissing, "the credentials name no role, and there is no default role for such")
		}
		return loginRole(v.opt.DefaultRole), nil
	}
	if v.allowed[name] || any && name != ConnectionRole && possibleRole(name) {
		return name, nil
	}
	return "", forbidden(CodeRoleNotAllowed, "the role that the credentials name is not among those that are allowed here")
}

func loginRole(role string) string {
	if role == ConnectionRole {
		return ""
	}
	return role
}

func (v *Verifier) now() float64 { return float64(time.Now().UnixMicro()) / 1e6 }
