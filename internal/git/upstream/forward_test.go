package upstream

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// newFront forwards everything below /git/, as the service does.
func newFront(t *testing.T, c *Client) *httptest.Server {
	t.Helper()
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		repo, _, rest, err := c.Resolve(strings.TrimPrefix(r.URL.EscapedPath(), "/git/"))
		if err == nil {
			err = c.Forward(w, r, repo, rest)
		}
		var f *Failure
		var pe *PathError
		switch {
		case errors.Is(err, http.ErrAbortHandler):
			panic(http.ErrAbortHandler)
		case errors.As(err, &pe):
			http.Error(w, pe.Text, pe.Status)
		case errors.As(err, &f):
			w.Header().Set("X-Kind", string(f.Kind))
			http.Error(w, f.Error(), http.StatusBadGateway)
		case err != nil:
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	})
}

func through(front *httptest.Server, upstream, path string) string {
	return front.URL + "/git/" + strings.TrimPrefix(upstream, "http://") + path
}

func send(t *testing.T, method, url string, body io.Reader, fields ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(fields); i += 2 {
		req.Header.Add(fields[i], fields[i+1])
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true, ExpectContinueTimeout: time.Minute}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		return resp, string(got) + "(" + err.Error() + ")"
	}
	return resp, string(got)
}

func TestPushesGoThroughSmallAndLarge(t *testing.T) {
	u := newGitUpstream(t)
	bare, work := u.newRepo(t, "r.git", "sha1", 1)
	c := newClient(t, Options{}, u.URL)
	front := newFront(t, c)
	url := through(front, u.URL, "/r.git")

	u.commit(t, work)
	git(t, work, "push", url, "main")
	large := make([]byte, 3<<20) // above http.postBuffer: the body is chunked, and probed for first
	for i := range large {
		large[i] = byte(i * i >> 3)
	}
	if err := os.WriteFile(filepath.Join(work, "large"), large, 0o600); err != nil {
		t.Fatal(err)
	}
	git(t, work, "add", "large")
	git(t, work, "-c", "core.compression=0", "commit", "-q", "-m", "large")
	git(t, work, "-c", "core.compression=0", "-c", "pack.compression=0", "push", url, "main:refs/heads/large")
	if want, got := git(t, work, "rev-parse", "HEAD"), git(t, bare, "rev-parse", "refs/heads/large"); got != want {
		t.Errorf("upstream has %s, want %s", got, want)
	}
	git(t, bare, "fsck", "--full")
	chunked := false
	for _, r := range u.seen() {
		chunked = chunked || r.Header.Get("Content-Type") == "application/x-git-receive-pack-request" && r.ContentLength > 1<<20
	}
	if !chunked {
		t.Error("the large push was not chunked: it tests nothing")
	}
	if hs := c.Stats().Hosts[0]; hs.Forwards != 0 {
		t.Errorf("%d slots are held", hs.Forwards)
	}
}

func TestAClonePassesThroughInEveryProtocol(t *testing.T) {
	u := newGitUpstream(t)
	_, work := u.newRepo(t, "r.git", "sha1", 3)
	for n := range 40 { // G3: a request with so many refs is gzipped
		git(t, work, "tag", fmt.Sprintf("t%d", n))
	}
	git(t, work, "push", "-q", "origin", "--tags")
	front := newFront(t, newClient(t, Options{}, u.URL))
	for _, version := range []string{"0", "1", "2"} {
		dir := filepath.Join(t.TempDir(), "clone")
		git(t, "/", "-c", "protocol.version="+version, "clone", "-q", through(front, u.URL, "/r.git"), dir)
		if got, want := git(t, dir, "rev-parse", "HEAD"), git(t, work, "rev-parse", "HEAD"); got != want {
			t.Errorf("protocol %s: HEAD is %s, want %s", version, got, want)
		}
	}
}

// recorded is what an upstream saw of a request.
type recorded struct {
	*http.Request
	body string
}

// recording is an upstream that tells what it saw.
func recording(t *testing.T, answer http.HandlerFunc) (*httptest.Server, chan recorded) {
	seen := make(chan recorded, 10)
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seen <- recorded{r, string(body)}
		answer(w, r)
	}), seen
}

