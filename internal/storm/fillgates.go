package storm

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"time"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	bspb "google.golang.org/genproto/googleapis/bytestream"
	"google.golang.org/protobuf/proto"
)

const (
	methodQuery        = "/google.bytestream.ByteStream/QueryWriteStatus"
	methodFindMissing  = "/build.bazel.remote.execution.v2.ContentAddressableStorage/FindMissingBlobs"
	methodBatchRead    = "/build.bazel.remote.execution.v2.ContentAddressableStorage/BatchReadBlobs"
	methodCapabilities = "/build.bazel.remote.execution.v2.Capabilities/GetCapabilities"
	methodGetAR        = "/build.bazel.remote.execution.v2.ActionCache/GetActionResult"
)

// gateCalls fill an account that is a gate, with calls that never end.
type gateCalls struct {
	gate    string
	method  string
	least   int64 // a call's cost is not below, so that many streams are enough
	crowd   crowdOptions
	perConn int // calls of a connection
	frame   int
	message func() ([]byte, error) // with its prefix
	junk    bool                   // bytes behind the message, for the window that it leaves empty
}

const mostCalls = 900

func (f *filling) fillGate(ctx context.Context, t *tally, g gateCalls) error {
	limit := f.plan[g.gate].bytes
	calls := int(min(limit/g.least+8, mostCalls))
	g.crowd.n = min((calls+g.perConn-1)/g.perConn, int(f.plan["connections"].units)-2)
	calls = min(calls, g.crowd.n*g.perConn)
	base, err := f.look(ctx)
	if err != nil {
		return err
	}
	w, err := f.r.crowd(ctx, t, g.crowd)
	if err != nil {
		return err
	}
	defer w.close()
	waiting, err := w.openMany(calls, g.method, []byte{0})
	if err != nil {
		return err
	}
	w.pump(ctx, 300*time.Millisecond, g.frame)
	before, err := f.look(ctx)
	if err != nil {
		return err
	}
	junk := f.r.src.unhashed(math.MaxInt32)
	give := func(n int) error {
		for ; n > 0 && len(waiting) > 0; n-- {
			message, err := g.message()
			if err != nil {
				return err
			}
			s := waiting[0]
			waiting = waiting[1:]
			s.head = message[1:]
			if g.junk {
				s.b, s.stop = junk, 1<<20
			}
		}
		w.fill(ctx, g.frame, 15*time.Second)
		return nil
	}
	if err := f.fillUp(ctx, g.gate, give); err != nil {
		return err
	}
	return f.hold(ctx, t, before, map[string]measure{g.gate: f.beyond(g.gate, base, t)}, func(ctx context.Context) {
		for ctx.Err() == nil {
			w.pump(ctx, time.Second, g.frame)
		}
	})
}

// fillUp gives one call, learns from it what a call costs, gives as many as there is room for, and tops up.
func (f *filling) fillUp(ctx context.Context, gate string, give func(int) error) error {
	if err := give(1); err != nil {
		return err
	}
	cost, limit, _, err := f.gate(ctx, gate)
	if err != nil {
		return err
	}
	if cost == 0 {
		return fmt.Errorf("the first call holds nothing of gate %s", gate)
	}
	if err := give(int(max(0, limit/cost-1))); err != nil {
		return err
	}
	for range 4 {
		inUse, _, queued, err := f.gate(ctx, gate)
		if err != nil || queued > 0 || inUse+cost > limit {
			return err
		}
		if err := give(1); err != nil {
			return err
		}
	}
	return nil
}

func (f *filling) look(ctx context.Context) (*look, error) {
	if _, err := f.k.look(ctx); err != nil { // pools give up what the last adversary left in two collections
		return nil, err
	}
	return f.k.look(ctx)
}

func encoded(m proto.Message) ([]byte, error) {
	b, err := proto.Marshal(m)
	return prefixed(uint32(len(b)), b), err
}

