package rpc

import (
	"bytes"
	"net"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// sink is the socket of a client that reads everything and sends nothing of itself.
type sink struct{ closed chan struct{} }

func (s sink) Read([]byte) (int, error)         { <-s.closed; return 0, net.ErrClosed }
func (s sink) Write(b []byte) (int, error)      { return len(b), nil }
func (s sink) Close() error                     { close(s.closed); return nil }
func (s sink) LocalAddr() net.Addr              { return pipeAddr{} }
func (s sink) RemoteAddr() net.Addr             { return pipeAddr{} }
func (s sink) SetDeadline(time.Time) error      { return nil }
func (s sink) SetReadDeadline(time.Time) error  { return nil }
func (s sink) SetWriteDeadline(time.Time) error { return nil }

// FuzzConnection feeds bytes, cut into pieces, to a connection's parser. Whatever they are, nothing panics, no stream
// holds more than its window, and when the connection has ended nothing is left.
func FuzzConnection(f *testing.F) {
	session := func(do func(c *rawClient)) []byte {
		var b bytes.Buffer
		c := rawOver(f, sink{make(chan struct{})})
		c.fr = http2.NewFramer(&b, nil)
		c.fr.AllowIllegalWrites = true
		do(c)
		return b.Bytes()
	}
	msg := messageOf(f, wrapperspb.Bytes(make([]byte, 50)))
	f.Add(uint8(255), session(func(c *rawClient) { _ = c.fr.WriteData(c.open(unaryMethod, false), true, msg) }))
	f.Add(uint8(1), session(func(c *rawClient) {
		id := c.open(streamMethod, false)
		_ = c.fr.WriteDataPadded(id, false, msg, make([]byte, 9))
		_ = c.fr.WriteRSTStream(id, http2.ErrCodeCancel)
		_ = c.fr.WriteData(id, true, msg)
	}))
	f.Add(uint8(7), session(func(c *rawClient) {
		_ = c.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}, http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: 3})
		_ = c.fr.WriteSettingsAck()
		_ = c.fr.WritePing(false, [8]byte{})
		_ = c.fr.WriteData(c.open(unaryMethod, false, "grpc-timeout", "1S", "x-bin", "AAA"), true, msg)
		_ = c.fr.WriteWindowUpdate(1, 99)
		_ = c.fr.WriteWindowUpdate(0, 99)
		_ = c.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20})
		_ = c.fr.WriteGoAway(0, 0, nil)
	}))
	f.Add(uint8(3), session(func(c *rawClient) {
		block := bytes.Clone(c.block(":method", "POST", ":scheme", "http", ":path", unaryMethod, "content-type", "application/grpc+proto", "content-length", "55"))
		_ = c.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block[:9], PadLength: 4, Priority: http2.PriorityParam{StreamDep: 3, Weight: 1}})
		_ = c.fr.WriteContinuation(1, true, block[9:])
		_ = c.fr.WriteData(1, true, msg)
	}))
	f.Fuzz(func(t *testing.T, piece uint8, b []byte) {
		s, err := New(Options{MaxConcurrentStreams: 5, DoorWindow: 1 << 10})
		if err != nil {
			t.Fatal(err)
		}
		s.RegisterService(&echoDesc, &echo{})
		c := newConn(s, sink{make(chan struct{})}, "fuzz", func() {})
		b = append(append([]byte(preface), appendSettings(nil)...), b...)
		for len(b) > 0 {
			n := min(len(b), int(piece)+1)
			if c.got(b[:n]) != nil {
				break
			}
			b = b[n:]
			if most := int64(5*(1<<10)) + EarlyBytes; s.buffered.Load() > most {
				t.Fatalf("%d bytes are held", s.buffered.Load())
			}
		}
		c.shut()
		s.handlers.Wait()
		if st := s.Stats(); st.Streams != 0 || st.BufferedBytes != 0 || s.early.Load() != 0 {
			t.Fatalf("left over: %+v, early %d", st, s.early.Load())
		}
	})
}
