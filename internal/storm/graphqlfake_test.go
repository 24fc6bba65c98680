package storm

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// fakeGraphQL answers what the scenarios ask, with faults on demand, and is its own admin listener.
type fakeGraphQL struct {
	// instead answers the n-th request, from 1, in its place if it says so.
	instead func(n int64, tenant string, w http.ResponseWriter) bool
	nap     func() // what a nap does in its time

	requests, looks atomic.Int64
	mu              struct {
		sync.Mutex
		metrics map[string]float64
	}
}

func (f *fakeGraphQL) add(metric string, n float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.metrics[metric] += n
}

// start returns the target and the admin address.
func (f *fakeGraphQL) start(t *testing.T) (target, admin string) {
	t.Helper()
	f.mu.metrics = map[string]float64{"process_resident_memory_bytes": 50 << 20, metricBuilds: 0, metricBuilding: 0, metricFlushed: 0, metricDraining: 0, metricGoroutines: 20}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /graphql/{tenant}", f.answer)
	mux.HandleFunc("POST "+flushPath, func(_ http.ResponseWriter, r *http.Request) {
		f.add(metricDraining, 1)
		f.add(metricFlushed, 1)
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		f.looks.Add(1)
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, name := range sortedKeys(f.mu.metrics) {
			fmt.Fprintf(w, "%s %g\n", name, f.mu.metrics[name])
		}
	})
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") })
	mux.HandleFunc("GET /readyz", func(http.ResponseWriter, *http.Request) {})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL + "/graphql", strings.TrimPrefix(s.URL, "http://")
}

var uniqueAlias = regexp.MustCompile(`x\d+`)

func (f *fakeGraphQL) answer(w http.ResponseWriter, r *http.Request) {
	tenant := r.PathValue("tenant")
	var q graphqlRequest
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if n := f.requests.Add(1); f.instead != nil && f.instead(n, tenant, w) {
		return
	}
	row := map[string]any{"rowId": 1, sentinelColumn: sentinelOf(tenant)}
	rows := func(n int, r any) (all []any) {
		for range n {
			all = append(all, r)
		}
		return all
	}
	data := map[string]any{}
	switch n, _ := q.Variables["n"].(float64); {
	case strings.Contains(q.Query, "Lookup"):
		data["projectByRowId"] = row
	case strings.Contains(q.Query, "List"):
		data["allTasks"] = rows(int(n), []any{row, row})
	case strings.Contains(q.Query, "Nested"):
		data["allProjects"] = rows(int(n), []any{row, row, row})
	case strings.Contains(q.Query, "Nap"):
		f.nap()
		data[sentinelColumn] = sentinelOf(tenant)
	default:
		data[uniqueAlias.FindString(q.Query)] = "Query"
	}
	json.NewEncoder(w).Encode(map[string]any{"data": data})
}

// untilLooked waits until the metrics have been read, and what was read been taken in: when the next look begins.
func (f *fakeGraphQL) untilLooked() {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for enough := f.looks.Load() + 2; f.looks.Load() < enough; {
		<-tick.C
	}
}

// shedAnswer writes a 503 as it should be.
func shedAnswer(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "2")
	w.WriteHeader(http.StatusServiceUnavailable)
	fmt.Fprint(w, `{"errors":[{"message":"busy","extensions":{"code":"SERVICE_OVERLOADED"}}]}`)
}

func smallGraphQL(target, admin string) GraphQLOptions {
	return GraphQLOptions{Target: target, Admin: admin, Login: "nobody", JWTClaims: "{}", Tenants: 5, Rows: 3, Timeout: 20 * time.Second, Duration: 30 * time.Second, Requests: 60, Seed: 1}
}

func runGraphQL(t *testing.T, s GraphQLScenario) *GraphQLReport {
	t.Helper()
	r, err := GraphQL(t.Context(), s, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// breaksPromise holds that a report says what is wrong.
func breaksPromise(t *testing.T, r *GraphQLReport, what string) {
	t.Helper()
	if r.ExitStatus() != ExitBroken || !strings.Contains(strings.Join(r.Problems(), "\n"), what) {
		t.Errorf("no %q among %q", what, r.Problems())
	}
}

func keepsPromises(t *testing.T, r *GraphQLReport) {
	t.Helper()
	if r.ExitStatus() != ExitOK {
		t.Errorf("broken: %q", r.Problems())
	}
}
