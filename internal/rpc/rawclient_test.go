package rpc

import (
	"bufio"
	"bytes"
	"net"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/proto"
)

// rawClient speaks frames, honestly or not.
type rawClient struct {
	t    testing.TB
	nc   net.Conn
	w    *bufio.Writer
	fr   *http2.Framer
	henc *hpack.Encoder
	hbuf bytes.Buffer

	nextID     uint32
	sendWindow int64 // the connection's
	initWindow int64 // the server's INITIAL_WINDOW_SIZE
	received   int
	patience   time.Duration // 0 in virtual time, which passes on its own
}

const rawWindow = 1 << 30

// newRawClient connects, exchanges SETTINGS and opens its windows wide.
func newRawClient(t testing.TB, addr string) *rawClient {
	c := newRawConn(t, addr)
	c.greet(http2.Setting{ID: http2.SettingInitialWindowSize, Val: rawWindow})
	_ = c.fr.WriteWindowUpdate(0, rawWindow-defaultWindow)
	for {
		f := c.read()
		if s, ok := f.(*http2.SettingsFrame); ok && !s.IsAck() {
			if v, ok := s.Value(http2.SettingInitialWindowSize); ok {
				c.initWindow = int64(v)
			}
			_ = c.fr.WriteSettingsAck()
			c.flush()
			return c
		}
	}
}

func newRawConn(t testing.TB, addr string) *rawClient {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	c := rawOver(t, nc)
	c.patience = 20 * time.Second
	return c
}

func rawOver(t testing.TB, nc net.Conn) *rawClient {
	c := &rawClient{t: t, nc: nc, w: bufio.NewWriterSize(nc, 64<<10), nextID: 1, sendWindow: defaultWindow, initWindow: defaultWindow}
	c.fr = http2.NewFramer(c.w, bufio.NewReaderSize(nc, 64<<10))
	c.fr.SetReuseFrames()
	c.fr.AllowIllegalWrites = true
	c.henc = hpack.NewEncoder(&c.hbuf)
	return c
}

func (c *rawClient) greet(s ...http2.Setting) {
	_, _ = c.w.WriteString(preface)
	_ = c.fr.WriteSettings(s...)
	c.flush()
}

func (c *rawClient) flush() {
	if err := c.w.Flush(); err != nil && c.t != nil {
		c.t.Logf("flush: %v", err)
	}
}

// read returns the next frame, after noting windows.
func (c *rawClient) read() http2.Frame {
	f, err := c.readErr()
	if err != nil {
		c.t.Fatalf("reading a frame: %v", err)
	}
	return f
}

func (c *rawClient) readErr() (http2.Frame, error) {
	if c.patience > 0 {
		_ = c.nc.SetReadDeadline(time.Now().Add(c.patience))
	}
	f, err := c.fr.ReadFrame()
	if err != nil {
		return nil, err
	}
	switch f := f.(type) {
	case *http2.WindowUpdateFrame:
		if f.StreamID == 0 {
			c.sendWindow += int64(f.Increment)
		}
	case *http2.DataFrame:
		if c.received += int(f.Length); c.received > rawWindow/2 {
			_ = c.fr.WriteWindowUpdate(0, uint32(c.received))
			c.received = 0
		}
	case *http2.PingFrame:
		if !f.IsAck() {
			_ = c.fr.WritePing(true, f.Data)
			c.flush()
		}
	}
	return f, nil
}

// open writes a request's headers and returns the stream's id.
func (c *rawClient) open(method string, end bool, extra ...string) uint32 {
	id := c.nextID
	c.nextID += 2
	c.headers(id, end, append([]string{":method", "POST", ":scheme", "http", ":path", method, ":authority", "test",
		"content-type", "application/grpc", "te", "trailers", "user-agent", "raw/1.0"}, extra...)...)
	return id
}

func (c *rawClient) headers(id uint32, end bool, kv ...string) {
	_ = c.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.block(kv...), EndStream: end, EndHeaders: true})
}

