package listen

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/leveehq/levee/gate"
)

func newGate(t *testing.T, o gate.Options) *gate.Gate {
	t.Helper()
	o.Name = "connections"
	g, err := gate.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func listenTCP(t *testing.T, o Options) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return Wrap(l, o)
}

func dial(t *testing.T, l net.Listener) net.Conn {
	t.Helper()
	c, err := net.Dial(l.Addr().Network(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	return c
}

func accept(t *testing.T, l net.Listener) net.Conn {
	t.Helper()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestAConnectionAboveTheLimitIsClosedAtOnceAndMakesNoRoomForItself(t *testing.T) {
	g := newGate(t, gate.Options{Limit: 2})
	shed := make(chan error, 1)
	l := listenTCP(t, Options{Connections: g, Shed: func(_ string, err error) { shed <- err }})
	dial(t, l)
	first := accept(t, l)
	dial(t, l)
	accept(t, l)

	surplus := dial(t, l)
	accepted := make(chan net.Conn)
	go func() {
		c, _ := l.Accept()
		accepted <- c
	}()
	if _, err := surplus.Read(make([]byte, 1)); err != io.EOF {
		t.Fatalf("the surplus connection reads %v, want EOF", err)
	}
	if s, ok := (<-shed).(*gate.Shed); !ok || s.Gate != "connections" || s.Key != "127.0.0.1" {
		t.Fatalf("shed is %v", s)
	}

	for range 2 {
		_ = first.Close() // the second time must not free a second place
	}
	if in := g.Stats().InUse; in != 1 {
		t.Fatalf("%d connections in use after one of two was closed", in)
	}
	dial(t, l)
	c := <-accepted
	defer c.Close()
	if in := g.Stats().InUse; in != 2 {
		t.Fatalf("%d connections in use, want 2", in)
	}
}

func TestSocketBuffersAreTheOnesAskedFor(t *testing.T) {
	o := Options{Receive: 64 << 10, Send: 32 << 10}
	l := listenTCP(t, o)
	dial(t, l)
	raw, err := accept(t, l).(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var rcv, snd int
	err = raw.Control(func(fd uintptr) {
		rcv, _ = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF)
		snd, _ = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_SNDBUF)
	})
	if err != nil || rcv != 2*o.Receive || snd != 2*o.Send {
		t.Errorf("buffers are %d and %d, want the double of what was set (%d, %d): %v", rcv, snd, o.Receive, o.Send, err)
	}
	if int64(rcv+snd) != o.KernelPerConn() {
		t.Errorf("KernelPerConn is %d, the kernel says %d", o.KernelPerConn(), rcv+snd)
	}
}

func TestOnlySmallReadsAreBounded(t *testing.T) {
	l := listenTCP(t, Options{SmallRead: 100})
	c := dial(t, l)
	s := accept(t, l)
	if _, err := c.Write(make([]byte, 9000)); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Read(make([]byte, 4096)); n != 100 || err != nil {
		t.Errorf("a small read returned %d bytes, %v", n, err)
	}
	if n, err := io.ReadAtLeast(s, make([]byte, 10000), 8900); n != 8900 || err != nil {
		t.Errorf("a large read returned %d bytes, %v", n, err)
	}
}

func TestAWrappedConnectionStillTakesSendfile(t *testing.T) {
	l := listenTCP(t, Options{})
	dial(t, l)
	if _, ok := accept(t, l).(io.ReaderFrom); !ok {
		t.Error("the wrapper hides ReadFrom, so that every byte is copied through memory")
	}
}

func TestAUnixSocketIsCountedToo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	u, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(path)
	defer u.Close()
	g := newGate(t, gate.Options{Limit: 2})
	l := Wrap(u, Options{Connections: g, Receive: 1 << 16})
	dial(t, l)
	c := accept(t, l)
	if in := g.Stats().InUse; in != 1 {
		t.Fatalf("%d in use, want 1", in)
	}
	_ = c.Close()
	if in := g.Stats().InUse; in != 0 {
		t.Fatalf("%d in use after close, want 0", in)
	}
}

func TestThePeerIsTheAddressWithoutPort(t *testing.T) {
	for _, tt := range []struct {
		addr net.Addr
		want string
	}{
		{&net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 1}, "10.0.0.7"},
		{&net.TCPAddr{IP: net.ParseIP("::ffff:10.0.0.7"), Port: 1}, "10.0.0.7"},
		{&net.TCPAddr{IP: net.ParseIP("fe80::1"), Zone: "eth0", Port: 1}, "fe80::1"},
		{&net.UDPAddr{IP: net.ParseIP("fe80::1"), Zone: "eth0", Port: 1}, "fe80::1"},
		{&net.UnixAddr{Name: "@", Net: "unix"}, "@"},
		{nil, ""},
	} {
		if got := Peer(tt.addr); got != tt.want {
			t.Errorf("Peer(%v) = %q, want %q", tt.addr, got, tt.want)
		}
	}
}
