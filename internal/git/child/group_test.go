package child

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

var errGone = errors.New("the client has gone")

// G6: the whole group goes when the client does, grandchildren included, and nothing of it stays as a zombie.
func TestG6ACancelledChildLeavesNoProcessBehind(t *testing.T) {
	r := newRunner(t, Options{Git: shell(t)})
	leavesNothing(t, r, func() {
		for range 20 {
			ctx, cancel := context.WithCancelCause(t.Context())
			f := fifo(t)
			// The grandchildren keep the output open and ignore every signal that can be ignored.
			ended := started(t, ctx, r, with(script(`trap '' TERM HUP INT PIPE; (sleep 1000; echo x) & sleep 1000 & echo up >%s; wait`, f)), f)
			cancel(errGone)
			if err := <-ended; !errors.Is(err, errGone) {
				t.Fatalf("got %v", err)
			}
		}
	})
}

// with has our eyes on the output, so that os/exec waits until everybody has closed it.
func with(c Cmd) Cmd {
	c.Stdin, c.Stdout = strings.NewReader("x"), io.Discard
	return c
}

func TestG6WhatAChildLeavesRunningIsEndedWithIt(t *testing.T) {
	r := newRunner(t, Options{Git: shell(t)})
	leavesNothing(t, r, func() {
		if _, err := r.Run(t.Context(), with(script(`(sleep 1000; echo x) & sleep 1000 & exit 0`))); err != nil {
			t.Fatal(err)
		}
	})
}

func TestG6ManyAtOnceAndCancelledAtAnyTime(t *testing.T) {
	r := newRunner(t, Options{Git: shell(t)})
	leavesNothing(t, r, func() {
		var all sync.WaitGroup
		for i := range 60 {
			all.Go(func() {
				ctx, cancel := context.WithCancelCause(t.Context())
				c := script(`(yes & yes) | head -c %d`, 1+i*20000)
				c.Stdout = &after{n: int64(i) * 10000, f: func() { cancel(errGone) }}
				if i%3 == 0 {
					c.Stdout = io.Discard
				}
				if _, err := r.Run(ctx, c); err != nil && !errors.Is(err, errGone) {
					t.Errorf("%d: %v", i, err)
				}
				cancel(nil)
			})
		}
		all.Wait()
	})
}

// after calls f when n bytes have come.
type after struct {
	n int64
	f func()
}

func (a *after) Write(p []byte) (int, error) {
	if a.n -= int64(len(p)); a.n <= 0 {
		a.f()
	}
	return len(p), nil
}

func TestAChildIsWatchedForAsLongAsItLives(t *testing.T) {
	var watched atomic.Int64
	r := newRunner(t, Options{Git: shell(t), Watch: func(pid int) func() {
		if err := unix.Kill(pid, 0); err != nil {
			t.Errorf("watched %d: %v", pid, err)
		}
		watched.Add(1)
		return func() { watched.Add(-1) }
	}})
	ctx, cancel := context.WithCancelCause(t.Context())
	f := fifo(t)
	ended := started(t, ctx, r, script(`echo up >%s; sleep 1000`, f), f)
	if n, bytes := r.Running(); n != 1 || bytes != 64*mib || watched.Load() != 1 {
		t.Errorf("%d running with %d bytes, %d watched", n, bytes, watched.Load())
	}
	cancel(errGone)
	<-ended
	if n, _ := r.Running(); n != 0 || watched.Load() != 0 {
		t.Errorf("%d running, %d watched", n, watched.Load())
	}
}

// The child's parent is the thread that started it: it must live on, or the kernel ends the child.
func TestAChildOutlivesOtherThreads(t *testing.T) {
	r := newRunner(t, Options{Git: shell(t)})
	f, hold := fifo(t), fifo(t)
	ended := started(t, t.Context(), r, script(`echo up >%s; cat %s`, f, hold), f)
	var all sync.WaitGroup
	for range 50 {
		all.Go(dieWithThread)
	}
	all.Wait()
	go func() { _ = os.WriteFile(hold, []byte("go on"), 0) }()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// dieWithThread ends a goroutine that is locked to its thread, which ends the thread.
func dieWithThread() { runtime.LockOSThread() }
