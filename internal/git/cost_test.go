package git

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/leveehq/levee/gate"
	"github.com/leveehq/levee/internal/raceless"
)

// settled is the live heap with all stacks, once it has stopped to change.
func settled() int64 {
	last := int64(-1)
	for range 20 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		now := int64(m.HeapAlloc + m.StackInuse)
		if d := now - last; last >= 0 && d > -64*kib && d < 64*kib {
			return now
		}
		last = now
	}
	return last
}

// The lines git_requests and git_bodies: a request that waits for a pack, which is when it holds most and longest.
func TestARequestCostsWhatThePlanSays(t *testing.T) {
	const child = "LEVEE_TEST_MEASURE"
	if os.Getenv(child) == "" {
		cmd := exec.Command(raceless.Binary(t), "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=3m")
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		cmd.Env = append(os.Environ(), child+"=1")
		out, err := cmd.CombinedOutput()
		t.Logf("%s", out)
		if err != nil {
			t.Error(err)
		}
		return
	}
	r := startReal(t, nil)
	big := r.up.Big("big", 16*mib)
	sent := measureRequests(t, r, "big", slices.Repeat([]string{big.Git("rev-parse", "main")}, 50), 0, false)
	t.Logf("a request whose pack is not read takes %d bytes, and is planned with %d", sent, perRequest)
	if sent > perRequest || sent < perRequest/2 {
		t.Errorf("a request whose pack is not read takes %d bytes, and is planned with %d", sent, perRequest)
	}
	commits := strings.Fields(r.up.Deep("deep", 200).Git("rev-list", "main"))
	short := measureRequests(t, r, "deep", commits[:50], 0, true)
	if short > perRequest {
		t.Errorf("a request that waits takes %d bytes, and is planned with %d", short, perRequest)
	}
	const haves = 4000
	length := int64(haves * len("0032have 0123456789012345678901234567890123456789\n"))
	long := measureRequests(t, r, "deep", commits[50:70], haves, true)
	t.Logf("a request that waits takes %d bytes; one of %d bytes takes %d more, and is planned with %d", short, length, long-short, bodyCost(length))
	if long-short > bodyCost(length) || long-short < bodyCost(length)/2 {
		t.Errorf("a request of %d bytes takes %d more, and is planned with %d", length, long-short, bodyCost(length))
	}
}

// measureRequests is what one of many requests takes, while none of their packs can be made, or while nobody reads them.
func measureRequests(t *testing.T, r *real, repo string, commits []string, haves int, wait bool) int64 {
	n := len(commits)
	if wait {
		defer fill(t, r.gates.packs, r.gates.quick, r.gates.rounds)()
	}
	u, err := url.Parse(r.url)
	if err != nil {
		t.Fatal(err)
	}
	conns := make([]net.Conn, n)
	for i := range conns {
		if conns[i], err = net.Dial("tcp", u.Host); err != nil {
			t.Fatal(err)
		}
		defer conns[i].Close()
		fmt.Fprintf(conns[i], "GET %s%s/info/refs?service=git-upload-pack HTTP/1.1\r\nHost: x\r\nGit-Protocol: version=2\r\n\r\n", u.Path, repo)
		resp, err := http.ReadResponse(bufio.NewReaderSize(conns[i], 512), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
	}
	before := settled()
	for i, c := range conns {
		args := []string{"command=fetch", "object-format=sha1", "", "no-progress", "deepen 1000", "want " + commits[i]}
		for h := range haves {
			args = append(args, fmt.Sprintf("have %040x", h))
		}
		body := lines(append(args, "done")...)
		fmt.Fprintf(c, "POST %s%s/git-upload-pack HTTP/1.1\r\nHost: x\r\nGit-Protocol: version=2\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s",
			u.Path, repo, uploadPackRequest, len(body), body)
	}
	if wait {
		eventually(t, "all requests wait", func() bool {
			return r.gates.packs.Stats().Queued+r.gates.quick.Stats().Queued+r.gates.rounds.Stats().Queued == n
		})
		return (settled() - before) / int64(n)
	}
	for _, c := range conns {
		if _, err := io.ReadFull(c, make([]byte, len("HTTP/1.1 200"))); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the pack is made", func() bool { return r.Status().Packs.Generating == 0 })
	return (settled() - before) / int64(n)
}

// fill takes all that the gates have.
func fill(t *testing.T, gates ...*gate.Gate) (release func()) {
	t.Helper()
	var permits []*gate.Permit
	for _, g := range gates {
		p, err := g.Admit(t.Context(), "the test", g.Stats().Limit)
		if err != nil {
			t.Fatal(err)
		}
		permits = append(permits, p)
	}
	return func() {
		for _, p := range permits {
			p.Release()
		}
	}
}
