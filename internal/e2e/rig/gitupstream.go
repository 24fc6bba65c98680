package rig

import (
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Upstream is a Git host on a loopback port: real repositories behind git http-backend. It remembers what it was asked,
// and misbehaves when told to.
type Upstream struct {
	Addr string // HOST:PORT
	Root string // its repositories are directories in here

	t       testing.TB
	backend *cgi.Handler
	mu      struct {
		sync.Mutex
		calls   []*Call
		now     map[Kind]int
		most    map[Kind]int
		faults  []*fault          // that a new call may meet
		broken  []*fault          // all since the last Mend
		private map[string]string // repository to the Authorization that may read it; "" is nobody's
	}
}

// NewUpstream serves an empty directory until the test ends.
func NewUpstream(t testing.TB) *Upstream {
	t.Helper()
	u := &Upstream{t: t, Root: t.TempDir()}
	u.mu.now, u.mu.most, u.mu.private = map[Kind]int{}, map[Kind]int{}, map[string]string{}
	u.backend = httpBackend(t, u.Root)
	s := httptest.NewServer(u)
	t.Cleanup(func() {
		u.Mend()
		s.CloseClientConnections()
		s.Close()
	})
	u.Addr = s.Listener.Addr().String()
	return u
}

func httpBackend(t testing.TB, root string) *cgi.Handler {
	t.Helper()
	core, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(strings.TrimSpace(string(core)), "git-http-backend")
	return &cgi.Handler{Path: path, Root: "/", Stderr: io.Discard, Logger: log.New(io.Discard, "", 0), Env: []string{
		"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull,
	}}
}

// URL of a repository.
func (u *Upstream) URL(repo string) string { return "http://" + u.Addr + "/" + repo }

// Restrict lets only one user read and write the repository.
func (u *Upstream) Restrict(repo, user, password string) {
	u.setPrivate(repo, "Basic "+base64.StdEncoding.EncodeToString([]byte(user+":"+password)))
}

// Revoke lets nobody read the repository any more, whatever he brings.
func (u *Upstream) Revoke(repo string) { u.setPrivate(repo, "") }

func (u *Upstream) setPrivate(repo, authorization string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.mu.private[repo] = authorization
}

func (u *Upstream) mayRead(repo string, r *http.Request) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	want, private := u.mu.private[repo]
	return !private || want != "" && r.Header.Get("Authorization") == want
}

// ServeHTTP implements http.Handler.
func (u *Upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has left
	}
	call := describe(r, body)
	u.begin(call)
	answer := &answerWriter{ResponseWriter: w, call: call, ctx: r.Context()}
	defer func() { u.end(call, answer) }()
	if f := u.faultFor(*call); f != nil {
		answer.fault = f
		if !f.before(answer, r) {
			return
		}
	}
	if !u.mayRead(call.Repo, r) {
		answer.Header().Set("WWW-Authenticate", `Basic realm="rig"`)
		http.Error(answer, "who are you?", http.StatusUnauthorized)
		return
	}
	u.git(answer, r, body)
}

// git hands over to http-backend, which knows no chunked bodies: by now they have a length.
func (u *Upstream) git(w *answerWriter, r *http.Request, body []byte) {
	q := r.Clone(r.Context())
	q.Body, q.ContentLength, q.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
	h := *u.backend
	if v := r.Header.Get("Git-Protocol"); v != "" {
		h.Env = append(h.Env[:len(h.Env):len(h.Env)], "GIT_PROTOCOL="+v)
	}
	if user, _, ok := r.BasicAuth(); ok {
		h.Env = append(h.Env[:len(h.Env):len(h.Env)], "REMOTE_USER="+user)
	}
	h.ServeHTTP(w, q)
	if w.fault != nil && w.fault.spoiled(w) {
		panic(http.ErrAbortHandler)
	}
}

func (u *Upstream) begin(c *Call) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.mu.calls = append(u.mu.calls, c)
	u.mu.now[c.Kind]++
	u.mu.most[c.Kind] = max(u.mu.most[c.Kind], u.mu.now[c.Kind])
}

func (u *Upstream) end(c *Call, w *answerWriter) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.mu.now[c.Kind]--
	c.Status, c.Bytes, c.Ended = w.status, w.n, true
}

// Calls are all that it was asked, in order.
func (u *Upstream) Calls() []Call {
	u.mu.Lock()
	defer u.mu.Unlock()
	all := make([]Call, len(u.mu.calls))
	for i, c := range u.mu.calls {
		all[i] = *c
	}
	return all
}

// Count tells how many calls match.
func (u *Upstream) Count(match func(Call) bool) (n int) {
	for _, c := range u.Calls() {
		if match(c) {
			n++
		}
	}
	return n
}

// Forget forgets the calls so far.
func (u *Upstream) Forget() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.mu.calls = nil
	clear(u.mu.most)
}

// UnderWay is how many calls of a kind are not ended, and how many there ever were at once.
func (u *Upstream) UnderWay(k Kind) (now, most int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.mu.now[k], u.mu.most[k]
}

// answerWriter counts, and does to an answer's body what the fault says.
type answerWriter struct {
	http.ResponseWriter
	ctx    context.Context
	call   *Call
	fault  *fault
	status int
	n      int64
}

func (w *answerWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *answerWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	if w.fault != nil {
		return w.fault.write(w, p)
	}
	return w.pass(p)
}

func (w *answerWriter) pass(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.n += int64(n)
	return n, err
}

// flush sends what was written, so that a client has all bytes before a cut or a stall.
func (w *answerWriter) flush() { http.NewResponseController(w.ResponseWriter).Flush() }

// DeadAddress is a loopback address at which nobody listens.
func DeadAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// pause waits, unless ctx ends first.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
