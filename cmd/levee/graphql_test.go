package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// fakeGraphQLAdmin is an admin listener with two tenants.
func fakeGraphQLAdmin(t *testing.T) string {
	t.Helper()
	mux := http.NewServeMux()
	tenant := func(name string) string {
		return fmt.Sprintf(`{"tenant":%q,"database":"levee@db/%s","schemas":["a","b"],"state":"resident","bytes":262144,"leases":2,"last_use":%q,"build_seconds":0.0421}`,
			name, name, time.Now().Add(-90*time.Second).Format(time.RFC3339Nano))
	}
	mux.HandleFunc("GET /graphql/tenants", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, "[%s,%s]", tenant("shop"), tenant("")) })
	mux.HandleFunc("POST /graphql/flush", func(w http.ResponseWriter, r *http.Request) {
		if name := r.FormValue("tenant"); r.FormValue("all") != "true" && name != "shop" && name != "" {
			http.Error(w, "there is no tenant", http.StatusNotFound)
			return
		}
		fmt.Fprint(w, `{"flushed":1}`)
	})
	mux.HandleFunc("GET /graphql/sdl", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "type Query # %q\n", r.FormValue("tenant"))
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

func TestGraphQLLsListsTheTenants(t *testing.T) {
	admin := fakeGraphQLAdmin(t)
	status, out, _ := levee("graphql", "ls", "--admin", admin)
	if status != exitOK {
		t.Fatalf("status %d", status)
	}
	for _, want := range []string{"TENANT", "shop", "/graphql ", "resident", "256KiB", "1m30s ago", "42ms", "a,b", "levee@db/shop"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	if _, out, _ = levee("graphql", "ls", "--json", "--admin", admin); !strings.Contains(out, `"bytes":262144`) {
		t.Errorf("JSON: %s", out)
	}
}

func TestGraphQLFlushGoesOnBehindATenantThatIsNotThere(t *testing.T) {
	admin := fakeGraphQLAdmin(t)
	status, out, errors := levee("graphql", "flush", "--admin", admin, "none", "shop", "")
	if status != exitFailed || !strings.Contains(errors, "none: 404") || !strings.Contains(out, "shop: instances flushed: 1") || !strings.Contains(out, "/graphql: instances flushed: 1") {
		t.Errorf("status %d, %s%s", status, out, errors)
	}
	if status, out, _ := levee("graphql", "flush", "--all", "--admin", admin); status != exitOK || !strings.Contains(out, "all tenants: instances flushed: 1") {
		t.Errorf("status %d, %s", status, out)
	}
	for _, args := range [][]string{{"graphql", "flush"}, {"graphql", "flush", "--all", "shop"}} {
		if status, _, errors := levee(args...); status != exitUsage || !strings.Contains(errors, "--all") {
			t.Errorf("%v: status %d, %s", args, status, errors)
		}
	}
}

func TestGraphQLSDLPrintsIt(t *testing.T) {
	admin := fakeGraphQLAdmin(t)
	for tenant, want := range map[string]string{"shop": `# "shop"`, "": `# ""`} {
		if status, out, _ := levee("graphql", "sdl", "--admin", admin, tenant); status != exitOK || !strings.Contains(out, want) {
			t.Errorf("%q: status %d, %s", tenant, status, out)
		}
	}
}

func TestGraphQLCommandsSayThatItIsOff(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	status, _, errors := levee("graphql", "ls", "--admin", strings.TrimPrefix(s.URL, "http://"))
	if status != exitFailed || !strings.Contains(errors, "GraphQL off") || !strings.Contains(errors, "--graphql-database") {
		t.Errorf("status %d, %s", status, errors)
	}
}
