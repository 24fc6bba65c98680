package bazel

import (
	"context"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionv1alpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"

	"github.com/leveehq/levee/internal/rpc"
	"github.com/leveehq/levee/internal/shedcode"
)

const (
	methodWrite        = "/google.bytestream.ByteStream/Write" // no generated names there
	methodRead         = "/google.bytestream.ByteStream/Read"
	methodQueryWrite   = "/google.bytestream.ByteStream/QueryWriteStatus"
	methodFindMissing  = repb.ContentAddressableStorage_FindMissingBlobs_FullMethodName
	methodBatchUpdate  = repb.ContentAddressableStorage_BatchUpdateBlobs_FullMethodName
	methodBatchRead    = repb.ContentAddressableStorage_BatchReadBlobs_FullMethodName
	methodGetTree      = repb.ContentAddressableStorage_GetTree_FullMethodName
	methodGetAR        = repb.ActionCache_GetActionResult_FullMethodName
	methodUpdateAR     = repb.ActionCache_UpdateActionResult_FullMethodName
	methodCapabilities = repb.Capabilities_GetCapabilities_FullMethodName
)

// Register adds the Remote Execution API's caches, health and reflection to a server that was made with RPCOptions. The
// health server is returned for whoever shuts down: it is what load balancers ask.
func (s *Service) Register(srv *rpc.Server) *health.Server {
	for method, h := range map[string]func(*call) error{
		methodWrite: s.write, methodRead: s.read, methodQueryWrite: s.queryWriteStatus,
		methodFindMissing: s.findMissing, methodBatchUpdate: s.batchUpdate, methodBatchRead: s.batchRead,
		methodGetTree: s.getTree, methodGetAR: s.getActionResult, methodUpdateAR: s.updateActionResult,
		methodCapabilities: s.getCapabilities,
	} {
		srv.Handle(method, s.wrap(h))
	}
	h := health.NewServer()
	healthpb.RegisterHealthServer(srv, h)
	o := reflection.ServerOptions{Services: services{srv}}
	reflectionv1.RegisterServerReflectionServer(srv, reflection.NewServerV1(o))
	reflectionv1alpha.RegisterServerReflectionServer(srv, reflection.NewServer(o))
	return h
}

// maxHeaderList bounds the headers of a call. They are let go before the call waits.
const maxHeaderList = 16 * kib

// RPCOptions is what a server needs so that Register's handlers, and nothing else, hold memory.
func (s *Service) RPCOptions() rpc.Options {
	return rpc.Options{
		DoorWindow:           s.opt.doorWindow(),
		MaxHeaderList:        maxHeaderList,
		MaxConcurrentStreams: uint32(s.opt.MaxStreamsPerConnection),
		WriteStall:           s.opt.ReadStall,
		SocketReceive:        max(socketReceive, s.opt.Window),
		SocketSend:           socketSend,
		MaxMessage:           smallMessage,
		MessageTimeout:       s.opt.MessageWait,
		AdmitMessage:         s.admitMessage,
		Connections:          s.gates.connections,
		Door:                 s.door,
	}
}

// admitMessage is for generated code, which decodes what it reads. Health and reflection have requests of a few bytes.
func (s *Service) admitMessage(ctx context.Context, st *rpc.Stream, n int64) (func(), error) {
	p, err := s.gates.batchRead.Admit(ctx, st.Principal(), 4*n)
	if err != nil {
		return nil, s.codes.GRPC(shedcode.BazelRead, err)
	}
	return p.Release, nil
}

// services is for reflection: what is served by hand is as good as what is generated.
type services struct{ srv *rpc.Server }

func (v services) GetServiceInfo() map[string]grpc.ServiceInfo {
	info := map[string]grpc.ServiceInfo{}
	for name, i := range v.srv.GetServiceInfo() {
		info[name] = i
	}
	info["google.bytestream.ByteStream"] = grpc.ServiceInfo{Metadata: "google/bytestream/bytestream.proto"}
	for _, d := range []grpc.ServiceDesc{repb.ContentAddressableStorage_ServiceDesc,
		repb.ActionCache_ServiceDesc, repb.Capabilities_ServiceDesc} {
		info[d.ServiceName] = grpc.ServiceInfo{Metadata: d.Metadata}
	}
	return info
}
