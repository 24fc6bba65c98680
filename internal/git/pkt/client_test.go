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

// clients are the versions that a stock client can be told to speak.
var clients = map[string]int{"v0": 0, "v1": 1, "v2": 2}

func eachVersion(t *testing.T, test func(t *testing.T, o *origin, git func(args ...string), version int)) {
	for name, version := range clients {
		t.Run(name, func(t *testing.T) {
			o := newOrigin(t)
			git := func(args ...string) {
				t.Helper()
				o.git(o.tmp, append([]string{"-c", fmt.Sprintf("protocol.version=%d", version)}, args...)...)
			}
			test(t, o, git, version)
		})
	}
}

func TestAStockClonesRequestIsUnderstood(t *testing.T) {
	eachVersion(t, func(t *testing.T, o *origin, git func(...string), version int) {
		git("clone", "-q", o.url, "plain")
		r := one(t, o.asked())
		if r.Version != version || !r.Done || len(r.Haves) > 0 || len(r.Wants) < 30 || !strings.HasPrefix(r.Agent, "git/") || !r.has("ofs-delta") {
			t.Errorf("%s", show(r))
		}
		git("clone", "--progress", o.url, "loud")
		if loud := one(t, o.asked()); loud.Canonical() != r.Canonical() || !loud.Progress() || r.Progress() {
			t.Errorf("a clone with progress is another: %s", show(loud))
		}
		git("clone", "-q", "--mirror", o.url, "mirror")
		if r := one(t, o.asked()); len(r.Wants) < 30 || !r.Done {
			t.Errorf("%s", show(r))
		}
		git("clone", "-q", "--single-branch", "-b", "side", o.url, "single")
		if r := one(t, o.asked()); !r.Done || version == 2 && len(r.Wants) > 6 {
			t.Errorf("%s", show(r))
		}
	})
}

// show leaves out what only makes it long.
func show(r *Request) string {
	short := *r
	short.Body, short.rest = nil, ""
	return fmt.Sprintf("%.2000s", fmt.Sprintf("%+v", short))
}

func one(t *testing.T, all []*Request) *Request {
	t.Helper()
	if len(all) != 1 {
		t.Fatalf("%d fetches, want 1", len(all))
	}
	return all[0]
}

func TestAStockShallowClonesRequestsAreUnderstood(t *testing.T) {
	eachVersion(t, func(t *testing.T, o *origin, git func(...string), version int) {
		last := func() (r *Request) { // behind it may come a fetch of tags
			t.Helper()
			for _, x := range o.asked() {
				if x.Depth > 0 || x.DeepenSince != "" || len(x.DeepenNot) > 0 {
					r = x
				}
			}
			return r
		}
		git("clone", "-q", "--depth", "1", o.url, "shallow")
		if r := last(); r.Depth != 1 || !r.Done || r.DeepenRelative {
			t.Errorf("%s", show(r))
		}
		git("-C", "shallow", "fetch", "-q", "--deepen", "2")
		if r := last(); r.Depth != 2 || !r.DeepenRelative || len(r.Shallows) != 1 {
			t.Errorf("%s", show(r))
		}
		git("-C", "shallow", "fetch", "-q", "--depth", "5")
		if r := last(); r.Depth != 5 || r.DeepenRelative || len(r.Shallows) != 1 {
			t.Errorf("%s", show(r))
		}
		git("-C", "shallow", "fetch", "-q", "--unshallow")
		if r := last(); r.Depth != 1<<31-1 || len(r.Shallows) != 1 {
			t.Errorf("%s", show(r))
		}
		git("clone", "-q", "--shallow-since", "2023-12-10", o.url, "since")
		if r := last(); r.DeepenSince == "" || r.Depth != 0 {
			t.Errorf("%s", show(r))
		}
		git("clone", "-q", "--shallow-exclude", "v1", "--shallow-exclude", "v0", o.url, "not")
		if r := last(); strings.Join(r.DeepenNot, " ") != "v0 v1" {
			t.Errorf("%s", show(r))
		}
	})
}

func TestAStockPartialClonesRequestsAreUnderstood(t *testing.T) {
	eachVersion(t, func(t *testing.T, o *origin, git func(...string), version int) {
		git("clone", "-q", "--no-checkout", "--filter", "blob:none", o.url, "partial")
		if r := one(t, o.asked()); r.Filter != "blob:none" || !r.Done {
			t.Errorf("%s", show(r))
		}
		git("-C", "partial", "checkout", "-q", "side")
		if r := one(t, o.asked()); len(r.Wants) != 7 || !r.Done || len(r.Haves) > 0 || r.Filter != "blob:none" && version == 2 {
			t.Errorf("%s", show(r))
		}
		git("clone", "-q", "--no-checkout", "--filter", "combine:blob:limit=1024+tree:3", o.url, "combined")
		if r := one(t, o.asked()); r.Filter != "combine:blob:limit=1024+tree:3" {
			t.Errorf("%s", show(r))
		}
	})
}

