package storm

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// readers: clients that take a large blob slowly. Each blob is read by many, as a popular artifact is.
func readers(ctx context.Context, r *run) ([]*tally, error) {
	t := r.tally("readers")
	p, err := dialPool(r.o.Target, r.o.Connections, "")
	if err != nil {
		return nil, err
	}
	defer p.Close()
	b, err := r.prepare(ctx, p, int64(r.o.ReadSize))
	if err != nil {
		return nil, err
	}
	r.begin(ctx)
	var wg sync.WaitGroup
	for i := range r.o.Readers {
		wg.Go(func() { r.client(p, i, t).readSlowly(ctx, r.offer, b) })
	}
	wg.Wait()
	return []*tally{t}, nil
}

// prepare stores one blob for others to read, off the books.
func (r *run) prepare(ctx context.Context, p *pool, size int64) (*blob, error) {
	b := r.src.next(size)
	if err := r.client(p, 0, newTally("")).upload(ctx, b); err != nil {
		return nil, fmt.Errorf("the blob to be read could not be stored: %w", err)
	}
	return b, nil
}

// readSlowly reads b once at the configured rate. Being cut off by the end of the run is no failure.
func (c *client) readSlowly(ctx, offer context.Context, b *blob) {
	c.tally.offered.Add(1)
	c.tally.open.Add(1)
	defer c.tally.open.Add(-1)
	l := newLadder(c.retries())
	for {
		began := time.Now()
		n, err := c.readBack(offer, b, func(ctx context.Context, n int) error {
			if !sleep(ctx, time.Duration(float64(n)/float64(c.o.ReadRate)*float64(time.Second))) {
				return context.Cause(ctx)
			}
			return nil
		})
		c.tally.bytes.Add(n)
		switch {
		case err == nil:
			c.tally.latency.add(time.Since(began))
			c.tally.ok.Add(1)
			c.tally.verified.Add(1)
			return
		case errors.Is(err, errWrongBytes):
			c.tally.wrong.Add(1)
			c.tally.breaks("wrong bytes were served for " + b.hex())
			return
		case offer.Err() != nil:
			return
		}
		c.tally.answer(err)
		if code := status.Code(err); code != codes.ResourceExhausted || !isShed(err) {
			c.tally.breaks(fmt.Sprintf("a read of a stored blob was answered %s: %s", codeName(code), status.Convert(err).Message()))
		}
		pause, again := l.next(status.Code(err))
		if !again || !sleep(offer, pause) {
			return
		}
		c.tally.retries.Add(1)
	}
}
