package rpc

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

func TestPaddingIsGrantedAgain(t *testing.T) {
	s := serveEcho(t, Options{}, &echo{onStream: func(s grpc.ServerStream) error { return s.RecvMsg(new(wrapperspb.BytesValue)) }})
	c := newRawClient(t, s.addr)
	id := c.open(streamMethod, false)
	window := 16 << 10
	for range 1000 { // fifteen times the window
		for window < 256 {
			c.flush()
			if f, ok := c.read().(*http2.WindowUpdateFrame); ok && f.StreamID == id {
				window += int(f.Increment)
			}
		}
		window -= 256
		c.frame(http2.FrameData, http2.FlagDataPadded, id, append([]byte{255}, make([]byte, 255)...))
	}
	_ = c.fr.WriteData(id, true, messageOf(t, wrapperspb.Bytes(nil)))
	c.flush()
	c.awaitEnd(id)
}

func TestTheContentLengthOfARequestIsHeldToItsBody(t *testing.T) {
	s := serveEcho(t, Options{}, &echo{})
	c := newRawClient(t, s.addr)
	msg := messageOf(t, wrapperspb.Bytes([]byte("x")))
	id := c.open(unaryMethod, false, "content-length", "99")
	_ = c.fr.WriteData(id, true, msg)
	// The handler may have answered before the lie was known.
	c.flush()
	for done := false; !done; {
		switch f := c.read().(type) {
		case *http2.RSTStreamFrame:
			done = f.ErrCode == http2.ErrCodeProtocol
		case *http2.HeadersFrame:
			done = f.StreamEnded()
		}
	}
}

func TestABodyThatEndsInsideAMessageIsInvalid(t *testing.T) {
	s := serveEcho(t, Options{}, &echo{})
	c := newRawClient(t, s.addr)
	for _, n := range []int{3, 7, 100} {
		id := c.open(unaryMethod, false)
		_ = c.fr.WriteData(id, true, message(make([]byte, 200))[:n])
		c.flush()
		if got := c.awaitStatus(id); got != "3" {
			t.Errorf("%d bytes: grpc-status %q", n, got)
		}
	}
}

func TestAResetIsNotTakenForTheEndOfTheBody(t *testing.T) {
	ends := make(chan error, 1)
	s := serveEcho(t, Options{}, &echo{}, func(s *Server) {
		s.Handle("/test.Raw/Read", func(st *Stream) error {
			_, err := st.NextMessage()
			for err == nil {
				_, err = st.NextMessage()
			}
			ends <- err
			return err
		})
	})
	for range 200 {
		c := newRawClient(t, s.addr)
		id := c.open("/test.Raw/Read", false)
		_ = c.fr.WriteData(id, false, message([]byte("abc")))
		_ = c.fr.WriteRSTStream(id, http2.ErrCodeCancel)
		c.flush()
		if err := <-ends; err == io.EOF {
			t.Fatal("a reset looked like a half-close")
		}
		_ = c.nc.Close()
	}
}

func TestEveryByteOnItsOwnIsASessionToo(t *testing.T) {
	s := serveEcho(t, Options{}, &echo{})
	c := newRawConn(t, s.addr)
	var session bytes.Buffer
	nc := c.w
	c.fr = http2.NewFramer(&session, c.nc)
	session.WriteString(preface)
	_ = c.fr.WriteSettings()
	id := c.open(unaryMethod, false)
	msg := messageOf(t, wrapperspb.Bytes(make([]byte, 300)))
	_ = c.fr.WriteDataPadded(id, false, msg[:100], make([]byte, 30))
	_ = c.fr.WriteData(id, true, msg[100:])
	for _, b := range session.Bytes() {
		_ = nc.WriteByte(b)
		_ = nc.Flush()
	}
	if got := c.awaitStatus(id); got != "0" {
		t.Errorf("grpc-status %q", got)
	}
}

func TestAnHTTP1ClientIsToldWhatItMet(t *testing.T) {
	s := serveEcho(t, Options{}, &echo{})
	c := newRawConn(t, s.addr)
	_, _ = c.nc.Write([]byte("GET /status HTTP/1.1\r\nHost: x\r\n\r\n"))
	_ = c.nc.SetReadDeadline(time.Now().Add(10 * time.Second))
	b, err := io.ReadAll(c.nc)
	if err != nil || !strings.HasPrefix(string(b), "HTTP/1.1 400") || !strings.Contains(string(b), "grpc://") {
		t.Errorf("%q %v", b, err)
	}
}

func TestAnythingButGRPCIsUnsupportedMediaType(t *testing.T) {
	s := serveEcho(t, Options{}, &echo{})
	c := newRawClient(t, s.addr)
	c.headers(1, true, ":method", "POST", ":scheme", "http", ":path", unaryMethod, "content-type", "application/json")
	c.flush()
	for {
		f, ok := c.read().(*http2.HeadersFrame)
		if !ok {
			continue
		}
		var got string
		d := hpack.NewDecoder(4096, func(h hpack.HeaderField) {
			if h.Name == ":status" {
				got = h.Value
			}
		})
		_, _ = d.Write(f.HeaderBlockFragment())
		if got != "415" {
			t.Errorf(":status %q", got)
		}
		return
	}
}

func TestATruncatedBase64ValueIsNoMetadata(t *testing.T) {
	md := makeMetadata([]hpack.HeaderField{{Name: "a-bin", Value: "!!"}, {Name: "b-bin", Value: "AQI=,AwQ"}, {Name: "c", Value: "1,2"}})
	if len(md["a-bin"]) != 0 || len(md["b-bin"]) != 2 || md["b-bin"][1] != "\x03\x04" || md["c"][0] != "1,2" {
		t.Errorf("%q", md)
	}
}

func TestTimeoutsAreReadAsTheSpecificationWritesThem(t *testing.T) {
	for s, want := range map[string]time.Duration{"1H": time.Hour, "2M": 2 * time.Minute, "3S": 3 * time.Second, "4m": 4 * time.Millisecond,
		"5u": 5 * time.Microsecond, "6n": 6, "99999999H": 1<<63 - 1, "": 0} {
		if got, ok := parseTimeout(s); !ok || got != want {
			t.Errorf("%q: %v %v", s, got, ok)
		}
	}
	for _, s := range []string{"1", "S", "-1S", "+1S", "123456789S", "1s", "1.5S"} {
		if got, ok := parseTimeout(s); ok {
			t.Errorf("%q: %v", s, got)
		}
	}
}
