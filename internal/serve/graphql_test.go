package serve

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/leveehq/levee/internal/config"
	"github.com/leveehq/levee/internal/graphql"
)

// graphqlOn is a database that nobody listens at: what is tested here needs none.
var graphqlOn = map[string]string{
	"graphql-database": "postgres://levee:hunter2@127.0.0.1:1/app", "graphql-schemas": "app_public", "graphql-anonymous-role": "app_anonymous", "graphql-roles": "app_user",
}

func withGraphQL(more map[string]string) map[string]string {
	flags := map[string]string{}
	for _, from := range []map[string]string{graphqlOn, more} {
		for name, value := range from {
			flags[name] = value
		}
	}
	return flags
}

func optionsOf(t *testing.T, flags map[string]string) graphql.Options {
	t.Helper()
	o, err := graphqlOptions(load(t, flags), []string{"S=from-env"})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestEverySettingOfGraphQLReachesIt(t *testing.T) {
	pem := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(pem, []byte("PEM"), 0o600); err != nil {
		t.Fatal(err)
	}
	other := map[string]string{
		"graphql.database_url": "postgres://h/other", "graphql.schemas": "other", "graphql.settings": "app.a=b", "graphql.jwt_secret": "env:S",
		"graphql.jwt_public_keys": pem, "graphql.jwks_url": "https://h/keys", "graphql.jwt_algorithms": "ES256", "graphql.roles": "other",
		"graphql.pooler": "transaction", "graphql.queries": "read-write", "graphql.errors": "shown", "graphql.pass_errors": "P0002", "graphql.introspection": "false",
	}
	for _, s := range config.Settings() {
		if !strings.HasPrefix(s.Path, "graphql.") || s.Path == "graphql.origins" { // that is the door's
			continue
		}
		value := other[s.Path]
		switch {
		case value != "":
		case s.Kind == "SIZE":
			value = "128KiB"
		case s.Kind == "TIME":
			value = "7s"
		case s.Kind == "BOOL":
			value = "true"
		case s.Kind == "NUMBER":
			value = "5"
		default:
			value = "other"
		}
		if reflect.DeepEqual(optionsOf(t, withGraphQL(map[string]string{s.Flag: value})), optionsOf(t, graphqlOn)) {
			t.Errorf("%s = %s reaches nobody", s.Path, value)
		}
	}
}

func TestTenantsAndTheResolverReachGraphQL(t *testing.T) {
	file := filepath.Join(t.TempDir(), "levee.hcl")
	text := `graphql {
  jwt_secret = "env:S"
  roles      = ["app_user"]
  tenant "shop" {
    hosts        = ["shop.example"]
    database_url = "env:URL"
    schemas      = ["a", "b"]
    settings     = { "app.tenant" = "shop" }
    jwt_skew     = "0s"
  }
  resolver {
    database_url     = "env:URL"
    sql              = "select 1"
    ttl              = "3s"
    allow_bypass_rls = true
  }
}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(config.Sources{File: file})
	if err != nil {
		t.Fatal(err)
	}
	o, err := graphqlOptions(c, []string{"S=from-env", "URL=postgres://h/d"})
	if err != nil {
		t.Fatal(err)
	}
	shop := o.Tenants[0]
	if shop.Name != "shop" || shop.DatabaseURL != "postgres://h/d" || len(shop.Schemas) != 2 || shop.Hosts[0] != "shop.example" || shop.Settings["app.tenant"] != "shop" ||
		string(shop.Auth.Secret) != "from-env" || shop.Auth.Roles[0] != "app_user" || shop.Auth.Skew >= 0 {
		t.Errorf("shop: %+v", shop)
	}
	if r := o.Resolver; r == nil || r.DatabaseURL != "postgres://h/d" || r.SQL != "select 1" || !r.AllowBypassRLS || string(r.Auth.Secret) != "from-env" {
		t.Errorf("resolver: %+v", r)
	}
	_, err = graphqlOptions(c, nil)
	for _, want := range []string{`graphql.tenant "shop".database_url: env:URL is empty`, `graphql.tenant "shop".jwt_secret: env:S is empty`, "graphql.resolver.database_url"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestWithoutADatabaseThereIsNothingOfGraphQL(t *testing.T) {
	a := build(t, map[string]string{"memory-limit": "512MiB"})
	s := a.status()
	for _, l := range s.Plan.Lines {
		if strings.Contains(l.Account, "graphql") {
			t.Errorf("the plan has %s", l.Account)
		}
	}
	for _, g := range s.Gates {
		if strings.Contains(g.Name, "graphql") {
			t.Errorf("there is a gate %s", g.Name)
		}
	}
	if s.Services["graphql"] != nil {
		t.Error("Status has a section")
	}
	if page := get(a.admin.Handler, "localhost", "/metrics").Body.String(); strings.Contains(page, "levee_graphql_") {
		t.Error("there are metrics")
	}
	if code := get(a.admin.Handler, "localhost", "/graphql/tenants").Code; code != http.StatusNotFound {
		t.Errorf("the admin listener answers %d", code)
	}
	for _, path := range []string{"/graphql", "/graphql/shop"} {
		w := get(a.http.Handler, "localhost", path)
		if w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "levee serve --graphql-database") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

func TestThePlanWithGraphQLFitsEveryMachineWithAndWithoutGit(t *testing.T) {
	for _, limit := range []string{"512MiB", "768MiB", "1GiB", "2GiB", "4GiB", "64GiB"} {
		for _, more := range []map[string]string{{"memory-limit": limit}, {"memory-limit": limit, "git-host": "github.com"}} {
			if err := build(t, withGraphQL(more)).Plan().Check(); err != nil {
				t.Errorf("%v: %v", more, err)
			}
		}
	}
}

func TestARunningServerServesGraphQLBesideBazel(t *testing.T) {
	s := run(t, graphqlOn)
	send := func(addr, method, path, body string) (int, string) {
		req, err := http.NewRequest(method, "http://"+addr+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") == "" {
			t.Error("503 without Retry-After")
		}
		return resp.StatusCode, string(b)
	}
	if code, text := send(s.cache, "POST", "/graphql", `{"query":"{ __typename }"}`); code != http.StatusServiceUnavailable || !strings.Contains(text, "DATABASE_UNAVAILABLE") || strings.Contains(text, "hunter2") {
		t.Errorf("a database that is not there: %d %s", code, text)
	}
	if code, _ := send(s.cache, "GET", "/graphql", ""); code != http.StatusMethodNotAllowed {
		t.Errorf("GET: %d", code)
	}
	if code, text := send(s.cache, "POST", "/graphql/none", `{"query":"{ __typename }"}`); code != http.StatusNotFound || !strings.Contains(text, "TENANT_UNKNOWN") {
		t.Errorf("a tenant that is not there: %d %s", code, text)
	}
	if code, text := send(s.cache, "GET", "/graphql/ac/"+strings.Repeat("a", 64), ""); code != http.StatusBadRequest || !strings.Contains(text, "reserved for another service") {
		t.Errorf("Bazel's instance of the name: %d %s", code, text)
	}
	if code, text := send(s.admin, "GET", "/graphql/tenants", ""); code != http.StatusOK || strings.TrimSpace(text) != "[]" {
		t.Errorf("tenants: %d %s", code, text)
	}
	if _, text := send(s.admin, "GET", "/metrics", ""); !strings.Contains(text, `levee_graphql_sheds_total{code="DATABASE_UNAVAILABLE"} 1`) || !strings.Contains(text, "levee_graphql_building 0") {
		t.Error("the metrics do not count the answer")
	}
	if _, text := send(s.admin, "GET", "/status", ""); strings.Contains(text, "hunter2") {
		t.Error("Status shows the password")
	}
}

func TestHeadersThatSayWhoACallerIsNeedAListenerThatOnlyAProxyReaches(t *testing.T) {
	public := withGraphQL(map[string]string{"graphql-trusted-headers": "true", "listen-http": "0.0.0.0:0"})
	_, err := Build(load(t, public), Options{Out: io.Discard, Log: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "graphql.trusted_headers is set, and listen.http = 0.0.0.0:0") {
		t.Errorf("%v", err)
	}
	tenants := withGraphQL(map[string]string{"graphql-tenant-header": "X-Tenant", "listen-http": "0.0.0.0:0"})
	if _, err := Build(load(t, tenants), Options{Out: io.Discard, Log: io.Discard}); err == nil || !strings.Contains(err.Error(), "graphql.tenant_header is set, and listen.http") || !strings.Contains(err.Error(), "sets X-Tenant, X-Role") {
		t.Errorf("%v", err)
	}
	public["listen-http-trusted"] = "true"
	if warnings := strings.Join(build(t, public).publicity(), "\n"); !strings.Contains(warnings, "whoever gets past the proxy in front can be anybody") {
		t.Errorf("warnings: %s", warnings)
	}
	if warnings := build(t, withGraphQL(map[string]string{"graphql-trusted-headers": "true"})).publicity(); len(warnings) > 0 {
		t.Errorf("on loopback: %v", warnings)
	}
}

func TestCheckTellsThatADatabaseCannotBeReachedWithoutItsPassword(t *testing.T) {
	a := build(t, withGraphQL(map[string]string{"store-path": t.TempDir()}))
	found := false
	for _, f := range a.Check() {
		found = found || f.Severity == Failure && strings.Contains(f.Text, `tenant "": database app on 127.0.0.1 as levee cannot be reached`)
		if strings.Contains(f.Text, "hunter2") {
			t.Errorf("the password is shown: %v", f)
		}
	}
	if !found {
		t.Errorf("findings: %v", a.Check())
	}
}

func TestOnlyPagesOfListedOriginsMayAskGraphQLAndTheyNothingElse(t *testing.T) {
	a := build(t, withGraphQL(map[string]string{"graphql-origins": "https://app.example.com", "store-path": t.TempDir()}))
	ask := func(method, path, origin string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(`{"query":"{ __typename }"}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Origin", origin)
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		if method == http.MethodOptions {
			r.Header.Set("Access-Control-Request-Method", http.MethodPost)
			r.Header.Set("Access-Control-Request-Headers", "authorization,content-type")
		}
		w := httptest.NewRecorder()
		a.http.Handler.ServeHTTP(w, r)
		return w
	}
	const listed, other, allowed = "https://app.example.com", "https://evil.example", "Access-Control-Allow-Origin"
	if w := ask("OPTIONS", "/graphql", listed); w.Code != http.StatusNoContent || w.Header().Get(allowed) != listed || w.Header().Get("Access-Control-Allow-Headers") == "" {
		t.Errorf("a preflight: %d %v", w.Code, w.Header())
	}
	if w := ask("POST", "/graphql", listed); w.Code != http.StatusServiceUnavailable || w.Header().Get(allowed) != listed || !strings.Contains(w.Header().Get("Access-Control-Expose-Headers"), "Retry-After") {
		t.Errorf("a page's request, whose database is away: %d %v %s", w.Code, w.Header(), w.Body)
	}
	if w := ask("OPTIONS", "/graphql", other); w.Header().Get(allowed) != "" {
		t.Errorf("another's preflight: %d %v", w.Code, w.Header())
	}
	if w := ask("POST", "/graphql", other); w.Code != http.StatusForbidden {
		t.Errorf("another's request: %d %s", w.Code, w.Body)
	}
	if w := ask("PUT", "/ac/"+strings.Repeat("a", 64), listed); w.Code != http.StatusForbidden || w.Header().Get(allowed) != "" {
		t.Errorf("a write to Bazel's cache: %d %s", w.Code, w.Body)
	}
}
