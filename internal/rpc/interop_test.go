package rpc

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/encoding/gzip" // for a client that compresses
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/reflection"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

func TestUnaryCallsOfManySizesComeBackAsTheyWere(t *testing.T) {
	s := serveEcho(t, Options{}, &echo{})
	cc := dial(t, s.addr)
	for _, n := range []int{0, 1, 4 << 10, 16<<10 - 20, 16 << 10, 16<<10 + 1, 100 << 10, 1 << 20, 4<<20 - 100} {
		b := make([]byte, n)
		_, _ = rand.Read(b)
		got, err := callUnary(ctxFor(t, 20*time.Second), cc, b)
		if err != nil || !bytes.Equal(got, b) {
			t.Fatalf("%d bytes: %v, equal %v", n, err, bytes.Equal(got, b))
		}
	}
	_, err := callUnary(ctxFor(t, 20*time.Second), cc, make([]byte, 4<<20+100))
	wantCode(t, err, codes.ResourceExhausted)
}

func TestABidirectionalStreamEchoesMessagesOfManySizes(t *testing.T) {
	s := serveEcho(t, Options{}, &echo{})
	cc := dial(t, s.addr)
	st := openStream(t, ctxFor(t, 30*time.Second), cc, streamMethod)
	for _, n := range []int{0, 10, 70 << 10, 3, 1 << 20, 16 << 10} {
		b := bytes.Repeat([]byte{byte(n)}, n)
		if err := st.SendMsg(wrapperspb.Bytes(b)); err != nil {
			t.Fatal(err)
		}
		got := new(wrapperspb.BytesValue)
		if err := st.RecvMsg(got); err != nil || !bytes.Equal(got.Value, b) {
			t.Fatalf("%d bytes: %v", n, err)
		}
	}
	_ = st.CloseSend()
	if err := st.RecvMsg(new(wrapperspb.BytesValue)); err != io.EOF {
		t.Fatal(err)
	}
}

