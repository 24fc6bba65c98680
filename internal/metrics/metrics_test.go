package metrics

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/leveehq/levee"
	"github.com/leveehq/levee/gate"
	"github.com/leveehq/levee/internal/buildinfo"
)

// newKernel is a kernel with one gate of each sort of state: idle, in use, shedding.
func newKernel(t *testing.T) *levee.Kernel {
	t.Helper()
	k, err := levee.New(levee.Options{MemoryLimit: 512 << 20, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"idle", "write"} {
		g, err := k.NewGate(gate.Options{Name: name, Limit: 10, Queue: 2, Wait: time.Second}, true)
		if err != nil {
			t.Fatal(err)
		}
		k.AddLine(levee.Line{Account: name, Kind: levee.KindGo, Units: 10, Unit: "byte", PerUnit: 1, InUse: func() int64 { return g.Stats().InUse }})
		if name == "idle" {
			continue
		}
		p, err := g.TryAdmit("a", 7)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Release)
		if _, err := g.TryAdmit("b", 7); err == nil {
			t.Fatal("admitted above the limit")
		}
		if _, err := g.Admit(context.Background(), "c", 99); err == nil {
			t.Fatal("admitted above the largest cost")
		}
	}
	return k
}

func newRegistry(t *testing.T) Registry {
	return New(Sources{
		Status: newKernel(t).Status,
		RPC: func() RPC {
			return RPC{
				Started: map[string]uint64{"/google.bytestream.ByteStream/Write": 3, "other": 1},
				Handled: []Handled{{"/google.bytestream.ByteStream/Write", "OK", 1}, {"/google.bytestream.ByteStream/Write", "FailedPrecondition", 2}, {"other", "Unimplemented", 1}},
			}
		},
		Store: func() Store { return Store{Bytes: 4096, MaxBytes: 1 << 30, Blobs: 1, MaxBlobs: 1000} },
		Bazel: func() Bazel {
			return Bazel{ACHits: 5, FindMissing: 10, FindMissingAbsent: 3, HTTP: []HTTPCount{{"GET", "cas", 404, 2}}}
		},
		Git: func() Git {
			return Git{
				Answers: []GitAnswer{{Method: "fetch", Origin: "ours", Code: 200, Count: 4}}, Results: map[string]uint64{"admitted": 4, "shed": 1},
				Waits: GitWaits{Count: 4, Seconds: 6, Buckets: make([]uint64, len(gate.WaitBounds))}, Generations: 2, Hits: 1, Coalesced: 1,
				Mirrors: map[string]int{"ready": 3}, MirrorBytes: 1 << 20, UpstreamFailures: map[string]uint64{"stalled": 1},
				ClonesServed: 3, ClonesAttempted: 5, Busiest: []GitRepository{{"github.com/org/repo", 4}},
			}
		},
		Build: buildinfo.Read(),
	})
}

func TestGitShowsWhatWasServedAndWhatWasAskedFor(t *testing.T) {
	const want = `
# HELP levee_git_clone_attempts_total Clones asked for, whatever became of them.
# TYPE levee_git_clone_attempts_total counter
levee_git_clone_attempts_total 5
# HELP levee_git_clones_total Clones that got their pack.
# TYPE levee_git_clones_total counter
levee_git_clones_total 3
# HELP levee_git_packs_total Requests for a pack, by what became of them.
# TYPE levee_git_packs_total counter
levee_git_packs_total{result="admitted"} 4
levee_git_packs_total{result="shed"} 1
# HELP levee_git_repository_packs_total Packs served, of the busiest repositories; one that was not always among them may count a little high.
# TYPE levee_git_repository_packs_total counter
levee_git_repository_packs_total{repository="github.com/org/repo"} 4
# HELP levee_git_responses_total Answers of the Git cache, by what was asked, HTTP status (499: the client left) and whose answer it is.
# TYPE levee_git_responses_total counter
levee_git_responses_total{method="fetch",origin="ours",status="200"} 4
`
	if err := testutil.GatherAndCompare(newRegistry(t), strings.NewReader(want), "levee_git_clone_attempts_total", "levee_git_clones_total",
		"levee_git_packs_total", "levee_git_repository_packs_total", "levee_git_responses_total"); err != nil {
		t.Error(err)
	}
}

