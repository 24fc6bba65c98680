package rpc

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// pipeListener is a listener without sockets, for virtual time.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *pipeListener) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }

// bubble runs f with a server in virtual time, and shuts it down.
func bubble(t *testing.T, o Options, e *echo, f func(t *testing.T, s *Server, dial func() *rawClient)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		s.RegisterService(&echoDesc, e)
		registerBulk(s)
		l := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
		go func() { _ = s.Serve(l) }()
		var ours []net.Conn
		defer func() {
			for _, c := range ours {
				_ = c.Close()
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			_ = s.Shutdown(ctx)
			if st := s.Stats(); st.Streams != 0 || st.Connections != 0 || st.BufferedBytes != 0 {
				t.Errorf("left over: %+v", st)
			}
		}()
		f(t, s, func() *rawClient {
			client, server := net.Pipe()
			ours = append(ours, client)
			l.conns <- server
			return rawOver(t, client)
		})
	})
}

// closedAfter reads until the server closes, and returns how long that took.
func (c *rawClient) closedAfter() time.Duration {
	start := time.Now()
	for {
		if _, err := c.fr.ReadFrame(); err != nil {
			return time.Since(start)
		}
	}
}

func wantAbout(t *testing.T, got, want time.Duration) {
	t.Helper()
	if got < want || got > want+5*time.Second {
		t.Errorf("after %v, want %v", got, want)
	}
}

func TestAClientThatSaysNothingIsCutAfterThePrefaceTimeout(t *testing.T) {
	for _, say := range []string{"", preface[:5], preface} {
		bubble(t, Options{}, &echo{}, func(t *testing.T, s *Server, dial func() *rawClient) {
			c := dial()
			_, _ = c.nc.Write([]byte(say))
			wantAbout(t, c.closedAfter(), prefaceTimeout)
			if n := s.Stats().Cut["preface"]; n != 1 {
				t.Errorf("%v", s.Stats().Cut)
			}
		})
	}
}

func TestAHeaderBlockMustBeCompleteInTime(t *testing.T) {
	bubble(t, Options{}, &echo{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c := dial()
		go func() {
			c.greet()
			c.frame(http2.FrameHeaders, 0, 1, []byte{0x83})
			_ = c.w.Flush()
		}()
		wantAbout(t, c.closedAfter(), prefaceTimeout)
	})
}

func TestAnIdleConnectionIsTakenLeaveOf(t *testing.T) {
	bubble(t, Options{IdleTimeout: 30 * time.Second}, &echo{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c := dial()
		go c.greet()
		wantAbout(t, c.closedAfter(), 30*time.Second)
		if n := s.Stats().Cut["idle"]; n != 1 {
			t.Errorf("%v", s.Stats().Cut)
		}
	})
}

func TestASilentClientIsPingedAndCutWhenItDoesNotAnswer(t *testing.T) {
	bubble(t, Options{}, &echo{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c := dial()
		go c.greet()
		wantAbout(t, c.closedAfter(), time.Minute+pingTimeout)
		if n := s.Stats().Cut["keepalive"]; n != 1 {
			t.Errorf("%v", s.Stats().Cut)
		}
	})
}

func TestAClientThatAnswersPingsIsKept(t *testing.T) {
	bubble(t, Options{IdleTimeout: time.Hour}, &echo{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c := dial()
		sent := make(chan struct{})
		go func() { c.greet(); close(sent) }()
		start := time.Now()
		for {
			f, err := c.fr.ReadFrame()
			if err != nil {
				break
			}
			if p, ok := f.(*http2.PingFrame); ok && !p.IsAck() {
				<-sent
				_ = c.fr.WritePing(true, p.Data)
				_ = c.w.Flush()
			}
		}
		wantAbout(t, time.Since(start), time.Hour)
	})
}

func TestAnAgedConnectionFinishesItsStreamsFirst(t *testing.T) {
	o := Options{MaxAge: 10 * time.Second}
	e := &echo{onStream: func(grpc.ServerStream) error {
		select { // time.After, not a context: the connection must not end the call
		case <-time.After(25 * time.Second):
		}
		return nil
	}}
	bubble(t, o, e, func(t *testing.T, s *Server, dial func() *rawClient) {
		c := dial()
		sent := make(chan struct{})
		go func() { c.greet(); c.open(streamMethod, true); _ = c.w.Flush(); close(sent) }()
		start := time.Now()
		var goAway, trailers time.Duration
		for {
			f, err := c.fr.ReadFrame()
			if err != nil {
				break
			}
			switch f := f.(type) {
			case *http2.GoAwayFrame:
				if goAway == 0 {
					goAway = time.Since(start)
					if f.LastStreamID != maxWindow {
						t.Errorf("the first GOAWAY names %d", f.LastStreamID)
					}
				} else if f.LastStreamID != 1 {
					t.Errorf("the second GOAWAY names %d", f.LastStreamID)
				}
			case *http2.HeadersFrame:
				trailers = time.Since(start)
			case *http2.PingFrame:
				if !f.IsAck() {
					data := f.Data
					go func() { <-sent; _ = c.fr.WritePing(true, data); _ = c.w.Flush() }()
				}
			}
		}
		wantAbout(t, goAway, 10*time.Second)
		wantAbout(t, trailers, 25*time.Second)
		wantAbout(t, time.Since(start), 25*time.Second)
	})
}