func TestAStockFetchOfAHashIsUnderstood(t *testing.T) {
	eachVersion(t, func(t *testing.T, o *origin, git func(...string), version int) {
		hash := o.git(o.dir, "rev-parse", "main~7")
		git("init", "-q", "--bare", "empty.git")
		git("-C", "empty.git", "fetch", "-q", o.url, hash)
		if r := one(t, o.asked()); len(r.Wants) != 1 || string(r.Wants[0]) != hash || !r.Done {
			t.Errorf("%s", show(r))
		}
	})
}

// An incremental fetch negotiates; one of histories that share nothing gives up after many rounds.
func TestAStockNegotiationsRoundsAreUnderstood(t *testing.T) {
	eachVersion(t, func(t *testing.T, o *origin, git func(...string), version int) {
		git("clone", "-q", "--single-branch", "-b", "topic/25", o.url, "behind")
		o.asked()
		git("-C", "behind", "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-q", "--allow-empty", "-m", "ours")
		git("-C", "behind", "fetch", "-q", o.url, "main")
		rounds := o.asked()
		if r := rounds[0]; len(r.Haves) == 0 || !r.has("thin-pack") {
			t.Errorf("%s", show(r))
		}
		git("init", "-q", "stranger")
		var history strings.Builder
		for n := range 400 {
			fmt.Fprintf(&history, "commit refs/heads/main\ncommitter A <a@example.org> %d +0000\ndata 1\nx\n", 1_500_000_000+n)
		}
		o.gitWith(filepath.Join(o.tmp, "stranger"), strings.NewReader(history.String()), "fast-import", "--quiet")
		git("-C", "stranger", "fetch", "-q", o.url, "main")
		rounds = o.asked()
		if last := rounds[len(rounds)-1]; len(rounds) < 4 || !last.Done || rounds[0].Done || rounds[0].EndsInPack() {
			t.Errorf("%d rounds, the last is %s", len(rounds), show(last))
		}
	})
}

func TestAStockClientsNegotiationAloneAndRefsByNameAreUnderstood(t *testing.T) {
	o := newOrigin(t)
	git := func(args ...string) { t.Helper(); o.git(o.tmp, args...) }
	git("clone", "-q", o.url, "all")
	o.asked()
	git("-C", "all", "fetch", "-q", "--negotiate-only", "--negotiation-tip=HEAD", "origin")
	if r := o.asked()[0]; !r.WaitForDone || len(r.Wants) > 0 || r.EndsInPack() {
		t.Errorf("%s", show(r))
	}
	o.git(o.dir, "config", "uploadpack.allowRefInWant", "true")
	git("init", "-q", "named")
	git("-C", "named", "fetch", "-q", o.url, "refs/heads/side:refs/heads/side")
	if r := one(t, o.asked()); len(r.WantRefs) != 1 || r.Tellable() || !r.EndsInPack() {
		t.Errorf("%s", show(r))
	}
}

func TestAStockClientsRefsAreUnderstood(t *testing.T) {
	o := newOrigin(t)
	o.git(o.tmp, "ls-remote", "--symref", "-o", "an option", o.url, "main", "v*")
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.mu.seen) != 1 {
		t.Fatalf("%d POSTs, want 1", len(o.mu.seen))
	}
	if r := o.parse(o.mu.seen[0]); r.Command != "ls-refs" || !r.Peel || !r.Symrefs || !r.has("server-option=an option") {
		t.Errorf("%s", show(r))
	}
}

// A body above http.postBuffer comes in chunks, after a probe.
func TestAStockClientsProbeIsUnderstood(t *testing.T) {
	eachVersion(t, func(t *testing.T, o *origin, git func(...string), version int) {
		var many strings.Builder
		for n := range 1500 {
			fmt.Fprintf(&many, "commit refs/heads/many/%d\ncommitter A <a@example.org> %d +0000\ndata 1\nx\n", n, n)
		}
		o.gitWith(o.dir, strings.NewReader(many.String()), "fast-import", "--quiet")
		git("-c", "http.postBuffer=65536", "clone", "-q", "--mirror", o.url, "mirror")
		o.mu.Lock()
		probe := o.parse(o.mu.seen[len(o.mu.seen)-2])
		o.mu.Unlock()
		if probe.Command != "" || len(probe.Body) != 4 {
			t.Errorf("before the fetch comes %q and no probe", probe.Body)
		}
		one(t, o.asked())
	})
}
