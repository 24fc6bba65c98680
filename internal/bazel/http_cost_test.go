package bazel

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

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

// The line http_connections: none of the ways to use a connection costs more than the constant, and the worst not much
// less. The client's end is in the same process; it has no buffers.
func TestAConnectionCostsWhatThePlanSays(t *testing.T) {
	const child = "LEVEE_TEST_MEASURE"
	if os.Getenv(child) == "" {
		cmd := exec.Command(raceless.Binary(t), "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), child+"=1")
		out, err := cmd.CombinedOutput()
		t.Logf("%s", out)
		if err != nil {
			t.Error(err)
		}
		return
	}
	measureHTTPConnections(t)
}

func measureHTTPConnections(t *testing.T) {
	const n = 100
	r, _ := newDiskRig(t, func(h *httpCache) {
		h.write = newTestGate(t, gate.Options{Name: "write", Limit: n * copyBuffer})
	})
	r.want(r.put("/cas/"+hashP, []byte("abcdefg")), 200)
	big := bytes.Repeat([]byte("0123456789abcdef"), 8*mib/16)
	r.want(r.put("/cas/"+hashOf(big), big), 200)
	r.c.CloseIdleConnections()
	eventually(t, "the set-up's connection is gone", func() bool { return r.conns.Stats().InUse == 0 })

	var many, same strings.Builder
	for i := 0; many.Len() < 3900; i++ {
		fmt.Fprintf(&many, "%X:\r\n", i)
		same.WriteString("a:\r\n")
	}
	head := func(request, rest string) string { return request + " HTTP/1.1\r\nHost: localhost\r\n" + rest }
	var worst int64
	for _, tt := range []struct {
		name, send string
		reply      string // read before measuring
		permit     int64  // of the gates, which is not the connection's
	}{
		{"silent", "", "", 0},
		{"idle", head("HEAD /cas/"+hashP, "\r\n"), "HTTP/1.1 200", 0},
		{"a reader that does not read", head("GET /cas/"+hashOf(big), "\r\n"), "HTTP/1.1 200", 0},
		{"a stalled upload", head("PUT /cas/"+hashH, "Content-Length: 1000000\r\n\r\n"+strings.Repeat("x", 70000)), "", copyBuffer},
		{"an upload of what is there", head("PUT /cas/"+hashP, "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n"), "", 0},
		{"a thousand header fields", head("GET /cas/"+hashP, many.String()), "", 0},
		{"one header field a thousand times", head("GET /cas/"+hashP, same.String()), "", 0},
		{"a long path", head("GET /"+strings.Repeat("a", 3900), ""), "", 0},
		{"a long field", head("GET /cas/"+hashP, "Cookie: "+strings.Repeat("a", 11*kib+512)), "", 0},
		{"a long field, and a reader that does not read", head("GET /cas/"+hashOf(big), "Cookie: "+strings.Repeat("a", 11*kib+512)+"\r\n\r\n"), "HTTP/1.1 200", 0},
		{"many long fields", head("GET /cas/"+hashP, strings.Repeat("A: "+strings.Repeat("a", 180)+"\r\n", 60)), "", 0},
	} {
		before := settled()
		conns := make([]net.Conn, n)
		for i := range conns {
			c, err := net.Dial("tcp", r.addr)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			conns[i] = c
			if _, err := io.WriteString(c, tt.send); err != nil {
				t.Fatal(err)
			}
			if tt.reply != "" {
				got := make([]byte, len(tt.reply))
				_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
				if _, err := io.ReadFull(c, got); err != nil || string(got) != tt.reply {
					t.Fatalf("%s: %q %v", tt.name, got, err)
				}
			}
		}
		eventually(t, tt.name, func() bool {
			return r.conns.Stats().InUse == n && r.cache.write.Stats().InUse == n*tt.permit
		})
		each := (settled()-before)/n - tt.permit
		t.Logf("%-34s %6d bytes", tt.name, each)
		worst = max(worst, each)
		for _, c := range conns {
			_ = c.Close()
		}
		eventually(t, "the connections are gone", func() bool { return r.conns.Stats().InUse == 0 })
	}
	assertPlan(t, worst)
}

func assertPlan(t *testing.T, worst int64) {
	t.Helper()
	if worst > perHTTPConnection {
		t.Errorf("a connection costs up to %d bytes, the plan has %d", worst, int64(perHTTPConnection))
	}
	if 3*worst < 2*perHTTPConnection {
		t.Errorf("a connection costs at most %d bytes, the plan has %d: too much", worst, int64(perHTTPConnection))
	}
}