func TestAClientThatStopsReadingIsCutAndItsHandlersEnd(t *testing.T) {
	bubble(t, Options{Keepalive: time.Hour}, &echo{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c := dial()
		c.greet(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 30})
		for range 8 {
			c.open(downloadMethod, true)
		}
		go func() { _ = c.w.Flush() }()
		// A pipe holds nothing, so the first write is stuck.
		start := time.Now()
		<-s.only().gone
		wantAbout(t, time.Since(start), time.Minute)
		synctest.Wait()
		if st := s.Stats(); st.Streams != 0 || st.Cut["write_stall"] != 1 {
			t.Errorf("%+v", st)
		}
	})
}

func (s *Server) only() *conn {
	synctest.Wait()
	return s.snapshot()[0]
}

func TestAClientThatReadsSlowlyIsNotCut(t *testing.T) {
	bubble(t, Options{Keepalive: time.Hour, WriteStall: 10 * time.Second}, &echo{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c := dial()
		c.greet(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20})
		c.open(downloadMethod, true)
		go func() { _ = c.w.Flush() }()
		p := make([]byte, 1<<10)
		for range 30 { // one KiB every seven seconds: less than a write's worth in any ten
			if _, err := io.ReadFull(c.nc, p); err != nil {
				t.Fatal(err)
			}
			<-time.After(7 * time.Second)
		}
	})
}

func TestAClientThatOpensNoWindowLosesItsCall(t *testing.T) {
	bubble(t, Options{Keepalive: time.Hour}, &echo{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c := dial()
		go func() { c.greet(); c.open(downloadMethod, true); _ = c.w.Flush() }()
		start := time.Now()
		for {
			f, err := c.fr.ReadFrame()
			if err != nil {
				t.Fatal(err)
			}
			if h, ok := f.(*http2.HeadersFrame); ok && h.StreamEnded() {
				wantAbout(t, time.Since(start), time.Minute)
				return
			}
		}
	})
}

func TestAMessageThatDoesNotCompleteEndsTheCall(t *testing.T) {
	for _, sent := range []int{0, 3, 100} {
		bubble(t, Options{}, &echo{}, func(t *testing.T, s *Server, dial func() *rawClient) {
			c := dial()
			go func() {
				c.greet()
				id := c.open(unaryMethod, false)
				_ = c.fr.WriteData(id, false, message(make([]byte, 200))[:sent])
				_ = c.w.Flush()
			}()
			start := time.Now()
			if got := c.awaitStatus(1); got != "4" {
				t.Errorf("grpc-status %q", got)
			}
			if d := time.Since(start); d < 10*time.Second || d > 21*time.Second {
				t.Errorf("after %v", d)
			}
		})
	}
}

func TestAStreamMayBeSilentBetweenMessages(t *testing.T) {
	bubble(t, Options{Keepalive: time.Hour}, &echo{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c := dial()
		go func() {
			c.greet()
			id := c.open(streamMethod, false)
			_ = c.w.Flush()
			<-time.After(time.Minute)
			_ = c.fr.WriteData(id, true, messageOf(t, wrapperspb.Bytes([]byte("late"))))
			_ = c.w.Flush()
		}()
		if got := c.awaitStatus(1); got != "0" {
			t.Errorf("grpc-status %q", got)
		}
	})
}

// A process may be told to end before it has begun to serve.
func TestServeAfterShutdownIsNoError(t *testing.T) {
	s, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	l := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	if err := s.Serve(l); err != nil {
		t.Error(err)
	}
	select {
	case <-l.closed:
	default:
		t.Error("the listener is open")
	}
}

func TestShutdownLetsCallsFinishAndThenCutsThem(t *testing.T) {
	for _, grace := range []time.Duration{time.Second, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			s, err := New(Options{})
			if err != nil {
				t.Fatal(err)
			}
			var ended error
			s.Handle("/test.Slow/Call", func(st *Stream) error {
				select {
				case <-time.After(10 * time.Second):
					ended = status.Error(codes.OK, "")
				case <-st.Context().Done():
					ended = st.Context().Err()
				}
				return ended
			})
			l := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
			served := make(chan error, 1)
			go func() { served <- s.Serve(l) }()
			client, server := net.Pipe()
			l.conns <- server
			c := rawOver(t, client)
			go func() { c.greet(); c.open("/test.Slow/Call", true); _ = c.w.Flush() }()
			go func() { _, _ = io.Copy(io.Discard, client) }()
			s.only()
			ctx, cancel := context.WithTimeout(context.Background(), grace)
			defer cancel()
			err = s.Shutdown(ctx)
			if long := grace > 10*time.Second; (err == nil) != long || (ended == nil) != long {
				t.Errorf("grace %v: %v, call ended with %v", grace, err, ended)
			}
			if err := <-served; err != nil {
				t.Error(err)
			}
			_ = client.Close()
		})
	}
}

func TestAStalledWriteIsCutATickAfterItsTimeWhenPartOfItHadGone(t *testing.T) {
	bubble(t, Options{Keepalive: time.Hour, WriteStall: 12 * time.Second}, &echo{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c := dial()
		c.greet(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 30})
		c.open(downloadMethod, true)
		go func() { _ = c.w.Flush() }()
		// Every ten seconds the client takes a little, three times; a pipe gives exactly that.
		for range 3 {
			time.Sleep(10 * time.Second) // virtual
			if _, err := c.nc.Read(make([]byte, 1000)); err != nil {
				t.Fatal("cut although bytes went: ", err)
			}
		}
		start := time.Now()
		<-s.only().gone
		if took := time.Since(start); took < 11*time.Second || took > 14*time.Second {
			t.Errorf("cut %v after the last byte, and WriteStall is 12 s", took)
		}
	})
}
