package rpc

import (
	"context"
	"fmt"
	"io"
	"reflect"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// RegisterService implements grpc.ServiceRegistrar, so that generated code (health, reflection, small calls) runs
// unchanged. Requests are read by ReadMessage under Options.MaxMessage.
func (s *Server) RegisterService(desc *grpc.ServiceDesc, impl any) {
	if want := reflect.TypeOf(desc.HandlerType).Elem(); impl != nil && !reflect.TypeOf(impl).Implements(want) {
		panic(fmt.Sprintf("rpc: %T does not implement %v", impl, want))
	}
	info := grpc.ServiceInfo{Metadata: desc.Metadata}
	for _, m := range desc.Methods {
		s.Handle("/"+desc.ServiceName+"/"+m.MethodName, func(st *Stream) error { return st.unary(impl, m.Handler) })
		info.Methods = append(info.Methods, grpc.MethodInfo{Name: m.MethodName})
	}
	for _, m := range desc.Streams {
		s.Handle("/"+desc.ServiceName+"/"+m.StreamName, func(st *Stream) error { return m.Handler(impl, serverStream{st}) })
		info.Methods = append(info.Methods, grpc.MethodInfo{
			Name: m.StreamName, IsClientStream: m.ClientStreams, IsServerStream: m.ServerStreams,
		})
	}
	s.services[desc.ServiceName] = info
}

// GetServiceInfo is for reflection.
func (s *Server) GetServiceInfo() map[string]grpc.ServiceInfo { return s.services }

func (st *Stream) unary(impl any, h grpc.MethodHandler) error {
	resp, err := h(impl, &st.ctx, st.decode, nil)
	if err != nil {
		return err
	}
	m, ok := resp.(proto.Message)
	if !ok {
		return status.Errorf(codes.Internal, "%T is no protobuf message", resp)
	}
	return st.replyProto(m)
}

// replyProto is Reply without a copy: a small message is encoded where it will leave from.
func (st *Stream) replyProto(m proto.Message) error {
	n := proto.Size(m)
	o := st.hold(n)
	if o == nil {
		b, err := marshal(m)
		if err != nil {
			return err
		}
		return st.SendMessage(b)
	}
	at := len(o.b)
	b, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(o.b, m)
	if err != nil || len(b)-at != n {
		st.dropHeld()
		return status.Errorf(codes.Internal, "encoding %T: %d bytes of %d: %v", m, len(b)-at, n, err)
	}
	o.b = b
	return nil
}

// decode reads the request of a unary call. Decoding copies, so the bytes it is decoded from can be used again.
func (st *Stream) decode(into any) error {
	st.deadline = time.Now().Add(st.c.s.o.MessageTimeout)
	defer st.SetReadDeadline(time.Time{})
	n, err := st.NextMessage()
	if err == io.EOF {
		return status.Error(codes.Internal, "the client ended the call without a message")
	}
	if err != nil {
		return err
	}
	return st.decodeBody(n, into)
}

func (st *Stream) decodeBody(n int64, into any) error {
	var b []byte
	if n <= copyLimit {
		o := getOut()
		defer o.free()
		o.b = append(o.b, make([]byte, n)...)
		b = o.b
	}
	b, err := st.readBody(b, n, st.c.s.o.MaxMessage)
	if err != nil {
		return err
	}
	return unmarshal(b, into)
}

func marshal(v any) ([]byte, error) {
	m, ok := v.(proto.Message)
	if !ok {
		return nil, status.Errorf(codes.Internal, "%T is no protobuf message", v)
	}
	b, err := proto.Marshal(m)
	if err != nil {
		return nil, status.Errorf(codes.Internal, "encoding %T: %v", v, err)
	}
	return b, nil
}

func unmarshal(b []byte, into any) error {
	m, ok := into.(proto.Message)
	if !ok {
		return status.Errorf(codes.Internal, "%T is no protobuf message", into)
	}
	if err := proto.Unmarshal(b, m); err != nil {
		// Not INTERNAL, which is retried: the same bytes will not decode the next time either.
		return status.Errorf(codes.InvalidArgument, "the message does not decode as %s: %v", m.ProtoReflect().Descriptor().FullName(), err)
	}
	return nil
}

// serverStream is what generated code sees of a streaming call.
type serverStream struct{ st *Stream }

func (s serverStream) Context() context.Context        { return &s.st.ctx }
func (s serverStream) SetHeader(md metadata.MD) error  { return s.st.SetHeader(md) }
func (s serverStream) SendHeader(md metadata.MD) error { return s.st.SendHeader(md) }
func (s serverStream) SetTrailer(md metadata.MD)       { s.st.SetTrailer(md) }

func (s serverStream) SendMsg(v any) error {
	b, err := marshal(v)
	if err != nil {
		return err
	}
	return s.st.SendMessage(b)
}

// RecvMsg waits for a message's first byte as long as the call lasts, and for its last as long as MessageTimeout.
func (s serverStream) RecvMsg(into any) error {
	n, err := s.st.NextMessage()
	if err != nil {
		return err
	}
	defer s.st.SetReadDeadline(time.Time{})
	return s.st.decodeBody(n, into)
}

// transportStream lets grpc.SetHeader and its like work on a unary call's context.
type transportStream struct{ st *Stream }

func (t transportStream) Method() string                  { return t.st.method.name }
func (t transportStream) SetHeader(md metadata.MD) error  { return t.st.SetHeader(md) }
func (t transportStream) SendHeader(md metadata.MD) error { return t.st.SendHeader(md) }
func (t transportStream) SetTrailer(md metadata.MD) error { t.st.SetTrailer(md); return nil }
