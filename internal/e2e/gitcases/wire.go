package gitcases

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/leveehq/levee/internal/e2e/rig"
)

func bytes(n int64) string { return strconv.FormatInt(n, 10) }

// gzippedRequests: an ls-refs with 40 prefixes, compressed as git does above 1024 bytes.
func gzippedRequests(l *Lab) {
	l.Up.R40("r40")
	s := l.serve()
	var prefixes []string
	for i := 1; i <= 40; i++ {
		prefixes = append(prefixes, fmt.Sprintf("ref-prefix refs/tags/t%d", i))
	}
	body := rig.Packets([]string{"command=ls-refs", "agent=git/rig", "object-format=sha1"}, prefixes)
	status, answer := l.post(s.URL("r40"), rig.Zip(body), "Content-Encoding", "gzip")
	if n := strings.Count(answer, " refs/tags/t"); status != http.StatusOK || n != 40 {
		l.Errorf("%d bytes of ls-refs, gzipped: %d, %d refs", len(body), status, n)
	}
	client := rig.NewGitClient(l)
	if tags := strings.Fields(client.In(client.Clone(s.URL("r40")), "tag")); len(tags) != 40 {
		l.Errorf("a clone has %d tags", len(tags))
	}
	for _, c := range []struct {
		what string
		body []byte
		want int
	}{
		{"a bomb", rig.Zip(make([]byte, 256<<20)), http.StatusRequestEntityTooLarge},
		{"no gzip", []byte("0000 is no gzip"), http.StatusBadRequest},
		{"half of one", rig.Zip(body)[:60], http.StatusBadRequest},
	} {
		if status, answer := l.post(s.URL("r40"), c.body, "Content-Encoding", "gzip"); status != c.want {
			l.Errorf("%s: %d %.200s, want %d", c.what, status, answer, c.want)
		}
	}
	// The 4 bytes that git sends first to see whether it must authenticate, and a body in chunks.
	if status, answer := l.post(s.URL("r40"), []byte("0000")); status != http.StatusOK {
		l.Errorf("the probe: %d %s", status, answer)
	}
	chunked, err := rig.NewPost(l.ctx(), s.URL("r40"), body, false)
	if err != nil {
		l.Fatal(err)
	}
	chunked.ContentLength = -1
	if status, _, answer := l.do(chunked); status != http.StatusOK || strings.Count(answer, " refs/tags/t") != 40 {
		l.Errorf("in chunks: %d %.200s", status, answer)
	}
	l.idle(s)
}

// sameRefs: ls-remote through the server and upstream are equal line for line.
func sameRefs(l *Lab) {
	r := l.Up.R40("r40")
	r.Git("update-ref", "refs/notes/commits", "main")
	r.Git("update-ref", "refs/odd/one", "main")
	empty := l.Up.Empty("empty")
	s := l.serve()
	client := rig.NewGitClient(l)
	same := func(when string, flags ...string) {
		l.Helper()
		args := func(url string) []string { return append(append([]string{"ls-remote", "--symref"}, flags...), url) }
		if there, here := client.Git(args(l.Up.URL("r40"))...), client.Git(args(s.URL("r40"))...); there != here {
			l.Errorf("%s, upstream:\n%s\nhere:\n%s", when, there, here)
		}
	}
	for _, v := range []string{"0", "1", "2"} {
		client := client.With("GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=protocol.version", "GIT_CONFIG_VALUE_0="+v)
		if there, here := client.Git("ls-remote", "--symref", l.Up.URL("r40")), client.Git("ls-remote", "--symref", s.URL("r40")); there != here {
			l.Errorf("in protocol %s, upstream:\n%s\nhere:\n%s", v, there, here)
		}
		if tags := strings.Fields(client.In(client.Clone(s.URL("r40")), "tag")); len(tags) != 40 {
			l.Errorf("in protocol %s a clone has %d tags", v, len(tags))
		}
	}
	same("at first")
	r.Commit("trunk", "f", "f")
	r.Git("symbolic-ref", "HEAD", "refs/heads/trunk")
	same("with another HEAD")
	r.Git("branch", "-m", "trunk", "renamed")
	same("with a renamed branch")
	r.Git("tag", "-d", "t7")
	same("without a tag", "--tags")

	// An empty repository, and its first push.
	dir := client.Dir()
	if out, err := client.Run(l.ctx(), "clone", s.URL("empty"), dir); err != nil || !strings.Contains(out, "empty repository") {
		l.Errorf("a clone of nothing: %v\n%s", err, out)
	}
	first := empty.Commit("main", "f", "f")
	client.In(dir, "pull", "--quiet", "origin", "main")
	if got := client.In(dir, "rev-parse", "HEAD"); got != first {
		l.Errorf("pulled %s, pushed was %s", got, first)
	}
	hidden := l.serve("--git-hide-refs", "refs/odd")
	if out := client.Git("ls-remote", hidden.URL("r40")); strings.Contains(out, "refs/odd") || !strings.Contains(out, "refs/notes/commits") {
		l.Errorf("with refs/odd hidden:\n%s", out)
	}
}

// oddPaths: with the right credentials even, only the repository's own path leads to it.
func oddPaths(l *Lab) {
	l.Up.R40("pub")
	l.Up.R40("priv")
	l.Up.Restrict("priv", "a", password)
	s := l.serve()
	rig.NewGitClient(l).Clone(s.URL("pub"), "--bare")
	base := "/git/" + l.Up.Addr
	for _, path := range []string{"/pub/../priv", "//priv", "/PRIV", "/pub/%2e%2e/priv", "/pub/..%2fpriv", "/pub%2f..%2fpriv", "/%2e%2e/%2e%2e/priv",
		"/pub/./../priv", "/pub/%252e%252e/priv", `/pub\..\priv`, "/pub/%5c..%5cpriv", "/-pub", "/pub%00", "/pub/%0a", "/../" + l.Up.Addr + "/priv"} {
		for _, authorization := range []string{"", "Authorization: Basic YTpzM2NyM3QtcGFzcw==\r\n"} { // a, password
			if status := rawStatus(l, s.HTTP, base+path+"/info/refs?service=git-upload-pack", authorization); status == http.StatusOK || status >= 500 {
				l.Errorf("%s is answered with %d (%q)", path, status, authorization)
			}
		}
	}
	status, _, text := l.get("http://"+s.HTTP+"/git/example.com/pub/info/refs?service=git-upload-pack", "", "")
	if status/100 != 4 || !strings.Contains(text, "git-host") {
		l.Errorf("a host that is not allowed: %d %s", status, text)
	}
	if n := l.Up.Count(func(c rig.Call) bool { return c.Repo == "priv" && c.Status == http.StatusOK }); n != 0 {
		l.Errorf("priv was read %d times", n)
	}
}

// rawStatus sends a path that no client library would leave as it is.
func rawStatus(l *Lab, address, path, header string) (status int) {
	l.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		l.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%s\r\n", path, header)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		l.Fatalf("%s: %v", path, err)
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}
