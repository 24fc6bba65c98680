package storm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/net/http2"

	"github.com/leveehq/levee/internal/bytesize"
)

// idleProcess books what the server takes when nobody asks anything of it.
func idleProcess(_ context.Context, f *filling, t *tally) error {
	index := f.plan["index"].units * bucketBytes
	f.book("runtime", t.name, 0, f.idle.goBytes()+f.idle.tables-index)
	f.book("process", t.name, 0, f.idle.binary+f.idle.kernel)
	return nil
}

// bucketBytes of a blob's share of the index are there from the start.
const bucketBytes = 4

// maxBatch is what the server announces.
func (r *run) maxBatch(ctx context.Context) (int64, error) {
	p, err := dialPool(r.o.Target, 1, "")
	if err != nil {
		return 0, err
	}
	defer p.Close()
	caps, err := repb.NewCapabilitiesClient(p.conn(0)).GetCapabilities(ctx, &repb.GetCapabilitiesRequest{InstanceName: r.o.Instance})
	size := caps.GetCacheCapabilities().GetMaxBatchTotalSizeBytes()
	if size <= 0 || size > maxBlob {
		size = 4 << 20 // gRPC's own default bound of a message
	}
	return size, err
}

// fillCodecs uses every codec of the server's pool for the largest blob that it may be used for. The same is done without
// compression before, so that what else keeps memory from then on is not counted.
func fillCodecs(ctx context.Context, f *filling, t *tally) error {
	if err := f.fillLists(ctx, t); err != nil {
		return err
	}
	stored, err := f.stored(ctx, 200*kib) // an encoder keeps a history only for more than a block
	if err != nil {
		return err
	}
	if err := f.batches(ctx, stored, repb.Compressor_IDENTITY); err != nil {
		return err
	}
	before, err := f.look(ctx)
	if err != nil {
		return err
	}
	if err := f.batches(ctx, stored, repb.Compressor_ZSTD); err != nil {
		return err
	}
	if _, err := f.look(ctx); err != nil {
		return err
	}
	return f.hold(ctx, t, before, map[string]measure{"zstd": goBytes}, nil)
}

