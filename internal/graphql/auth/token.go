package auth

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/json"
)

// claims are a verified token's, not decoded further than needed. go-jose's decoder tells letters' case apart and refuses a
// name that is there twice: two readers of one token must not see two.
type claims map[string]json.RawMessage

func (v *Verifier) byToken(ctx context.Context, token string) (Identity, *Refusal) {
	var generation uint64
	if v.jwks != nil {
		generation = v.jwks.generation()
	}
	if id, ok := v.cache.get(token, v.now(), generation); ok {
		return id, nil
	}
	if len(v.algorithms) == 0 {
		return Identity{}, unauthorized(CodeAlgorithm, "tokens are not accepted here: no key that could verify them is configured")
	}
	jws, err := jose.ParseSignedCompact(token, v.algorithms)
	if err != nil {
		var alg *jose.ErrUnexpectedSignatureAlgorithm
		if errors.As(err, &alg) {
			return Identity{}, unauthorized(CodeAlgorithm, "the token is signed by an algorithm that is not allowed here")
		}
		return Identity{}, unauthorized(CodeMalformed, "the token is no signed JSON Web Token")
	}
	payload, r := v.verify(ctx, jws)
	if r != nil {
		return Identity{}, r
	}
	var c claims
	if !utf8.Valid(payload) || json.Unmarshal(payload, &c) != nil || c == nil {
		return Identity{}, unauthorized(CodeMalformed, "the token does not contain a JSON object")
	}
	from, until, r := v.validity(c)
	if r != nil {
		return Identity{}, r
	}
	id, r := v.identity(c)
	if r != nil {
		return Identity{}, r
	}
	v.cache.put(token, entry{id: id, from: from, until: until, generation: generation})
	return id, nil
}

// verify gives the payload if a key that fits gives the token's signature.
func (v *Verifier) verify(ctx context.Context, jws *jose.JSONWebSignature) ([]byte, *Refusal) {
	header := jws.Signatures[0].Header
	alg := jose.SignatureAlgorithm(header.Algorithm)
	if payload, ok := try(jws, v.static, alg, header.KeyID); ok {
		return payload, nil
	}
	if v.jwks != nil && kinds[alg] != "secret" {
		keys, r := v.jwks.find(ctx, alg, header.KeyID)
		if r != nil {
			return nil, r
		}
		if payload, ok := try(jws, keys, alg, header.KeyID); ok {
			return payload, nil
		}
	}
	return nil, unauthorized(CodeInvalid, "the token's signature is not that of a key that is trusted here")
}

func try(jws *jose.JSONWebSignature, keys []key, alg jose.SignatureAlgorithm, kid string) ([]byte, bool) {
	for _, k := range keys {
		if !k.fits(alg, kid) {
			continue
		}
		if payload, err := jws.Verify(k.material); err == nil {
			return payload, true
		}
	}
	return nil, false
}

// identity is what verified claims make.
func (v *Verifier) identity(c claims) (Identity, *Refusal) {
	name, named, r := c.role(v.opt.RoleClaim)
	if r != nil {
		return Identity{}, r
	}
	role, r := v.role(name, named, false)
	if r != nil {
		return Identity{}, r
	}
	s := settings{prefix: v.opt.ClaimPrefix, most: v.opt.MaxToken}
	for claim, raw := range c {
		value, set := text(raw)
		if !set {
			continue
		}
		if !settable(claim) {
			v.skipped.Do(func() {
				v.opt.Logger.Warn("graphql: tokens have claims that no setting can be named after; they are not set", "first", claim[:min(len(claim), 80)])
			})
			continue
		}
		if r := s.add(claim, value); r != nil {
			return Identity{}, r
		}
	}
	list, r := s.sorted()
	if r != nil {
		return Identity{}, r
	}
	subject, _ := text(c["sub"])
	return Identity{Role: role, Settings: list, Key: subject}, nil
}

// role follows a path to a role's name. What is not a string names no role that could be allowed.
func (c claims) role(path []string) (name string, named bool, r *Refusal) {
	raw := c[path[0]]
	for _, step := range path[1:] {
		var inner claims
		if json.Unmarshal(raw, &inner) != nil {
			return "", false, nil
		}
		raw = inner[step]
	}
	if len(raw) == 0 || string(raw) == "null" {
		return "", false, nil
	}
	if json.Unmarshal(raw, &name) != nil {
		return "", false, forbidden(CodeRoleNotAllowed, "the role that the token names is not a string")
	}
	return name, true, nil
}

// validity checks when and for whom the token is, and gives from when and until when it is so, skew included, as seconds of
// Unix time. Seconds are floating: the specification allows fractions, and a date far away must not overflow.
func (v *Verifier) validity(c claims) (from, until float64, r *Refusal) {
	now := v.now()
	exp, hasExp, r := c.date("exp")
	if r != nil {
		return 0, 0, r
	}
	nbf, hasNbf, r := c.date("nbf")
	if r != nil {
		return 0, 0, r
	}
	from, until = nbf-v.skew, exp+v.skew
	if !hasNbf {
		from = 0
	}
	switch {
	case !hasExp && !v.opt.AllowNoExp:
		return 0, 0, unauthorized(CodeNoExpiry, "the token has no exp; tokens here must expire")
	case !hasExp:
		until = forever
	case now >= until:
		return 0, 0, unauthorized(CodeExpired, "the token has expired; get a new one")
	}
	if now < from {
		return 0, 0, unauthorized(CodeNotYetValid, "the token is not valid yet; are the clocks right?")
	}
	if v.opt.Issuer != "" && !c.is("iss", v.opt.Issuer) {
		return 0, 0, unauthorized(CodeIssuer, "the token is not from the issuer that is trusted here")
	}
	if len(v.opt.Audience) > 0 && !c.isFor(v.opt.Audience) {
		return 0, 0, unauthorized(CodeAudience, "the token is not for this service")
	}
	return from, until, nil
}

const forever = 1e300 // a date after all others

func (c claims) date(claim string) (float64, bool, *Refusal) {
	raw := strings.TrimSpace(string(c[claim]))
	if raw == "" || raw == "null" {
		return 0, false, nil
	}
	seconds, err := strconv.ParseFloat(raw, 64)
	if err != nil || !(raw[0] == '-' || '0' <= raw[0] && raw[0] <= '9') {
		return 0, false, unauthorized(CodeClaimInvalid, "the token's "+claim+" is not a number of seconds")
	}
	return seconds, true, nil
}

func (c claims) is(claim, want string) bool {
	var got string
	return json.Unmarshal(c[claim], &got) == nil && got == want
}

// isFor says whether aud, a string or a list of them, has one of the names.
func (c claims) isFor(names []string) bool {
	var one string
	if json.Unmarshal(c["aud"], &one) == nil {
		return slices.Contains(names, one)
	}
	var many []string
	if json.Unmarshal(c["aud"], &many) != nil {
		return false
	}
	return slices.ContainsFunc(many, func(a string) bool { return slices.Contains(names, a) })
}
