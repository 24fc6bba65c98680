package upstream

import (
	"errors"
	"net/url"
	"path"
	"strings"
	"testing"
)

func pathClient(t testing.TB) *Client {
	t.Helper()
	c, err := New(Options{Hosts: []Host{{URL: "https://github.com"}, {URL: "https://Git.Example:8443"}, {URL: "http://127.0.0.1:8081"}, {URL: "http://[::1]:8082"}}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAPathIsTakenApart(t *testing.T) {
	c := pathClient(t)
	for raw, want := range map[string][4]string{
		"github.com/org/repo/info/refs":                       {"github.com", "org/repo", "info/refs", "info/refs"},
		"github.com/Org/Repo.git/git-upload-pack":             {"github.com", "org/repo", "git-upload-pack", "git-upload-pack"},
		"GitHub.com/org/repo.git/git-receive-pack":            {"github.com", "org/repo", "git-receive-pack", "git-receive-pack"},
		"git.example:8443/Org/Repo.git/info/refs":             {"git.example:8443", "Org/Repo.git", "info/refs", "info/refs"},
		"git.example:8443/r/info/lfs/objects/batch":           {"git.example:8443", "r", "info/lfs", "info/lfs/objects/batch"},
		"git.example:8443/r/info/lfs":                         {"git.example:8443", "r", "info/lfs", "info/lfs"},
		"git.example:8443/info/lfs/info/refs":                 {"git.example:8443", "info/lfs", "info/refs", "info/refs"},
		"git.example:8443/info/lfs/info/lfs/locks":            {"git.example:8443", "info/lfs", "info/lfs", "info/lfs/locks"},
		"git.example:8443/a/b/c/d.git/ensure-refs":            {"git.example:8443", "a/b/c/d.git", "ensure-refs", "ensure-refs"},
		"127.0.0.1:8081/PRIV/info/refs":                       {"127.0.0.1:8081", "PRIV", "info/refs", "info/refs"},
		"[::1]:8082/r/info/refs":                              {"[::1]:8082", "r", "info/refs", "info/refs"},
		"%5B::1%5D:8082/r/info/refs":                          {"[::1]:8082", "r", "info/refs", "info/refs"},
		"git.example:8443/My%20Project/_git/r/info/refs":      {"git.example:8443", "My%20Project/_git/r", "info/refs", "info/refs"},
		"git.example:8443/%72%65po/info/refs":                 {"git.example:8443", "repo", "info/refs", "info/refs"},
		"git.example:8443/r%c3%a9po/info/refs":                {"git.example:8443", "r%C3%A9po", "info/refs", "info/refs"},
		"git.example:8443/répo/info/refs":                     {"git.example:8443", "r%C3%A9po", "info/refs", "info/refs"},
		"git.example:8443/a;b/info/refs":                      {"git.example:8443", "a%3Bb", "info/refs", "info/refs"},
		"git.example:8443/~user/r/info/refs":                  {"git.example:8443", "~user/r", "info/refs", "info/refs"},
		"git.example:8443/..r/r../info/refs":                  {"git.example:8443", "..r/r..", "info/refs", "info/refs"},
		"git.example:8443/r/%69nfo/refs":                      {"git.example:8443", "r", "info/refs", "info/refs"},
		"git.example:8443/r/info/lfs/objects/" + oidA + "/12": {"git.example:8443", "r", "info/lfs", "info/lfs/objects/" + oidA + "/12"},
	} {
		repo, service, rest, err := c.Resolve(raw)
		if got := [4]string{repo.Host, repo.Path, string(service), rest}; err != nil || got != want {
			t.Errorf("%q is %q, %v, want %q", raw, got, err, want)
		}
	}
}

// G5
func TestAPathThatCouldMeanAnotherIsRefused(t *testing.T) {
	c := pathClient(t)
	const host = "git.example:8443/"
	for raw, status := range map[string]int{
		"": 400, "/": 400, "git.example:8443": 404, host: 404,
		host + "info/refs": 400, host + "git-upload-pack": 400, host + "r": 404, host + "r/HEAD": 404, host + "r/objects/info/packs": 404,
		host + "/priv/info/refs": 400, host + "a//priv/info/refs": 400, host + "priv//info/refs": 400, host + "r/info/refs/": 400,
		host + "a/../priv/info/refs": 400, host + "./priv/info/refs": 400, host + "a/%2e%2e/priv/info/refs": 400, host + "a/.%2E/priv/info/refs": 400,
		host + "a/..%2fpriv/info/refs": 400, host + "a%2Fpriv/info/refs": 400, host + "a%5cpriv/info/refs": 400, host + `a\priv/info/refs`: 400,
		host + "a%00/info/refs": 400, host + "a\x00/info/refs": 400, host + "a%0a/info/refs": 400, host + "a%7f/info/refs": 400, host + "a%c2%85/info/refs": 400,
		host + "a%252e/info/refs": 400, host + "a%25/info/refs": 400, host + "a%/info/refs": 400, host + "a%2/info/refs": 400, host + "a%zz/info/refs": 400,
		host + "-r/info/refs": 400, host + "--upload-pack=x/info/refs": 400, host + "a/%2dr/info/refs": 400, host + "r/info/lfs/-x": 400, host + "r/info/lfs/../../../priv": 400,
		host + "a%ff/info/refs": 400, host + strings.Repeat("a", 256) + "/info/refs": 400, host + strings.Repeat("a/", 2000) + "info/refs": 400,
		host + strings.Repeat("a/", 50) + "info/refs": 400,
		"github.com/.git/info/refs":                   400,
		"evil.example/r/info/refs":                    403,
		"git.example/r/info/refs":                     403,
		"git.example:8443@evil.example/r/info/refs":   403,
		"user@git.example:8443/r/info/refs":           403,
		"git.example:8443%2fr/info/refs":              400,
		"127.0.0.1:22/r/info/refs":                    403,
		"127.0.0.1/r/info/refs":                       403,
		"169.254.169.254/r/info/refs":                 403,
		"git.example:8443./r/info/refs":               403,
		"..":                                          400, "%2e%2e/r/info/refs": 400, "-oProxyCommand=x/r/info/refs": 400,
	} {
		repo, _, _, err := c.Resolve(raw)
		var pe *PathError
		if !errors.As(err, &pe) || pe.Status != status || repo != (Repo{}) {
			t.Errorf("%q is %v, %v, want status %d", raw, repo, err, status)
		}
	}
}

func TestTheErrorOfAHostSaysHowToAllowIt(t *testing.T) {
	_, _, _, err := pathClient(t).Resolve("gitlab.example/r/info/refs")
	if err == nil || !strings.Contains(err.Error(), "git.hosts") || !strings.Contains(err.Error(), "--git-host gitlab.example") {
		t.Errorf("the error is %v", err)
	}
}

func FuzzResolve(f *testing.F) {
	for _, s := range []string{"github.com/org/repo.git/info/refs", "git.example:8443/a/%2e%2e/b/git-upload-pack", "127.0.0.1:8081/r/info/lfs/locks/verify",
		"github.com//x/info/refs", "git.example:8443/%c3%a9;/ensure-refs", "git.example:8443/..%2f/info/refs", "[::1]:8082/-x/git-receive-pack"} {
		f.Add(s)
	}
	c := pathClient(f)
	f.Fuzz(func(t *testing.T, raw string) {
		repo, service, rest, err := c.Resolve(raw)
		if err != nil {
			var pe *PathError
			if !errors.As(err, &pe) || repo != (Repo{}) || service != "" || rest != "" {
				t.Fatalf("%q: %v %q %q %v", raw, repo, service, rest, err)
			}
			return
		}
		if c.hosts[repo.Host] == nil {
			t.Fatalf("%q reaches %q", raw, repo.Host)
		}
		u, err := url.Parse("http://h" + repo.urlPath() + "/" + rest)
		if err != nil || u.RawQuery != "" || u.Fragment != "" || path.Clean(u.Path) != u.Path || strings.ContainsAny(u.Path, "\\\x00\n") {
			t.Fatalf("%q is asked for as %q, %v", raw, u, err)
		}
		if again, s, r, err := c.Resolve(repo.Host + repo.urlPath() + "/" + rest); err != nil || again != repo || s != service || r != rest {
			t.Fatalf("%q is %v %q, which is %v %q, %v", raw, repo, rest, again, r, err)
		}
	})
}
