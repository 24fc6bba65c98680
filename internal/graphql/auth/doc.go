// Package auth turns the credentials of a request into who runs its SQL: a role and transaction-local settings.
//
// It refuses to know SQL, tenants and GraphQL, to guess, and to downgrade: a request that offers credentials runs as these
// credentials say or not at all. Only a request without any is anonymous.
//
// The algorithm of Identify:
//
//  1. No Authorization header (or an empty one, which some clients send when nobody is logged in), and no trusted header:
//     the anonymous role; 401 if there is none.
//  2. One Authorization header, "Bearer", one space, and a compact JWS of at most MaxToken bytes; all else is 401. The
//     algorithm must be one of Algorithms, so "none" never passes. Keys are picked by the kind that the algorithm needs, so
//     a public key is never the secret of an HMAC. Keys that a token brings along (jwk, jku, x5c) are not looked at.
//  3. Static keys are tried first. Then those of the JWKS by the token's kid, or all if it names none. A kid that is not
//     known makes one refresh, at most every 30 s, and the request waits for it: a rotation costs nobody a log-out.
//  4. exp (required unless AllowNoExp), nbf, iss and aud, with Skew. iat is not compared with the clock.
//  5. The role is the string at RoleClaim. It must be one of Roles, the anonymous role or the default one, to the letter:
//     403 otherwise. A token without a role runs as DefaultRole. Where that is not set it is 403: to become anonymous
//     without a word is what a valid token's owner does not expect. PostGraphile falls back to its default role; set
//     DefaultRole to have the same.
//  6. Every claim becomes a setting named ClaimPrefix + claim. Strings are set as they are, numbers as the token writes them
//     (integers in digits, also 3.0 and 1e3), booleans as true and false, objects and arrays as compact JSON text; null sets
//     nothing. A claim whose name PostgreSQL does not take as a part of a setting's ("https://example.com/x", "my-claim"), or
//     that is longer than 63 bytes, is skipped, since identity providers add such claims unasked; its values are still within
//     RoleClaim's reach. Two claims that name one setting (PostgreSQL folds case) and a value with NUL are 401.
//
// No claim can set role, search_path, statement_timeout or another of PostgreSQL's own settings, whatever the prefix: those
// have no dot in their names, and the prefix has one. Prefixes that belong to extensions (plpgsql.) are refused.
//
// Trusted headers (X-Role, X-Claim-person_id) are for a listener that only the operator's own proxy reaches. They follow
// the same rules: the role must be listed if Roles is not empty, claims without a role run as DefaultRole. A header's name
// has no case, so a claim's name is in lower case with _ for -. Both a token and trusted headers in one request are 401:
// two answers to who this is are none. Without TrustedHeaders the headers mean nothing and are not looked at.
//
// No error text and no log record contains a token, a part of one or a claim's value.
package auth
