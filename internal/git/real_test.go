package git

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leveehq/levee"
	"github.com/leveehq/levee/internal/accesslog"
	"github.com/leveehq/levee/internal/e2e/rig"
	"github.com/leveehq/levee/internal/git/mirror"
	"github.com/leveehq/levee/internal/git/upstream"
)

// real is a service with all its parts, in front of a Git host on loopback.
type real struct {
	*Service
	up  *rig.Upstream
	url string
	log syncBuffer
}

func startReal(t *testing.T, change func(*Options)) *real {
	t.Helper()
	r := &real{up: rig.NewUpstream(t)}
	logger := slog.New(slog.NewTextHandler(&r.log, nil))
	k, err := levee.New(levee.Options{MemoryLimit: 2 << 30, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	o := Options{
		Kernel: k, Dir: t.TempDir(), Logger: logger, Log: accesslog.New(accesslog.Options{Logger: logger, SampleOK: 1, MaxPerSecond: 10000}),
		Hosts: []upstream.Host{ParseHost("http://" + r.up.Addr)},
	}
	if change != nil {
		change(&o)
	}
	if r.Service, err = New(o); err != nil {
		t.Fatal(err)
	}
	if err := r.Open(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- r.Run(ctx) }()
	server := httptest.NewServer(r)
	r.url = server.URL + Prefix + r.up.Addr + "/"
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		stop()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("log:\n%s", &r.log)
		}
	})
	return r
}

func TestRealGitIsServedInEveryVersionOfTheProtocol(t *testing.T) {
	r := startReal(t, nil)
	repo := r.up.R40("r40")
	repo.Git("notes", "--ref=review", "add", "-m", "a note", "HEAD")
	repo.Tag("annotated", "HEAD", true)
	for _, version := range []string{"0", "1", "2"} {
		c := rig.NewGitClient(t).With("GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=protocol.version", "GIT_CONFIG_VALUE_0="+version)
		if got, want := c.Git("ls-remote", "--symref", r.url+"r40"), c.Git("ls-remote", "--symref", r.up.URL("r40")); got != want {
			t.Errorf("version %s: ls-remote\n%s\nwant\n%s", version, got, want)
		}
		for _, flags := range [][]string{nil, {"--depth=1"}, {"--bare"}, {"--mirror"}, {"--filter=blob:none"}} {
			dir := c.Clone(r.url+"r40", flags...)
			c.In(dir, "fsck", "--connectivity-only")
			if n := strings.Count(c.In(dir, "tag"), "\n"); n < 40 && len(flags) == 0 {
				t.Errorf("version %s: %d tags", version, n)
			}
		}
		commit := repo.Commit("main", "file-"+version, version)
		dir := c.Clone(r.url + "r40")
		if got := strings.TrimSpace(c.In(dir, "rev-parse", "HEAD")); got != commit {
			t.Errorf("version %s: a push was not seen: %s, want %s", version, got, commit)
		}
		next := repo.Commit("main", "next-"+version, version)
		c.In(dir, "fetch")
		if got := strings.TrimSpace(c.In(dir, "rev-parse", "origin/main")); got != next {
			t.Errorf("version %s: after fetch %s, want %s", version, got, next)
		}
		bare := filepath.Join(c.Dir(), "by-sha")
		c.Git("init", "-q", "--bare", bare)
		c.In(bare, "fetch", r.url+"r40", commit)
		if got := strings.TrimSpace(c.In(bare, "rev-parse", "FETCH_HEAD")); got != commit {
			t.Errorf("version %s: by SHA %s", version, got)
		}
	}
}

