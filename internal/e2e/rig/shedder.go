package rig

import (
	"context"
	"io"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Shedder is a gRPC proxy in front of target that answers the calls for which decide returns an error with that error,
// and passes all others on as they are. decide is called once for each call, from many goroutines.
func Shedder(t testing.TB, target string, decide func(method string) error) (address string) {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+target, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{}), grpc.MaxCallRecvMsgSize(64<<20)))
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &shedder{conn: conn, decide: decide}
	s := grpc.NewServer(grpc.ForceServerCodecV2(rawCodec{}), grpc.MaxRecvMsgSize(64<<20),
		grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error { return p.call(stream) }))
	done := make(chan struct{})
	go func() { s.Serve(l); close(done) }()
	t.Cleanup(func() {
		s.Stop()
		<-done
		conn.Close()
	})
	return l.Addr().String()
}

type shedder struct {
	conn   *grpc.ClientConn
	decide func(method string) error
}

func (p *shedder) call(in grpc.ServerStream) error {
	method, ok := grpc.MethodFromServerStream(in)
	if !ok {
		return status.Error(codes.Internal, "no method")
	}
	if err := p.decide(method); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(in.Context())
	defer cancel()
	if md, ok := metadata.FromIncomingContext(ctx); ok {
		ctx = metadata.NewOutgoingContext(ctx, md.Copy())
	}
	out, err := p.conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
	if err != nil {
		return err
	}
	go func() { // ends with the call: in fails once the handler has returned
		if copyMessages(in, out) == nil {
			out.CloseSend()
		} else {
			cancel()
		}
	}()
	err = copyMessages(out, in)
	in.SetTrailer(out.Trailer())
	return err
}

// copyMessages passes messages on until from ends.
func copyMessages(from, to interface {
	SendMsg(any) error
	RecvMsg(any) error
}) error {
	for {
		var m rawMessage
		if err := from.RecvMsg(&m); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if err := to.SendMsg(&m); err == io.EOF {
			return nil // the other side has its answer already: it comes the other way
		} else if err != nil {
			return err
		}
	}
}

// rawMessage is a message that nobody looks into.
type rawMessage []byte

type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*rawMessage))}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*rawMessage) = data.Materialize()
	return nil
}
