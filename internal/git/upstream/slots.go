package upstream

import (
	"context"
	"errors"
	"sync"
	"time"
)

// slots bound what a host is asked at once. Who waits, waits in the order of arrival.
type slots chan struct{}

func newSlots(n int) slots { return make(slots, n) }

var errBusy = errors.New("has been busy with other requests for too long")

// take waits no longer than patience, or for its context alone if that is 0.
func (s slots) take(ctx context.Context, patience time.Duration) error {
	var impatient <-chan time.Time
	if patience > 0 {
		t := time.NewTimer(patience)
		defer t.Stop()
		impatient = t.C
	}
	select {
	case s <- struct{}{}:
		return nil
	case <-impatient:
		return errBusy
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s slots) give() { <-s }

func (s slots) inUse() int { return len(s) }

// budget is what may be sent again: at most one request for every ten that were sent.
type budget struct {
	mu struct {
		sync.Mutex
		tenths int
	}
}

const (
	aRetry = 10  // tenths that it takes
	saved  = 100 // tenths at most: after a calm day, ten retries in a row and no more
)

// sent is told of a first attempt.
func (b *budget) sent() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.tenths = min(b.mu.tenths+1, saved)
}

// spend takes a retry, if there is one.
func (b *budget) spend() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.tenths < aRetry {
		return false
	}
	b.mu.tenths -= aRetry
	return true
}

// backoff keeps requests here while a host wants none. A limit that was told to one caller holds for that caller: else anybody
// with an exhausted token of their own could close a host for all. When a second one is told the same meanwhile, the host
// limits by our address, and it holds for everyone.
type backoff struct {
	mu struct {
		sync.Mutex
		until time.Time // for everyone
		one   struct {
			key   callerKey
			until time.Time
		}
	}
}

// left is how long a caller's request must not be sent; 0 is not at all.
func (b *backoff) left(key callerKey, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	until := b.mu.until
	if key == b.mu.one.key && b.mu.one.until.After(until) {
		until = b.mu.one.until
	}
	return max(until.Sub(now), 0)
}

// host is how long nobody's request may be sent.
func (b *backoff) host(now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(b.mu.until.Sub(now), 0)
}

// everyone keeps all requests here for d.
func (b *backoff) everyone(now time.Time, d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.until = later(b.mu.until, now.Add(d))
}

// caller keeps one caller's here, or all of them if it is the second.
func (b *backoff) caller(key callerKey, now time.Time, d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	one := &b.mu.one
	if one.key != key && one.until.After(now) {
		b.mu.until = later(b.mu.until, now.Add(d))
		return
	}
	if one.key != key {
		one.key, one.until = key, time.Time{}
	}
	one.until = later(one.until, now.Add(d))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
