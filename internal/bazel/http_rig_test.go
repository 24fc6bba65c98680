package bazel

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/leveehq/levee/gate"
	"github.com/leveehq/levee/internal/blobstore"
	"github.com/leveehq/levee/internal/listen"
)

// The fixtures of the case list.
const (
	hashE = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" // empty
	hashP = "7d1a54127b222502f5b79b5fb0803061152a44f92b37e23c6527baf665d4da9a" // abcdefg
	hashH = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03" // hello\n
	hashT = "065ecec64a3a46aa2653730cb9307e8d4a4909e7f749de3d7de7c462c80a2ef4" // a Tree with a file P

	hexT   = "0a4b0a490a016612440a40376431613534313237623232323530326635623739623566623038303330363131353261343466393262333765323363363532376261663636356434646139611007"
	hexARH = "124f0a076f75742e74787412440a40353839316235623532326435646630383664306666306231313066626439643231626234666337313633616633346430383238366132653834366636626530331006"
	hexART = "1a4b0a036469721a440a4030363565636563363461336134366161323635333733306362393330376538643461343930396537663734396465336437646537633436326338306132656634104d"
)

func unhexString(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func actionKey(n int) string { return strings.Repeat(fmt.Sprint(n), 64) }

func hashOf(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

// httpRig is an HTTP cache on a real socket.
type httpRig struct {
	testing.TB
	cache *httpCache
	conns *gate.Gate
	addr  string
	c     *http.Client
}

func newTestGate(t testing.TB, o gate.Options) *gate.Gate {
	t.Helper()
	g, err := gate.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// newHTTPRig serves a cache over store; change may alter it before the server starts.
func newHTTPRig(t testing.TB, store blobstore.Store, change func(*httpCache)) *httpRig {
	t.Helper()
	byteGate := func(name string) *gate.Gate {
		return newTestGate(t, gate.Options{Name: name, Limit: 16 * mib, Queue: 64, Wait: 10 * time.Second})
	}
	h := &httpCache{
		store: store, write: byteGate("write"), read: byteGate("read"), ac: byteGate("ac"),
		stall:  60 * time.Second,
		key:    func(peer, _ string) string { return peer },
		acCost: func(n int64) int64 { return 2*n + 4*kib },
		counts: new(counters),
		maxAC:  2 * mib,
		status: func() httpStatus { return httpStatus{CurrSize: 4096, MaxSize: 1 << 30, NumFiles: 1} },
	}
	svc := &Service{store: store, gates: gates{ac: h.ac}}
	h.complete = svc.httpComplete
	if change != nil {
		change(h)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &httpRig{TB: t, cache: h, addr: l.Addr().String(), conns: newTestGate(t, gate.Options{Name: "http_connections", Limit: 10000}),
		c: &http.Client{Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 100}}}
	srv := newHTTPServer(h, h, nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(listen.Wrap(l, httpListen(r.conns)))
	}()
	t.Cleanup(func() {
		r.c.CloseIdleConnections()
		_ = srv.Close()
		<-done
	})
	return r
}

func unhexMust(s string) (h [32]byte) {
	b, _ := hex.DecodeString(s)
	copy(h[:], b)
	return h
}

type answer struct {
	code   int
	header http.Header
	body   string
	length int64 // Content-Length
	closes bool  // the connection ends with it
}

func (r *httpRig) do(method, path string, body io.Reader, headers ...string) answer {
	r.Helper()
	req, err := http.NewRequest(method, "http://"+r.addr+path, body)
	if err != nil {
		r.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := r.c.Do(req)
	if err != nil {
		r.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		r.Fatalf("%s %s: %v", method, path, err)
	}
	return answer{resp.StatusCode, resp.Header, string(b), resp.ContentLength, resp.Close}
}

func (r *httpRig) get(path string, headers ...string) answer {
	r.Helper()
	return r.do("GET", path, nil, headers...)
}

func (r *httpRig) put(path string, body []byte) answer {
	r.Helper()
	return r.do("PUT", path, bytes.NewReader(body))
}

// want fails unless an answer has the code, and the body if one is given.
func (r *httpRig) want(a answer, code int, body ...string) {
	r.Helper()
	if a.code != code {
		r.Fatalf("status %d, want %d: %s", a.code, code, a.body)
	}
	if len(body) > 0 && a.body != body[0] {
		r.Fatalf("body %q, want %q", a.body, body[0])
	}
}

// rawConn speaks HTTP by hand, where a client library would hide or mend what is tested.
type rawConn struct {
	*httpRig
	net.Conn
	in *bufio.Reader
}

func (r *httpRig) dial() *rawConn {
	r.Helper()
	c, err := net.Dial("tcp", r.addr)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	return &rawConn{r, c, bufio.NewReader(c)}
}

// send writes text with LF turned to CRLF in the head.
func (c *rawConn) send(head, body string) {
	c.Helper()
	head = strings.ReplaceAll(strings.TrimSpace(head), "\n", "\r\n") + "\r\nHost: localhost\r\n\r\n"
	if _, err := io.WriteString(c.Conn, head+body); err != nil {
		c.Fatal(err)
	}
}

// answer reads one response.
func (c *rawConn) answer(method string) answer {
	c.Helper()
	resp, err := http.ReadResponse(c.in, &http.Request{Method: method})
	if err != nil {
		c.Fatalf("no readable answer: %v", err)
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		c.Fatalf("the answer is cut: %v", err)
	}
	return answer{resp.StatusCode, resp.Header, string(b), resp.ContentLength, resp.Close}
}

// eventually polls for a condition that another goroutine or process brings about.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); <-tick.C {
		if cond() {
			return
		}
	}
	t.Fatalf("not within 10 s: %s", what)
}

// newTestDisk is a real store in a directory of its own, closed at the end of the test.
func newTestDisk(t testing.TB, o blobstore.Options) *blobstore.Disk {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	if o.MaxSize == 0 {
		o.MaxSize = 1 << 30
	}
	o.MaxBlobs = 10000
	o.MinFree = -1 // the machine's disk is none of the test's business
	d, err := blobstore.OpenDisk(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// newDiskRig is newHTTPRig over a store of its own.
func newDiskRig(t testing.TB, change func(*httpCache)) (*httpRig, *blobstore.Disk) {
	t.Helper()
	d := newTestDisk(t, blobstore.Options{})
	return newHTTPRig(t, d, change), d
}
