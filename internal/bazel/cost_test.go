package bazel

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/genproto/googleapis/bytestream"
	"google.golang.org/protobuf/proto"
)

// wireClient writes HTTP/2 frames and reads nothing, so that what is measured is the server.
type wireClient struct {
	t    testing.TB
	conn net.Conn
	buf  bytes.Buffer
	fr   *http2.Framer
	enc  *hpack.Encoder
	head bytes.Buffer
	next uint32
}

func (r *grpcRig) wireClient() *wireClient {
	r.Helper()
	conn, err := net.Dial("tcp", r.addr)
	r.must(err)
	r.Cleanup(func() { _ = conn.Close() })
	w := &wireClient{t: r.TB, conn: conn, next: 1}
	w.fr = http2.NewFramer(&w.buf, nil)
	w.enc = hpack.NewEncoder(&w.head)
	w.buf.WriteString(http2.ClientPreface)
	r.must(w.fr.WriteSettings())
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
	if err := w.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: w.head.Bytes(), EndHeaders: true}); err != nil {
		w.t.Fatal(err)
	}
	return id
}

// data sends bytes in frames of the given size.
func (w *wireClient) data(id uint32, b []byte, frame int) {
	w.t.Helper()
	for len(b) > 0 {
		n := min(frame, len(b))
		if err := w.fr.WriteData(id, false, b[:n]); err != nil {
			w.t.Fatal(err)
		}
		b = b[n:]
	}
	w.flush()
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

func TestAConnectionAndAWaitingStreamCostWhatThePlanSays(t *testing.T) {
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
	if got > perConnection+perStream {
		t.Errorf("a connection takes %d bytes with a stream, and the plan says %d", got, perConnection+perStream)
	}
	var halves []net.Conn
	got = heapOf(func() {
		for range conns {
			c := r.wireClient()
			c.enc.SetMaxDynamicTableSize(4 * kib)
			for i := range 30 { // the decoder's table is full
				c.head.Reset()
				_ = c.enc.WriteField(hpack.HeaderField{Name: fmt.Sprint("x-", i), Value: strings.Repeat("v", 100)})
			}
			r.must(c.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: make([]byte, maxHeaderList-kib)}))
			c.flush()
			halves = append(halves, c.conn) // and not what the client needed for it
		}
		eventually(t, "all are connected", func() bool { return r.srv.Stats().Connections >= 2*conns })
	}) / conns
	t.Logf("a connection in the middle of its headers: %d bytes", got)
	if got > perConnection || got*3/2 < perConnection {
		t.Errorf("a connection in the middle of its headers takes %d bytes, and the plan says %d", got, perConnection)
	}
	for _, c := range halves {
		_ = c.Close()
	}
	eventually(t, "they are gone", func() bool { return r.srv.Stats().Connections <= conns+1 })

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