// batches sends and fetches blobs from several connections at once.
func (f *filling) batches(ctx context.Context, stored *blob, as repb.Compressor_Value) error {
	p, err := dialPool(f.r.o.Target, 8, "")
	if err != nil {
		return err
	}
	defer p.Close()
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	errs := make([]error, len(p.conns))
	for i := range p.conns {
		wg.Go(func() {
			big := f.r.src.next(f.limits.maxBatch - kib)
			data := big.bytes()
			if as == repb.Compressor_ZSTD {
				data = enc.EncodeAll(data, nil)
			}
			cas := repb.NewContentAddressableStorageClient(p.conn(i))
			_, err1 := cas.BatchUpdateBlobs(ctx, &repb.BatchUpdateBlobsRequest{InstanceName: f.r.o.Instance, Requests: []*repb.BatchUpdateBlobsRequest_Request{
				{Digest: big.digest(), Data: data, Compressor: as}}})
			_, err2 := cas.BatchReadBlobs(ctx, &repb.BatchReadBlobsRequest{InstanceName: f.r.o.Instance,
				Digests: []*repb.Digest{stored.digest()}, AcceptableCompressors: []repb.Compressor_Value{as}})
			errs[i] = errors.Join(err1, err2)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// fillUploads: uploads that broke off and may be resumed.
func fillUploads(ctx context.Context, f *filling, t *tally) error {
	const perConn = 20
	before, err := f.look(ctx)
	if err != nil {
		return err
	}
	units := int(f.plan["uploads"].units)
	w, err := f.r.crowd(ctx, t, crowdOptions{n: min(40, int(f.plan["connections"].units)-2), as: rawDial{receive: 65535}, reads: true})
	if err != nil {
		return err
	}
	for done := 0; done < units; {
		for range min(perConn*len(w.conns)/8, units-done) { // few enough for the write gate
			s, err := w.open(methodWrite)
			if err != nil {
				w.close()
				return err
			}
			b := f.r.src.unhashed(1 << 20)
			s.head, s.b, s.stop = writeHead(b.uploadName(f.r.o.Instance, newUUID()), b.size, false), b, 100
			done++
		}
		w.pump(ctx, 150*time.Millisecond, wholeFrame)
		w.reset()
		w.pump(ctx, 100*time.Millisecond, wholeFrame)
	}
	w.close()
	if !sleep(ctx, 2*time.Second) { // a broken upload lingers for a second
		return context.Cause(ctx)
	}
	if _, err := f.look(ctx); err != nil {
		return err
	}
	return f.hold(ctx, t, before, map[string]measure{"uploads": goBytes}, nil)
}

// fillUpload: uploads at a trickle, which has the server open their windows as far as they go, and then all at once at full
// speed. What lies in windows then is for the disk to say: on one that has stalled, all of it.
func fillUpload(ctx context.Context, f *filling, t *tally) error {
	const piece, pieces = 300, 12
	calls := min(int(f.plan["write"].bytes/(64*kib)), mostCalls)
	base, err := f.look(ctx)
	if err != nil {
		return err
	}
	w, err := f.r.crowd(ctx, t, crowdOptions{n: min(16, int(f.plan["connections"].units)-2), as: rawDial{receive: 65535}, reads: true})
	if err != nil {
		return err
	}
	defer w.close()
	waiting, err := w.openMany(min(calls, len(w.conns)*f.limits.perConn/2), methodWrite, []byte{0})
	if err != nil {
		return err
	}
	w.pump(ctx, 300*time.Millisecond, wholeFrame)
	before, err := f.look(ctx)
	if err != nil {
		return err
	}
	var begun []*sending
	err = f.fillUp(ctx, "write", func(n int) error {
		for ; n > 0 && len(waiting) > 0; n-- {
			s := waiting[0]
			s.b = f.r.src.unhashed(1 << 30)
			s.head, s.stop = writeHead(s.b.uploadName(f.r.o.Instance, newUUID()), s.b.size, false)[1:], piece
			waiting, begun = waiting[1:], append(begun, s)
		}
		w.fill(ctx, wholeFrame, 5*time.Second)
		return nil
	})
	if err != nil {
		return err
	}
	for range pieces {
		for _, s := range begun {
			s.stop += piece
		}
		w.pump(ctx, 100*time.Millisecond, wholeFrame)
	}
	for _, s := range begun {
		s.stop = s.b.size - 1
	}
	for range 2 {
		err := f.hold(ctx, t, before, map[string]measure{"write": f.beyond("write", base, t)}, func(ctx context.Context) {
			for ctx.Err() == nil {
				w.pump(ctx, time.Second, wholeFrame)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// reset cancels all streams.
func (w *crowd) reset() {
	for i, c := range w.conns {
		for _, s := range w.sends[i] {
			c.wmu.Lock()
			c.fr.WriteRSTStream(s.s.id, http2.ErrCodeCancel)
			c.wmu.Unlock()
			c.forget(s.s)
		}
		w.sends[i] = nil
		c.flush()
	}
}

// mostBlobs is how many blobs are stored to fill an index. That takes minutes; what more would take follows.
const mostBlobs = 450_000

func fillIndex(ctx context.Context, f *filling, t *tally) error {
	units := f.plan["index"].units
	if units > mostBlobs {
		f.note("index", fmt.Sprintf("not filled: %d blobs", units))
		return nil
	}
	before, err := f.look(ctx)
	if err != nil {
		return err
	}
	p, err := dialPool(f.r.o.Target, 8, "")
	if err != nil {
		return err
	}
	var left atomic.Int64
	left.Store(units - before.inUse["index"]/max(f.plan["index"].perUnit, 1))
	var wg sync.WaitGroup
	errs := make([]error, len(p.conns))
	for i := range p.conns {
		wg.Go(func() {
			for errs[i] == nil && left.Add(-500) > -500 {
				req := &repb.BatchUpdateBlobsRequest{InstanceName: f.r.o.Instance}
				for range 500 {
					b := f.r.src.next(40)
					req.Requests = append(req.Requests, &repb.BatchUpdateBlobsRequest_Request{Digest: b.digest(), Data: b.bytes()})
				}
				_, errs[i] = repb.NewContentAddressableStorageClient(p.conn(i)).BatchUpdateBlobs(ctx, req)
			}
		})
	}
	wg.Wait()
	p.Close()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if _, err := f.look(ctx); err != nil {
		return err
	}
	return f.hold(ctx, t, before, map[string]measure{"index": func(b, n *look) int64 {
		return n.goBytes() - b.goBytes() + bucketBytes*units + b.inUse["index"] // the buckets were there
	}}, nil)
}

// fillDirty: whole blobs as fast as the server takes them.
func fillDirty(ctx context.Context, f *filling, t *tally) error {
	const writers = 16
	base, err := dirtyPages()
	if err != nil {
		return err
	}
	p, err := dialPool(f.r.o.Target, writers, "")
	if err != nil {
		return err
	}
	defer p.Close()
	ctx, cancel := context.WithTimeout(ctx, 6*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			for ctx.Err() == nil {
				f.r.client(p, i, t).upload(ctx, f.r.src.next(32<<20))
			}
		})
	}
	for sleep(ctx, 10*time.Millisecond) {
		now, err := dirtyPages()
		if err != nil {
			return err
		}
		f.book("dirty_pages", t.name, 0, now-base)
	}
	wg.Wait()
	f.note("dirty_pages", "of the whole machine")
	return nil
}

// fillProfiles: the dearest profile there is, of many streams.
func fillProfiles(ctx context.Context, f *filling, t *tally) error {
	units, perConn := int(f.plan["streams"].units), f.limits.perConn
	w, err := f.r.crowd(ctx, t, crowdOptions{n: (units + perConn - 1) / perConn, as: rawDial{receive: 65535}, reads: true})
	if err != nil {
		return err
	}
	defer w.close()
	if _, err := w.openMany(units, methodRead, nil); err != nil {
		return err
	}
	w.pump(ctx, time.Second, wholeFrame)
	for _, page := range []string{"goroutine?debug=2", "goroutine?debug=1", "heap?debug=1", "profile?seconds=2", "trace?seconds=1"} {
		before, err := f.k.look(ctx)
		if err != nil {
			return err
		}
		var n int64
		err = f.k.w.page(ctx, "/debug/pprof/"+page, func(r io.Reader) (err error) { n, err = io.Copy(io.Discard, r); return err })
		now, err2 := f.k.unswept(ctx)
		if err := errors.Join(err, err2); err != nil {
			t.note(page + ": " + err.Error())
			continue
		}
		t.note(fmt.Sprintf("%s: %d bytes, allocated %s", page, n, bytesize.Format(now-before.live)))
	}
	return nil
}
