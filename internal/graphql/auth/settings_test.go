package auth

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
)

func TestQ16ClaimsBecomeSettingsAsTheyAre(t *testing.T) {
	for raw, want := range map[string]string{
		`"plain"`:                        "plain",
		`""`:                             "",
		`"it's \"q\"; drop -- \\ $1 é"`:  `it's "q"; drop -- \ $1 é`,
		`"\ud800"`:                       "\uFFFD",
		`3`:                              "3",
		`-0`:                             "-0",
		`9007199254740993`:               "9007199254740993",
		`1000000000000000`:               "1000000000000000",
		`123456789012345678901234567890`: "123456789012345678901234567890",
		`1e15`:                           "1000000000000000",
		`3.0`:                            "3",
		`3.10`:                           "3.10",
		`0.0`:                            "0",
		`1e-999`:                         "1e-999",
		`1e300`:                          "1e300",
		`true`:                           "true",
		`false`:                          "false",
		`null`:                           "(not set)",
		`[ 1, "a b", {"x" : null} ]`:     `[1,"a b",{"x":null}]`,
		`{ "b": 9007199254740993 , "a":"\u0000<" }`: `{"b":9007199254740993,"a":"\u0000<"}`,
	} {
		id := passes(t, verifier(t, nil), withToken(hs(`{"role":"person","v": `+raw+` }`)))
		if got := value(id, "jwt.claims.v"); got != want {
			t.Errorf("%s is set as %q, want %q", raw, got, want)
		}
	}
}

func TestSettingsAreSortedAndNamedAfterThePrefix(t *testing.T) {
	v := verifier(t, func(o *Options) { o.ClaimPrefix = "App.user_" })
	id := passes(t, v, withToken(hs(`{"z":1,"role":"person","Camel":2,"a.b":3,"search_path":"x","statement_timeout":0,"session_authorization":"postgres"}`)))
	var names []string
	for _, s := range id.Settings {
		names = append(names, s.Name)
		if !strings.HasPrefix(s.Name, "App.user_") {
			t.Errorf("%s is set", s.Name)
		}
	}
	if !slices.IsSorted(names) || len(names) != 7 {
		t.Errorf("settings %v", names)
	}
}

func TestClaimsThatNoSettingCanBeNamedAfterAreSkippedAndLoggedOnce(t *testing.T) {
	var log strings.Builder
	v := verifier(t, func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	names := []string{"https://example.com/x", "my-claim", "", "a b", "7th", "a..b", ".a", "a.", "é", `quo'te`, `a\u0000`, strings.Repeat("n", 64)}
	for range 2 {
		for _, name := range names {
			id := passes(t, v, withToken(hs(`{"role":"person","`+name+`":"s3cret\u0000"}`)))
			if len(id.Settings) != 1 || id.Settings[0].Name != "jwt.claims.role" {
				t.Errorf("%q: settings %v", name, id.Settings)
			}
		}
	}
	if n := strings.Count(log.String(), "\n"); n != 1 || strings.Contains(log.String(), "s3cret") {
		t.Errorf("logged %d lines: %s", n, log.String())
	}
}

func TestManyClaimsPassUpToTheBound(t *testing.T) {
	v := verifier(t, nil)
	passes(t, v, withToken(hs(`{"role":"person"`+manyClaims(maxClaims-1)+`}`)))
	r := wants(t, v, withToken(hs(`{"role":"person"`+manyClaims(maxClaims)+`}`)), 401, CodeTooManyClaims)
	if !strings.Contains(r.Message, fmt.Sprint(maxClaims)) {
		t.Error(r.Message)
	}
}

func TestTheRefusalOfAClaimNamesItAndNotItsValue(t *testing.T) {
	r := wants(t, verifier(t, nil), withToken(hs(`{"role":"person","nick":"hunter2\u0000"}`)), 401, CodeClaimInvalid)
	if !strings.Contains(r.Message, "nick") || strings.Contains(r.Message, "hunter2") {
		t.Error(r.Message)
	}
}

func TestTrustedHeadersMakeTheIdentity(t *testing.T) {
	v := verifier(t, func(o *Options) { o.TrustedHeaders = true })
	id := passes(t, v, header("X-Role", "person", "X-Claim-person_id", "3", "x-claim-Tenant-Id", "o'neil", "X-Claim-sub", "u1"))
	want := []Setting{{"jwt.claims.person_id", "3"}, {"jwt.claims.sub", "u1"}, {"jwt.claims.tenant_id", "o'neil"}}
	if id.Role != "person" || id.Key != "u1" || !slices.Equal(id.Settings, want) {
		t.Errorf("runs as %+v", id)
	}
	if id := passes(t, v, header("Accept", "x")); id.Role != "visitor" {
		t.Errorf("without them it runs as %+v", id)
	}
}

func TestTrustedHeadersFollowTheRulesOfTokens(t *testing.T) {
	v := verifier(t, func(o *Options) { o.TrustedHeaders = true })
	for _, role := range []string{"postgres", "none", "", "person,admin"} {
		wants(t, v, header("X-Role", role), 403, CodeRoleNotAllowed)
	}
	wants(t, v, header("X-Claim-A", "1"), 403, CodeRoleMissing)
	wants(t, v, header("X-Role", "person", "X-Role", "admin"), 401, CodeHeaderInvalid)
	wants(t, v, header("X-Role", "person", "X-Claim-A", "1", "X-Claim-A", "2"), 401, CodeHeaderInvalid)
	wants(t, v, header("X-Role", "person", "X-Claim-A-b", "1", "X-Claim-A_b", "2"), 401, CodeClaimInvalid)
	wants(t, v, header("X-Role", "person", "X-Claim-", "1"), 401, CodeHeaderInvalid)
	wants(t, v, header("X-Role", "person", "X-Claim-A", "\xff"), 401, CodeClaimInvalid)
	wants(t, v, header("X-Role", "person", "X-Claim-A", "a\x00"), 401, CodeClaimInvalid)
	wants(t, v, header("X-Role", "person", "X-Claim-A", strings.Repeat("a", 9000)), 401, CodeTooManyClaims)
	wants(t, v, header("X-Role", "person", "Authorization", "Bearer "+hs(`{"role":"admin"}`)), 401, CodeConflict)
	wants(t, v, header("X-Role", "person", "Authorization", "Bearer broken"), 401, CodeConflict)
	if id := passes(t, v, withToken(hs(`{"role":"admin"}`))); id.Role != "admin" {
		t.Errorf("a token alone runs as %q", id.Role)
	}
}

func TestTrustedHeadersMayNameAnyRoleIfNoneAreListed(t *testing.T) {
	v := must(New(Options{TrustedHeaders: true}))
	if id := passes(t, v, header("X-Role", "Odd \"role\"")); id.Role != "Odd \"role\"" {
		t.Errorf("runs as %q", id.Role)
	}
	for _, role := range []string{"none", "", strings.Repeat("r", 64), "a\x00", "\xff"} {
		wants(t, v, header("X-Role", role), 403, CodeRoleNotAllowed)
	}
	wants(t, v, nil, 401, CodeRequired)
	wants(t, v, withToken(hs(`{"role":"person"}`)), 401, CodeAlgorithm)
}
