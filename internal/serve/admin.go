package serve

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/leveehq/levee/internal/hostguard"
)

// readiness is what the probes answer. Liveness has no state on purpose: a server that can answer at all needs no
// restart, whatever its disk or its load do.
type readiness struct {
	notReady atomic.Pointer[string] // nil when ready
	failing  func() error           // a dependency without which no work succeeds; nil error when all is well
}

func newReadiness(failing func() error) *readiness {
	h := &readiness{failing: failing}
	h.set("starting")
	return h
}

// set makes the server not ready for the reason; "" makes it ready.
func (h *readiness) set(reason string) {
	if reason == "" {
		h.notReady.Store(nil)
		return
	}
	h.notReady.Store(&reason)
}

func (h *readiness) err() error {
	if reason := h.notReady.Load(); reason != nil {
		return errors.New(*reason)
	}
	return h.failing()
}

const adminIndex = `levee admin

/livez         200 while the process can answer at all
/readyz        200 when work is accepted, else 503 with the reason
/metrics       Prometheus
/status        gates, plan, pressure, store and services as JSON
/debug/pprof/  profiles
`

// profilesAtOnce bounds profiles in the making: each holds megabytes, and they are asked for when memory is short.
const profilesAtOnce = 1

const adminGitIndex = `/git/          mirrors: GET /git/mirrors, POST /git/warm?repo=HOST/PATH, POST /git/evict?repo=HOST/PATH
`

const adminGraphQLIndex = `/graphql/      tenants: GET /graphql/tenants, POST /graphql/flush?tenant=NAME or ?all=true, GET /graphql/sdl?tenant=NAME
`

// adminPages are what the admin listener shows.
type adminPages struct {
	ready   *readiness
	metrics http.Handler
	status  func() any
	git     http.Handler // nil if that service is off
	graphql http.Handler // the same
}

// newAdmin returns the handler of the admin listener. Nothing in it waits for a gate, for the store or for load to
// pass, but for what an operator asks to be made; only profiles are bounded, among themselves.
func newAdmin(p adminPages, guard *hostguard.Guard) http.Handler {
	mux := http.NewServeMux()
	index := adminIndex
	if p.git != nil {
		index += adminGitIndex
		mux.Handle("/git/", p.git)
	}
	if p.graphql != nil {
		index += adminGraphQLIndex
		mux.Handle("/graphql/", p.graphql)
	}
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "alive\n") })
	mux.HandleFunc("GET /readyz", p.ready.serveReady)
	mux.Handle("GET /metrics", p.metrics)
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) { serveStatus(w, p.status()) })
	mux.Handle("/debug/pprof/", boundProfiles(profiles()))
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, index) })
	return guard.Wrap(boundWrite(mux))
}

func (h *readiness) serveReady(w http.ResponseWriter, _ *http.Request) {
	if err := h.err(); err != nil {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "not ready: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(w, "ready\n")
}

func serveStatus(w http.ResponseWriter, status any) {
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	if err := e.Encode(status); err != nil { // nothing was written yet if it cannot be marshalled
		http.Error(w, "status: "+err.Error(), http.StatusInternalServerError)
	}
}

func profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/goroutine", serveGoroutines)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}

// serveGoroutines is pprof's, but for debug=2: that one doubles a buffer until every stack fits, which takes 12 MiB for
// 6000 calls under way.
func serveGoroutines(w http.ResponseWriter, r *http.Request) {
	if r.FormValue("debug") != "2" {
		pprof.Handler("goroutine").ServeHTTP(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	b := make([]byte, stackDump)
	n := runtime.Stack(b, true)
	_, _ = w.Write(b[:n])
	if n == len(b) {
		_, _ = io.WriteString(w, "\n\nThere are more goroutines than fit; debug=1 counts them all, by stack.\n")
	}
}

// stackDump is the most that goroutine?debug=2 shows: some 800 goroutines.
const stackDump = 1 << 20

func boundProfiles(next http.Handler) http.Handler {
	slots := make(chan struct{}, profilesAtOnce)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
			next.ServeHTTP(w, r)
		default:
			w.Header().Set("Retry-After", "5")
			http.Error(w, "a profile is being taken already; try again when that has ended", http.StatusServiceUnavailable)
		}
	})
}

// newAdminServer bounds what a connection may hold and for how long. Every answer ends its connection: clients that keep
// theirs alive would keep out the probe that comes next. There is no write time-out over all, because a profile takes as
// long as it was asked to; see boundWrite.
func newAdminServer(h http.Handler, log *slog.Logger) *http.Server {
	s := &http.Server{
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		Handler:           h,
		ReadHeaderTimeout: adminPatience,
		ReadTimeout:       2 * adminPatience,
		MaxHeaderBytes:    1, // and 4 KiB that net/http adds: what a header costs is a multiple of its length
	}
	s.SetKeepAlivesEnabled(false)
	return s
}

// adminPatience is how long a client may take to ask.
const adminPatience = 3 * time.Second

// boundWrite ends the connection of a client that does not read its answer.
func boundWrite(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/debug/pprof/") {
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(5 * adminPatience))
		}
		next.ServeHTTP(w, r)
	})
}