func TestTheMetricsObeyTheConventionsOfPrometheus(t *testing.T) {
	problems, err := testutil.GatherAndLint(newRegistry(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestGatesShowWhatTheyHoldAndWhyTheyShed(t *testing.T) {
	const want = `
# HELP levee_gate_in_use Cost of the permits that are out, in the gate's unit.
# TYPE levee_gate_in_use gauge
levee_gate_in_use{gate="idle"} 0
levee_gate_in_use{gate="write"} 7
# HELP levee_account_in_use_bytes Bytes charged to an account now; only of accounts that count.
# TYPE levee_account_in_use_bytes gauge
levee_account_in_use_bytes{account="idle"} 0
levee_account_in_use_bytes{account="write"} 7
# HELP grpc_server_handled_total Calls ended, by code.
# TYPE grpc_server_handled_total counter
grpc_server_handled_total{grpc_code="FailedPrecondition",grpc_method="Write",grpc_service="google.bytestream.ByteStream"} 2
grpc_server_handled_total{grpc_code="OK",grpc_method="Write",grpc_service="google.bytestream.ByteStream"} 1
grpc_server_handled_total{grpc_code="Unimplemented",grpc_method="other",grpc_service=""} 1
`
	err := testutil.GatherAndCompare(newRegistry(t), strings.NewReader(want),
		"levee_gate_in_use", "levee_account_in_use_bytes", "grpc_server_handled_total")
	if err != nil {
		t.Error(err)
	}
	body := scrape(t, newRegistry(t))
	for _, want := range []string{
		`levee_gate_shed_total{gate="write",reason="busy"} 1`,
		`levee_gate_shed_total{gate="write",reason="too_large"} 1`,
		`levee_gate_shed_total{gate="write",reason="pressure"} 0`,
		`levee_gate_wait_seconds_count{gate="write"} 1`,
		`levee_pressure_level 0`,
		`levee_memory_limit_bytes 5.36870912e+08`,
		`levee_bazel_hits_total{kind="ac"} 5`,
		`levee_bazel_find_missing_digests_total{answer="present"} 7`,
		`levee_http_requests_total{code="404",kind="cas",method="GET"} 2`,
		`levee_build_info{`,
		`go_goroutines `,
		`process_resident_memory_bytes `,
	} {
		if !strings.Contains(body, "\n"+want) {
			t.Errorf("no line %s", want)
		}
	}
}

// A client can name keys, instances, blobs and methods. None of it may make a series.
func TestTheNumberOfSeriesDoesNotDependOnClients(t *testing.T) {
	k := newKernel(t)
	g, err := k.NewGate(gate.Options{Name: "keyed", Limit: 1 << 30, MaxCost: 1 << 30}, false)
	if err != nil {
		t.Fatal(err)
	}
	r := New(Sources{Status: k.Status})
	count := func() int {
		n, err := testutil.GatherAndCount(r)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := count()
	for i := range 1000 {
		key := fmt.Sprintf("client-%d", i)
		p, err := g.TryAdmit(key, 1)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Release()
		if _, err := g.TryAdmit(key, 1<<40); err == nil {
			t.Fatal("admitted above the largest cost")
		}
	}
	if after := count(); after != before {
		t.Errorf("%d series before, %d after", before, after)
	}
	const most = 200 // with three gates; each gate adds 8 + the reasons
	if before > most {
		t.Errorf("%d series, more than %d", before, most)
	}
}

func scrape(t *testing.T, r Registry) string {
	t.Helper()
	w := httptest.NewRecorder()
	r.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	body, err := io.ReadAll(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// stuckWriter is a client that reads nothing: its first Write waits until it leaves.
type stuckWriter struct {
	*httptest.ResponseRecorder
	entered chan struct{}
	leave   chan struct{}
}

func (w *stuckWriter) Write(b []byte) (int, error) {
	w.entered <- struct{}{}
	<-w.leave
	return w.ResponseRecorder.Write(b)
}

func TestASlowScrapeKeepsNobodyFromTheMetrics(t *testing.T) {
	h := newRegistry(t).Handler()
	const slow = 8
	entered, leave, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	for range slow {
		go func() {
			h.ServeHTTP(&stuckWriter{httptest.NewRecorder(), entered, leave}, httptest.NewRequest(http.MethodGet, "/metrics", nil))
			done <- struct{}{}
		}()
		<-entered
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "levee_build_info") {
		t.Errorf("with %d scrapes that are not read, another gets %d, %d bytes", slow, w.Code, w.Body.Len())
	}
	close(leave)
	for range slow {
		<-done
	}
}
