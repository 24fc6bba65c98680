package auth

import "net/http"

// Refusal is why a request runs nothing. Code is for programs and stays as it is; Message is for people and contains nothing
// of the token but names of claims and roles.
type Refusal struct {
	Status  int // 401: bring other credentials; 403: these are good, but not for this; 503: the keys could not be had
	Code    string
	Message string
}

func (r *Refusal) Error() string { return r.Code + ": " + r.Message }

// The codes of refusals.
const (
	CodeRequired       = "TOKEN_REQUIRED"       // 401: no credentials, and there is no anonymous role
	CodeMalformed      = "TOKEN_MALFORMED"      // 401: not "Bearer", one space and a JWS
	CodeTooLarge       = "TOKEN_TOO_LARGE"      // 401
	CodeAlgorithm      = "TOKEN_ALGORITHM"      // 401: signed by an algorithm that is not allowed
	CodeInvalid        = "TOKEN_INVALID"        // 401: no key gives that signature
	CodeKeyUnknown     = "TOKEN_KEY_UNKNOWN"    // 401: its kid is not in the JWKS
	CodeExpired        = "TOKEN_EXPIRED"        // 401
	CodeNoExpiry       = "TOKEN_NO_EXPIRY"      // 401
	CodeNotYetValid    = "TOKEN_NOT_YET_VALID"  // 401
	CodeAudience       = "TOKEN_AUDIENCE"       // 401
	CodeIssuer         = "TOKEN_ISSUER"         // 401
	CodeClaimInvalid   = "CLAIM_INVALID"        // 401: a claim of the wrong kind, or that no setting can hold
	CodeTooManyClaims  = "CLAIMS_TOO_MANY"      // 401: by number or bytes
	CodeHeaderInvalid  = "HEADER_INVALID"       // 401: a trusted header twice, or with bytes that are not UTF-8
	CodeConflict       = "CREDENTIALS_CONFLICT" // 401: a token and trusted headers, or two tokens
	CodeRoleMissing    = "ROLE_MISSING"         // 403
	CodeRoleNotAllowed = "ROLE_NOT_ALLOWED"     // 403
	CodeUnavailable    = "JWKS_UNAVAILABLE"     // 503
)

func unauthorized(code, message string) *Refusal {
	return &Refusal{Status: http.StatusUnauthorized, Code: code, Message: message}
}

func forbidden(code, message string) *Refusal {
	return &Refusal{Status: http.StatusForbidden, Code: code, Message: message}
}
