package bazel

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leveehq/levee/gate"
	"github.com/leveehq/levee/internal/blobstore"
	"github.com/leveehq/levee/internal/shedcode"
)

func TestABlobThatWasPutIsServedWithItsLength(t *testing.T) {
	r, _ := newDiskRig(t, nil)
	r.want(r.get("/cas/"+hashP), 404)
	r.want(r.do("HEAD", "/cas/"+hashP, nil), 404)
	r.want(r.put("/cas/"+hashP, []byte("abcdefg")), 200)
	a := r.get("/cas/" + hashP)
	r.want(a, 200, "abcdefg")
	if a.length != 7 || a.header.Get("Content-Type") != "application/octet-stream" || a.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("headers %v, length %d", a.header, a.length)
	}
	if a := r.do("HEAD", "/some/instance/cas/"+hashP, nil); a.code != 200 || a.length != 7 || a.body != "" {
		t.Errorf("HEAD is %+v", a)
	}
}

func TestAWrongPathIsExplained(t *testing.T) {
	r, _ := newDiskRig(t, nil)
	for _, tt := range []struct {
		path string
		code int
		says string
	}{
		{"/", 404, "/cas/<sha256>"},
		{"/blobs/" + hashP, 404, "its paths are"},
		{"/cas/" + hashP[1:], 400, "63 characters"},
		{"/cas/" + strings.ToUpper(hashP), 400, "lowercase"},
		{"/ac/" + strings.Repeat("g", 64), 400, "hexadecimal"},
		{"/cas/" + strings.Repeat("a", 40), 400, "SHA1"},
		{"/git/ac/" + hashP, 400, "reserved"},
		{"/graphql/x/cas/" + hashP, 400, "reserved"},
		{"/v1/cas/" + hashP, 400, "reserved"},
		{"/v8/cas/" + hashP, 400, "reserved"},
		{"/status/cas/" + hashP, 400, "reserved"},
		{"/a/../cas/" + hashP, 400, "dotted"},
		{"/a%2f%2e%2e/cas/" + hashP, 400, "dotted"},
		{"/cas/" + hashP + "/7", 404, "its paths are"},
	} {
		a := r.get(tt.path)
		if a.code != tt.code || !strings.Contains(a.body, tt.says) {
			t.Errorf("%s: %d %q, want %d and %q", tt.path, a.code, a.body, tt.code, tt.says)
		}
	}
	for _, path := range []string{"//cas/" + hashP, "/a//cas/" + hashP, "/x/git/cas/" + hashP} {
		r.want(r.get(path), 404, "not in the cache\n")
	}
}

func TestOtherMethodsAreRefusedWithWhatIsAllowed(t *testing.T) {
	r, _ := newDiskRig(t, nil)
	for _, tt := range []struct{ method, path, allow string }{
		{"DELETE", "/cas/" + hashP, "GET, HEAD, PUT"},
		{"POST", "/ac/" + hashP, "GET, HEAD, PUT"},
		{"OPTIONS", "/cas/" + hashP, "GET, HEAD, PUT"},
		{"PUT", "/status", "GET, HEAD"},
	} {
		a := r.do(tt.method, tt.path, nil)
		if a.code != 405 || a.header.Get("Allow") != tt.allow {
			t.Errorf("%s %s: %d, Allow %q", tt.method, tt.path, a.code, a.header.Get("Allow"))
		}
	}
}

func TestStatusHasTheFieldsOfBazelRemote(t *testing.T) {
	r, _ := newDiskRig(t, nil)
	a := r.get("/status")
	r.want(a, 200)
	var m map[string]any
	if err := json.Unmarshal([]byte(a.body), &m); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"CurrSize", "UncompressedSize", "ReservedSize", "MaxSize", "NumFiles", "ServerTime", "GitCommit", "GitTags", "NumGoroutines"} {
		if _, ok := m[f]; !ok {
			t.Errorf("%s is absent", f)
		}
	}
	if m["CurrSize"] != 4096.0 || m["NumGoroutines"].(float64) < 2 || m["ServerTime"].(float64) < 1.6e9 {
		t.Errorf("status is %v", m)
	}
	r.want(r.do("HEAD", "/status", nil), 200, "")
}

