package storm

import (
	"context"
	"errors"
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
	burstEnded := make(chan struct{})
	var burstErr, quietErr error
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(burstEnded)
		burstErr = r.burst(ctx, burst)
	})
	wg.Go(func() { quietErr = r.quiet(ctx, quiet, burstEnded) })
	wg.Wait()
	return []*tally{burst, quiet}, errors.Join(burstErr, quietErr)
}

// burstAlone and quietAlone are the halves of tenants, for those who give each a process of its own: then the quiet
// tenant's latency is not made of waiting for the bursting one's processor time.
func burstAlone(ctx context.Context, r *run) ([]*tally, error) {
	t := r.tally("burst")
	return []*tally{t}, r.burst(ctx, t)
}

func quietAlone(ctx context.Context, r *run) ([]*tally, error) {
	t := r.tally("quiet")
	return []*tally{t}, r.quiet(ctx, t, nil)
}

func (r *run) burst(ctx context.Context, t *tally) error {
	p, err := dialPool(r.o.Target, r.o.Connections, burstAddress)
	if err != nil {
		return err
	}
	defer p.Close()
	r.write(ctx, p, t, writeLoad{writers: r.o.Writers, perWriter: r.o.BlobsPerWriter, size: int64(r.o.BlobSize)})
	return nil
}

// quiet writes until the channel or the offer ends, and without retries: a shed is to be seen, not to be mended.
func (r *run) quiet(ctx context.Context, t *tally, until <-chan struct{}) error {
	p, err := dialPool(r.o.Target, 1, quietAddress)
	if err != nil {
		return err
	}
	defer p.Close()
	defer t.judgeQuiet()
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
			return nil
		case <-r.offer.Done():
			return nil
		case <-tick.C:
		}
	}
}

// judgeQuiet holds the server to what a tenant is promised that stays within its share.
func (t *tally) judgeQuiet() {
	if n := t.shedCount(); n > 0 {
		t.breaks(fmt.Sprintf("%d writes of the quiet tenant were shed", n))
	}
	if p99 := t.latency.quantile(0.99); p99 > quietP99 {
		t.breaks(fmt.Sprintf("the quiet tenant's p99 is %s, above %s", short(p99), quietP99))
	}
}
