package auth

import (
	"bytes"
	stdjson "encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-jose/go-jose/v4/json"
)

const maxClaims = 64

// settings collects claims as settings.
type settings struct {
	prefix string
	most   int // bytes of claims and values together
	bytes  int
	list   []Setting
}

func (s *settings) add(claim, value string) *Refusal {
	if len(s.list) == maxClaims {
		return unauthorized(CodeTooManyClaims, fmt.Sprintf("the credentials have more than %d claims", maxClaims))
	}
	if s.bytes += len(claim) + len(value); s.bytes > s.most {
		return unauthorized(CodeTooManyClaims, fmt.Sprintf("the claims have more than %d bytes", s.most))
	}
	if strings.Contains(value, "\x00") || !utf8.ValidString(value) {
		return unauthorized(CodeClaimInvalid, fmt.Sprintf("the claim %s contains what PostgreSQL cannot hold: a NUL, or bytes that are not UTF-8", truncate(claim)))
	}
	s.list = append(s.list, Setting{Name: s.prefix + claim, Value: value})
	return nil
}

func (s *settings) sorted() ([]Setting, *Refusal) {
	slices.SortFunc(s.list, func(a, b Setting) int { return strings.Compare(a.Name, b.Name) })
	seen := make(map[string]struct{}, len(s.list))
	for _, x := range s.list {
		folded := strings.ToLower(x.Name)
		if _, twice := seen[folded]; twice {
			return nil, unauthorized(CodeClaimInvalid, fmt.Sprintf("two claims are the same setting, %s, to PostgreSQL, which folds case", truncate(folded)))
		}
		seen[folded] = struct{}{}
	}
	return s.list, nil
}

// settable says whether PostgreSQL takes a name as the rest of a setting's: identifiers with dots between them. It also
// takes letters outside ASCII, but folds their case by no rule that could be known here.
func settable(claim string) bool {
	if len(claim) > maxRole {
		return false
	}
	for part := range strings.SplitSeq(claim, ".") {
		if part == "" {
			return false
		}
		for i := range len(part) {
			c := part[i]
			letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_'
			later := '0' <= c && c <= '9' || c == '$'
			if !letter && (i == 0 || !later) {
				return false
			}
		}
	}
	return true
}

// text is a claim's value as a setting's; false for null and for no claim.
func text(raw json.RawMessage) (string, bool) {
	if len(raw) == 0 {
		return "", false
	}
	switch raw[0] {
	case 'n':
		return "", false
	case '"':
		var s string
		if json.Unmarshal(raw, &s) != nil {
			return "", false
		}
		return s, true
	case '{', '[':
		var b bytes.Buffer
		if stdjson.Compact(&b, raw) != nil {
			return "", false
		}
		return b.String(), true
	case 't', 'f':
		return string(raw), true
	}
	return number(string(raw)), true
}

// number keeps a number as it was written, since SQL may cast it to numeric and every digit counts. Only integers in another
// dress (3.0, 1e3; some libraries write them so) are written in digits, up to where a float64 is exact.
func number(raw string) string {
	if !strings.ContainsAny(raw, ".eE") {
		return raw
	}
	f, err := strconv.ParseFloat(raw, 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 || f == 0 && strings.ContainsAny(mantissa(raw), "123456789") {
		return raw
	}
	return strconv.FormatInt(int64(f), 10)
}

func mantissa(raw string) string {
	if i := strings.IndexAny(raw, "eE"); i >= 0 {
		return raw[:i]
	}
	return raw
}

// truncate makes a name that came from outside fit for a message.
func truncate(name string) string {
	const most = 80
	if len(name) > most {
		name = name[:most]
	}
	return strconv.QuoteToASCII(name)
}
