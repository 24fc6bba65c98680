package storm

import (
	"context"
	"fmt"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	bspb "google.golang.org/genproto/googleapis/bytestream"
	"google.golang.org/protobuf/proto"
)

// wholeFrame is the largest DATA frame that a server must accept without having said so.
const wholeFrame = 16 << 10

// tinyFrames: uploads in DATA frames of one byte, which cost a server nine bytes of header and, if it keeps frames as
// they came, an allocation for each byte.
func tinyFrames(ctx context.Context, r *run) ([]*tally, error) {
	t := r.tally("tiny-frames")
	err := r.loose(ctx, t, swarm{streams: r.o.Writers, frame: 1, receive: 65535, open: func(c *rawConn) (*sending, error) {
		b := r.src.next(int64(r.o.BlobSize))
		s, err := c.open(methodWrite)
		return &sending{s: s, b: b, stop: b.size, end: true, head: writeHead(b.uploadName(r.o.Instance, newUUID()), b.size, true)}, err
	}})
	return []*tally{t}, err
}

// endlessMessages: one message that is declared with the largest length there is, and is sent for as long as the
// server takes it.
func endlessMessages(ctx context.Context, r *run) ([]*tally, error) {
	t := r.tally("endless")
	err := r.loose(ctx, t, swarm{streams: r.o.Writers, frame: wholeFrame, receive: 65535, open: func(c *rawConn) (*sending, error) {
		b := r.src.unhashed(mostDeclared - 1<<10) // with its name it is still one message
		s, err := c.open(methodWrite)
		return &sending{s: s, b: b, stop: b.size, head: writeHead(b.uploadName(r.o.Instance, newUUID()), b.size, false)}, err
	}})
	return []*tally{t}, err
}

// hugeBatches: batches as large as the server announces, all but their last byte, held open together.
func hugeBatches(ctx context.Context, r *run) ([]*tally, error) {
	t := r.tally("batches")
	p, err := dialPool(r.o.Target, 1, "")
	if err != nil {
		return nil, err
	}
	defer p.Close()
	caps, err := repb.NewCapabilitiesClient(p.conn(0)).GetCapabilities(ctx, &repb.GetCapabilitiesRequest{InstanceName: r.o.Instance})
	if err != nil {
		return nil, err
	}
	size := caps.GetCacheCapabilities().GetMaxBatchTotalSizeBytes()
	if size <= 0 || size > maxBlob {
		size = 4 << 20 // gRPC's own default bound of a message
	}
	t.note(fmt.Sprintf("each batch carries one blob of %d bytes", size))
	err = r.loose(ctx, t, swarm{streams: r.o.Writers, frame: wholeFrame, receive: 65535, open: func(c *rawConn) (*sending, error) {
		b := r.src.next(size)
		head, err := batchHead(r.o.Instance, b.digest())
		if err != nil {
			return nil, err
		}
		s, err := c.open(methodBatch)
		return &sending{s: s, b: b, stop: b.size - 1, head: head}, err
	}})
	return []*tally{t}, err
}

// stalledUploads: uploads that are valid but for never being finished; each fills whatever window it is given.
func stalledUploads(ctx context.Context, r *run) ([]*tally, error) {
	t := r.tally("stalled-uploads")
	err := r.loose(ctx, t, swarm{streams: r.o.Stalled, frame: wholeFrame, receive: 65535, open: func(c *rawConn) (*sending, error) {
		b := r.src.next(int64(r.o.BlobSize))
		s, err := c.open(methodWrite)
		stop := min(int64(r.o.StallAfter), b.size-1)
		return &sending{s: s, b: b, stop: stop, head: writeHead(b.uploadName(r.o.Instance, newUUID()), b.size, true)}, err
	}})
	return []*tally{t}, err
}

// frozenReaders: readers of a large blob that take one byte a second, so that whatever the server has prepared for
// them stays prepared, and no time-out for a reader without any progress helps it.
func frozenReaders(ctx context.Context, r *run) ([]*tally, error) {
	t := r.tally("slow-readers")
	p, err := dialPool(r.o.Target, 1, "")
	if err != nil {
		return nil, err
	}
	defer p.Close()
	b, err := r.prepare(ctx, p, int64(r.o.ReadSize))
	if err != nil {
		return nil, err
	}
	r.begin(ctx)
	request, err := proto.Marshal(&bspb.ReadRequest{ResourceName: b.readName(r.o.Instance)})
	if err != nil {
		return nil, err
	}
	err = r.loose(ctx, t, swarm{streams: r.o.Readers, frame: wholeFrame, receive: 65535, tick: (*rawConn).trickle,
		open: func(c *rawConn) (*sending, error) {
			s, err := c.open(methodRead)
			return &sending{s: s, head: prefixed(uint32(len(request)), request), end: true}, err
		}})
	return []*tally{t}, err
}

// trickle lets the server send one byte more on each stream.
func (c *rawConn) trickle() error {
	c.mu.Lock()
	ids := make([]uint32, 0, len(c.mu.streams))
	for id := range c.mu.streams {
		ids = append(ids, id)
	}
	c.mu.Unlock()
	c.wmu.Lock()
	defer c.wmu.Unlock()
	for _, id := range ids {
		if err := c.fr.WriteWindowUpdate(id, 1); err != nil {
			return err
		}
	}
	return c.out.Flush()
}