// fillWrite: compressed uploads whose frames have windows of 1<<log bytes, in the middle of which nothing comes any more.
func fillWrite(log int) func(context.Context, *filling, *tally) error {
	const blobBytes = 64 << 20
	block := []byte{0x02, 0x00, 0x10, 'x'} // 128 KiB of the same byte (RFC 8878, 3.1.1.2)
	data := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, byte(log-10) << 3}
	for n := 0; n < 2<<log+(128<<10); n += 128 << 10 {
		data = append(data, block...)
	}
	return func(ctx context.Context, f *filling, t *tally) error {
		return f.fillGate(ctx, t, gateCalls{gate: "write", method: methodWrite, least: 1 << log, perConn: 10, frame: wholeFrame,
			crowd: crowdOptions{as: rawDial{receive: 65535}, reads: true},
			message: func() ([]byte, error) {
				var hash [32]byte
				rand.Read(hash[:])
				name := fmt.Sprintf("%suploads/%s/compressed-blobs/zstd/%x/%d", instancePrefix(f.r.o.Instance), newUUID(), hash, blobBytes)
				return append(writeHead(name, blobBytes, false), data...), nil
			}})
	}
}

// fillBatchUpdate: batches of n bytes of blobs that do not have their digests, so that each has an error in the response,
// which is not taken.
func fillBatchUpdate(n int) func(context.Context, *filling, *tally) error {
	return func(ctx context.Context, f *filling, t *tally) error {
		return f.fillGate(ctx, t, gateCalls{gate: "batch_update", method: methodBatch, least: int64(n), perConn: 10, frame: wholeFrame, junk: true,
			crowd: crowdOptions{reads: true},
			message: func() ([]byte, error) {
				m := &repb.BatchUpdateBlobsRequest{InstanceName: f.r.o.Instance}
				for size := 0; size < n-80; size += 77 {
					m.Requests = append(m.Requests, &repb.BatchUpdateBlobsRequest_Request{Digest: randomDigest(1), Data: []byte{1}})
				}
				return encoded(m)
			}})
	}
}

func randomDigest(size int64) *repb.Digest {
	var hash [32]byte
	rand.Read(hash[:])
	return &repb.Digest{Hash: hex.EncodeToString(hash[:]), SizeBytes: size}
}

func fillFindMissing(n int) func(context.Context, *filling, *tally) error {
	return func(ctx context.Context, f *filling, t *tally) error {
		return f.fillGate(ctx, t, gateCalls{gate: "find_missing", method: methodFindMissing, least: int64(n), perConn: 10, frame: wholeFrame, junk: true,
			crowd: crowdOptions{reads: true},
			message: func() ([]byte, error) {
				m := &repb.FindMissingBlobsRequest{InstanceName: f.r.o.Instance}
				for size := 0; size < n-80; size += 70 {
					m.BlobDigests = append(m.BlobDigests, randomDigest(1))
				}
				return encoded(m)
			}})
	}
}

// unread is how those connect who open every window and read nothing: what is sent stays in the sockets' buffers, and
// what does not fit there with its sender.
var unread = crowdOptions{as: rawDial{receive: 1 << 30, thrifty: true}}

func fillRead(compressed bool) func(context.Context, *filling, *tally) error {
	return func(ctx context.Context, f *filling, t *tally) error {
		b, err := f.stored(ctx, 16<<20)
		if err != nil {
			return err
		}
		name := b.readName(f.r.o.Instance)
		if compressed {
			name = fmt.Sprintf("%scompressed-blobs/zstd/%s/%d", instancePrefix(f.r.o.Instance), b.hex(), b.size)
		}
		return f.fillGate(ctx, t, gateCalls{gate: "read", method: methodRead, least: 128 * kib, perConn: 2, frame: wholeFrame, crowd: unread,
			message: func() ([]byte, error) { return encoded(&bspb.ReadRequest{ResourceName: name}) }})
	}
}

