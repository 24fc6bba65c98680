package pkt

import (
	"bytes"
	"compress/gzip"
	"crypto/sha1"
	"fmt"
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
)

// exchange is one POST of a stock client and git's own answer.
type exchange struct {
	version  int
	body     []byte
	response []byte
}

// origin is git http-backend, which keeps what it was asked.
type origin struct {
	t   *testing.T
	url string
	dir string // of the repository
	tmp string

	mu struct {
		sync.Mutex
		seen []exchange
	}
}

// newOrigin makes a repository with 40 commits a day apart, a side branch, annotated tags, and refs for a long request.
func newOrigin(t *testing.T) *origin {
	o := &origin{t: t, tmp: t.TempDir()}
	o.dir = filepath.Join(o.tmp, "root", "r.git")
	o.git("", "init", "-q", "--bare", "-b", "main", o.dir)
	var history strings.Builder
	commit := func(branch string, n int) {
		fmt.Fprintf(&history, "commit refs/heads/%s\nmark :%d\ncommitter A <a@example.org> %d +0000\ndata 2\nc\nM 100644 inline f%d\ndata %d\n%s\n",
			branch, n+1, 1_700_000_000+n*86_400, n%7, 9000, strings.Repeat(fmt.Sprintf("%08d\n", n), 1000))
	}
	for n := range 40 {
		commit("main", n)
		if n%10 == 9 {
			fmt.Fprintf(&history, "tag v%d\nfrom refs/heads/main\ntagger A <a@example.org> %d +0000\ndata 2\nt\n", n/10, 1_700_000_000+n*86_400)
		}
		if n == 20 {
			history.WriteString("reset refs/heads/side\nfrom refs/heads/main\n\n")
			commit("side", 100)
		}
	}
	for n := range 60 {
		fmt.Fprintf(&history, "reset refs/heads/topic/%d\nfrom :%d\n\n", n, 40-n%30)
	}
	o.gitWith(o.dir, strings.NewReader(history.String()), "fast-import", "--quiet")
	for _, c := range []string{"uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"} {
		o.git(o.dir, "config", c, "true")
	}
	server := httptest.NewServer(o)
	t.Cleanup(server.Close)
	o.url = server.URL + "/r.git"
	return o
}

func (o *origin) git(dir string, args ...string) string { return o.gitWith(dir, nil, args...) }

func (o *origin) gitWith(dir string, stdin io.Reader, args ...string) string {
	o.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Stdin = dir, stdin
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + o.tmp, "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "LC_ALL=C"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		o.t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// ServeHTTP also undoes what the body was sent in: gzip and chunks.
func (o *origin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = z
		r.Header.Del("Content-Encoding")
	}
	raw, err := io.ReadAll(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(raw)), int64(len(raw)), nil
	exec := o.git("", "--exec-path")
	backend := &cgi.Handler{
		Path: filepath.Join(exec, "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + filepath.Dir(o.dir), "GIT_HTTP_EXPORT_ALL=1", "HOME=" + o.tmp, "GIT_CONFIG_NOSYSTEM=1"},
	}
	answer := httptest.NewRecorder()
	backend.ServeHTTP(answer, r)
	if strings.HasSuffix(r.URL.Path, "/git-upload-pack") {
		version := 0
		fmt.Sscanf(r.Header.Get("Git-Protocol"), "version=%d", &version)
		o.mu.Lock()
		o.mu.seen = append(o.mu.seen, exchange{version, raw, answer.Body.Bytes()})
		o.mu.Unlock()
	}
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.Code)
	w.Write(answer.Body.Bytes())
}

// asked is what was asked since the last call, parsed, each checked against git's answer.
func (o *origin) asked() (fetches []*Request) {
	o.t.Helper()
	o.mu.Lock()
	seen := o.mu.seen
	o.mu.seen = nil
	o.mu.Unlock()
	for _, x := range seen {
		r := o.parse(x)
		if r.Command != "fetch" {
			continue
		}
		fetches = append(fetches, r)
		o.wantForetold(r, x.response)
	}
	if len(fetches) == 0 {
		o.t.Fatal("nothing was fetched")
	}
	return fetches
}

func (o *origin) parse(x exchange) *Request {
	o.t.Helper()
	parse := ParseV2
	if x.version != 2 {
		parse = func(body []byte, l Limits) (*Request, error) { return ParseV0(x.version, body, l) }
	}
	r, err := parse(x.body, Limits{})
	if err != nil {
		o.t.Fatalf("version %d: %v\n%.1000q", x.version, err, x.body)
	}
	wantSound(o.t, r)
	return r
}

// wantForetold reads the answer that git gave to r, and compares it with what r foretells.
func (o *origin) wantForetold(r *Request, response []byte) {
	o.t.Helper()
	lines, packed := sections(o.t, r, response)
	if r.EndsInPack() && packed == nil {
		o.t.Errorf("no pack in the answer to %s", show(r))
	}
	if alone := len(lines) == 1 && lines[0] == "packfile\n"; r.Done && r.Version == 2 && r.Tellable() != alone {
		o.t.Errorf("tellable %t, but before the pack there is %q: %s", r.Tellable(), lines, show(r))
	}
	if packed == nil {
		return
	}
	progress := 0
	pack, err := io.ReadAll(NewDemuxer(NewReader(bytes.NewReader(packed)), func(string) { progress++ }))
	if err != nil || len(pack) < 32 || string(pack[:4]) != "PACK" {
		o.t.Fatalf("a pack of %d bytes, %v", len(pack), err)
	}
	if sum := sha1.Sum(pack[:len(pack)-20]); !bytes.Equal(sum[:], pack[len(pack)-20:]) {
		o.t.Error("the pack's check sum is wrong")
	}
	if progress > 0 && !r.Progress() {
		o.t.Errorf("%d lines of progress nobody asked for", progress)
	}
}

// sections are the lines before the side-band, and the side-band if there is one.
func sections(t *testing.T, r *Request, response []byte) (lines []string, packed []byte) {
	t.Helper()
	for len(response) > 0 {
		kind, n, err := parseHeader(response[:4])
		if err != nil {
			t.Fatalf("%v in git's answer", err)
		}
		line := string(response[4 : 4+n])
		if r.Version != 2 && n > 0 && line[0] < ' ' {
			return lines, response
		}
		response = response[4+n:]
		if kind == Data {
			lines = append(lines, line)
		}
		if r.Version == 2 && line == "packfile\n" {
			return lines, response
		}
	}
	return lines, nil
}
