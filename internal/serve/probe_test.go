package serve

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// start runs p until the test's end, and waits until its first write is done or stuck.
func start(t *testing.T, p *probe) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = p.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	synctest.Wait()
}

func TestADirectoryThatFailsMakesTheServerNotReadyUntilItWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProbe(t.TempDir(), slog.New(slog.DiscardHandler))
		var answer atomic.Value
		answer.Store(syscall.Errno(0))
		p.write = func(string) error {
			if errno := answer.Load().(syscall.Errno); errno != 0 {
				return errno
			}
			return nil
		}
		start(t, p)
		if p.failing() != nil {
			t.Fatalf("failing at once: %v", p.failing())
		}
		for _, step := range []struct {
			err   syscall.Errno
			ready bool
		}{{syscall.EIO, false}, {0, true}, {syscall.ENOSPC, true}, {syscall.EROFS, false}, {syscall.EDQUOT, true}} {
			answer.Store(step.err)
			time.Sleep(probeEvery)
			synctest.Wait()
			if got := p.failing(); (got == nil) != step.ready {
				t.Errorf("%v: %v", step.err, got)
			}
		}
	})
}

func TestADirectoryThatAnswersNothingMakesTheServerNotReadyAfterAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProbe(t.TempDir(), slog.New(slog.DiscardHandler))
		stuck := make(chan struct{})
		p.write = func(string) error { <-stuck; return nil }
		start(t, p)
		time.Sleep(probePatience)
		if err := p.failing(); err != nil {
			t.Errorf("after %v: %v", probePatience, err)
		}
		time.Sleep(time.Second)
		if p.failing() == nil {
			t.Error("still ready after more than that")
		}
		close(stuck)
		synctest.Wait()
		if err := p.failing(); err != nil {
			t.Errorf("after it answered: %v", err)
		}
	})
}

func TestTheProbeWritesWhereTheStoreIs(t *testing.T) {
	dir := t.TempDir()
	p := newProbe(dir, slog.New(slog.DiscardHandler))
	p.once()
	if err := p.failing(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "probe")); err != nil {
		t.Error(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	p.once()
	if p.failing() == nil {
		t.Error("ready without a directory")
	}
	if err := writeByte(p.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}
