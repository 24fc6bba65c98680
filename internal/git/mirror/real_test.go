package mirror

import (
	"net/http/cgi"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leveehq/levee/internal/git/child"
	"github.com/leveehq/levee/internal/git/upstream"
)

// backend serves w's upstream repository by git http-backend.
func backend(t *testing.T, w *work) (*upstream.Client, upstream.Repo) {
	t.Helper()
	path, err := exec.LookPath("git")
	must(t, err)
	server := httptest.NewServer(&cgi.Handler{Path: path, Args: []string{"http-backend"}, Env: []string{
		"GIT_PROJECT_ROOT=" + filepath.Dir(w.origin), "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "HOME=/nonexistent",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"}})
	t.Cleanup(server.Close)
	c, err := upstream.New(upstream.Options{Hosts: []upstream.Host{{URL: server.URL}}})
	must(t, err)
	t.Cleanup(c.Close)
	return c, upstream.Repo{Host: strings.TrimPrefix(server.URL, "http://"), Path: filepath.Base(w.origin)}
}

func TestWithTheRealClientAndARealServer(t *testing.T) {
	for name, args := range map[string][]string{
		"plain": nil, "with filters": {"uploadpack.allowFilter", "true"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newOrigin(t)
			if args != nil {
				git(t, w.origin, append([]string{"config"}, args...)...)
			}
			c, id := backend(t, w)
			run, err := child.New(child.Options{})
			must(t, err)
			o := options(t)
			o.Upstream, o.Runner = c, run
			s, err := Open(o)
			must(t, err)
			defer s.Close()

			sameRefsAs(t, lease(t, s, id), w.origin) // empty
			w.commit("main")
			w.git("tag", "-a", "-m", "t", "v1")
			w.git("tag", "-a", "-m", "t", "v2", "v1")
			w.git("push", "-q", "origin", "v1", "v2")
			lost := w.commit("main")
			l := lease(t, s, id)
			sameRefsAs(t, l, w.origin)
			fsck(t, l)
			for range 5 {
				w.git("reset", "-q", "--hard", "HEAD~1")
				w.commit("main")
				w.commit("main")
				l = lease(t, s, id)
				sameRefsAs(t, l, w.origin)
				fsck(t, l)
			}
			hidden := w.git("commit-tree", "-m", "hidden", "-p", "HEAD", "HEAD^{tree}")
			w.git("push", "-q", "origin", hidden+":refs/x/y")
			git(t, w.origin, "update-ref", "-d", "refs/x/y")
			nowhere := strings.Repeat("0123456789", 4)
			wants := []string{lost, lost + "^{tree}", lost + ":file", hidden, nowhere}
			for i, rev := range wants[:3] {
				wants[i] = w.git("rev-parse", rev)
			}
			if missing := ensure(t, l, nobody, wants...); len(missing) != 1 || string(missing[0]) != nowhere {
				t.Errorf("missing %v", missing)
			}
			if !has(t, l.Dir, hidden) {
				t.Error("what was fetched by name is not there")
			}
			prune(t, w.origin)
			if missing := ensure(t, l, nobody, wants...); len(missing) != len(wants) {
				t.Errorf("missing %v", missing)
			}
		})
	}
}
