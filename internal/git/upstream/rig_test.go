package upstream

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/leveehq/levee/internal/git/pkt"
)

// newClient is for hosts given by URL.
func newClient(t *testing.T, o Options, urls ...string) *Client {
	t.Helper()
	for _, u := range urls {
		o.Hosts = append(o.Hosts, Host{URL: u})
	}
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// repoAt is the repository of a test server under path.
func repoAt(server *httptest.Server, path string) Repo {
	return Repo{Host: strings.TrimPrefix(server.URL, "http://"), Path: path}
}

func serve(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// credentials are of a user and a password.
func credentials(user, password string) Credentials {
	return CredentialsOf(http.Header{"Authorization": {basic(user + ":" + password)}})
}

// wantKind checks that err is a Failure of that kind, and returns it.
func wantKind(t *testing.T, err error, k Kind) *Failure {
	t.Helper()
	var f *Failure
	if !errors.As(err, &f) || f.Kind != k {
		t.Fatalf("the error is %v, want a failure of kind %s", err, k)
	}
	return f
}

// roundTripper is a transport without a network, for virtual time.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// reply is an answer with a body that is whole. fields are name, value, ….
func reply(r *http.Request, status int, body string, fields ...string) *http.Response {
	h := http.Header{}
	for i := 0; i < len(fields); i += 2 {
		h.Add(fields[i], fields[i+1])
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body)), Request: r,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, ContentLength: int64(len(body))}
}

const (
	advertType = "application/x-git-upload-pack-advertisement"
	oidA       = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	oidB       = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

// lines are packets; "0000" and "0001" are themselves.
func lines(all ...string) string {
	var b bytes.Buffer
	w := pkt.NewWriter(&b)
	for _, l := range all {
		switch l {
		case "0000":
			w.Flush()
		case "0001":
			w.Delim()
		default:
			w.Line(l)
		}
	}
	return b.String()
}

var v2Advert = lines("version 2", "agent=git/test", "ls-refs=unborn", "fetch=shallow wait-for-done filter", "object-format=sha1", "0000")

// stub is an upstream without a network: it answers info/refs with a v2 advertisement, and POSTs with post.
type stub struct {
	mu   sync.Mutex
	seen []string // method and path of each request
	get  func(*http.Request) *http.Response
	post func(*http.Request) *http.Response
}

func (s *stub) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	s.seen = append(s.seen, r.Method+" "+r.URL.Path)
	s.mu.Unlock()
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	switch {
	case r.Method == http.MethodPost:
		return s.post(r), nil
	case s.get != nil:
		return s.get(r), nil
	}
	return reply(r, 200, v2Advert, "Content-Type", advertType), nil
}

func (s *stub) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.seen)
}

func result(r *http.Request, body string) *http.Response {
	return reply(r, 200, body, "Content-Type", resultType)
}

// gitUpstream is git's own http-backend on loopback.
type gitUpstream struct {
	*httptest.Server
	root string

	mu       sync.Mutex
	requests []*http.Request
	before   func(w http.ResponseWriter, r *http.Request) bool // answers itself if it returns true
}

func newGitUpstream(t *testing.T) *gitUpstream {
	t.Helper()
	u := &gitUpstream{root: t.TempDir()}
	path, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	backend := &cgi.Handler{Path: filepath.Join(strings.TrimSpace(string(path)), "git-http-backend"), Root: "/",
		Env: []string{"GIT_PROJECT_ROOT=" + u.root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "HOME=/nonexistent"}, Stderr: io.Discard}
	u.Server = serve(t, func(w http.ResponseWriter, r *http.Request) {
		u.mu.Lock()
		u.requests = append(u.requests, r)
		before := u.before
		u.mu.Unlock()
		if before != nil && before(w, r) {
			return
		}
		handler := *backend
		// The CGI handler passes HTTP_GIT_PROTOCOL; http-backend reads GIT_PROTOCOL from it by itself only in web servers.
		handler.Env = append(handler.Env[:len(handler.Env):len(handler.Env)], "GIT_PROTOCOL="+r.Header.Get("Git-Protocol"))
		if len(r.TransferEncoding) > 0 { // cgi refuses chunked bodies
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return
			}
			r.TransferEncoding, r.Body, r.ContentLength = nil, io.NopCloser(bytes.NewReader(body)), int64(len(body))
		}
		handler.ServeHTTP(w, r)
	})
	return u
}

func (u *gitUpstream) intercept(f func(w http.ResponseWriter, r *http.Request) bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.before = f
}

func (u *gitUpstream) seen() []*http.Request {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.requests
}

// git runs git in dir, without anybody's configuration, and returns what it prints.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := tryGit(dir, args...)
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return out
}

func tryGit(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b", "LC_ALL=C"}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// newRepo makes a bare repository of the given object format under the upstream's root, and a work tree with n commits.
func (u *gitUpstream) newRepo(t *testing.T, name, format string, n int) (bare, work string) {
	t.Helper()
	bare, work = filepath.Join(u.root, name), t.TempDir()
	git(t, u.root, "init", "-q", "--bare", "--object-format="+format, "-b", "main", bare)
	git(t, bare, "config", "uploadpack.allowFilter", "true")
	git(t, bare, "config", "uploadpack.allowAnySHA1InWant", "true")
	git(t, bare, "config", "http.receivepack", "true")
	git(t, work, "init", "-q", "--object-format="+format, "-b", "main")
	git(t, work, "remote", "add", "origin", bare)
	for range n {
		u.commit(t, work)
	}
	if n > 0 {
		git(t, work, "push", "-q", "origin", "main")
	}
	return bare, work
}

func (u *gitUpstream) commit(t *testing.T, work string) string {
	t.Helper()
	name := filepath.Join(work, "file")
	had, _ := os.ReadFile(name)
	if err := os.WriteFile(name, append(had, strings.Repeat("line of text\n", 20)...), 0o600); err != nil {
		t.Fatal(err)
	}
	git(t, work, "add", "file")
	git(t, work, "commit", "-q", "-m", "commit")
	return strings.TrimSpace(git(t, work, "rev-parse", "HEAD"))
}
