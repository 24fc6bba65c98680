package storm

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// crowdFrom are the addresses that a crowd comes from in turn: a server that is fair between peers lets no single one fill
// anything.
var crowdFrom = []string{"127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5", "127.0.0.6", "127.0.0.7", "127.0.0.8", "127.0.0.9"}

// crowd is a number of raw connections with their streams. It acts in phases: what the streams are to send is only changed
// between two calls of pump.
type crowd struct {
	conns []*rawConn
	sends [][]*sending // of each connection
	reads bool
	next  int // connection that the next stream goes to
}

// crowdOptions of a crowd: n connections. One that does not read answers neither SETTINGS nor PING and leaves what the
// server sends in the sockets' buffers.
type crowdOptions struct {
	n     int
	as    rawDial
	reads bool
}

func (r *run) crowd(ctx context.Context, t *tally, o crowdOptions) (*crowd, error) {
	w := &crowd{reads: o.reads}
	for i := range o.n {
		o.as.from = crowdFrom[i%len(crowdFrom)]
		c, err := dialRawAs(ctx, &r.o, t, o.as)
		if err != nil {
			w.close()
			return nil, err
		}
		w.conns, w.sends = append(w.conns, c), append(w.sends, nil)
		if !o.reads {
			continue
		}
		if err := c.read(ctx); err != nil {
			w.close()
			return nil, fmt.Errorf("connection %d of %d: %w", i+1, o.n, err)
		}
	}
	return w, nil
}

// open opens one more stream, on the connections in turn.
func (w *crowd) open(method string) (*sending, error) {
	i := w.next % len(w.conns)
	w.next++
	s, err := w.conns[i].open(method)
	if err != nil {
		return nil, err
	}
	send := &sending{s: s}
	w.sends[i] = append(w.sends[i], send)
	return send, nil
}

// openMany opens n streams that all have the first bytes of a message and no more.
func (w *crowd) openMany(n int, method string, first []byte) (sends []*sending, err error) {
	for range n {
		s, err := w.open(method)
		if err != nil {
			return nil, err
		}
		s.head = first
		sends = append(sends, s)
	}
	return sends, nil
}

// pump sends what there is to send, as the windows allow, for as long as d.
func (w *crowd) pump(ctx context.Context, d time.Duration, frame int) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var wg sync.WaitGroup
	for i, c := range w.conns {
		wg.Go(func() { c.pump(ctx, w.sends[i], swarm{frame: frame}) }) // a connection that was cut holds nothing, which the books show
	}
	wg.Wait()
	<-ctx.Done()
}

// fill pumps until all streams are out of window or bytes, which is when nothing has moved for a while.
func (w *crowd) fill(ctx context.Context, frame int, most time.Duration) {
	const quiet = 300 * time.Millisecond
	last := int64(-1)
	for began := time.Now(); time.Since(began) < most && ctx.Err() == nil; {
		w.pump(ctx, quiet, frame)
		left := int64(0)
		for _, sends := range w.sends {
			for _, s := range sends {
				left += s.left()
			}
		}
		if left == last {
			return
		}
		last = left
	}
}

func (w *crowd) close() {
	for _, c := range w.conns {
		c.close(w.reads)
	}
}
