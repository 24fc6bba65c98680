package rpc

import (
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/leveehq/levee/gate"
)

func newGate(t *testing.T, o gate.Options) *gate.Gate {
	t.Helper()
	o.Name = "test"
	g, err := gate.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestNoPermitOutlivesItsCallHoweverThatEnds(t *testing.T) {
	g := newGate(t, gate.Options{Limit: 8, Queue: 1000, Wait: 20 * time.Second})
	door := newGate(t, gate.Options{Limit: 1000})
	o := Options{Door: func(i StreamInfo) (func(), error) {
		p, err := door.TryAdmit(i.Peer, 1)
		if err != nil {
			return nil, status.Error(codes.FailedPrecondition, err.Error())
		}
		return p.Release, nil
	}}
	s := serveEcho(t, o, &echo{}, func(s *Server) {
		s.Handle("/test.Gate/Call", func(st *Stream) error {
			p, err := g.Admit(st.Context(), st.Principal(), 1)
			if err != nil {
				return err
			}
			defer p.Release()
			st.GrowWindow(64 << 10)
			n, err := st.NextMessage()
			if err != nil {
				return err
			}
			if n%7 == 0 {
				panic("seven")
			}
			return st.SendMessage(make([]byte, n))
		})
	})
	var wg sync.WaitGroup
	for range 8 {
		cc := dial(t, s.addr, grpc.WithDefaultCallOptions(grpc.ForceCodec(rawCodec{})))
		for i := range 150 {
			wg.Go(func() { // cancelled at a random moment: waiting, at the grant, reading, sending
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rand.IntN(30_000))*time.Microsecond)
				defer cancel()
				st, err := cc.NewStream(ctx, bidi, "/test.Gate/Call")
				if err != nil {
					return
				}
				_ = st.SendMsg(&rawFrame{make([]byte, i*100)})
				_ = st.RecvMsg(new(rawFrame))
			})
		}
	}
	wg.Wait()
	eventually(t, "all permits are back", func() bool {
		return g.Stats().Held == 0 && g.Stats().Queued == 0 && door.Stats().Held == 0 && s.Stats().Streams == 0
	})
	cc := dial(t, s.addr, grpc.WithDefaultCallOptions(grpc.ForceCodec(rawCodec{})))
	st := openStream(t, ctxFor(t, 10*time.Second), cc, "/test.Gate/Call")
	_ = st.SendMsg(&rawFrame{make([]byte, 8)})
	if err := st.RecvMsg(new(rawFrame)); err != nil {
		t.Error("a call after all that:", err)
	}
}

func TestConnectionsAboveTheGateAreClosedAtOnce(t *testing.T) {
	g := newGate(t, gate.Options{Limit: 3})
	s := serveEcho(t, Options{Connections: g}, &echo{})
	var kept []*rawClient
	for range 3 {
		kept = append(kept, newRawClient(t, s.addr))
	}
	for range 50 {
		nc, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		_ = nc.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := nc.Read(make([]byte, 1)); err == nil {
			t.Error("a connection too many got an answer")
		} else if ne, ok := err.(net.Error); ok && ne.Timeout() {
			t.Error("a connection too many was not closed")
		}
		_ = nc.Close()
	}
	if n := g.Stats().Shed[gate.Busy]; n != 50 {
		t.Errorf("%d counted", n)
	}
	_ = kept[0].nc.Close()
	eventually(t, "room again", func() bool { return g.Stats().Held == 2 })
	newRawClient(t, s.addr)
}

func TestNothingRunsAfterShutdown(t *testing.T) {
	before := goleak.IgnoreCurrent()
	s, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	s.RegisterService(&echoDesc, &echo{})
	registerBulk(s)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	var conns []*rawClient
	for range 10 {
		c := newRawClient(t, l.Addr().String())
		for range 10 {
			c.open(streamMethod, false) // waits for a message
			c.open(downloadMethod, true)
		}
		_ = c.fr.WritePing(false, [8]byte{})
		c.flush() // and reads nothing
		conns = append(conns, c)
	}
	eventually(t, "calls under way", func() bool { return s.Stats().Streams >= 100 })
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := s.Shutdown(ctx); err == nil {
		t.Error("no error though calls were cut")
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	for _, c := range conns {
		_ = c.nc.Close()
	}
	goleak.VerifyNone(t, before)
}

func TestDuringShutdownNewStreamsAreRefusedRetryably(t *testing.T) {
	release := make(chan struct{})
	s, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	s.Handle("/test.Slow/Call", func(*Stream) error { <-release; return nil })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Serve(l) }()
	c := newRawClient(t, l.Addr().String())
	first := c.open("/test.Slow/Call", true)
	c.flush()
	eventually(t, "call under way", func() bool { return s.Stats().Streams == 1 })
	down := make(chan error, 1)
	go func() { down <- s.Shutdown(context.Background()) }()
	for last := uint32(maxWindow); last == maxWindow; {
		if f, ok := c.read().(*http2.GoAwayFrame); ok { // reading answers the ping between the two
			last = f.LastStreamID
		}
	}
	if code := c.awaitReset(c.open("/test.Slow/Call", true)); code != http2.ErrCodeRefusedStream {
		t.Error(code)
	}
	close(release)
	c.awaitEnd(first)
	c.awaitClose()
	_ = c.nc.Close()
	if err := <-down; err != nil {
		t.Error(err)
	}
}