func TestLazyFetchesAndSubmodulesWork(t *testing.T) {
	r := startReal(t, nil)
	r.up.R40("inner")
	r.up.R40("outer")
	work := rig.NewGitClient(t)
	dir := work.Clone(r.up.URL("outer"))
	work.In(dir, "submodule", "add", r.up.URL("inner"), "sub")
	work.In(dir, "commit", "-qm", "a submodule")
	work.In(dir, "push", "-q")
	r.up.Forget()

	c := rig.NewGitClient(t).With("GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url."+r.url+".insteadOf", "GIT_CONFIG_VALUE_0=http://"+r.up.Addr+"/")
	dir = c.Clone(r.up.URL("outer"), "--recurse-submodules", "--filter=blob:none")
	if _, err := os.Stat(filepath.Join(dir, "sub", ".git")); err != nil {
		t.Error(err)
	}
	c.In(dir, "log", "-p")
	if n := r.up.Count(func(c rig.Call) bool { return c.Clone() }); n != 2 {
		t.Errorf("upstream saw %d clones", n)
	}
}

func TestEverythingIsGivenBackWhenClientsHaveGone(t *testing.T) {
	r := startReal(t, nil)
	r.up.R40("r40")
	c := rig.NewGitClient(t)
	c.Clone(r.url + "r40")
	eventually(t, "all permits are given back", func() bool {
		for _, g := range r.kernel.Status().Gates {
			if g.InUse != 0 {
				return false
			}
		}
		return true
	})
	resp, err := http.Get(r.url + "r40/git-upload-pack")
	if err != nil || resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("%v %v", resp, err)
	}
	_ = resp.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	for _, m := range r.store.List() {
		if m.Leases != 0 || time.Since(m.LastUse) > time.Minute {
			t.Errorf("mirror %+v", m)
		}
	}
}

func TestAnUpstreamOfTheOldProtocolIsServedByPassingOn(t *testing.T) {
	old := rig.NewUpstream(t)
	repo := old.R40("r40")
	target, _ := url.Parse("http://" + old.Addr)
	proxy := httputil.NewSingleHostReverseProxy(target)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("Git-Protocol")
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	r := startReal(t, func(o *Options) { o.Hosts = append(o.Hosts, ParseHost(server.URL)) })
	through := strings.Replace(r.url, r.up.Addr, strings.TrimPrefix(server.URL, "http://"), 1) + "r40"
	c := rig.NewGitClient(t)
	if got, want := c.Git("ls-remote", through), c.Git("ls-remote", old.URL("r40")); got != want {
		t.Errorf("ls-remote\n%s\nwant\n%s", got, want)
	}
	dir := c.Clone(through)
	c.In(dir, "fsck", "--connectivity-only")
	next := repo.Commit("main", "next", "next")
	c.In(dir, "fetch")
	if got := strings.TrimSpace(c.In(dir, "rev-parse", "origin/main")); got != next {
		t.Errorf("after fetch %s, want %s", got, next)
	}
	for _, a := range r.Status().Answers {
		if a.Origin != theirs {
			t.Errorf("answered here: %+v", a)
		}
	}
	if list := r.store.List(); len(list) > 0 {
		t.Errorf("there is a mirror: %+v", list)
	}
}

func TestAShallowUpstreamIsServedByPassingOn(t *testing.T) {
	for _, version := range []string{"0", "2"} {
		t.Run("v"+version, func(t *testing.T) {
			r := startReal(t, nil)
			whole := r.up.Deep("whole", 10)
			c := rig.NewGitClient(t).With("GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=protocol.version", "GIT_CONFIG_VALUE_0="+version)
			shallow := r.up.Open("shallow")
			c.Git("clone", "-q", "--bare", "--no-local", "--depth=3", whole.Dir, shallow.Dir)
			if version == "0" { // who has refs from us cannot read a pack of upstream's
				said, err := c.Run(t.Context(), "clone", r.url+"shallow", filepath.Join(c.Dir(), "first"))
				if err == nil || !strings.Contains(said, "shallow clone itself") || !strings.Contains(said, "try again") {
					t.Errorf("the first: %v: %s", err, said)
				}
			}
			dir := c.Clone(r.url + "shallow")
			c.In(dir, "fsck", "--connectivity-only")
			if got, want := c.In(dir, "log", "--format=%H"), shallow.Git("log", "--format=%H"); got != want {
				t.Errorf("the clone has\n%s\nwant\n%s", got, want)
			}
			next := shallow.Commit("main", "next", "next")
			c.In(dir, "fetch")
			if got := strings.TrimSpace(c.In(dir, "rev-parse", "origin/main")); got != next {
				t.Errorf("after fetch %s, want %s", got, next)
			}
			if list := r.store.List(); len(list) > 0 {
				t.Errorf("there is a mirror: %+v", list)
			}
		})
	}
}