func (c *rawClient) block(kv ...string) []byte {
	c.hbuf.Reset()
	for i := 0; i < len(kv); i += 2 {
		_ = c.henc.WriteField(hpack.HeaderField{Name: kv[i], Value: kv[i+1]})
	}
	return c.hbuf.Bytes()
}

func messageOf(t testing.TB, m proto.Message) []byte {
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return message(b)
}

func message(b []byte) []byte {
	p := messagePrefix(len(b))
	return append(p[:], b...)
}

// unaryLoad makes n calls, width at a time.
func (c *rawClient) unaryLoad(t testing.TB, req []byte, n, width int) {
	start := func() {
		c.sendWindow -= int64(len(req))
		_ = c.fr.WriteData(c.open(unaryMethod, false), true, req)
	}
	sent, done := 0, 0
	for ; sent < min(n, width); sent++ {
		start()
	}
	c.flush()
	for done < n {
		f, err := c.readErr()
		if err != nil {
			t.Error(err)
			return
		}
		if h, ok := f.(*http2.HeadersFrame); ok && h.StreamEnded() {
			done++
			if sent < n {
				for c.sendWindow < int64(len(req)) {
					c.read()
				}
				sent++
				start()
				c.flush()
			}
		}
	}
}

// upload streams n messages, and waits for the answer.
func (c *rawClient) upload(method string, msg []byte, n int) {
	id := c.open(method, false)
	window := c.initWindow
	for left := n * len(msg); left > 0; {
		at := (n*len(msg) - left) % len(msg)
		k := min(maxFrameLen, left, len(msg)-at)
		for window < int64(k) || c.sendWindow < int64(k) {
			c.flush()
			if f, ok := c.read().(*http2.WindowUpdateFrame); ok && f.StreamID == id {
				window += int64(f.Increment)
			}
		}
		window -= int64(k)
		c.sendWindow -= int64(k)
		left -= k
		_ = c.fr.WriteData(id, left == 0, msg[at:at+k])
	}
	c.flush()
	c.awaitEnd(id)
}

// download makes a call without a message and reads its answer to the end.
func (c *rawClient) download(method string) int {
	id := c.open(method, false)
	c.sendWindow -= prefixLen
	_ = c.fr.WriteData(id, true, message(nil))
	c.flush()
	return c.awaitEnd(id)
}

// awaitEnd reads until a stream has ended, and returns how many bytes of DATA came.
func (c *rawClient) awaitEnd(id uint32) int {
	n := 0
	for {
		switch f := c.read().(type) {
		case *http2.DataFrame:
			n += len(f.Data())
		case *http2.HeadersFrame:
			if f.StreamID == id && f.StreamEnded() {
				return n
			}
		case *http2.RSTStreamFrame:
			if f.StreamID == id && f.ErrCode != http2.ErrCodeNo {
				c.t.Fatalf("reset: %v", f.ErrCode)
			}
		case *http2.GoAwayFrame:
			c.t.Fatalf("GOAWAY %v %q", f.ErrCode, f.DebugData())
		}
	}
}

// awaitClose reads until the server closes, and returns the code of its GOAWAY.
func (c *rawClient) awaitClose() http2.ErrCode {
	code := http2.ErrCode(0xffff)
	for {
		f, err := c.readErr()
		if ne, ok := err.(net.Error); ok && ne.Timeout() {
			c.t.Fatal("the server did not close the connection")
		}
		if err != nil {
			return code
		}
		if g, ok := f.(*http2.GoAwayFrame); ok {
			code = g.ErrCode
		}
	}
}

// rawFrame is a message for grpc-go's client that is not decoded.
type rawFrame struct{ b []byte }

type rawCodec struct{}

func (rawCodec) Name() string                       { return "proto" }
func (rawCodec) Marshal(v any) ([]byte, error)      { return v.(*rawFrame).b, nil }
func (rawCodec) Unmarshal(data []byte, v any) error { v.(*rawFrame).b = bytes.Clone(data); return nil }