func TestHundredsOfCallsAtOnceOverOneConnection(t *testing.T) {
	s := serveEcho(t, Options{}, &echo{})
	cc := dial(t, s.addr)
	var wg sync.WaitGroup
	for i := range 600 { // three times MaxConcurrentStreams: the surplus waits in the client
		wg.Go(func() {
			b := bytes.Repeat([]byte{byte(i)}, 100*(i%400))
			got, err := callUnary(ctxFor(t, 30*time.Second), cc, b)
			if err != nil || !bytes.Equal(got, b) {
				t.Errorf("call %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	if n := s.Stats().Handled[MethodCode{unaryMethod, "OK"}]; n != 600 {
		t.Errorf("%d handled", n)
	}
}

func TestMetadataGoesBothWays(t *testing.T) {
	bin := string([]byte{0, 255, 13, 10})
	e := &echo{onUnary: func(ctx context.Context, in *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error) {
		md := incoming(ctx)
		if md.Get("x-bin")[0] != bin || len(md.Get("multi")) != 2 || md.Get("multi")[1] != "b" {
			return nil, status.Errorf(codes.DataLoss, "%v", md)
		}
		if p, ok := peer.FromContext(ctx); !ok || !strings.HasPrefix(p.Addr.String(), "127.0.0.1:") {
			return nil, status.Errorf(codes.DataLoss, "peer %v", p)
		}
		if m, _ := grpc.Method(ctx); m != unaryMethod {
			return nil, status.Errorf(codes.DataLoss, "method %v", m)
		}
		_ = grpc.SetHeader(ctx, metadata.Pairs("h", "1", "h-bin", bin))
		_ = grpc.SetTrailer(ctx, metadata.Pairs("t", "2", "t-bin", bin, "big", strings.Repeat("x", 6<<10), "big2", strings.Repeat("y", 20<<10)))
		return in, nil
	}}
	s := serveEcho(t, Options{}, e)
	cc := dial(t, s.addr)
	ctx := metadata.AppendToOutgoingContext(ctxFor(t, 10*time.Second), "x-bin", bin, "multi", "a", "multi", "b", "big", strings.Repeat("z", 9<<10))
	var h, tr metadata.MD
	if _, err := callUnary(ctx, cc, nil, grpc.Header(&h), grpc.Trailer(&tr)); err != nil {
		t.Fatal(err)
	}
	if h.Get("h")[0] != "1" || h.Get("h-bin")[0] != bin || tr.Get("t")[0] != "2" || tr.Get("t-bin")[0] != bin || len(tr.Get("big2")[0]) != 20<<10 {
		t.Errorf("header %v, trailer %v", h, tr)
	}
}

func TestStatusDetailsAndOddMessagesArrive(t *testing.T) {
	const odd = "50% größer\nthan\x00 that"
	e := &echo{onUnary: func(context.Context, *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error) {
		st, _ := status.New(codes.ResourceExhausted, odd).WithDetails(&errdetails.ErrorInfo{Reason: "full"})
		return nil, st.Err()
	}}
	s := serveEcho(t, Options{}, e)
	_, err := callUnary(ctxFor(t, 10*time.Second), dial(t, s.addr), nil)
	wantCode(t, err, codes.ResourceExhausted)
	st := status.Convert(err)
	if st.Message() != odd || len(st.Details()) != 1 || st.Details()[0].(*errdetails.ErrorInfo).Reason != "full" {
		t.Errorf("%q %v", st.Message(), st.Details())
	}
}

func TestAPanicIsInternalAndTheConnectionLivesOn(t *testing.T) {
	e := &echo{onUnary: func(_ context.Context, in *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error) {
		if len(in.Value) == 0 {
			panic("ouch")
		}
		return in, nil
	}}
	s := serveEcho(t, Options{}, e)
	cc := dial(t, s.addr)
	_, err := callUnary(ctxFor(t, 10*time.Second), cc, nil)
	wantCode(t, err, codes.Internal)
	if _, err := callUnary(ctxFor(t, 10*time.Second), cc, []byte{1}); err != nil {
		t.Fatal(err)
	}
}

func TestTheClientsDeadlineAndCancelReachTheHandler(t *testing.T) {
	ended := make(chan error, 2)
	e := &echo{onUnary: func(ctx context.Context, _ *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error) {
		<-ctx.Done()
		ended <- ctx.Err()
		return nil, ctx.Err()
	}}
	s := serveEcho(t, Options{}, e)
	cc := dial(t, s.addr)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err := callUnary(ctx, cc, nil)
	wantCode(t, err, codes.DeadlineExceeded)
	<-ended
	ctx, cancel = context.WithCancel(context.Background())
	go func() { eventually(t, "call started", func() bool { return s.Stats().Streams == 1 }); cancel() }()
	_, err = callUnary(ctx, cc, nil)
	wantCode(t, err, codes.Canceled)
	if err := <-ended; err != context.Canceled {
		t.Error(err)
	}
}

func TestAnEarlyAnswerReachesAClientThatIsStillSending(t *testing.T) {
	for _, late := range []bool{false, true} {
		e := &echo{onStream: func(s grpc.ServerStream) error {
			if late {
				if err := s.RecvMsg(new(wrapperspb.BytesValue)); err != nil {
					return err
				}
			}
			return status.Error(codes.FailedPrecondition, "shed")
		}}
		s := serveEcho(t, Options{}, e)
		cc := dial(t, s.addr)
		for i := range 50 {
			st := openStream(t, ctxFor(t, 20*time.Second), cc, streamMethod)
			for range 100 {
				if err := st.SendMsg(wrapperspb.Bytes(make([]byte, 60<<10))); err != nil {
					break
				}
			}
			err := st.RecvMsg(new(wrapperspb.BytesValue))
			if status.Code(err) != codes.FailedPrecondition {
				t.Fatalf("late %v, call %d: %v", late, i, err)
			}
		}
		// The connection is still the first one, and nothing is left of its windows but what they were.
		if _, err := callUnary(ctxFor(t, 10*time.Second), cc, []byte("x")); err != nil {
			t.Fatal(err)
		}
		if n := s.Stats().Connections; n != 1 {
			t.Errorf("%d connections", n)
		}
	}
}

func TestTheDoorShedsInTheReaderAndIsReleasedOnce(t *testing.T) {
	var mu sync.Mutex
	open, most := 0, 0
	o := Options{Door: func(i StreamInfo) (func(), error) {
		mu.Lock()
		defer mu.Unlock()
		if i.Method != streamMethod || i.Peer != "127.0.0.1" || i.OpenSameMethod != i.OpenOnConn {
			return nil, status.Errorf(codes.DataLoss, "%+v", i)
		}
		if open >= 10 {
			return nil, status.Error(codes.FailedPrecondition, "door is full")
		}
		open++
		most = max(most, open)
		return func() { mu.Lock(); open--; mu.Unlock() }, nil
	}}
	s := serveEcho(t, o, &echo{})
	cc := dial(t, s.addr)
	var wg sync.WaitGroup
	var shed, ok int
	for range 100 {
		wg.Go(func() {
			st := openStream(t, ctxFor(t, 20*time.Second), cc, streamMethod)
			_ = st.SendMsg(wrapperspb.Bytes([]byte("x")))
			_ = st.CloseSend()
			err := st.RecvMsg(new(wrapperspb.BytesValue))
			mu.Lock()
			defer mu.Unlock()
			switch status.Code(err) {
			case codes.OK:
				ok++
			case codes.FailedPrecondition:
				shed++
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	eventually(t, "door released", func() bool { mu.Lock(); defer mu.Unlock(); return open == 0 })
	if most > 10 || ok == 0 {
		t.Errorf("most %d, ok %d, shed %d", most, ok, shed)
	}
	if n := s.Stats().Handled[MethodCode{streamMethod, "FailedPrecondition"}]; n != uint64(shed) {
		t.Errorf("counted %d of %d sheds", n, shed)
	}
}

func TestUnknownMethodsAndCompressionAreUnimplemented(t *testing.T) {
	s := serveEcho(t, Options{}, &echo{})
	cc := dial(t, s.addr)
	err := cc.Invoke(ctxFor(t, 10*time.Second), "/no.Such/Method", wrapperspb.Bytes(nil), new(wrapperspb.BytesValue))
	wantCode(t, err, codes.Unimplemented)
	_, err = callUnary(ctxFor(t, 10*time.Second), cc, []byte("x"), grpc.UseCompressor("gzip"))
	wantCode(t, err, codes.Unimplemented)
	if !strings.Contains(err.Error(), "gzip") {
		t.Error(err)
	}
	if n := s.Stats().Handled[MethodCode{"other", "Unimplemented"}]; n != 1 {
		t.Errorf("%d counted", n)
	}
}

func TestHealthWatchAndReflectionRunUnchanged(t *testing.T) {
	h := health.NewServer()
	s := serveEcho(t, Options{}, &echo{}, func(s *Server) {
		grpc_health_v1.RegisterHealthServer(s, h)
		reflectionpb.RegisterServerReflectionServer(s, reflection.NewServerV1(reflection.ServerOptions{Services: s}))
	})
	cc := dial(t, s.addr)
	w, err := grpc_health_v1.NewHealthClient(cc).Watch(ctxFor(t, 10*time.Second), &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []grpc_health_v1.HealthCheckResponse_ServingStatus{1, 2} {
		r, err := w.Recv()
		if err != nil || r.Status != want {
			t.Fatal(r, err)
		}
		h.SetServingStatus("", 2)
	}
	r, err := reflectionpb.NewServerReflectionClient(cc).ServerReflectionInfo(ctxFor(t, 10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}})
	got, err := r.Recv()
	if err != nil || !strings.Contains(fmt.Sprint(got), "test.Echo") {
		t.Fatal(got, err)
	}
}

func TestASmallCallIsAnsweredWhileDownloadsFillTheConnection(t *testing.T) {
	s := serveEcho(t, Options{}, &echo{}, registerBulk)
	cc := dial(t, s.addr)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for range 8 {
		st, err := cc.NewStream(ctx, bidi, downloadMethod, grpc.ForceCodec(rawCodec{}))
		if err != nil {
			t.Fatal(err)
		}
		_ = st.CloseSend()
		wg.Go(func() {
			for st.RecvMsg(new(rawFrame)) == nil {
			}
		})
	}
	for range 20 {
		if _, err := callUnary(ctxFor(t, 10*time.Second), cc, []byte("x")); err != nil {
			t.Error(err)
		}
	}
	cancel()
	wg.Wait()
}
