package upstream

import (
	"context"
	"errors"
	"sync"
)

// flights let callers of the same kind share one question.
type flights struct {
	mu struct {
		sync.Mutex
		under map[callerKey]*flight
	}
}

type flight struct {
	done chan struct{}
	// After done:
	ad   *advert
	err  error
	left bool // its leader's context ended, which says nothing to those who still wait
}

var errFlight = errors.New("git upstream: the question ended without an answer")

// do returns what ask does, or what it just does for somebody else. It starts no goroutine: ask runs on one caller's, and if
// that caller leaves, another of those who wait takes over.
func (fs *flights) do(ctx context.Context, key callerKey, ask func() (*advert, error)) (*advert, error) {
	for {
		f, leads := fs.join(key)
		if leads {
			return fs.lead(ctx, key, f, ask)
		}
		select {
		case <-f.done:
			if !f.left {
				return f.ad, f.err
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (fs *flights) join(key callerKey) (f *flight, leads bool) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f = fs.mu.under[key]; f != nil {
		return f, false
	}
	f = &flight{done: make(chan struct{}), err: errFlight}
	fs.mu.under[key] = f
	return f, true
}

func (fs *flights) lead(ctx context.Context, key callerKey, f *flight, ask func() (*advert, error)) (*advert, error) {
	defer func() { // by a panic, too
		f.left = f.err != nil && ctx.Err() != nil
		fs.mu.Lock()
		delete(fs.mu.under, key)
		fs.mu.Unlock()
		close(f.done)
	}()
	f.ad, f.err = ask()
	return f.ad, f.err
}
