package graphql

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/leveehq/levee"
	"github.com/leveehq/levee/internal/graphql/auth"
	"github.com/leveehq/levee/internal/pglocal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func kernel(t *testing.T, o levee.Options) *levee.Kernel {
	t.Helper()
	k, err := levee.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// serve starts a service over HTTP, and ends it with the test.
func serve(t *testing.T, o Options) (*Service, string) {
	t.Helper()
	if o.Kernel == nil {
		o.Kernel = kernel(t, levee.Options{MemoryLimit: 1 << 30})
	}
	k := o.Kernel
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

// sample is a directory of testdata: a schema, and what PostGraphile answers over it.
type sample struct {
	owner   string   // the login that the recorded answers were made with
	schemas []string // exposed
	roles   []string // that requests name
	// better are the cases that are marked as quirks of PostGraphile's and answered otherwise here, with the reason. What is
	// answered is in the case.
	better map[string]string
}

var samples = map[string]sample{
	"forum": {
		owner: "forum_owner", schemas: []string{"app_public"}, roles: []string{"app_user", "app_anonymous"},
		better: map[string]string{
			"018-cursor-after-null-values.json":                  "the page after a null goes on with the rows that are not null",
			"033-edges-of-null-unique-value.json":                "rows without the unique value have a place too: the primary key is added for them, so their edges have cursors",
			"069-null-ranges-of-dates-and-composite-arrays.json": "null is null: of every kind of range, and of an array of composites",
			"070-negative-fraction-of-interval.json":             "a negative interval keeps the fraction of its seconds",
		},
	},
	"shop": {
		owner: "shop_owner", schemas: []string{"shop_public", "shop_stock"}, roles: []string{"shop_guest", "shop_clerk", "shop_manager"},
		better: map[string]string{
			"005-unique-key-of-extension-type-in-other-case.json":     "a unique key over citext finds its row in any case",
			"025-cursor-over-three-orderings.json":                    "the page after a null goes on with what comes after it, and the primary key tells equal rows apart",
			"027-cursor-over-an-extension-type.json":                  "types of extensions work from any schema",
			"031-table-without-key.json":                              "a row of nulls is a row",
			"044-nulls-in-ordering.json":                              "null is null in a cursor",
			"045-unique-pair-with-null.json":                          "rows with a null in a unique key have a place too: the primary key is added for them",
			"046-first-column-of-a-key-of-two.json":                   "no page leaves out a row: one column of a key of two is not unique",
			"060-extension-type-in-other-case.json":                   "types of extensions work from any schema",
			"061-extension-types.json":                                "types of extensions work from any schema",
			"062-relation-with-extension-type.json":                   "types of extensions work from any schema",
			"113-array-of-rows-with-a-column-of-an-unknown-type.json": "an argument that is a row has all its columns",
			"114-nested-values-in-an-array-of-rows.json":              "lists and ranges work within rows, and those within lists",
			"117-echo-arrays.json":                                    "null is null: of an array of composites",
			"118-echo-extension-types.json":                           "types of extensions work from any schema",
			"126-every-column-of-a-product.json":                      "null is null: of every kind of range, and of an array of composites",
			"127-column-of-an-unknown-type.json":                      "a column of an unknown type is a String",
			"128-products-with-nulls.json":                            "null is null: of every kind of range, and of an array of composites",
			"130-timestamps-and-their-ranges.json":                    "null is null: of every kind of range",
			"163-create-with-extension-types.json":                    "types of extensions work from any schema",
			"178-update-extension-types.json":                         "types of extensions work from any schema",
			"208-update-missing-row-with-a-mutation-id.json":          "a payload names its mutation whether there is a row or not",
			"209-cursors-without-rows.json":                           "a page has its cursors whatever else is asked of it",
		},
	},
}

// asOwner is how the recorded answers were made: by the tables' owner, in the role that the request names.
func (s sample) asOwner(database string, t *testing.T) Tenant {
	return Tenant{
		DatabaseURL: pgtest.Server(t).URL(s.owner, database), Schemas: s.schemas, AllowBypassRLS: true,
		Auth: auth.Options{Secret: testSecret, AllowNoExp: true, AnonymousRole: auth.ConnectionRole, DefaultRole: auth.ConnectionRole,
			Roles: s.roles, TrustedHeaders: true},
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

func TestEveryRecordedCaseIsAnsweredAsByPostGraphile(t *testing.T) {
	for name, s := range samples {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join("testdata", name)
			cases := recordedCases(t, dir)
			for file := range s.better {
				if c := cases[file]; c.Quirk == "" || c.Ours == nil {
					t.Errorf("%s: is not marked as a quirk, or does not say what is answered here", file)
				}
			}
			database := pgtest.Load(t, filepath.Join(dir, "schema.sql"))
			rows := keep(t, database)
			_, url := serve(t, Options{Tenants: []Tenant{s.asOwner(database, t)}})
			for name, as := range map[string]credentials{"headers": byHeaders, "token": byToken(t)} {
				t.Run(name, func(t *testing.T) {
					for range 2 { // what the first time left in caches must not change the second
						s.runAll(t, url, cases, as, rows)
					}
				})
			}
		})
	}
}

func (s sample) runAll(t *testing.T, url string, cases map[string]recorded, as credentials, rows scratch) {
	for _, file := range slices.Sorted(maps.Keys(cases)) {
		c := cases[file]
		got := c.run(t, url, as)
		if c.Mutates {
			rows.reset(t)
		}
		differences := c.differences(c.Expect, got)
		if why := s.better[file]; why != "" && c.Ours != nil {
			if len(differences) == 0 {
				t.Errorf("%s: differs no more: %s", file, why)
			}
			differences = c.differences(*c.Ours, got)
		}
		if len(differences) > 0 {
			t.Errorf("%s: %s", file, strings.Join(differences, "\n\t"))
		}
	}
}
