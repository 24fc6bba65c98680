package auth

import (
	"net/http"
	"strings"
)

// carriesTrusted says whether a request has any of the trusted headers.
func (v *Verifier) carriesTrusted(h http.Header) bool {
	for name := range h {
		if name == v.opt.RoleHeader || strings.HasPrefix(name, v.opt.ClaimHeader) {
			return true
		}
	}
	return false
}

// byHeaders makes an identity of trusted headers. A claim that cannot be set is refused by name, unlike a token's: whoever
// configures a proxy can give it another, and would look for it in vain.
func (v *Verifier) byHeaders(h http.Header) (Identity, *Refusal) {
	role, named, r := one(h, v.opt.RoleHeader)
	if r != nil {
		return Identity{}, r
	}
	var id Identity
	if id.Role, r = v.role(role, named, len(v.opt.Roles) == 0); r != nil {
		return Identity{}, r
	}
	s := settings{prefix: v.opt.ClaimPrefix, most: v.opt.MaxToken}
	for name := range h {
		rest, ok := strings.CutPrefix(name, v.opt.ClaimHeader)
		if !ok || name == v.opt.RoleHeader {
			continue
		}
		value, _, r := one(h, name)
		if r != nil {
			return Identity{}, r
		}
		claim := strings.ReplaceAll(strings.ToLower(rest), "-", "_")
		if !settable(claim) {
			return Identity{}, unauthorized(CodeHeaderInvalid, "the header "+truncate(name)+" names no claim that could be a setting")
		}
		if r := s.add(claim, value); r != nil {
			return Identity{}, r
		}
		if claim == "sub" {
			id.Key = value
		}
	}
	id.Settings, r = s.sorted()
	return id, r
}

// one gives the value of a header that may be there once.
func one(h http.Header, name string) (string, bool, *Refusal) {
	values := h[name]
	if len(values) > 1 {
		return "", false, unauthorized(CodeHeaderInvalid, "the header "+truncate(name)+" is there more than once")
	}
	if len(values) == 0 {
		return "", false, nil
	}
	return values[0], true, nil
}
