package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// fakeGitAdmin is an admin listener with one mirror.
func fakeGitAdmin(t *testing.T) string {
	t.Helper()
	const known = "github.com/org/repo"
	mux := http.NewServeMux()
	mirror := fmt.Sprintf(`{"repo":%q,"state":"ready","bytes":26214400,"packs":1,"generation":3,"last_use":%q,"last_asked":"0001-01-01T00:00:00Z","leases":2}`,
		known, time.Now().Add(-90*time.Second).Format(time.RFC3339Nano))
	mux.HandleFunc("GET /git/mirrors", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, "[%s]", mirror) })
	act := func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("repo") != known {
			http.Error(w, "there is no such mirror", http.StatusNotFound)
			return
		}
		fmt.Fprint(w, mirror)
	}
	mux.HandleFunc("POST /git/warm", act)
	mux.HandleFunc("POST /git/evict", act)
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

func levee(args ...string) (status int, out, errors string) {
	var o, e bytes.Buffer
	status = run(args, environment{out: &o, errors: &e})
	return status, o.String(), e.String()
}

func TestGitLsListsTheMirrors(t *testing.T) {
	admin := fakeGitAdmin(t)
	status, out, _ := levee("git", "ls", "--admin", admin)
	if status != exitOK {
		t.Fatalf("status %d", status)
	}
	for _, want := range []string{"REPOSITORY", "github.com/org/repo", "ready", "25MiB", "1m30s ago", "never"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	if _, out, _ = levee("git", "ls", "--json", "--admin", admin); !strings.Contains(out, `"generation":3`) {
		t.Errorf("JSON: %s", out)
	}
}

func TestGitWarmAndEvictGoOnBehindARepositoryThatFails(t *testing.T) {
	admin := fakeGitAdmin(t)
	for verb, done := range map[string]string{"warm": "github.com/org/repo: ready, 25MiB", "evict": "github.com/org/repo: removed"} {
		status, out, errors := levee("git", verb, "--admin", admin, "github.com/org/none", "github.com/org/repo")
		if status != exitFailed || !strings.Contains(errors, "github.com/org/none: 404") || !strings.Contains(errors, "no such mirror") {
			t.Errorf("%s: status %d, %s", verb, status, errors)
		}
		if !strings.Contains(out, done) {
			t.Errorf("%s: %s", verb, out)
		}
	}
}

func TestGitWarmTakesURLs(t *testing.T) {
	status, out, errors := levee("git", "warm", "--admin", fakeGitAdmin(t), "https://github.com/org/repo")
	if status != exitOK || !strings.Contains(out, "ready, 25MiB") {
		t.Errorf("status %d, %s%s", status, out, errors)
	}
}

func TestGitCommandsSayThatTheCacheIsOff(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	status, _, errors := levee("git", "ls", "--admin", strings.TrimPrefix(s.URL, "http://"))
	if status != exitFailed || !strings.Contains(errors, "Git cache off") || !strings.Contains(errors, "--git-host") {
		t.Errorf("status %d, %s", status, errors)
	}
}

func TestGitCommandsSayWhichAddressDoesNotAnswer(t *testing.T) {
	status, _, errors := levee("git", "ls", "--admin", "127.0.0.1:1")
	if status != exitFailed || !strings.Contains(errors, "--admin") {
		t.Errorf("status %d, %s", status, errors)
	}
}
