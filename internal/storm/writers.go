package storm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	bspb "google.golang.org/genproto/googleapis/bytestream"
	"google.golang.org/grpc/status"
)

// writeLoad is a number of writers of unique blobs.
type writeLoad struct {
	writers   int
	perWriter int
	size      int64
	every     time.Duration // begin of one blob to begin of the next; 0 = at once
}

// writers: unique blobs, as fast as the server takes them.
func writers(ctx context.Context, r *run) ([]*tally, error) {
	t := r.tally("writers")
	p, err := dialPool(r.o.Target, r.o.Connections, sourceAddresses(r.o.Addresses)...)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	r.write(ctx, p, t, writeLoad{writers: r.o.Writers, perWriter: r.o.BlobsPerWriter, size: int64(r.o.BlobSize)})
	return []*tally{t}, nil
}

// write offers l and returns when the last writer has ended.
func (r *run) write(ctx context.Context, p *pool, t *tally, l writeLoad) {
	r.src.next(l.size) // hashes the shared part once, outside of anybody's latency
	var wg sync.WaitGroup
	for i := range l.writers {
		wg.Go(func() {
			c := r.client(p, i, t)
			for n := 0; n < l.perWriter && r.offer.Err() == nil; n++ {
				next := time.Now().Add(l.every)
				c.uploadOne(ctx, r.src.next(l.size))
				if l.every > 0 && !sleep(r.offer, time.Until(next)) {
					return
				}
			}
		})
	}
	wg.Wait()
}

// uploadOne is upload with its books: an honest client is only ever admitted or shed.
func (c *client) uploadOne(ctx context.Context, b *blob) (stored bool) {
	c.tally.offered.Add(1)
	c.tally.open.Add(1)
	defer c.tally.open.Add(-1)
	err := c.upload(ctx, b)
	if err == nil {
		if c.o.Verify {
			c.verify(ctx, b)
		}
		return true
	}
	if isShed(err) {
		return false
	}
	if ctx.Err() != nil {
		c.tally.breaks("writes were still under way when the scenario's time was over")
		return false
	}
	c.tally.breaks(fmt.Sprintf("an honest write failed without being shed: %s: %s", codeName(status.Code(err)), status.Convert(err).Message()))
	return false
}

// stalled: clients that send part of a blob, pause, and then go on.
func stalled(ctx context.Context, r *run) ([]*tally, error) {
	t := r.tally("stalled")
	p, err := dialPool(r.o.Target, r.o.Connections, "")
	if err != nil {
		return nil, err
	}
	defer p.Close()
	r.src.next(int64(r.o.BlobSize))
	var wg sync.WaitGroup
	for i := range r.o.Stalled {
		wg.Go(func() { r.client(p, i, t).uploadWithPause(ctx, r.src.next(int64(r.o.BlobSize))) })
	}
	wg.Wait()
	return []*tally{t}, nil
}

// uploadWithPause is one try. A server may cut a client that pauses, with any code; it may not acknowledge what it
// does not have.
func (c *client) uploadWithPause(ctx context.Context, b *blob) {
	c.tally.offered.Add(1)
	c.tally.open.Add(1)
	defer c.tally.open.Add(-1)
	ctx, cancel := context.WithTimeout(ctx, c.o.StallFor+c.o.CallTimeout)
	defer cancel()
	stream, err := bspb.NewByteStreamClient(c.conn).Write(ctx)
	if err != nil {
		c.tally.answer(err)
		return
	}
	began, paused := time.Now(), false
	for off := int64(0); off < b.size; {
		if !paused && off >= int64(c.o.StallAfter) {
			paused = true
			if !sleep(ctx, c.o.StallFor) {
				break
			}
		}
		part := c.buf[:min(int64(len(c.buf)), b.size-off)]
		b.readAt(part, off)
		req := &bspb.WriteRequest{WriteOffset: off, Data: part, FinishWrite: off+int64(len(part)) == b.size}
		if off == 0 {
			req.ResourceName = b.uploadName(c.o.Instance, newUUID())
		}
		if err := stream.Send(req); err != nil {
			break // CloseAndRecv says why
		}
		off += int64(len(part))
	}
	if _, err = stream.CloseAndRecv(); err != nil && !errors.Is(err, io.EOF) {
		c.tally.answer(err)
		c.checkShed(err)
		return
	}
	c.tally.admitted(b, began)
	if c.o.Verify {
		c.verify(ctx, b)
	}
}
