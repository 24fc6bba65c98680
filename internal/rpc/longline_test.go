package rpc

import (
	"io"
	"net"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/wrapperspb"
)

// longLine is a proxy that delays each direction by half a round trip and has at most inFlight bytes under way.
func longLine(t *testing.T, to string, rtt time.Duration, inFlight int) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			a, err := l.Accept()
			if err != nil {
				return
			}
			b, err := net.Dial("tcp", to)
			if err != nil {
				_ = a.Close()
				return
			}
			go delay(b, a, rtt/2, inFlight)
			go delay(a, b, rtt/2, inFlight)
		}
	}()
	return l.Addr().String()
}

type parcel struct {
	b   []byte
	due time.Time
}

func delay(dst, src net.Conn, d time.Duration, inFlight int) {
	const piece = 16 << 10
	line := make(chan parcel, inFlight/piece)
	go func() {
		defer close(line)
		for {
			b := make([]byte, piece)
			n, err := src.Read(b)
			if n > 0 {
				line <- parcel{b[:n], time.Now().Add(d)}
			}
			if err != nil {
				return
			}
		}
	}()
	defer dst.Close()
	for p := range line {
		<-time.After(time.Until(p.due))
		if _, err := dst.Write(p.b); err != nil {
			break
		}
	}
	_, _ = io.Copy(io.Discard, src)
	for range line {
	}
}

// Case O8: small windows must not make a large upload over a long line endless.
func TestAnAdmittedUploadFillsALineOf200Milliseconds(t *testing.T) {
	const window, size = 2 << 20, 24 << 20
	s := serveEcho(t, Options{SocketReceive: window}, &echo{}, registerBulk)
	c := newRawClient(t, longLine(t, s.addr, 200*time.Millisecond, window))
	msg := messageOf(t, wrapperspb.Bytes(make([]byte, 64<<10)))
	start := time.Now()
	c.upload(uploadMethod, msg, size/(64<<10))
	rate := size / time.Since(start).Seconds() / 1e6
	t.Logf("%.1f MB/s", rate)
	if rate < 5 {
		t.Errorf("%.1f MB/s, want 5", rate)
	}
}

// An upload that is not admitted yet may hold the door window, and no more, whatever the client sends.
func TestAnUploadThatWaitsHoldsTheDoorWindow(t *testing.T) {
	s := serveEcho(t, Options{}, &echo{}, registerMem)
	c := newRawClient(t, s.addr)
	for range 50 {
		c.fill(c.open(waitMethod, false), 16<<10, maxFrameLen)
	}
	c.flush()
	want := int64(50 * (16<<10 - prefixLen))
	eventually(t, "windows are full", func() bool { return s.Stats().BufferedBytes == want })
}
