package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	probeEvery = 5 * time.Second

	// probePatience is how long the directory may answer nothing before the server calls itself not ready. It is long,
	// because a disk that is merely slow under load does its work, and readiness that flaps moves the load to a
	// neighbour with the same disk.
	probePatience = 30 * time.Second
)

// probe tells whether the data directory works, for readiness alone: it writes a byte now and then. A full disk is no
// failure, since reads go on and writes are shed in order. A disk that answers nothing holds one thread, the probe's.
type probe struct {
	path  string
	log   *slog.Logger
	write func(path string) error // writeByte, but for tests

	answered atomic.Int64 // when, in nanoseconds since 1970; 0 before the first
	err      atomic.Pointer[string]
}

func newProbe(dir string, log *slog.Logger) *probe {
	return &probe{path: filepath.Join(dir, "probe"), log: log, write: writeByte}
}

// Run probes until ctx is done.
func (p *probe) Run(ctx context.Context) error {
	p.answered.Store(time.Now().UnixNano())
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		p.once()
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (p *probe) once() {
	err := p.write(p.path)
	p.answered.Store(time.Now().UnixNano())
	if err == nil || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		if p.err.Swap(nil) != nil {
			p.log.Info("the data directory works again")
		}
		return
	}
	text := err.Error()
	if p.err.Swap(&text) == nil {
		p.log.Error("the data directory does not work; the server is not ready until it does", "error", text)
	}
}

// failing is two atomic loads.
func (p *probe) failing() error {
	if text := p.err.Load(); text != nil {
		return errors.New("the data directory does not work: " + *text)
	}
	if since := time.Since(time.Unix(0, p.answered.Load())); p.answered.Load() != 0 && since > probePatience {
		return fmt.Errorf("the data directory has not answered for %s", since.Truncate(time.Second))
	}
	return nil
}

func writeByte(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte{'.'}, 0)
	return errors.Join(err, f.Close())
}
