package storm

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Two tenants of one machine are told apart by their source address. Linux answers for all of 127.0.0.0/8.
const (
	burstAddress = "127.0.0.2"
	quietAddress = "127.0.0.3"

	quietEvery = time.Second
	quietSize  = 64 << 10
	quietP99   = time.Second // what the quiet tenant is promised
)

// tenants: one tenant bursts; beside it another writes one small blob a second, and must not notice.
func tenants(ctx context.Context, r *run) ([]*tally, error) {
	burst, quiet := r.tally("tenants: bursting"), r.tally("tenants: quiet")
	burstPool, err := dialPool(r.o.Target, r.o.Connections, burstAddress)
	if err != nil {
		return nil, err
	}
	defer burstPool.Close()
	quietPool, err := dialPool(r.o.Target, 1, quietAddress)
	if err != nil {
		return nil, err
	}
	defer quietPool.Close()

	burstEnded := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(burstEnded)
		r.write(ctx, burstPool, burst, writeLoad{writers: r.o.Writers, perWriter: r.o.BlobsPerWriter, size: int64(r.o.BlobSize)})
	})
	wg.Go(func() { r.quiet(ctx, quietPool, quiet, burstEnded) })
	wg.Wait()

	if n := quiet.shedCount(); n > 0 {
		quiet.breaks(fmt.Sprintf("%d writes of the quiet tenant were shed", n))
	}
	if p99 := quiet.latency.quantile(0.99); p99 > quietP99 {
		quiet.breaks(fmt.Sprintf("the quiet tenant's p99 is %s, above %s", short(p99), quietP99))
	}
	return []*tally{burst, quiet}, nil
}

// quiet writes for as long as the other tenant bursts, and without retries: a shed is to be seen, not to be mended.
func (r *run) quiet(ctx context.Context, p *pool, t *tally, until <-chan struct{}) {
	c := r.client(p, 0, t)
	o := r.o
	o.Retry = false
	c.o = &o
	tick := time.NewTicker(quietEvery)
	defer tick.Stop()
	for {
		c.uploadOne(ctx, r.src.next(quietSize))
		select {
		case <-until:
			return
		case <-r.offer.Done():
			return
		case <-tick.C:
		}
	}
}
