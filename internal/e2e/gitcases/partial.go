package gitcases

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/leveehq/levee/internal/e2e/rig"
)

// partialClones: filters, lazy fetches, depths, and wants by hash that no ref names.
func partialClones(l *Lab) {
	r := l.Up.Deep("deep", l.Size.Commits)
	s := l.serve()
	if _, _, caps := l.capabilities(s.URL("deep")); !strings.Contains(caps, "filter") || !strings.Contains(caps, "shallow") {
		l.Errorf("capabilities:\n%s", caps)
	}
	client := rig.NewGitClient(l)
	partial := client.Clone(s.URL("deep"), "--filter=blob:none", "--no-checkout")
	blob := r.Git("rev-parse", "main:a0/b0/c0")
	if out, err := client.With("GIT_NO_LAZY_FETCH=1").Run(l.ctx(), "-C", partial, "cat-file", "-e", blob); err == nil {
		// git 2.39 has no such variable: there the count of missing objects tells.
		missing := client.In(partial, "rev-list", "--objects", "--all", "--missing=print")
		if !strings.Contains(missing, "?") {
			l.Errorf("the filter was ignored: %s", out)
		}
	}
	client.In(partial, "checkout", "--quiet", "main")
	client.In(partial, "blame", "a0/b0/c0")
	client.In(partial, "fsck", "--connectivity-only")

	// A commit that no ref names, into a repository of its own.
	inner := r.Git("rev-parse", "main~7")
	bare := client.Dir()
	client.Git("init", "--quiet", "--bare", bare)
	client.In(bare, "fetch", "--quiet", s.URL("deep"), inner)
	client.In(bare, "cat-file", "-e", inner)

	shallow := client.Clone(s.URL("deep"), "--depth=1")
	l.depth(client, shallow, "1")
	client.In(shallow, "fetch", "--quiet", "--depth=2")
	l.depth(client, shallow, "2")
	client.In(shallow, "fetch", "--quiet", "--deepen=3")
	l.depth(client, shallow, "5")
	client.In(shallow, "fetch", "--quiet", "--unshallow")
	l.depth(client, shallow, fmt.Sprint(l.Size.Commits))

	// Upstream has a commit that no ref of it names and our mirror has never seen.
	hidden := r.Commit("gone", "gone", "gone\n")
	r.Git("update-ref", "-d", "refs/heads/gone")
	client.In(bare, "fetch", "--quiet", s.URL("deep"), hidden)
	if out, err := client.Run(l.ctx(), "-C", bare, "fetch", s.URL("deep"), strings.Repeat("1", 40)); err == nil || !strings.Contains(out, "not our ref") {
		l.Errorf("a commit that nobody has: %v\n%s", err, out)
	}
	submodule(l, s, client)
	l.idle(s)
}

func (l *Lab) depth(client *rig.GitClient, dir, want string) {
	l.Helper()
	if got := client.In(dir, "rev-list", "--count", "HEAD"); got != want {
		l.Errorf("%s commits, want %s", got, want)
	}
}

// capabilities are what a v2 client is told first.
func (l *Lab) capabilities(repo string) (status int, header http.Header, text string) {
	l.Helper()
	q, err := http.NewRequestWithContext(l.ctx(), http.MethodGet, refsURL(repo), nil)
	if err != nil {
		l.Fatal(err)
	}
	q.Header.Set("Git-Protocol", "version=2")
	return l.do(q)
}

// submodule: with the URL rewritten as the documentation says, submodules come through the server as well.
func submodule(l *Lab, s *rig.GitServer, client *rig.GitClient) {
	l.Up.R40("inner")
	outer := l.Up.Empty("outer")
	work := client.Clone(l.Up.URL("outer"))
	client.In(work, "submodule", "--quiet", "add", l.Up.URL("inner"), "inner")
	client.In(work, "commit", "--quiet", "-m", "with a submodule")
	client.In(work, "push", "--quiet", "origin", "HEAD:main")
	l.Up.Forget()
	rewritten := client.With("GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url."+s.At(s.HTTP, "")+".insteadOf", "GIT_CONFIG_VALUE_0=http://"+l.Up.Addr+"/")
	dir := rewritten.Clone(l.Up.URL("outer"), "--recurse-submodules")
	if got := client.In(dir, "ls-files", "inner"); got == "" || outer.Git("rev-parse", "main") != client.In(dir, "rev-parse", "HEAD") {
		l.Errorf("the submodule: %q", got)
	}
	if n := l.Up.Count(func(c rig.Call) bool { return strings.HasPrefix(c.Agent, "git/2") }); n != 0 {
		l.Errorf("git went past the server %d times", n)
	}
}
