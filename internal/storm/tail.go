package storm

import (
	"context"
	"sync"
	"time"

	bspb "google.golang.org/genproto/googleapis/bytestream"
)

// tail: a build whose actions go on while their outputs are uploaded in the background, against a server whose write
// gate is held by stalled uploads. These come from the same address, as from behind a proxy: from another one they would
// be another tenant's, and could not hold what is the build's. The figure is the time from the end of the last action to the end of the
// last upload: the time that a user waits for the cache alone, and what the code of a shed write decides.
func tail(ctx context.Context, r *run) ([]*tally, error) {
	t := r.tally("tail")
	p, err := dialPool(r.o.Target, r.o.Connections, "")
	if err != nil {
		return nil, err
	}
	defer p.Close()
	others, err := dialPool(r.o.Target, r.o.Connections, "")
	if err != nil {
		return nil, err
	}
	defer others.Close()

	hold, release := context.WithCancel(ctx)
	var holders sync.WaitGroup
	r.src.next(int64(r.o.BlobSize))
	held := make(chan struct{}, r.o.Stalled)
	for i := range r.o.Stalled {
		holders.Go(func() { r.client(others, i, newTally("")).hold(hold, r.src, held) })
	}
	defer holders.Wait()
	defer release()
	for range r.o.Stalled {
		select {
		case <-held:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	build := r.build(ctx, p, t)
	return []*tally{t}, build
}

// build executes the actions, Jobs at a time, and uploads behind them.
func (r *run) build(ctx context.Context, p *pool, t *tally) error {
	var actions, uploads sync.WaitGroup
	left := make(chan int, r.o.Actions)
	for i := range r.o.Actions {
		left <- i
	}
	close(left)
	for range r.o.Jobs {
		actions.Go(func() {
			for i := range left {
				if !sleep(ctx, r.o.ActionTime) {
					return
				}
				uploads.Go(func() {
					c := r.client(p, i, t)
					b := r.src.next(int64(r.o.BlobSize))
					if c.uploadOne(ctx, b) {
						c.recordResult(ctx, b)
					}
				})
			}
		})
	}
	actions.Wait()
	ended := time.Now()
	uploads.Wait()
	t.tail.Store(int64(time.Since(ended)))
	return ctx.Err()
}

// hold keeps a permit of the write gate for as long as ctx lives: it begins uploads and does not end them. A server
// cuts such a client sooner or later; then it begins the next one.
func (c *client) hold(ctx context.Context, src *source, held chan<- struct{}) {
	var once sync.Once
	for ctx.Err() == nil {
		b := src.next(int64(c.o.BlobSize))
		stream, err := bspb.NewByteStreamClient(c.conn).Write(ctx)
		if err == nil {
			part := c.buf[:min(int64(len(c.buf)), b.size-1)]
			b.readAt(part, 0)
			err = stream.Send(&bspb.WriteRequest{ResourceName: b.uploadName(c.o.Instance, newUUID()), Data: part})
		}
		once.Do(func() { held <- struct{}{} })
		if err == nil {
			var answer bspb.WriteResponse
			stream.RecvMsg(&answer) // returns when the server cuts the stream, or ctx ends
		}
		sleep(ctx, ladderFirst)
	}
}

// recordResult stores the action's result, as Bazel does once the outputs are there. The server may shed that too.
func (c *client) recordResult(ctx context.Context, output *blob) {
	err := c.putResult(ctx, output.src.next(64), output)
	if err == nil {
		return
	}
	c.tally.answer(err)
	if !isShed(err) && ctx.Err() == nil {
		c.tally.breaks("an action result was neither stored nor shed: " + err.Error())
	}
}
