package storm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	bspb "google.golang.org/genproto/googleapis/bytestream"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// fakeCache is as much of a Bazel cache as storm talks to, with faults on demand.
type fakeCache struct {
	repb.UnimplementedCapabilitiesServer
	repb.UnimplementedActionCacheServer
	repb.UnimplementedContentAddressableStorageServer
	bspb.UnimplementedByteStreamServer

	onWrite func(n uint64) error // asked before the n-th write; its error is the answer
	corrupt bool                 // serve other bytes
	forget  bool                 // acknowledge, but do not keep

	writes, results atomic.Uint64
	mu              struct {
		sync.Mutex
		blobs map[string][]byte
		peers map[string]bool
	}
}

func startFake(t *testing.T, f *fakeCache) string {
	t.Helper()
	f.mu.blobs, f.mu.peers = map[string][]byte{}, map[string]bool{}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	repb.RegisterCapabilitiesServer(s, f)
	repb.RegisterActionCacheServer(s, f)
	repb.RegisterContentAddressableStorageServer(s, f)
	bspb.RegisterByteStreamServer(s, f)
	done := make(chan struct{})
	go func() { s.Serve(l); close(done) }()
	t.Cleanup(func() { s.Stop(); <-done })
	return l.Addr().String()
}

func (f *fakeCache) GetCapabilities(context.Context, *repb.GetCapabilitiesRequest) (*repb.ServerCapabilities, error) {
	return &repb.ServerCapabilities{CacheCapabilities: &repb.CacheCapabilities{MaxBatchTotalSizeBytes: 64 << 10}}, nil
}

func (f *fakeCache) UpdateActionResult(_ context.Context, r *repb.UpdateActionResultRequest) (*repb.ActionResult, error) {
	f.results.Add(1)
	return r.ActionResult, nil
}

func (f *fakeCache) BatchUpdateBlobs(context.Context, *repb.BatchUpdateBlobsRequest) (*repb.BatchUpdateBlobsResponse, error) {
	return &repb.BatchUpdateBlobsResponse{}, nil
}

func (f *fakeCache) QueryWriteStatus(context.Context, *bspb.QueryWriteStatusRequest) (*bspb.QueryWriteStatusResponse, error) {
	return &bspb.QueryWriteStatusResponse{}, nil
}

func (f *fakeCache) Write(stream bspb.ByteStream_WriteServer) error {
	if p, ok := peer.FromContext(stream.Context()); ok {
		host, _, _ := net.SplitHostPort(p.Addr.String())
		f.mu.Lock()
		f.mu.peers[host] = true
		f.mu.Unlock()
	}
	if n := f.writes.Add(1); f.onWrite != nil {
		if err := f.onWrite(n); err != nil {
			return err
		}
	}
	var name string
	var data []byte
	for {
		req, err := stream.Recv()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if req.ResourceName != "" {
			name = req.ResourceName
		}
		data = append(data, req.Data...)
	}
	parts := strings.Split(name, "/")
	hash := parts[len(parts)-2]
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != hash || strconv.Itoa(len(data)) != parts[len(parts)-1] {
		return status.Error(codes.InvalidArgument, "wrong digest")
	}
	if !f.forget {
		f.mu.Lock()
		f.mu.blobs[hash] = data
		f.mu.Unlock()
	}
	return stream.SendAndClose(&bspb.WriteResponse{CommittedSize: int64(len(data))})
}

func (f *fakeCache) Read(req *bspb.ReadRequest, stream bspb.ByteStream_ReadServer) error {
	parts := strings.Split(req.ResourceName, "/")
	if len(parts) < 2 {
		return status.Error(codes.InvalidArgument, "no such name")
	}
	f.mu.Lock()
	data, ok := f.mu.blobs[parts[len(parts)-2]]
	f.mu.Unlock()
	if !ok {
		return status.Error(codes.NotFound, "no such blob")
	}
	for first := true; len(data) > 0; first = false {
		part := data[:min(len(data), 16<<10)]
		data = data[len(part):]
		if f.corrupt && first {
			part = append([]byte{part[0] ^ 1}, part[1:]...)
		}
		if err := stream.Send(&bspb.ReadResponse{Data: part}); err != nil {
			return err
		}
	}
	return nil
}

// shedError is a shed as a server answers it.
func shedError(code codes.Code, reason string) error {
	st, err := status.New(code, "shed by gate write: "+reason+" (cost 1, 2 of 2 in use); to admit more, raise bazel.max_connections").WithDetails(&errdetails.RetryInfo{})
	if err != nil {
		panic(err)
	}
	return st.Err()
}

// fakeAdmin publishes a plan with one account, a resident set, and one more shed each time it is asked.
func fakeAdmin(t *testing.T, rss, inUse int64) string {
	t.Helper()
	var looks atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("/readyz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "# TYPE process_resident_memory_bytes gauge\nprocess_resident_memory_bytes %e\n", float64(rss))
	})
	mux.HandleFunc("/status", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"plan":{"limit_bytes":1000000,"lines":[{"account":"write","bytes":4096,"in_use_bytes":%d}]},"gates":[{"name":"write","shed":{"timeout":%d,"closed":0}}]}`, inUse, looks.Add(1))
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}