// B6
func TestARangeIsAPartOrTheWholeButNeverAMix(t *testing.T) {
	r, _ := newDiskRig(t, nil)
	r.want(r.put("/cas/"+hashP, []byte("abcdefg")), 200)
	for _, tt := range []struct {
		spec string
		code int
		body string
		rng  string
	}{
		{"bytes=3-", 206, "defg", "bytes 3-6/7"},
		{"bytes=1-2", 206, "bc", "bytes 1-2/7"},
		{"bytes=0-999", 206, "abcdefg", "bytes 0-6/7"},
		{"bytes=-2", 206, "fg", "bytes 5-6/7"},
		{"bytes=-99", 206, "abcdefg", "bytes 0-6/7"},
		{"bytes=0-9223372036854775807", 206, "abcdefg", "bytes 0-6/7"},
		{"bytes=7-", 416, "", "bytes */7"},
		{"bytes=-0", 416, "", "bytes */7"},
		{"bytes=3-1", 200, "abcdefg", ""},
		{"bytes=0-1,3-4", 200, "abcdefg", ""},
		{"bytes=+1-2", 200, "abcdefg", ""},
		{"bytes=", 200, "abcdefg", ""},
		{"lines=1-2", 200, "abcdefg", ""},
		{"bytes=99999999999999999999-", 200, "abcdefg", ""},
	} {
		a := r.get("/cas/"+hashP, "Range", tt.spec)
		if a.code != tt.code || tt.body != "" && a.body != tt.body || a.header.Get("Content-Range") != tt.rng {
			t.Errorf("%s: %d %q %q, want %d %q %q", tt.spec, a.code, a.body, a.header.Get("Content-Range"), tt.code, tt.body, tt.rng)
		}
	}
	r.want(r.get("/cas/"+hashP, "Range", "bytes=3-", "If-Range", `"x"`), 200, "abcdefg")
	if a := r.do("HEAD", "/cas/"+hashP, nil, "Range", "bytes=3-"); a.code != 200 || a.length != 7 {
		t.Errorf("HEAD with a range is %+v", a)
	}
}

// B12
func TestTheEmptyBlobIsAlwaysThere(t *testing.T) {
	r, _ := newDiskRig(t, nil)
	for _, method := range []string{"GET", "HEAD"} {
		if a := r.do(method, "/cas/"+hashE, nil); a.code != 200 || a.length != 0 || a.body != "" {
			t.Errorf("%s of the empty blob is %+v", method, a)
		}
	}
	r.want(r.do("PUT", "/cas/"+hashE, http.NoBody), 200)
	r.want(r.put("/cas/"+hashE, []byte("x")), 400)
	c := r.dial()
	c.send("PUT /cas/"+hashE+" HTTP/1.1\nTransfer-Encoding: chunked", "1\r\nx\r\n0\r\n\r\n")
	r.want(c.answer("PUT"), 400)
	c.send("PUT /cas/"+hashE+" HTTP/1.1\nTransfer-Encoding: chunked", "0\r\n\r\n")
	r.want(c.answer("PUT"), 200)
}

// B16
func TestInstancesDoNotShareActionResults(t *testing.T) {
	r, _ := newDiskRig(t, nil)
	r.want(r.put("/cas/"+hashH, []byte("hello\n")), 200)
	ar := unhexString(t, hexARH)
	r.want(r.put("/a/ac/"+actionKey(6), ar), 200)
	r.want(r.get("/b/ac/"+actionKey(6)), 404)
	r.want(r.get("/ac/"+actionKey(6)), 404)
	r.want(r.get("/a/b/ac/"+actionKey(6)), 404)
	r.want(r.get("/a/ac/"+actionKey(6)), 200, string(ar))
	r.want(r.get("/b/cas/"+hashH), 200, "hello\n")
}

// B17: trouble is not a miss.
func TestTroubleOfOursIsNeverAMiss(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		code int
	}{
		{"no descriptors left", fmt.Errorf("open: %w", syscall.EMFILE), 503},
		{"a directory that cannot be read", fmt.Errorf("open: %w", syscall.EACCES), 500},
		{"a broken disk", syscall.EIO, 500},
		{"deleted by hand", blobstore.ErrNotExist, 404},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newMemStore()
			r := newHTTPRig(t, s, nil)
			r.want(r.put("/cas/"+hashP, []byte("abcdefg")), 200)
			r.want(r.put("/ac/"+actionKey(1), []byte("\xcc\xac opaque")), 200)
			s.openErr = tt.err
			for _, path := range []string{"/cas/" + hashP, "/ac/" + actionKey(1)} {
				a := r.get(path)
				r.want(a, tt.code)
				if (a.header.Get("Retry-After") != "") != (tt.code == 503) {
					t.Errorf("Retry-After is %q with %d", a.header.Get("Retry-After"), tt.code)
				}
			}
		})
	}
}

