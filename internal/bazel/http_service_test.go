package bazel

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"

	"github.com/leveehq/levee/internal/accesslog"
	"github.com/leveehq/levee/internal/blobstore"
	"github.com/leveehq/levee/internal/hostguard"
	"github.com/leveehq/levee/internal/listen"
)

// The parts as a server joins them: one service's gates, its log, the guard in front.
func TestTheServiceServesHTTPThroughItsGatesAndTheGuard(t *testing.T) {
	var log bytes.Buffer
	d := newTestDisk(t, blobstore.Options{})
	s, err := New(Options{Kernel: newTestKernel(t, 512*mib), Store: d,
		Log: accesslog.New(accesslog.Options{Logger: slog.New(slog.NewJSONHandler(&log, nil)), SampleOK: 1})})
	if err != nil {
		t.Fatal(err)
	}
	g, err := hostguard.New(hostguard.Options{Setting: "listen.hosts"})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := s.HTTP()
	srv := h.Server(g.Wrap(h), nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(listen.Wrap(l, h.ListenOptions()))
	}()
	r := &httpRig{TB: t, addr: l.Addr().String(), c: &http.Client{Transport: &http.Transport{}}}

	ar := unhexString(t, hexARH)
	r.want(r.put("/x/ac/"+actionKey(1), ar), 200)
	r.want(r.get("/x/ac/"+actionKey(1)), 404)
	r.want(r.put("/cas/"+hashH, []byte("hello\n")), 200)
	r.want(r.get("/x/ac/"+actionKey(1)), 200, string(ar))
	likeness := "\x12\x03\x0a\x05\xff" // an output file whose path is longer than the file: no ActionResult, so opaque
	r.want(r.put("/ac/"+actionKey(3), []byte(likeness)), 200)
	r.want(r.get("/ac/"+actionKey(3)), 200, likeness)
	r.want(r.do("PUT", "/cas/"+hashP, bytes.NewReader([]byte("abcdefg")), "Origin", "http://evil.example"), 403)
	c := r.dial()
	if _, err := io.WriteString(c.Conn, "GET /cas/"+hashH+" HTTP/1.1\r\nHost: evil.example\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	r.want(c.answer("GET"), 403)

	var st httpStatus
	if err := json.Unmarshal([]byte(r.get("/status").body), &st); err != nil || st.NumFiles != 3 || st.CurrSize != 12288 || st.MaxSize != 1<<30 {
		t.Errorf("status is %+v %v", st, err)
	}
	if in := s.gates.httpConnections.Stats().InUse; in == 0 {
		t.Error("no connection is charged")
	}
	n := s.Counters()
	if n.ACHits != 2 || n.ACMisses != 1 || n.ACIncomplete != 1 || n.ACUpdates != 2 || n.BytesIn != 81+6+5 || n.BytesOut != 81+5 {
		t.Errorf("counters are %+v", n)
	}
	if len(h.Counts()) == 0 {
		t.Error("no answer was counted")
	}
	r.c.CloseIdleConnections()
	_ = srv.Close()
	<-done

	var first map[string]any
	if err := json.NewDecoder(&log).Decode(&first); err != nil {
		t.Fatal(err)
	}
	for k, v := range map[string]any{"proto": "http", "method": "PUT ac", "code": "200", "instance": "x", "key": "127.0.0.1", "bytes": 81.0} {
		if first[k] != v {
			t.Errorf("the record's %s is %v, want %v", k, first[k], v)
		}
	}
}
