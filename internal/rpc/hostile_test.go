package rpc

import (
	"encoding/binary"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

func (c *rawClient) frame(t http2.FrameType, f http2.Flags, id uint32, payload []byte) {
	_ = c.fr.WriteRawFrame(t, f, id, payload)
}

func (c *rawClient) windowUpdate(id, n uint32) {
	c.frame(http2.FrameWindowUpdate, 0, id, binary.BigEndian.AppendUint32(nil, n))
}

func TestAConnectionErrorNamesItsCode(t *testing.T) {
	s := serveEcho(t, Options{}, &echo{})
	for _, c := range []struct {
		name string
		want http2.ErrCode
		do   func(c *rawClient)
	}{
		{"an even stream id", http2.ErrCodeProtocol, func(c *rawClient) { c.headers(2, true, ":method", "POST") }},
		{"a stream id that goes back", http2.ErrCodeStreamClosed, func(c *rawClient) { c.nextID = 5; c.open("/a", true); c.nextID = 3; c.open("/a", true) }},
		{"DATA on an idle stream", http2.ErrCodeProtocol, func(c *rawClient) { c.frame(http2.FrameData, 0, 9, nil) }},
		{"a frame above 16 KiB", http2.ErrCodeFrameSize, func(c *rawClient) { c.frame(http2.FrameData, 0, 1, make([]byte, 16<<10+1)) }},
		{"padding longer than the frame", http2.ErrCodeProtocol, func(c *rawClient) {
			c.open(streamMethod, false)
			c.frame(http2.FrameData, http2.FlagDataPadded, 1, []byte{9, 1})
		}},
		{"a window update of zero", http2.ErrCodeProtocol, func(c *rawClient) { c.windowUpdate(0, 0) }},
		{"an overflowing connection window", http2.ErrCodeFlowControl, func(c *rawClient) { c.windowUpdate(0, maxWindow) }},
		{"an initial window that overflows a stream's", http2.ErrCodeFlowControl, func(c *rawClient) {
			c.open(streamMethod, false)
			c.windowUpdate(1, 1<<30-1)
			_ = c.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: maxWindow})
		}},
		{"SETTINGS with a bad frame size", http2.ErrCodeProtocol, func(c *rawClient) {
			_ = c.fr.WriteSettings(http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1})
		}},
		{"a header block that is no hpack", http2.ErrCodeCompression, func(c *rawClient) {
			c.frame(http2.FrameHeaders, http2.FlagHeadersEndHeaders, 1, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
		}},
		{"another frame inside a header block", http2.ErrCodeProtocol, func(c *rawClient) {
			c.frame(http2.FrameHeaders, 0, 1, []byte{0x83})
			_ = c.fr.WritePing(false, [8]byte{})
		}},
		{"CONTINUATION without end", http2.ErrCodeEnhanceYourCalm, func(c *rawClient) {
			c.frame(http2.FrameHeaders, 0, 1, []byte{0x83})
			for range 40 {
				c.frame(http2.FrameContinuation, 0, 1, make([]byte, 1<<10))
			}
		}},
		{"empty CONTINUATION without end", http2.ErrCodeEnhanceYourCalm, func(c *rawClient) {
			c.frame(http2.FrameHeaders, 0, 1, []byte{0x83})
			for range 1000 {
				c.frame(http2.FrameContinuation, 0, 1, nil)
			}
		}},
		{"a flood of PING", http2.ErrCodeEnhanceYourCalm, func(c *rawClient) {
			for range 3 * calmBurst {
				_ = c.fr.WritePing(false, [8]byte{})
			}
		}},
		{"a flood of SETTINGS", http2.ErrCodeEnhanceYourCalm, func(c *rawClient) {
			for range 3 * calmBurst {
				_ = c.fr.WriteSettings()
			}
		}},
		{"a flood of empty DATA", http2.ErrCodeEnhanceYourCalm, func(c *rawClient) {
			id := c.open(streamMethod, false)
			for range 3 * calmBurst {
				c.frame(http2.FrameData, 0, id, nil)
			}
		}},
		{"a flood of frames of an unknown type", http2.ErrCodeEnhanceYourCalm, func(c *rawClient) {
			for range 3 * calmBurst {
				c.frame(0xfe, 0, 0, []byte("x"))
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRawClient(t, s.addr)
			done := make(chan http2.ErrCode)
			go func() { done <- r.awaitClose() }()
			c.do(r)
			_ = r.w.Flush()
			if got := <-done; got != c.want {
				t.Errorf("GOAWAY %v, want %v", got, c.want)
			}
		})
	}
}