func TestAShedPutIs507AndAShedGetIs503WithAHint(t *testing.T) {
	r, _ := newDiskRig(t, func(h *httpCache) {
		h.codes = shedcode.Codes{Settings: map[string]shedcode.Setting{"write": {Limit: "bazel.max_writes"}}}
		h.write = newTestGate(t, gate.Options{Name: "write", Limit: copyBuffer})
		h.read = newTestGate(t, gate.Options{Name: "read", Limit: httpReadCost})
		h.ac = newTestGate(t, gate.Options{Name: "ac", Limit: mib})
	})
	r.want(r.put("/cas/"+hashP, []byte("abcdefg")), 200)
	r.want(r.put("/ac/"+actionKey(1), []byte("\xcc\xac opaque")), 200)
	for _, g := range []*gate.Gate{r.cache.write, r.cache.read, r.cache.ac} {
		p, err := g.TryAdmit("other", g.Stats().Limit)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Release()
	}
	a := r.put("/cas/"+hashH, []byte("hello\n"))
	r.want(a, 507)
	if a.header.Get("Retry-After") != "" || !strings.Contains(a.body, "gate write: busy") || !strings.Contains(a.body, "bazel.max_writes") {
		t.Errorf("the shed PUT says %q, %v", a.body, a.header)
	}
	for _, path := range []string{"/cas/" + hashP, "/ac/" + actionKey(1)} {
		a := r.get(path)
		r.want(a, 503)
		if a.header.Get("Retry-After") == "" {
			t.Errorf("%s was shed without Retry-After", path)
		}
	}
	// What needs no permit is never shed: misses, HEAD of a blob, an upload of what is there, status.
	r.want(r.get("/cas/"+hashH), 404)
	r.want(r.do("HEAD", "/cas/"+hashP, nil), 200)
	r.want(r.put("/cas/"+hashP, []byte("abcdefg")), 200)
	r.want(r.get("/status"), 200)
}

// B11 (HTTP part): a full disk sheds writes and keeps reads.
func TestAFullDiskIs507AndReadsGoOn(t *testing.T) {
	s := newMemStore()
	r := newHTTPRig(t, s, nil)
	r.want(r.put("/cas/"+hashP, []byte("abcdefg")), 200)
	s.createErr = &blobstore.NoSpace{Reason: "min_free", Detail: "3 bytes free"}
	a := r.put("/cas/"+hashH, []byte("hello\n"))
	r.want(a, 507)
	if !strings.Contains(a.body, "min_free") {
		t.Errorf("the text is %q", a.body)
	}
	s.createErr, s.writeErr = nil, &blobstore.NoSpace{Reason: "disk_full", Detail: "0 bytes free"}
	r.want(r.put("/cas/"+hashH, []byte("hello\n")), 507)
	r.want(r.get("/cas/"+hashP), 200, "abcdefg")
	if n := s.open(); n != 0 {
		t.Errorf("%d uploads are left open", n)
	}
}

func TestAnEncodedBodyIsRefusedByName(t *testing.T) {
	r, _ := newDiskRig(t, nil)
	a := r.do("PUT", "/cas/"+hashP, strings.NewReader("abcdefg"), "Content-Encoding", "zstd")
	if a.code != 415 || !strings.Contains(a.body, "zstd") {
		t.Errorf("%+v", a)
	}
	r.want(r.do("PUT", "/cas/"+hashP, strings.NewReader("abcdefg"), "Content-Encoding", "identity"), 200)
}

func TestAnswersAreCountedWithBoundedLabels(t *testing.T) {
	r, _ := newDiskRig(t, nil)
	r.get("/cas/" + hashP)
	r.get("/cas/" + hashP)
	r.do("BREW", "/x"+strings.Repeat("y", 100), nil)
	got := map[string]uint64{}
	for _, n := range r.cache.count.snapshot() {
		got[fmt.Sprint(n.Method, " ", n.Kind, " ", n.Code)] = n.N
	}
	if len(got) != 2 || got["GET cas 404"] != 2 || got["other other 404"] != 1 {
		t.Errorf("counts are %v", got)
	}
}

func TestASlowReaderIsCutAndASteadyOneIsNot(t *testing.T) {
	r, _ := newDiskRig(t, func(h *httpCache) { h.stall = 400 * time.Millisecond })
	blob := bytes.Repeat([]byte("0123456789abcdef"), 4*mib/16)
	r.want(r.put("/cas/"+hashOf(blob), blob), 200)
	r.c.CloseIdleConnections()

	stuck := r.dial()
	stuck.send("GET /cas/"+hashOf(blob)+" HTTP/1.1", "")
	steady := r.dial()
	steady.send("GET /cas/"+hashOf(blob)+" HTTP/1.1", "")
	resp, err := http.ReadResponse(steady.in, nil)
	if err != nil {
		t.Fatal(err)
	}
	// Slower than the stall time over all, never silent for as long.
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	got := int64(0)
	for range 16 {
		n, err := io.CopyN(io.Discard, resp.Body, int64(len(blob))/16)
		got += n
		if err != nil {
			t.Fatalf("a steady reader was cut after %d bytes: %v", got, err)
		}
		<-tick.C
	}
	eventually(t, "the stuck reader is cut", func() bool { return r.conns.Stats().InUse == 1 })
	if in := r.cache.read.Stats().InUse; in != 0 {
		t.Errorf("%d bytes of permits are held", in)
	}
	eventually(t, "the cut is counted", func() bool {
		for _, n := range r.cache.count.snapshot() {
			if n.Code == statusClientGone {
				return true
			}
		}
		return false
	})
	n, _ := io.Copy(io.Discard, stuck.in)
	if n >= int64(len(blob)) {
		t.Errorf("the stuck reader got all %d bytes", n)
	}
}
