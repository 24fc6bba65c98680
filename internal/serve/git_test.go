package serve

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/leveehq/levee/internal/config"
)

var gitOn = map[string]string{"git-host": "git.example,http://127.0.0.1:9"}

func TestEverySettingOfGitReachesIt(t *testing.T) {
	other := map[string]string{
		"git.hosts": "other.example", "git.private_hosts": "git.example", "git.path": "elsewhere", "git.hide_refs": "refs/pull",
		"git.push": "forward", "git.shed_as": "err", "git.too_large": "refuse", "git.wait": "3m", "git.silent_wait": "20s", "git.queue_notice_after": "2s",
	}
	for _, s := range config.Settings() {
		if !strings.HasPrefix(s.Path, "git.") || s.Path == "git.tokens" { // see TestTokensAreFoundWhereTheSettingSays
			continue
		}
		value := other[s.Path]
		switch {
		case value != "":
		case s.Kind == "SIZE":
			value = "3MiB"
		case s.Kind == "TIME":
			value = "7s"
		default:
			value = "5"
		}
		flags := map[string]string{"git-host": gitOn["git-host"], s.Flag: value}
		if reflect.DeepEqual(gitOptions(load(t, flags)), gitOptions(load(t, gitOn))) {
			t.Errorf("%s = %s reaches nobody", s.Path, value)
		}
	}
}

func TestTokensAreFoundWhereTheSettingSays(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := build(t, map[string]string{"git-host": "a.example,b.example,c.example,d.example", "git-tokens": "a.example=env:TOKEN_A,b.example=file:" + file + ",c.example=env:NONE"})
	a.env = []string{"TOKEN_A=from-env"}
	for host, want := range map[string]string{"https://a.example": "from-env", "https://b.example": "from-file", "https://d.example": ""} {
		if got, err := a.gitToken(host); got != want || err != nil {
			t.Errorf("%s: %q, %v", host, got, err)
		}
	}
	if _, err := a.gitToken("https://c.example"); err == nil || !strings.Contains(err.Error(), "env:NONE") {
		t.Errorf("an absent token: %v", err)
	}
}

// A service that is off is not there.
func TestWithoutAHostThereIsNothingOfGit(t *testing.T) {
	a := build(t, map[string]string{"memory-limit": "512MiB"})
	s := a.status()
	for _, l := range s.Plan.Lines {
		if strings.Contains(l.Account, "git") {
			t.Errorf("the plan has %s", l.Account)
		}
	}
	for _, g := range s.Gates {
		if strings.Contains(g.Name, "git") {
			t.Errorf("there is a gate %s", g.Name)
		}
	}
	if s.Services["git"] != nil {
		t.Error("Status has a section")
	}
	if page := get(a.admin.Handler, "localhost", "/metrics").Body.String(); strings.Contains(page, "levee_git_") {
		t.Error("there are metrics")
	}
	if code := get(a.admin.Handler, "localhost", "/git/mirrors").Code; code != http.StatusNotFound {
		t.Errorf("the admin listener answers %d", code)
	}
	w := get(a.http.Handler, "localhost", "/git/github.com/org/repo/info/refs?service=git-upload-pack")
	if w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "levee serve --git-host github.com") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestThePlanWithGitFitsEveryMachine(t *testing.T) {
	for _, limit := range []string{"384MiB", "512MiB", "768MiB", "1GiB", "2GiB", "4GiB", "64GiB"} {
		p := build(t, map[string]string{"memory-limit": limit, "git-host": "github.com"}).Plan()
		if err := p.Check(); err != nil {
			t.Errorf("%s: %v", limit, err)
		}
		found := 0
		for _, l := range p.Lines {
			if strings.HasPrefix(l.Account, "git_") {
				found++
			}
		}
		if found < 9 {
			t.Errorf("%s: %d lines of git", limit, found)
		}
	}
}

func TestARunningServerServesGitBesideBazel(t *testing.T) {
	s := run(t, gitOn)
	ask := func(addr, path string) (int, string) {
		resp, err := http.Get("http://" + addr + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(b)
	}
	if code, text := ask(s.cache, "/git/other.example/org/repo/info/refs?service=git-upload-pack"); code != http.StatusForbidden || !strings.Contains(text, "--git-host other.example") {
		t.Errorf("%d %s", code, text)
	}
	if code, text := ask(s.cache, "/git/127.0.0.1:9/org/repo/info/refs?service=git-upload-pack"); code != http.StatusBadGateway || !strings.Contains(text, "127.0.0.1:9 cannot be reached") {
		t.Errorf("%d %s", code, text)
	}
	if code, text := ask(s.cache, "/git/cas/"+strings.Repeat("a", 64)); code != http.StatusBadRequest || !strings.Contains(text, "reserved for another service") {
		t.Errorf("Bazel's instance of the name: %d %s", code, text)
	}
	if code, text := ask(s.admin, "/git/mirrors"); code != http.StatusOK || strings.TrimSpace(text) != "[]" {
		t.Errorf("mirrors: %d %s", code, text)
	}
	if _, text := ask(s.admin, "/metrics"); !strings.Contains(text, `levee_git_responses_total{method="info-refs",origin="ours",status="502"} 1`) {
		t.Error("the metrics do not count the answer")
	}
	resp, err := http.Post("http://"+s.admin+"/git/warm?repo=127.0.0.1:9/org/repo", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusBadGateway {
		t.Errorf("warm: %s", resp.Status)
	}
}

func TestCheckLooksAtGit(t *testing.T) {
	find := func(a *App, text string) bool {
		for _, f := range a.Check() {
			if f.What == "git" && strings.Contains(f.Text, text) {
				return true
			}
		}
		return false
	}
	a := build(t, map[string]string{"git-host": "github.com", "git-tokens": "github.com=env:NONE", "store-path": t.TempDir(), "listen-admin": "127.0.0.1:0"})
	for _, want := range []string{"will hold mirrors", "the token of https://github.com: env:NONE is empty", "no server that runs could be asked"} {
		if !find(a, want) {
			t.Errorf("no finding says %q: %v", want, a.Check())
		}
	}
	s := run(t, gitOn)
	a = build(t, map[string]string{"git-host": "github.com", "store-path": t.TempDir(), "listen-admin": s.admin})
	if !find(a, "has made no pack yet") {
		t.Errorf("findings: %v", a.Check())
	}
	admin := func(median string) *App {
		l := serveText(t, `{"services":{"git":{"median_generation_seconds":`+median+`,"generations_measured":9}}}`)
		return build(t, map[string]string{"git-host": "github.com", "store-path": t.TempDir(), "listen-admin": l})
	}
	for median, want := range map[string]string{
		"700": "git.wait = 10m0s (default) is shorter than the median of 9 generations of packs (11m40s)",
		"70":  "git.silent_wait = 50s (default) is shorter", "7": "are above the median",
	} {
		if !find(admin(median), want) {
			t.Errorf("median %s: no finding says %q", median, want)
		}
	}
}

// serveText answers every request with text, and returns its address.
func serveText(t *testing.T, text string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}