// awaitReset reads until a stream is reset, and returns the code.
func (c *rawClient) awaitReset(id uint32) http2.ErrCode {
	c.flush()
	for {
		switch f := c.read().(type) {
		case *http2.RSTStreamFrame:
			if f.StreamID == id {
				return f.ErrCode
			}
		case *http2.GoAwayFrame:
			c.t.Fatalf("GOAWAY %v", f.ErrCode)
		}
	}
}

func TestMoreThanTheWindowResetsTheStreamAlone(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	e := &echo{onStream: func(s grpc.ServerStream) error {
		select {
		case <-release:
		case <-s.Context().Done():
		}
		return nil
	}}
	s := serveEcho(t, Options{}, e)
	c := newRawClient(t, s.addr)
	eventually(t, "SETTINGS acknowledged", func() bool { return s.only().acked.Load() })
	id := c.open(streamMethod, false)
	_ = c.fr.WriteData(id, false, make([]byte, 16<<10))
	_ = c.fr.WriteData(id, false, make([]byte, 1))
	if code := c.awaitReset(id); code != http2.ErrCodeFlowControl {
		t.Error(code)
	}
	c.unaryLoad(t, messageOf(t, wrapperspb.Bytes([]byte("x"))), 3, 1)
}

// only is the server's one connection.
func (s *testServer) only() *conn {
	cs := s.snapshot()
	if len(cs) != 1 {
		panic("not one connection")
	}
	return cs[0]
}

func TestBeforeSettingsAreInForceAClientMayBelieveInTheDefaultWindowWithinABound(t *testing.T) {
	s := serveEcho(t, Options{}, &echo{onStream: func(s grpc.ServerStream) error { <-s.Context().Done(); return nil }})
	var early int
	for range 2 {
		c := newRawConn(t, s.addr)
		c.greet()
		refused := 0
		for range 40 { // 40 × 48 KiB on each: the server's bound is reached on the second connection
			id := c.open(streamMethod, false)
			left := defaultWindow
			for left > 0 {
				k := min(left, maxFrameLen)
				_ = c.fr.WriteData(id, false, make([]byte, k))
				left -= k
			}
		}
		_ = c.fr.WritePing(false, [8]byte{1})
		c.flush()
		for ponged := false; !ponged; {
			switch f := c.read().(type) {
			case *http2.RSTStreamFrame:
				if f.ErrCode != http2.ErrCodeEnhanceYourCalm {
					t.Fatal(f.ErrCode)
				}
				refused++
			case *http2.PingFrame:
				ponged = f.IsAck()
			}
		}
		early += 40 - refused
	}
	if want := EarlyBytes / (defaultWindow - 16<<10); early != want {
		t.Errorf("%d streams went beyond the door window, want %d", early, want)
	}
}

func TestAWindowShrunkBelowZeroHoldsTheAnswerBackUntilItOpens(t *testing.T) {
	s := serveEcho(t, Options{}, &echo{}, registerBulk)
	c := newRawConn(t, s.addr)
	c.greet(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 20000})
	c.windowUpdate(0, 1<<30)
	id := c.open(downloadMethod, true)
	c.flush()
	got := 0
	for got < 20000 {
		if f, ok := c.read().(*http2.DataFrame); ok {
			got += len(f.Data())
		}
	}
	_ = c.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}) // the stream's window is now −20000
	_ = c.fr.WritePing(false, [8]byte{1})
	c.windowUpdate(id, 20000) // and now zero
	_ = c.fr.WritePing(false, [8]byte{2})
	c.flush()
	for pong := byte(0); pong < 2; {
		switch f := c.read().(type) {
		case *http2.DataFrame:
			t.Fatalf("%d bytes on a shut window", len(f.Data()))
		case *http2.PingFrame:
			pong = f.Data[0]
		}
	}
	_ = c.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 30})
	c.flush()
	if got += c.awaitEnd(id); got < bulkSize {
		t.Errorf("%d bytes", got)
	}
}

func TestRapidResetsStartNoMoreHandlersThanStreamsAreAllowed(t *testing.T) {
	var running, most atomic.Int64
	release := make(chan struct{})
	o := Options{MaxConcurrentStreams: 20}
	s := serveEcho(t, o, &echo{onStream: func(grpc.ServerStream) error { // deaf to its context
		n := running.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		<-release
		running.Add(-1)
		return nil
	}})
	c := newRawClient(t, s.addr)
	done := make(chan http2.ErrCode)
	go func() { done <- c.awaitClose() }()
	for range 2 * calmBurst {
		id := c.open(streamMethod, false)
		_ = c.fr.WriteRSTStream(id, http2.ErrCodeCancel)
	}
	_ = c.w.Flush()
	if code := <-done; code != http2.ErrCodeEnhanceYourCalm {
		t.Error(code)
	}
	if n := most.Load(); n == 0 || n > 20 {
		t.Errorf("%d handlers at once", n)
	}
	if n := s.Stats().Refused; n == 0 {
		t.Error("none refused")
	}
	close(release)
}

