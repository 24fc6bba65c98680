package bazel

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/genproto/googleapis/bytestream"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/leveehq/levee/gate"
	"github.com/leveehq/levee/internal/blobstore"
	"github.com/leveehq/levee/internal/rpc"
)

// grpcRig is the service behind a real listener, with grpc-go's client in front: what the field's clients do.
type grpcRig struct {
	testing.TB
	s    *Service
	srv  *rpc.Server
	dir  string // of the disk store, if there is one
	disk *blobstore.Disk
	addr string

	conn *grpc.ClientConn
	cas  repb.ContentAddressableStorageClient
	ac   repb.ActionCacheClient
	caps repb.CapabilitiesClient
	bs   bytestream.ByteStreamClient
	ctx  context.Context
}

// newGRPCRig serves over a disk store, unless change puts another store into the options.
func newGRPCRig(t testing.TB, change func(*Options)) *grpcRig {
	t.Helper()
	r := &grpcRig{TB: t}
	o := Options{Kernel: newTestKernel(t, 512*mib)}
	if change != nil {
		change(&o)
	}
	if o.Store == nil {
		r.openDisk(blobstore.Options{MaxSize: 1 << 30})
		o.Store = r.disk
	}
	var err error
	if r.s, err = New(o); err != nil {
		t.Fatal(err)
	}
	if r.srv, err = rpc.New(r.s.RPCOptions()); err != nil {
		t.Fatal(err)
	}
	r.s.Register(r.srv)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.addr = l.Addr().String()
	served := make(chan error, 1)
	go func() { served <- r.srv.Serve(l) }()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	r.ctx = ctx
	t.Cleanup(func() {
		cancel()
		now, cancel := context.WithCancel(context.Background())
		cancel()
		_ = r.srv.Shutdown(now)
		<-served
		r.nothingHeld()
	})
	r.conn = r.dial()
	r.cas, r.ac = repb.NewContentAddressableStorageClient(r.conn), repb.NewActionCacheClient(r.conn)
	r.caps, r.bs = repb.NewCapabilitiesClient(r.conn), bytestream.NewByteStreamClient(r.conn)
	return r
}

func (r *grpcRig) openDisk(o blobstore.Options) {
	r.Helper()
	r.dir = r.TempDir()
	o.Dir, o.MinFree = r.dir, -1
	if o.MaxBlobs == 0 {
		o.MaxBlobs = 200_000
	}
	d, err := blobstore.OpenDisk(o)
	if err != nil {
		r.Fatal(err)
	}
	r.disk = d
	r.Cleanup(func() {
		if err := d.Close(); err != nil {
			r.Error(err)
		}
	})
}

func (r *grpcRig) dial(o ...grpc.DialOption) *grpc.ClientConn {
	r.Helper()
	o = append(o, grpc.WithTransportCredentials(insecure.NewCredentials()))
	conn, err := grpc.NewClient("passthrough:///"+r.addr, o...)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = conn.Close() })
	return conn
}

// nothingHeld waits for every gate to be empty: what a call took, it gave back.
func (r *grpcRig) nothingHeld() {
	r.Helper()
	g := &r.s.gates
	eventually(r, "every permit is back", func() bool {
		held := int64(0)
		for _, g := range []*gate.Gate{g.streams, g.exempt, g.write, g.read, g.batchUpdate, g.batchRead, g.ac, g.findMissing, g.cpu} {
			held += g.Stats().InUse
		}
		return held == 0
	})
}

func (r *grpcRig) wantCode(err error, code codes.Code, texts ...string) {
	r.Helper()
	if status.Code(err) != code {
		r.Fatalf("%v, want %v", err, code)
	}
	for _, text := range texts {
		if err == nil || !strings.Contains(err.Error(), text) {
			r.Fatalf("%v, want it to say %q", err, text)
		}
	}
}

func (r *grpcRig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func digestFor(b []byte) *repb.Digest {
	return &repb.Digest{Hash: hashOf(b), SizeBytes: int64(len(b))}
}

// writeName and readName are resource names of b.
func (r *grpcRig) writeName(b []byte) string {
	return "uploads/" + uuid(b) + "/blobs/" + blobName(b)
}

func blobName(b []byte) string {
	d, _ := parseDigest(digestFor(b))
	return d.String()
}

func uuid(b []byte) string {
	h := hashOf(b)
	return h[:8] + "-" + h[8:12] + "-4" + h[13:16] + "-8" + h[17:20] + "-" + h[20:32]
}

// write sends data under a name in messages of up to size bytes and returns the server's answer.
func (r *grpcRig) write(name string, data []byte, size int) (*bytestream.WriteResponse, error) {
	return writeTo(r.ctx, r.bs, name, 0, data, size)
}

func writeTo(ctx context.Context, bs bytestream.ByteStreamClient, name string, offset int, data []byte, size int) (*bytestream.WriteResponse, error) {
	w, err := bs.Write(ctx)
	if err != nil {
		return nil, err
	}
	for first := true; ; first = false {
		n := min(size, len(data))
		m := &bytestream.WriteRequest{WriteOffset: int64(offset), Data: data[:n], FinishWrite: n == len(data)}
		if first {
			m.ResourceName = name
		}
		if err := w.Send(m); err != nil {
			if errors.Is(err, io.EOF) { // the server has answered
				break
			}
			return nil, err
		}
		offset, data = offset+n, data[n:]
		if m.FinishWrite {
			break
		}
	}
	return w.CloseAndRecv()
}

// put stores b.
func (r *grpcRig) put(b []byte) *repb.Digest {
	r.Helper()
	resp, err := r.write(r.writeName(b), b, 64*kib)
	r.must(err)
	if resp.CommittedSize != int64(len(b)) {
		r.Fatalf("committed size %d of %d", resp.CommittedSize, len(b))
	}
	return digestFor(b)
}

func (r *grpcRig) read(name string, offset, limit int64) ([]byte, error) {
	return readFrom(r.ctx, r.bs, name, offset, limit)
}

func readFrom(ctx context.Context, bs bytestream.ByteStreamClient, name string, offset, limit int64) ([]byte, error) {
	st, err := bs.Read(ctx, &bytestream.ReadRequest{ResourceName: name, ReadOffset: offset, ReadLimit: limit})
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for {
		m, err := st.Recv()
		if err == io.EOF {
			return out.Bytes(), nil
		}
		if err != nil {
			return out.Bytes(), err
		}
		out.Write(m.Data)
	}
}

// missing asks for blobs and returns the hashes that are not there.
func (r *grpcRig) missing(ds ...*repb.Digest) []string {
	r.Helper()
	resp, err := r.cas.FindMissingBlobs(r.ctx, &repb.FindMissingBlobsRequest{BlobDigests: ds})
	r.must(err)
	var out []string
	for _, d := range resp.MissingBlobDigests {
		out = append(out, d.Hash)
	}
	return out
}
