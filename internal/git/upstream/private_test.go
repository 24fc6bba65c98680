package upstream

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// G5
func TestAPrivateRepositoryIsReadOnlyWithCredentialsThatUpstreamTakesNow(t *testing.T) {
	u := newGitUpstream(t)
	_, work := u.newRepo(t, "priv", "sha1", 1)
	head := strings.TrimSpace(git(t, work, "rev-parse", "HEAD"))
	var revoked atomic.Bool
	u.intercept(func(w http.ResponseWriter, r *http.Request) bool {
		user, password, _ := r.BasicAuth()
		if user == "a" && password == "good" && !revoked.Load() {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="priv"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	c := newClient(t, Options{AuthTTL: time.Nanosecond}, u.URL)
	repo := repoAt(u.Server, "priv")
	ask := func(cred Credentials) map[string]error {
		_, refs := c.LsRefs(t.Context(), repo, cred)
		return map[string]error{"refs": refs, "authorize": c.Authorize(t.Context(), repo, cred),
			"fetch": c.Fetch(t.Context(), repo, cred, Fetch{Wants: []string{head}, Pack: io.Discard})}
	}
	wantNone := func(who string, cred Credentials) {
		t.Helper()
		for what, err := range ask(cred) {
			if f := wantKind(t, err, Unauthorized); len(f.Challenge) != 1 || strings.Contains(f.Error(), "wrong") {
				t.Errorf("%s of %s: %+v", what, who, f)
			}
		}
	}
	for what, err := range ask(credentials("a", "good")) {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	// The capabilities are known by now; they open nothing.
	wantNone("nobody", Credentials{})
	wantNone("a wrong password", credentials("a", "wrong"))
	revoked.Store(true)
	wantNone("who lost the right", credentials("a", "good"))
}

func TestCredentialsNeverGoToAnotherHost(t *testing.T) {
	var met atomic.Int32
	other := serve(t, func(http.ResponseWriter, *http.Request) { met.Add(1) })
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL+r.URL.RequestURI()+"&sig=secret", http.StatusMovedPermanently)
	})
	// The other one is allowed, too: it is still another host.
	c := newClient(t, Options{}, s.URL, other.URL)
	cred := credentials("a", "b")
	f := wantKind(t, c.Authorize(t.Context(), repoAt(s, "r"), cred), Redirected)
	if !strings.Contains(f.Error(), other.URL+"/r/info/refs") || strings.Contains(f.Error(), "secret") {
		t.Errorf("the error does not say where to: %v", f)
	}
	front := newFront(t, c)
	for _, path := range []string{"/r/info/refs?service=git-receive-pack", "/r/git-receive-pack", "/r/info/lfs/locks"} {
		send(t, "GET", through(front, s.URL, path), nil, "Authorization", "Basic YTpi")
	}
	if met.Load() != 0 {
		t.Error("the other host was asked")
	}
}

// recorder is a ResponseWriter for requests that get no answer.
type recorder struct{ http.ResponseWriter }

func TestAForwardedRequestStallsAndAPushLater(t *testing.T) {
	for rest, want := range map[string]time.Duration{"info/refs": time.Minute, "git-upload-pack": time.Minute, "info/lfs/locks": time.Minute, "git-receive-pack": 10 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			c := newClient(t, Options{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				if r.Body != nil {
					_, _ = io.Copy(io.Discard, r.Body)
				}
				<-r.Context().Done()
				return nil, r.Context().Err()
			})}, "http://h")
			r, err := http.NewRequestWithContext(t.Context(), "POST", "http://levee/git/h/r/"+rest, io.MultiReader(strings.NewReader("body")))
			if err != nil {
				t.Fatal(err)
			}
			r.ContentLength = 4
			start := time.Now()
			err = c.Forward(recorder{}, r, repoH, rest)
			wantKind(t, err, Stalled)
			if took := time.Since(start); took != want {
				t.Errorf("%s stalls after %v, want %v", rest, took, want)
			}
		})
	}
}

func TestACallerThatLeavesEndsWhatIsForwarded(t *testing.T) {
	gone := make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "some")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(gone)
	})
	c := newClient(t, Options{}, s.URL)
	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "GET", through(newFront(t, c), s.URL, "/r/info/lfs/objects/1"), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadFull(resp.Body, make([]byte, 4)); err != nil { // what came is passed on before the rest is there
		t.Fatal(err)
	}
	leave()
	select {
	case <-gone:
	case <-time.After(10 * time.Second):
		t.Error("upstream is still asked")
	}
	if n := c.Stats().Failures[Truncated]; n != 0 {
		t.Error("it counts as upstream's failure")
	}
}
