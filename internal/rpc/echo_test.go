package rpc

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// The service of these tests, as generated code would describe it.
type echoServer interface {
	unary(context.Context, *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error)
	stream(grpc.ServerStream) error
}

type echo struct {
	onUnary  func(context.Context, *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error)
	onStream func(grpc.ServerStream) error
}

func (e *echo) unary(ctx context.Context, in *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error) {
	if e.onUnary != nil {
		return e.onUnary(ctx, in)
	}
	return in, nil
}

func (e *echo) stream(s grpc.ServerStream) error {
	if e.onStream != nil {
		return e.onStream(s)
	}
	for {
		m := new(wrapperspb.BytesValue)
		if err := s.RecvMsg(m); err != nil {
			if err == io.EOF {
				return nil
			}
			return err
		}
		if err := s.SendMsg(m); err != nil {
			return err
		}
	}
}

var echoDesc = grpc.ServiceDesc{
	ServiceName: "test.Echo",
	HandlerType: (*echoServer)(nil),
	Methods: []grpc.MethodDesc{{MethodName: "Unary", Handler: func(srv any, ctx context.Context, dec func(any) error, ic grpc.UnaryServerInterceptor) (any, error) {
		in := new(wrapperspb.BytesValue)
		if err := dec(in); err != nil {
			return nil, err
		}
		return srv.(echoServer).unary(ctx, in)
	}}},
	Streams: []grpc.StreamDesc{{StreamName: "Stream", ServerStreams: true, ClientStreams: true, Handler: func(srv any, s grpc.ServerStream) error {
		return srv.(echoServer).stream(s)
	}}},
}

const (
	unaryMethod  = "/test.Echo/Unary"
	streamMethod = "/test.Echo/Stream"
)

// testServer is a running server that is shut down, and checked to have let go of everything, when the test ends.
type testServer struct {
	*Server
	addr string
}

func serveEcho(t testing.TB, o Options, e *echo, more ...func(*Server)) *testServer {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	s.RegisterService(&echoDesc, e)
	for _, f := range more {
		f(s)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error("Serve:", err)
		}
		if st := s.Stats(); st.Streams != 0 || st.BufferedBytes != 0 || st.Connections != 0 {
			t.Errorf("after shutdown: %d streams, %d connections, %d bytes", st.Streams, st.Connections, st.BufferedBytes)
		}
		if n := s.early.Load(); n != 0 {
			t.Errorf("after shutdown: %d early bytes", n)
		}
	})
	return &testServer{s, l.Addr().String()}
}

func dial(t testing.TB, addr string, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	opts = append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(256<<20), grpc.MaxCallSendMsgSize(256<<20)),
	}, opts...)
	cc, err := grpc.NewClient("passthrough:///"+addr, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cc.Close() })
	return cc
}

func ctxFor(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func callUnary(ctx context.Context, cc *grpc.ClientConn, b []byte, opts ...grpc.CallOption) ([]byte, error) {
	out := new(wrapperspb.BytesValue)
	err := cc.Invoke(ctx, unaryMethod, wrapperspb.Bytes(b), out, opts...)
	return out.Value, err
}

var bidi = &grpc.StreamDesc{StreamName: "Stream", ServerStreams: true, ClientStreams: true}

func openStream(t testing.TB, ctx context.Context, cc *grpc.ClientConn, method string) grpc.ClientStream {
	t.Helper()
	s, err := cc.NewStream(ctx, bidi, method)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func wantCode(t testing.TB, err error, c codes.Code) {
	t.Helper()
	if status.Code(err) != c {
		t.Fatalf("got %v, want %v", err, c)
	}
}

// eventually waits for a condition, with a bound.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	deadline := time.NewTimer(15 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("never came true: %s", what)
		}
	}
}

func incoming(ctx context.Context) metadata.MD {
	md, _ := metadata.FromIncomingContext(ctx)
	return md
}
