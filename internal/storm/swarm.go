package storm

import (
	"context"
	"errors"
	"sync"
	"time"
)

// sending is a stream of a swarm and what it still has to send: the rest of head, then the bytes [off, stop) of b.
type sending struct {
	s         *rawStream
	head      []byte
	b         *blob
	off, stop int64
	end       bool // half-close after the last byte
}

func (s *sending) left() int64 { return int64(len(s.head)) + s.stop - s.off }

// swarm is a number of raw streams that all do the same.
type swarm struct {
	streams int
	frame   int    // bytes of a DATA frame
	receive uint32 // window of each stream for what the server sends
	discard bool   // give received bytes back to the windows
	open    func(c *rawConn) (*sending, error)

	// tick, if set, is called each tickEvery while the swarm holds its streams open.
	tick      func(c *rawConn) error
	tickEvery time.Duration
}

// loose runs w over the configured connections until all streams have ended or the offer is over. A connection that
// the server cuts is what a hostile client has to expect: it is noted, and no failure.
func (r *run) loose(ctx context.Context, t *tally, w swarm) error {
	connections := min(r.o.Connections, w.streams)
	var wg sync.WaitGroup
	errs := make([]error, connections)
	for i := range connections {
		share := w.streams / connections
		if i < w.streams%connections {
			share++
		}
		wg.Go(func() { errs[i] = r.looseOne(ctx, t, w, share) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (r *run) looseOne(ctx context.Context, t *tally, w swarm, share int) error {
	c, err := dialRaw(ctx, &r.o, t, w.receive)
	if err != nil {
		t.turnedAway("not connected", err.Error())
		return nil
	}
	c.discard = w.discard
	if err := c.read(r.offer); err != nil {
		c.close(true)
		t.turnedAway("cut", "at once")
		return nil
	}
	defer c.close(true)
	var sends []*sending
	for range c.streamLimit(share) {
		s, err := w.open(c)
		if err != nil {
			return err
		}
		sends = append(sends, s)
	}
	if err := c.pump(r.offer, sends, w); err != nil && r.offer.Err() == nil {
		t.turnedAway("cut", err.Error())
	}
	return nil
}

// pump sends in turn, and then holds, until every stream has ended, the connection has, or ctx does.
func (c *rawConn) pump(ctx context.Context, sends []*sending, w swarm) error {
	buf := make([]byte, 4<<10)
	every := w.tickEvery
	if every == 0 {
		every = time.Second
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for ctx.Err() == nil {
		progress, open := false, 0
		for _, s := range sends {
			n, err := c.sendSome(s, buf, w.frame)
			if errors.Is(err, errStreamEnded) {
				continue
			}
			if err != nil {
				return err
			}
			open++
			progress = progress || n > 0
		}
		if err := c.flush(); err != nil || open == 0 {
			return err
		}
		if progress {
			continue
		}
		select {
		case <-ctx.Done():
		case <-c.changed:
		case <-tick.C:
			if w.tick == nil {
				continue
			}
			if err := w.tick(c); err != nil {
				return err
			}
		}
	}
	return nil
}

// sendSome sends as much of s as the windows and buf hold.
func (c *rawConn) sendSome(s *sending, buf []byte, frame int) (int64, error) {
	n, err := c.take(s.s, min(s.left(), int64(len(buf))))
	if err != nil || n == 0 {
		return 0, err
	}
	p := buf[:copy(buf[:n], s.head)]
	s.head = s.head[len(p):]
	if rest := n - int64(len(p)); rest > 0 {
		s.b.readAt(buf[len(p):n], s.off)
		s.off += rest
	}
	return n, c.data(s.s, buf[:n], frame, s.end && s.left() == 0)
}