func TestARequestAndItsAnswerPassAsTheyAre(t *testing.T) {
	answer := `{"objects":[{"actions":{"download":{"href":"https://elsewhere.example/object?sig=1"}}}]}`
	s, seen := recording(t, func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "application/vnd.git-lfs+json")
		h.Set("Connection", "X-Hop")
		h.Set("X-Hop", "1")
		h.Set("X-Request-Id", "7")
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, answer)
	})
	front := newFront(t, newClient(t, Options{Hosts: []Host{{URL: s.URL, Token: "secret"}}}))

	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = io.WriteString(z, `{"operation":"download"}`)
	_ = z.Close()
	want := zipped.String()
	resp, body := send(t, "POST", through(front, s.URL, "/r/info/lfs/objects/batch?x=1"), &zipped, "Authorization", "Basic dTpw", "Content-Encoding", "gzip",
		"Accept", "application/vnd.git-lfs+json", "Connection", "X-Gone, close", "X-Gone", "1", "Keep-Alive", "timeout=5", "Te", "trailers", "Proxy-Authorization", "x", "X-Kept", "1",
		"User-Agent", "git-lfs/3")
	r := <-seen
	if r.URL.String() != "/r/info/lfs/objects/batch?x=1" || r.Method != "POST" || r.Host != strings.TrimPrefix(s.URL, "http://") || r.body != want {
		t.Errorf("upstream saw %s %s of %s, %d bytes", r.Method, r.URL, r.Host, len(r.body))
	}
	got := r.Header.Clone()
	for name, v := range map[string]string{"Authorization": "Basic dTpw", "Content-Encoding": "gzip", "Accept": "application/vnd.git-lfs+json", "X-Kept": "1",
		"User-Agent": "git-lfs/3", "Content-Length": fmt.Sprint(len(want))} {
		if got.Get(name) != v {
			t.Errorf("upstream saw %s: %q, want %q", name, got.Get(name), v)
		}
		got.Del(name)
	}
	if len(got) > 0 {
		t.Errorf("upstream saw besides %v", got)
	}
	if resp.StatusCode != http.StatusAccepted || body != answer || resp.Header.Get("X-Hop") != "" || resp.Header.Get("X-Request-Id") != "7" ||
		resp.Header.Get("Content-Type") != "application/vnd.git-lfs+json" {
		t.Errorf("the answer is %d %q %v", resp.StatusCode, body, resp.Header)
	}
}

func TestATokenGoesWithReadsOnly(t *testing.T) {
	s, seen := recording(t, func(http.ResponseWriter, *http.Request) {})
	front := newFront(t, newClient(t, Options{Hosts: []Host{{URL: s.URL, Token: "Bearer ours"}}}))
	for _, tt := range []struct{ method, path, theirs, want string }{
		{"GET", "/r/info/refs?service=git-upload-pack", "", "Bearer ours"},
		{"POST", "/r/git-upload-pack", "", "Bearer ours"},
		{"GET", "/r/info/refs?service=git-upload-pack", "x", "x"},
		{"GET", "/r/info/refs?service=git-receive-pack", "", ""},
		{"GET", "/r/info/refs?service=git-upload-pack&service=git-receive-pack", "", ""},
		{"GET", "/r/info/refs?service=git-receive-pack&service=git-upload-pack", "", ""},
		{"GET", "/r/info/refs", "", ""},
		{"POST", "/r/git-receive-pack", "", ""},
		{"POST", "/r/git-receive-pack", "x", "x"},
		{"POST", "/r/info/lfs/objects/batch", "", ""},
		{"PUT", "/r/info/lfs/objects/" + oidA, "", ""},
		{"GET", "/r/info/lfs/objects/" + oidA, "", ""},
	} {
		fields := []string{}
		if tt.theirs != "" {
			fields = []string{"Authorization", tt.theirs}
		}
		send(t, tt.method, through(front, s.URL, tt.path), strings.NewReader(""), fields...)
		if got := (<-seen).Header.Get("Authorization"); got != tt.want {
			t.Errorf("%s %s of %q goes with %q, want %q", tt.method, tt.path, tt.theirs, got, tt.want)
		}
	}
}

func TestRetryAfterIsKeptAndThenHeeded(t *testing.T) {
	s, seen := recording(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "30")
		http.Error(w, "slow down", http.StatusTooManyRequests)
	})
	c := newClient(t, Options{}, s.URL)
	front := newFront(t, c)
	resp, body := send(t, "POST", through(front, s.URL, "/r/info/lfs/locks"), strings.NewReader("{}"))
	if resp.StatusCode != 429 || resp.Header.Get("Retry-After") != "30" || body != "slow down\n" {
		t.Errorf("the answer is %d %v %q", resp.StatusCode, resp.Header, body)
	}
	resp, _ = send(t, "POST", through(front, s.URL, "/r/info/lfs/locks"), strings.NewReader("{}"))
	if resp.Header.Get("X-Kind") != string(RateLimited) || len(seen) != 1 || c.Stats().Failures[RateLimited] != 1 {
		t.Errorf("the next one is %d, upstream saw %d", resp.StatusCode, len(seen))
	}
}

func TestAnAnswerThatUpstreamCutsIsCut(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "half")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	c := newClient(t, Options{}, s.URL)
	_, body := send(t, "GET", through(newFront(t, c), s.URL, "/r/info/lfs/objects/"+oidA), nil)
	if body != "half(unexpected EOF)" || c.Stats().Failures[Truncated] != 1 {
		t.Errorf("the body is %q, counted %v", body, c.Stats().Failures)
	}
}

