package serve

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/leveehq/levee/internal/hostguard"
)

func newTestAdmin(t *testing.T, h *readiness) http.Handler {
	t.Helper()
	guard, err := hostguard.New(hostguard.Options{Setting: "listen.hosts"})
	if err != nil {
		t.Fatal(err)
	}
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("metrics")) })
	return newAdmin(adminPages{ready: h, metrics: metrics, status: func() any { return map[string]int{"a": 1} }}, guard)
}

func get(h http.Handler, host, path string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "http://"+host+path, nil)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestReadinessSaysWhyNotAndLivenessAlwaysLives(t *testing.T) {
	var broken error
	h := newReadiness(func() error { return broken })
	admin := newTestAdmin(t, h)
	expect := func(status int, reason string) {
		t.Helper()
		w := get(admin, "localhost", "/readyz")
		if w.Code != status || !strings.Contains(w.Body.String(), reason) {
			t.Errorf("readyz: %d %q, want %d %q", w.Code, w.Body, status, reason)
		}
		if status == http.StatusServiceUnavailable && w.Header().Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
		if w := get(admin, "localhost", "/livez"); w.Code != http.StatusOK {
			t.Errorf("livez: %d", w.Code)
		}
	}
	expect(http.StatusServiceUnavailable, "not ready: starting")
	h.set("")
	expect(http.StatusOK, "ready")
	broken = errors.New("the disk has gone")
	expect(http.StatusServiceUnavailable, "the disk has gone")
	broken = nil
	expect(http.StatusOK, "ready")
	h.set("shutting down")
	expect(http.StatusServiceUnavailable, "shutting down")
}

func TestAdminServesItsPagesToItsOwnHostsOnly(t *testing.T) {
	admin := newTestAdmin(t, newReadiness(func() error { return nil }))
	for path, want := range map[string]string{
		"/": "/debug/pprof/", "/metrics": "metrics", "/status": `"a": 1`, "/debug/pprof/": "goroutine", "/debug/pprof/cmdline": "",
	} {
		if w := get(admin, "127.0.0.1:9090", path); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %.60q", path, w.Code, w.Body)
		}
		if w := get(admin, "evil.example", path); w.Code != http.StatusForbidden {
			t.Errorf("%s for a foreign host: %d", path, w.Code)
		}
	}
	if w := get(admin, "localhost", "/nothing"); w.Code != http.StatusNotFound {
		t.Errorf("/nothing: %d", w.Code)
	}
}

func TestADumpOfAllStacksIsBounded(t *testing.T) {
	admin := newTestAdmin(t, newReadiness(func() error { return nil }))
	if w := get(admin, "localhost", "/debug/pprof/goroutine?debug=2"); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "TestADumpOfAllStacksIsBounded") {
		t.Errorf("%d %.60q", w.Code, w.Body)
	}
	stop := make(chan struct{})
	defer close(stop)
	for range 20_000 {
		go func() { <-stop }()
	}
	w := get(admin, "localhost", "/debug/pprof/goroutine?debug=2")
	if n := w.Body.Len(); n < stackDump || n > stackDump+1<<10 || !strings.Contains(w.Body.String(), "debug=1") {
		t.Errorf("%d bytes, that end in %q", n, w.Body.String()[max(0, n-100):])
	}
}

func TestProfilesAreBoundedAmongThemselves(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	slow := boundProfiles(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { entered <- struct{}{}; <-leave }))
	done := make(chan struct{})
	for range profilesAtOnce {
		go func() { get(slow, "localhost", "/debug/pprof/profile"); done <- struct{}{} }()
		<-entered
	}
	if w := get(slow, "localhost", "/debug/pprof/heap"); w.Code != http.StatusServiceUnavailable {
		t.Errorf("one too many: %d", w.Code)
	}
	close(leave)
	for range profilesAtOnce {
		<-done
	}
	go func() { <-entered }()
	if w := get(slow, "localhost", "/debug/pprof/heap"); w.Code != http.StatusOK {
		t.Errorf("afterwards: %d", w.Code)
	}
}
