package bazel

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"testing"
	"time"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/genproto/googleapis/bytestream"

	"github.com/leveehq/levee/gate"
	"github.com/leveehq/levee/internal/blobstore"
	"github.com/leveehq/levee/internal/rpc"
)

// stuckStore is a disk that takes nothing any more.
type stuckStore struct {
	*memStore
	release chan struct{}
}

func (s *stuckStore) Create(ctx context.Context, k blobstore.Key, size, most int64) (blobstore.Upload, error) {
	u, err := s.memStore.Create(ctx, k, size, most)
	return &stuckUpload{u, s.release}, err
}

type stuckUpload struct {
	blobstore.Upload
	release chan struct{}
}

func (u *stuckUpload) Write(p []byte) (int, error) {
	<-u.release
	return len(p), nil
}

// hold has n clients do what holds the most of a gate's permits, and compares the memory with what the permits are for.
// The lines of streams and of the transport pay for streamBytes of each and for what free lists keep.
func (r *grpcRig) hold(what string, g *gate.Gate, n int, start func(w *wireClient), settled func() bool) {
	r.Helper()
	var clients []*wireClient
	for range n {
		clients = append(clients, r.wireClient())
	}
	eventually(r, "all are connected", func() bool { return r.srv.Stats().Connections >= n })
	got := heapOf(func() {
		for _, w := range clients {
			start(w)
			w.buf = bytes.Buffer{} // what the client needed is not the server's
		}
		eventually(r, what+" holds all it can", func() bool { return g.Stats().Held == n && settled() })
	}) / int64(n)
	paid := g.Stats().InUse/int64(n) + r.s.opt.streamBytes() + rpc.FreeBytes/int64(n)
	r.Logf("%s: takes %d KiB, and %d KiB are paid for", what, got/kib, paid/kib)
	if got > paid {
		r.Errorf("%s takes %d KiB, and its permit and its stream are for %d KiB", what, got/kib, paid/kib)
	}
	if got*3/2 < paid {
		r.Errorf("%s takes only %d KiB of the %d KiB that its permit and its stream are for", what, got/kib, paid/kib)
	}
}

func TestAnAdmittedWriteTakesWhatItsPermitSays(t *testing.T) {
	if !measuring(t) {
		return
	}
	store := &stuckStore{newMemStore(), make(chan struct{})}
	r := newGRPCRig(t, func(o *Options) { o.Store = store })
	defer close(store.release)
	const n = 40
	first := message(t, &bytestream.WriteRequest{ResourceName: fmt.Sprintf("uploads/u/blobs/%s/%d", hashP, 64*mib), Data: make([]byte, 10*mib)})
	full := int64(0)                        // what lies in windows
	wanted := r.s.opt.writeWindow() * 5 / 8 // credit for the rest may not have been worth a frame yet
	// The copy buffer is full, and so is the window, which reading a little at a time has opened as far as it goes.
	r.hold("a write on a stalled disk", r.s.gates.write, n, func(w *wireClient) {
		id := w.open(methodWrite, 0)
		rest := first
		for sent := int64(0); w.credit[id]+sent < int64(r.s.opt.writeWindow()); sent += 300 {
			w.data(id, rest[:300], kib)
			rest = rest[300:]
			for before := w.credit[id]; w.credit[id] == before; {
				w.read() // each piece that is read alone doubles the window
			}
		}
		w.data(id, rest[:copyBuffer], kib)
		full += w.fill(id, int64(wanted))
		eventually(t, "the window is full", func() bool { return r.srv.Stats().BufferedBytes >= full })
	}, func() bool { return true })
	runtime.KeepAlive(first)
}

func TestBatchCallsTakeWhatTheirPermitsSay(t *testing.T) {
	if !measuring(t) {
		return
	}
	r := newGRPCRig(t, func(o *Options) {
		o.Store = newMemStore()
		o.BatchMemory, o.BatchReadMemory, o.FindMissingMemory, o.MessageWait = 64*mib, 64*mib, 64*mib, 50*time.Second
	})
	all := func() bool { return r.srv.Stats().BufferedBytes == 0 }
	r.hold("a batch of one blob that never ends", r.s.gates.batchUpdate, 8, func(w *wireClient) {
		b := message(t, &repb.BatchUpdateBlobsRequest{Requests: []*repb.BatchUpdateBlobsRequest_Request{request(randomBytes(1, 2*mib))}})
		w.data(w.open(methodBatchUpdate, 0), b[:len(b)-1], 16*kib)
	}, all)
	r.hold("a list of absent digests that never ends", r.s.gates.findMissing, 8, func(w *wireClient) {
		req := &repb.FindMissingBlobsRequest{}
		for i := range 60_000 {
			req.BlobDigests = append(req.BlobDigests, &repb.Digest{Hash: hashOf(binary.BigEndian.AppendUint64(nil, uint64(i))), SizeBytes: 8})
		}
		b := message(t, req)
		w.data(w.open(methodFindMissing, 0), b[:len(b)-1], 16*kib)
	}, all)

	big := randomBytes(2, 2*mib-100*kib)
	r.put(big)
	answered := func() bool { return true }
	r.hold("a batch that nobody reads", r.s.gates.batchRead, 8, func(w *wireClient) {
		b := message(t, &repb.BatchReadBlobsRequest{Digests: []*repb.Digest{digestFor(big)}, AcceptableCompressors: []repb.Compressor_Value{repb.Compressor_ZSTD}})
		w.data(w.open(methodBatchRead, 0), b, 16*kib)
	}, answered)
}
