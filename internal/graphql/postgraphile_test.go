package graphql

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/leveehq/levee"
	"github.com/leveehq/levee/internal/graphql/auth"
	"github.com/leveehq/levee/internal/pglocal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// serve starts a service over HTTP, and ends it with the test.
func serve(t *testing.T, o Options) (*Service, string) {
	t.Helper()
	k, err := levee.New(levee.Options{MemoryLimit: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	o.Kernel = k
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Plan().Check(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	ctx, stop := contextOf(t)
	go func() { done <- s.Run(ctx) }()
	h := httptest.NewServer(s)
	t.Cleanup(func() {
		h.Close()
		stop()
		if err := <-done; err != nil {
			t.Errorf("the service ended with %v", err)
		}
	})
	return s, h.URL + Prefix
}

var testSecret = []byte("a secret of thirty-two bytes, or more")

// asOwner is how the recorded answers were made: by the tables' owner, in the role that the request names.
func asOwner(database string, t *testing.T) Tenant {
	return Tenant{
		DatabaseURL: pgtest.Server(t).URL("forum_owner", database), Schemas: []string{"app_public"}, AllowBypassRLS: true,
		Auth: auth.Options{Secret: testSecret, AllowNoExp: true, AnonymousRole: auth.ConnectionRole, DefaultRole: auth.ConnectionRole,
			Roles: []string{"app_user", "app_anonymous"}, TrustedHeaders: true},
	}
}

func byHeaders(h http.Header, role string, claims map[string]string) {
	if role != "" {
		h.Set("X-Role", role)
	}
	for name, value := range claims {
		h.Set("X-Claim-"+name, value)
	}
}

func byToken(t testing.TB) credentials {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: testSecret}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return func(h http.Header, role string, claims map[string]string) {
		payload := map[string]any{}
		for name, value := range claims {
			payload[name] = value
		}
		if role != "" {
			payload["role"] = role
		}
		text, err := json.Marshal(payload)
		if err != nil {
			t.Fatal(err)
		}
		signed, err := signer.Sign(text)
		if err != nil {
			t.Fatal(err)
		}
		token, err := signed.CompactSerialize()
		if err != nil {
			t.Fatal(err)
		}
		h.Set("Authorization", "Bearer "+token)
	}
}

// better are the cases that are marked as quirks of PostGraphile's and answered otherwise here, with the reason.
var better = map[string]string{
	"018-cursor-after-null-values.json":                  "the page after a null goes on with the rows that are not null",
	"033-edges-of-null-unique-value.json":                "rows without the unique value have a place too: the primary key is added for them, so their edges have cursors",
	"069-null-ranges-of-dates-and-composite-arrays.json": "null is null: of every kind of range, and of an array of composites",
	"070-negative-fraction-of-interval.json":             "a negative interval keeps the fraction of its seconds",
}

func TestEveryRecordedCaseIsAnsweredAsByPostGraphile(t *testing.T) {
	template := pgtest.Load(t, "testdata/forum.sql")
	database := template + "_served"
	reset := func() {
		pgtest.Exec(t, "postgres", fmt.Sprintf(`drop database if exists %q with (force)`, database))
		pgtest.Exec(t, "postgres", fmt.Sprintf(`create database %q template %q`, database, template))
	}
	t.Cleanup(func() { pgtest.Exec(t, "postgres", fmt.Sprintf(`drop database if exists %q with (force)`, database)) })
	_, url := serve(t, Options{Tenants: []Tenant{asOwner(database, t)}})
	cases := recordedCases(t)
	// Making the database anew cuts all connections, and a mutation is never sent twice: so a read finds out first.
	settled := func() {
		probe := recorded{Compare: "data-and-error-paths"}
		query := "{ allForums(first: 1) { nodes { slug } } }"
		probe.Query, probe.Expect.Status = &query, http.StatusOK
		for deadline := time.Now().Add(20 * time.Second); ; {
			status, body := probe.send(t, url, byHeaders, probe.Query, nil, nil)
			if status == http.StatusOK && member(body, "errors") == nil {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("the database does not come back: %d %v", status, body)
			}
		}
	}
	for name, as := range map[string]credentials{"headers": byHeaders, "token": byToken(t)} {
		t.Run(name, func(t *testing.T) {
			dirty := true
			for _, file := range slices.Sorted(maps.Keys(cases)) {
				c := cases[file]
				if dirty || c.Mutates {
					reset()
					settled()
				}
				dirty = c.Mutates
				differences := c.run(t, url, as)
				if why := better[file]; why != "" {
					if c.Quirk == "" || len(differences) == 0 {
						t.Errorf("%s: is not marked as a quirk, or differs no more: %s", file, why)
					}
					continue
				}
				if len(differences) > 0 {
					t.Errorf("%s: %s", file, strings.Join(differences, "\n\t"))
				}
			}
		})
	}
}
