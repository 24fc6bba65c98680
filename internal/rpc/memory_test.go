package rpc

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/leveehq/levee/internal/raceless"
)

const (
	heapMethod = "/test.Mem/Heap"
	waitMethod = "/test.Mem/Wait"
)

// registerMem registers what the measurements need of the server, which runs in its own process.
func registerMem(s *Server) {
	s.Handle(heapMethod, func(st *Stream) error {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		b := binary.BigEndian.AppendUint64(nil, m.HeapAlloc+m.StackInuse)
		b = binary.BigEndian.AppendUint64(b, uint64(s.Stats().BufferedBytes))
		return st.Reply(binary.BigEndian.AppendUint64(b, uint64(s.Stats().Streams)))
	})
	s.Handle(waitMethod, func(st *Stream) error {
		if _, err := st.NextMessage(); err != nil {
			return err
		}
		<-st.Context().Done()
		return nil
	})
}

// memServer is a server whose memory is measured from outside.
type memServer struct {
	*serverProcess
	t       testing.TB
	control *rawClient
}

func newMemServer(t testing.TB) *memServer {
	p := startServer(t, raceless.Binary(t), "rpc")
	t.Cleanup(func() { p.stop() })
	return &memServer{p, t, newRawClient(t, p.addr)}
}

// heap returns live bytes, stacks included, bytes buffered for handlers, and open streams.
func (m *memServer) heap() (live, buffered, streams int64) {
	id := m.control.open(heapMethod, true)
	m.control.flush()
	for {
		switch f := m.control.read().(type) {
		case *http2.DataFrame:
			b := f.Data()[prefixLen:]
			live, buffered = int64(binary.BigEndian.Uint64(b)), int64(binary.BigEndian.Uint64(b[8:]))
			streams = int64(binary.BigEndian.Uint64(b[16:])) - 1
		case *http2.HeadersFrame:
			if f.StreamID == id && f.StreamEnded() {
				return live, buffered, streams
			}
		}
	}
}

// perUnit is by how much live memory grows per unit when n are made and ready says that the server has them.
func (m *memServer) perUnit(n int, make func(), ready func(buffered, streams int64) bool) int64 {
	m.t.Helper()
	before, _, _ := m.heap()
	make()
	eventually(m.t, "the server has them", func() bool { _, b, s := m.heap(); return ready(b, s) })
	after, _, _ := m.heap()
	return (after - before) / int64(n)
}

func wantMeasured(t *testing.T, what string, got, constant int64) {
	t.Helper()
	t.Logf("%s: %d bytes measured, %d in the plan", what, got, constant)
	if got > constant {
		t.Errorf("%s takes %d bytes, the plan says %d: raise the constant", what, got, constant)
	}
	if constant > got*3/2 {
		t.Errorf("%s takes %d bytes, the plan says %d: lower the constant", what, got, constant)
	}
}

func TestAWaitingStreamCostsWhatThePlanSays(t *testing.T) {
	const conns, perConn = 10, 100
	for _, frame := range []int{maxFrameLen, 1025, 1} {
		m := newMemServer(t)
		var clients []*rawClient
		for range conns {
			c := newRawClient(t, m.addr)
			c.unaryPing()
			clients = append(clients, c)
		}
		const window = 16 << 10
		got := m.perUnit(conns*perConn, func() {
			for _, c := range clients {
				for range perConn {
					c.fill(c.open(waitMethod, false), window, frame)
				}
				c.flush()
			}
		}, func(b, s int64) bool { return s == conns*perConn && b == conns*perConn*(window-prefixLen) })
		what := fmt.Sprintf("a stream with its window full of frames of %d bytes", frame)
		if frame == 1 {
			wantMeasured(t, what, got, StreamBytes(window))
		} else if t.Logf("%s: %d bytes", what, got); got > StreamBytes(window) {
			t.Errorf("%s takes %d bytes, the plan says %d", what, got, StreamBytes(window))
		}
		if limit := int64(window*13/10 + 8<<10); got > limit {
			t.Errorf("%s takes %d bytes, more than 1.3 windows and 8 KiB", what, got)
		}
	}
}

// fill sends a message longer than the window, as far as the window goes.
func (c *rawClient) fill(id uint32, window, frame int) {
	b := message(make([]byte, 4*window))[:window]
	putMessageLen(b, 4*window)
	for len(b) > 0 {
		k := min(frame, len(b))
		_ = c.fr.WriteData(id, false, b[:k])
		b = b[k:]
	}
}

func putMessageLen(b []byte, n int) { binary.BigEndian.PutUint32(b[1:], uint32(n)) }

// unaryPing makes one small call, so that a connection has its tables and stacks in use.
func (c *rawClient) unaryPing() {
	id := c.open(heapMethod, true)
	c.flush()
	c.awaitEnd(id)
}

func TestAConnectionCostsWhatThePlanSays(t *testing.T) {
	const n = 60
	m := newMemServer(t)
	idle := m.perUnit(n, func() {
		for range n {
			c := newRawClient(t, m.addr)
			c.open(unaryMethod, true)
			c.flush()
			c.awaitEnd(1)
		}
	}, func(_, s int64) bool { return s == 0 })
	t.Logf("an idle connection: %d bytes", idle)
	if idle > 20<<10 {
		t.Errorf("an idle connection takes %d bytes", idle)
	}

	m = newMemServer(t)
	hostile := m.perUnit(n, func() {
		var wg sync.WaitGroup
		for range n {
			wg.Go(newRawClient(t, m.addr).beHostile)
		}
		wg.Wait()
	}, func(_, s int64) bool { return s == 0 })
	wantMeasured(t, "a hostile connection", hostile, ConnBytes)
}

// beHostile makes a connection as dear as it can be: a full header table, and a flood of requests whose answers are not
// read, until the server reads no more either.
func (c *rawClient) beHostile() {
	tcp := c.nc.(*net.TCPConn) // with small buffers, or its kernel takes megabytes in its stead
	_ = tcp.SetReadBuffer(4 << 10)
	_ = tcp.SetWriteBuffer(4 << 10)
	var block []byte
	for range 128 {
		block = append(block, 0x40, 0, 0) // a field without name or value: 32 bytes of the table, and an entry of ours
	}
	c.frame(http2.FrameHeaders, http2.FlagHeadersEndHeaders|http2.FlagHeadersEndStream, 1, block)
	c.henc.SetMaxDynamicTableSize(0)
	request := bytes.Clone(c.block(":method", "POST", ":scheme", "http", ":path", "/"+strings.Repeat("x", 150), "content-type", "application/grpc"))
	c.flush()
	deadline := time.Now().Add(20 * time.Second)
	for id := uint32(3); time.Now().Before(deadline); {
		var flood []byte
		for len(flood) < 32<<10 {
			flood = appendFrameHeader(flood, len(request), http2.FrameHeaders, http2.FlagHeadersEndHeaders|http2.FlagHeadersEndStream, id)
			flood = append(flood, request...)
			id += 2
		}
		_ = c.nc.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
		if _, err := c.nc.Write(flood); err != nil {
			return
		}
	}
	c.t.Error("the server goes on reading from a client that does not")
}