func TestAClientThatIsAnsweredEarlyIsNotCutForWhatItHadUnderWay(t *testing.T) {
	s := serveEcho(t, Options{}, &echo{onStream: func(grpc.ServerStream) error {
		return status.Error(codes.FailedPrecondition, "shed")
	}})
	c := newRawClient(t, s.addr)
	const width = 100
	for range 3 * calmBurst / width {
		var ids [width]uint32
		for i := range ids {
			ids[i] = c.open(streamMethod, false)
		}
		c.flush()
		for ended := 0; ended < width; {
			switch f := c.read().(type) {
			case *http2.HeadersFrame:
				if f.StreamEnded() {
					ended++
				}
			case *http2.GoAwayFrame:
				t.Fatalf("GOAWAY %v %q", f.ErrCode, f.DebugData())
			}
		}
		for _, id := range ids {
			_ = c.fr.WriteData(id, false, make([]byte, 10))
			_ = c.fr.WriteData(id, false, make([]byte, 10))
			_ = c.fr.WriteRSTStream(id, http2.ErrCodeNo)
		}
		c.flush()
	}
	id := c.open(unaryMethod, false)
	_ = c.fr.WriteData(id, true, message(nil))
	c.flush()
	if c.awaitEnd(id) == 0 {
		t.Error("no answer to a call made after the sheds")
	}
}

func TestTheSurplusOfStreamsIsRefusedSoThatAClientMayRetry(t *testing.T) {
	release := make(chan struct{})
	s := serveEcho(t, Options{MaxConcurrentStreams: 2}, &echo{onStream: func(grpc.ServerStream) error { <-release; return nil }})
	c := newRawClient(t, s.addr)
	a, _, surplus := c.open(streamMethod, true), c.open(streamMethod, true), c.open(streamMethod, false)
	_ = c.fr.WriteData(surplus, true, make([]byte, 100))
	if code := c.awaitReset(surplus); code != http2.ErrCodeRefusedStream {
		t.Error(code)
	}
	close(release)
	c.awaitEnd(a)
	for range 100 { // a slot is free by the time that its call's end is seen
		c.awaitEnd(func() uint32 { id := c.open(streamMethod, true); c.flush(); return id }())
	}
}

func TestALongHeaderListIsAnsweredAndTheConnectionLivesOn(t *testing.T) {
	s := serveEcho(t, Options{}, &echo{})
	c := newRawClient(t, s.addr)
	// 3 KiB in the dynamic table, then referred to many times: a small block of a large list.
	bomb := []string{"x", strings.Repeat("y", 3<<10)}
	for range 5 {
		bomb = append(bomb, bomb[:2]...)
	}
	id := c.open(unaryMethod, true, bomb...)
	c.flush()
	if status := c.awaitStatus(id); status != "8" {
		t.Errorf("grpc-status %q", status)
	}
	c.unaryLoad(t, messageOf(t, wrapperspb.Bytes([]byte("x"))), 3, 1)
}

// awaitStatus reads until the stream's trailers and returns their grpc-status.
func (c *rawClient) awaitStatus(id uint32) (code string) {
	for {
		f, ok := c.read().(*http2.HeadersFrame)
		if !ok || f.StreamID != id || !f.StreamEnded() {
			continue
		}
		d := hpack.NewDecoder(4096, func(h hpack.HeaderField) {
			if h.Name == "grpc-status" {
				code = h.Value
			}
		})
		_, _ = d.Write(f.HeaderBlockFragment())
		return code
	}
}

// Clients that measure their bandwidth have a PING out for as long as they receive.
func TestAClientThatPingsWithEveryRoundTripOfAnAnswerIsNotCut(t *testing.T) {
	s := serveEcho(t, Options{}, &echo{}, registerBulk)
	c := newRawClient(t, s.addr)
	pings, out := 0, false
	for downloads := 0; pings < calmBurst+1000; downloads++ {
		if downloads == 600 {
			t.Fatalf("only %d pings in %d downloads", pings, downloads)
		}
		id := c.open(downloadMethod, true)
		c.flush()
		for ended := false; !ended; {
			switch f := c.read().(type) {
			case *http2.DataFrame:
				if !out {
					_ = c.fr.WritePing(false, [8]byte{})
					c.flush()
					out = true
					pings++
				}
			case *http2.PingFrame:
				out = out && !f.IsAck()
			case *http2.GoAwayFrame:
				t.Fatalf("GOAWAY %v after %d pings", f.ErrCode, pings)
			case *http2.HeadersFrame:
				ended = f.StreamID == id && f.StreamEnded()
			}
		}
	}
}