func TestWhatGitGivesUpOnUpstreamAnswers(t *testing.T) {
	r := startReal(t, nil)
	r.up.R40("r40")
	c := rig.NewGitClient(t)
	c.Clone(r.url + "r40")
	for _, flag := range []string{"--shallow-exclude=main", "--shallow-exclude=none", "--filter=tree:-1"} {
		dir := filepath.Join(t.TempDir(), "clone")
		said, err := c.Run(t.Context(), "clone", "--bare", flag, r.url+"r40", dir)
		if err == nil || strings.Contains(said, "HTTP 5") {
			t.Errorf("%s: %v: %s", flag, err, said)
		}
	}
	for _, a := range r.Status().Answers {
		if a.Code >= 500 {
			t.Errorf("answered %+v", a)
		}
	}
}

func TestAMirrorThatIsDamagedWhileItIsServedHurtsNobody(t *testing.T) {
	r := startReal(t, nil)
	r.up.R40("r40")
	c := rig.NewGitClient(t)
	c.Clone(r.url + "r40")
	packs, err := filepath.Glob(filepath.Join(r.opt.Dir, "mirrors", "mirrors", "*", "objects", "pack", "*.pack"))
	if err != nil || len(packs) == 0 {
		t.Fatal(packs, err)
	}
	for _, pack := range packs {
		if err := os.Truncate(pack, 100); err != nil {
			t.Fatal(err)
		}
	}
	for _, flags := range [][]string{{"--depth=1"}, {"--bare"}, nil} {
		c.In(c.Clone(r.url+"r40", flags...), "fsck", "--connectivity-only")
	}
	if list := r.store.List(); len(list) != 1 || list[0].State != mirror.Ready {
		t.Errorf("afterwards: %+v", list)
	}
}

func TestAPushGoesUpstreamWithTheCallersOwnCredentials(t *testing.T) {
	r := startReal(t, func(o *Options) { o.Push = ForwardPush })
	repo := r.up.R40("r40")
	r.up.Restrict("r40", "alice", "wonder")
	as := func(user string) string { return strings.Replace(r.url, "http://", "http://"+user+"@", 1) + "r40" }
	c := rig.NewGitClient(t).With("GIT_TERMINAL_PROMPT=0")
	dir := c.Clone(as("alice:wonder"))
	c.In(dir, "commit", "-qm", "mine", "--allow-empty")
	c.In(dir, "push", "-q", "origin", "HEAD:main")
	if got, want := repo.Git("rev-parse", "main"), strings.TrimSpace(c.In(dir, "rev-parse", "HEAD")); strings.TrimSpace(got) != want {
		t.Errorf("upstream has %s, want %s", got, want)
	}
	again := c.Clone(as("alice:wonder"))
	if got := strings.TrimSpace(c.In(again, "log", "-1", "--format=%s")); got != "mine" {
		t.Errorf("a clone behind the push has %q", got)
	}
	for _, user := range []string{"alice:wrong", "bob:builder"} {
		if out, err := c.Run(t.Context(), "ls-remote", as(user)); err == nil {
			t.Errorf("%s may read: %s", user, out)
		}
		if out, err := c.Run(t.Context(), "--git-dir="+filepath.Join(dir, ".git"), "push", as(user), "HEAD:other"); err == nil {
			t.Errorf("%s may push: %s", user, out)
		}
	}
	if out, err := c.Run(t.Context(), "ls-remote", r.url+"r40"); err == nil || !strings.Contains(out, "could not read Username") {
		t.Errorf("nobody: %v %s", err, out)
	}
	if text := r.log.String(); strings.Contains(text, "wonder") || strings.Contains(text, "alice") {
		t.Error("a credential is in the log")
	}
}
