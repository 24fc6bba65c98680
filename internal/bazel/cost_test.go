package bazel

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/genproto/googleapis/bytestream"
	"google.golang.org/protobuf/proto"

	"github.com/leveehq/levee/internal/raceless"
	"github.com/leveehq/levee/internal/rpc"
)

// wireClient speaks HTTP/2 in frames and keeps nothing, so that what is measured is the server.
type wireClient struct {
	t      testing.TB
	conn   net.Conn
	buf    bytes.Buffer
	fr     *http2.Framer
	enc    *hpack.Encoder
	head   bytes.Buffer
	next   uint32
	window int64            // of a new stream
	credit map[uint32]int64 // what may be sent, by stream; 0 is the connection
}

func (r *grpcRig) wireClient() *wireClient {
	r.Helper()
	conn, err := net.Dial("tcp", r.addr)
	r.must(err)
	r.Cleanup(func() { _ = conn.Close() })
	r.must(conn.SetDeadline(time.Now().Add(20 * time.Second)))
	w := &wireClient{t: r.TB, conn: conn, next: 1, credit: map[uint32]int64{0: 65535}}
	w.fr = http2.NewFramer(&w.buf, conn)
	w.enc = hpack.NewEncoder(&w.head)
	w.buf.WriteString(http2.ClientPreface)
	r.must(w.fr.WriteSettings())
	w.flush()
	for w.window == 0 {
		w.read()
	}
	r.must(w.fr.WriteSettingsAck())
	w.flush()
	return w
}

func (w *wireClient) flush() {
	w.t.Helper()
	if _, err := w.conn.Write(w.buf.Bytes()); err != nil {
		w.t.Fatal(err)
	}
	w.buf.Reset()
}

// read takes in one frame.
func (w *wireClient) read() {
	w.t.Helper()
	f, err := w.fr.ReadFrame()
	if err != nil {
		w.t.Fatal(err)
	}
	switch f := f.(type) {
	case *http2.SettingsFrame:
		if v, ok := f.Value(http2.SettingInitialWindowSize); ok {
			w.window = int64(v)
		}
	case *http2.WindowUpdateFrame:
		w.credit[f.StreamID] += int64(f.Increment)
	case *http2.RSTStreamFrame:
		w.t.Fatalf("stream %d is reset: %v", f.StreamID, f.ErrCode)
	}
}

// open begins a call with a header of the given size besides the usual ones.
func (w *wireClient) open(method string, header int) (id uint32) {
	w.t.Helper()
	w.head.Reset()
	for _, f := range []hpack.HeaderField{{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: method},
		{Name: ":authority", Value: "localhost"}, {Name: "content-type", Value: "application/grpc"}, {Name: "te", Value: "trailers"}} {
		_ = w.enc.WriteField(f)
	}
	if header > 0 {
		_ = w.enc.WriteField(hpack.HeaderField{Name: "x-large", Value: strings.Repeat("x", header), Sensitive: true})
	}
	id, w.next = w.next, w.next+2
	w.credit[id] = w.window
	if err := w.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: w.head.Bytes(), EndHeaders: true}); err != nil {
		w.t.Fatal(err)
	}
	return id
}

// data sends bytes in frames of up to the given size, as the server's windows allow.
func (w *wireClient) data(id uint32, b []byte, frame int) {
	w.t.Helper()
	for len(b) > 0 {
		n := int(min(int64(len(b)), int64(frame), w.credit[id], w.credit[0]))
		if n == 0 {
			w.flush()
			w.read()
			continue
		}
		if err := w.fr.WriteData(id, false, b[:n]); err != nil {
			w.t.Fatal(err)
		}
		w.credit[id] -= int64(n)
		w.credit[0] -= int64(n)
		b = b[n:]
	}
	w.flush()
}

// fill sends all that the server lets a stream send, once that is at least some, and returns how much it was.
func (w *wireClient) fill(id uint32, some int64) int64 {
	w.t.Helper()
	for w.credit[id] < some {
		w.read()
	}
	n := w.credit[id]
	w.data(id, make([]byte, n), kib)
	return n
}

// message is m with gRPC's prefix.
func message(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(b))), b...)
}

// measuring runs the test that it is called from in a process of its own and without the race detector, where nothing
// else is live, and tells whether this is that process.
func measuring(t *testing.T) bool {
	t.Helper()
	const child = "LEVEE_TEST_MEASURE"
	if os.Getenv(child) != "" {
		return true
	}
	cmd := exec.Command(raceless.Binary(t), "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), child+"=1")
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
	return false
}

func TestAWaitingStreamCostsWhatThePlanSays(t *testing.T) {
	if !measuring(t) {
		return
	}
	const conns, perConn = 40, 50
	r := newGRPCRig(t, func(o *Options) { o.MaxWrites, o.WriteWait, o.MaxStreamsPerConnection = 1, 50*time.Second, 200 })
	full, err := r.s.gates.write.TryAdmit("nobody", r.s.gates.write.Stats().Limit)
	r.must(err)
	defer full.Release()

	var clients []*wireClient
	got := heapOf(func() {
		for range conns {
			c := r.wireClient()
			c.open("/grpc.health.v1.Health/Watch", 0) // the header tables are in use, too
			c.flush()
			clients = append(clients, c)
		}
		eventually(t, "all are connected", func() bool { return r.srv.Stats().Streams == conns })
	}) / conns
	t.Logf("a connection with one silent stream: %d bytes", got)
	if got > rpc.ConnBytes+r.s.opt.streamBytes() {
		t.Errorf("a connection takes %d bytes with a stream, and the plan says %d", got, rpc.ConnBytes+r.s.opt.streamBytes())
	}
	for _, c := range []struct {
		what          string
		frame, header int
	}{{"full frames", 16 * kib, 0}, {"tiny frames", 64, 0}, {"full frames and headers", 16 * kib, 6 * kib}} {
		first := message(t, &bytestream.WriteRequest{ResourceName: "uploads/u/blobs/" + hashP + "/" + fmt.Sprint(64*mib), Data: make([]byte, 64*kib)})
		before := r.srv.Stats().Streams
		got := heapOf(func() {
			for _, w := range clients {
				for range perConn {
					w.data(w.open("/google.bytestream.ByteStream/Write", c.header), first[:r.s.opt.doorWindow()], c.frame)
				}
			}
			eventually(t, "all are waiting", func() bool { return r.s.gates.write.Stats().Queued == conns*perConn })
		}) / (conns * perConn)
		t.Logf("a waiting write with %s: %d bytes", c.what, got)
		if got > r.s.opt.streamBytes() || got*3/2 < r.s.opt.streamBytes() {
			t.Errorf("a waiting write with %s takes %d bytes, and the plan says %d", c.what, got, r.s.opt.streamBytes())
		}
		for _, w := range clients {
			for id := w.next - 2; id > w.next-2-2*perConn; id -= 2 {
				r.must(w.fr.WriteRSTStream(id, http2.ErrCodeCancel))
			}
			w.flush()
		}
		eventually(t, "all are gone", func() bool { return r.srv.Stats().Streams == before })
	}
}