func fillBatchRead(blobs int64) func(context.Context, *filling, *tally) error {
	return func(ctx context.Context, f *filling, t *tally) error {
		total := f.limits.maxBatch - 1<<10
		m := &repb.BatchReadBlobsRequest{InstanceName: f.r.o.Instance, AcceptableCompressors: []repb.Compressor_Value{repb.Compressor_ZSTD}}
		for range blobs {
			b, err := f.stored(ctx, total/blobs)
			if err != nil {
				return err
			}
			m.Digests = append(m.Digests, b.digest())
		}
		return f.fillGate(ctx, t, gateCalls{gate: "batch_read", method: methodBatchRead, least: total, perConn: 2, frame: wholeFrame, crowd: unread,
			message: func() ([]byte, error) { return encoded(m) }})
	}
}

// fillAC: action results of n bytes, or as large as there can be, all of it references. One is to a tree that takes long to
// look through, all of which has to be there; the answer is not taken.
func fillAC(n int) func(context.Context, *filling, *tally) error {
	return func(ctx context.Context, f *filling, t *tally) error {
		size := n
		if size == 0 {
			size = int(f.limits.maxBatch) - kib
		}
		b, err := f.stored(ctx, 100)
		if err != nil {
			return err
		}
		tree, err := f.storedTree(ctx, b.digest())
		if err != nil {
			return err
		}
		result := &repb.ActionResult{OutputDirectories: []*repb.OutputDirectory{{TreeDigest: tree}}}
		for used := 200; used < size; used += 75 {
			result.OutputFiles = append(result.OutputFiles, &repb.OutputFile{Path: "p", Digest: b.digest()})
		}
		action := randomDigest(1)
		p, err := dialPool(f.r.o.Target, 1, "")
		if err != nil {
			return err
		}
		_, err = repb.NewActionCacheClient(p.conn(0)).UpdateActionResult(ctx, &repb.UpdateActionResultRequest{InstanceName: f.r.o.Instance, ActionDigest: action, ActionResult: result})
		p.Close()
		if err != nil {
			return err
		}
		return f.fillGate(ctx, t, gateCalls{gate: "ac", method: methodGetAR, least: int64(size), perConn: 10, frame: wholeFrame, junk: true,
			crowd: crowdOptions{reads: true},
			message: func() ([]byte, error) {
				return encoded(&repb.GetActionResultRequest{InstanceName: f.r.o.Instance, ActionDigest: action})
			}})
	}
}

// storedTree is a Tree of a million files, stored.
func (f *filling) storedTree(ctx context.Context, file *repb.Digest) (*repb.Digest, error) {
	const directories, files = 1000, 1000
	directory := &repb.Directory{}
	for range files {
		directory.Files = append(directory.Files, &repb.FileNode{Name: "f", Digest: file})
	}
	part, err := proto.Marshal(&repb.Tree{Children: []*repb.Directory{directory}})
	if err != nil {
		return nil, err
	}
	hash := sha256.New()
	for range directories {
		hash.Write(part)
	}
	d := &repb.Digest{Hash: hex.EncodeToString(hash.Sum(nil)), SizeBytes: directories * int64(len(part))}
	p, err := dialPool(f.r.o.Target, 1, "")
	if err != nil {
		return nil, err
	}
	defer p.Close()
	stream, err := bspb.NewByteStreamClient(p.conn(0)).Write(ctx)
	if err != nil {
		return nil, err
	}
	req := &bspb.WriteRequest{Data: part, ResourceName: fmt.Sprintf("%suploads/%s/blobs/%s/%d", instancePrefix(f.r.o.Instance), newUUID(), d.Hash, d.SizeBytes)}
	for req.WriteOffset < d.SizeBytes {
		req.FinishWrite = req.WriteOffset+int64(len(part)) == d.SizeBytes
		if stream.Send(req) != nil { // CloseAndRecv says why
			break
		}
		req.WriteOffset += int64(len(part))
	}
	_, err = stream.CloseAndRecv()
	return d, err
}

// stored is a blob that the server has.
func (f *filling) stored(ctx context.Context, size int64) (*blob, error) {
	p, err := dialPool(f.r.o.Target, 1, "")
	if err != nil {
		return nil, err
	}
	defer p.Close()
	return f.r.prepare(ctx, p, size)
}