func TestRedirectsAreFollowedOnTheHostPassedOnForLFSAndElseRefused(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/old/"):
			http.Redirect(w, r, "/new/"+strings.TrimPrefix(r.URL.RequestURI(), "/old/"), http.StatusMovedPermanently)
		case strings.HasPrefix(r.URL.Path, "/away/"):
			http.Redirect(w, r, "http://evil.example"+r.URL.RequestURI(), http.StatusTemporaryRedirect)
		default:
			_, _ = io.WriteString(w, r.Method+" "+r.URL.Path)
		}
	})
	front := newFront(t, newClient(t, Options{}, s.URL))
	for _, tt := range []struct {
		method, path, want string
		status             int
	}{
		{"POST", "/old/git-receive-pack", "", 502}, // before anybody knows where it is
		{"GET", "/old/info/refs?service=git-receive-pack", "GET /new/info/refs", 200},
		{"POST", "/old/git-receive-pack", "POST /new/git-receive-pack", 200},
		{"GET", "/away/info/refs?service=git-receive-pack", "", 502},
		{"POST", "/away/git-upload-pack", "", 502},
		{"GET", "/away/info/lfs/objects/1", "", 307},
	} {
		resp, body := send(t, tt.method, through(front, s.URL, tt.path), nil)
		if resp.StatusCode != tt.status || tt.want != "" && body != tt.want {
			t.Errorf("%s %s is %d %q", tt.method, tt.path, resp.StatusCode, body)
		}
		if tt.status == 502 && resp.Header.Get("X-Kind") != string(Redirected) {
			t.Errorf("%s %s is %q", tt.method, tt.path, resp.Header.Get("X-Kind"))
		}
	}
}

// begin sends the beginning of a POST, fields and what there is of the body, and returns the answer.
func begin(t *testing.T, front *httptest.Server, url, rest string) (*http.Response, string) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(front.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: h\r\n%s", strings.TrimPrefix(url, front.URL), rest)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp, string(text)
}

func TestABodyIsNotAskedForThatUpstreamDoesNotWant(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		http.Error(w, "who are you", http.StatusUnauthorized)
	})
	front := newFront(t, newClient(t, Options{}, s.URL))
	resp, _ := begin(t, front, through(front, s.URL, "/r/git-receive-pack"), "Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n")
	if resp.StatusCode != http.StatusUnauthorized || resp.Header.Get("WWW-Authenticate") == "" {
		t.Errorf("the answer is %d %v", resp.StatusCode, resp.Header)
	}
}

func TestABodyThatIsExpectedArrives(t *testing.T) {
	s, seen := recording(t, func(http.ResponseWriter, *http.Request) {})
	front := newFront(t, newClient(t, Options{}, s.URL))
	resp, _ := send(t, "POST", through(front, s.URL, "/r/git-receive-pack"), io.MultiReader(strings.NewReader("a"), strings.NewReader("pack")), "Expect", "100-continue")
	if r := <-seen; r.body != "apack" || resp.StatusCode != 200 {
		t.Errorf("upstream saw %q, the answer is %d", r.body, resp.StatusCode)
	}
}

func TestACallerThatStopsInItsBodyIsCut(t *testing.T) {
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	front := newFront(t, newClient(t, Options{Stall: 100 * time.Millisecond}, s.URL))
	resp, text := begin(t, front, through(front, s.URL, "/r/git-receive-pack"), "Content-Length: 100\r\n\r\nsome")
	if resp.StatusCode != http.StatusRequestTimeout || !strings.Contains(string(text), "body stopped coming") {
		t.Errorf("the answer is %d %q", resp.StatusCode, text)
	}
}

func TestAnAnswerInMidBodyEndsTheRequest(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close") // else this server would read the body first
		http.Error(w, "too large", http.StatusRequestEntityTooLarge)
	})
	front := newFront(t, newClient(t, Options{}, s.URL))
	resp, _ := begin(t, front, through(front, s.URL, "/r/git-receive-pack"), "Content-Length: 100\r\n\r\nsome")
	if resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("the answer is %d", resp.StatusCode)
	}
}

func TestAMethodThatIsNoneOfGitsIsNotPassedOn(t *testing.T) {
	s, seen := recording(t, func(http.ResponseWriter, *http.Request) {})
	front := newFront(t, newClient(t, Options{}, s.URL))
	for _, method := range []string{"TRACE", "OPTIONS", "PROPFIND"} {
		if resp, _ := send(t, method, through(front, s.URL, "/r/info/lfs/locks"), nil); resp.StatusCode != 405 || len(seen) > 0 {
			t.Errorf("%s is %d", method, resp.StatusCode)
		}
	}
}
