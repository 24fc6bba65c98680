package bazel

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/leveehq/levee"
	"github.com/leveehq/levee/internal/blobstore"
)

// newTestKernel is a kernel whose limit does not depend on the machine.
func newTestKernel(t testing.TB, limit int64) *levee.Kernel {
	t.Helper()
	meminfo := fmt.Sprintf("MemTotal: %d kB\nMemFree: %d kB\nMemAvailable: %d kB\n", 64<<20, 32<<20, 32<<20)
	machine := fstest.MapFS{"proc/meminfo": {Data: []byte(meminfo)}}
	for _, name := range []string{"proc/self/status", "proc/self/smaps_rollup", "proc/self/statm"} {
		if b, err := os.ReadFile("/" + name); err == nil {
			machine[name] = &fstest.MapFile{Data: b}
		}
	}
	k, err := levee.New(levee.Options{MemoryLimit: limit, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), FS: machine})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// The lines of others that a plan always has: the index with 15 % of what may be live, dirty pages, unfinished uploads.
func addStoreLines(k *levee.Kernel) {
	k.AddLine(levee.Line{Account: "index", Kind: levee.KindGo, Units: k.Limit() / 18 / blobstore.BytesPerBlob, Unit: "blob", PerUnit: blobstore.BytesPerBlob})
	k.AddLine(levee.Line{Account: "uploads", Kind: levee.KindGo, Units: 4096, Unit: "upload", PerUnit: 768})
	k.AddLine(levee.Line{Account: "dirty_pages", Kind: levee.KindKernel, Units: 16 * mib, Unit: "byte", PerUnit: 1})
	k.AddLine(levee.Line{Account: "admin", Kind: levee.KindGo, Units: 7 * mib, Unit: "byte", PerUnit: 1})
	k.AddLine(levee.Line{Account: "admin_sockets", Kind: levee.KindKernel, Units: 5 * mib, Unit: "byte", PerUnit: 1})
}

func TestTheDefaultsFitEveryMemoryLimit(t *testing.T) {
	for _, limit := range []int64{256 * mib, 384 * mib, 512 * mib, 768 * mib, 1 << 30, 2 << 30, 4 << 30, 8 << 30, 64 << 30} {
		k := newTestKernel(t, limit)
		s, err := New(Options{Kernel: k, Store: newMemStore()})
		if err != nil {
			t.Fatalf("%d MiB: %v", limit/mib, err)
		}
		addStoreLines(k)
		p := k.Plan()
		if err := p.Check(); err != nil {
			t.Errorf("%d MiB: %v", limit/mib, err)
		}
		t.Logf("%5d MiB: live %d of %d MiB, GOMEMLIMIT %d MiB: %d streams, %d connections, %d writes of %d KiB",
			limit/mib, p.GoLive/mib, p.GoLiveMost/mib, p.GoMemLimit/mib, s.opt.MaxStreams, s.opt.MaxConnections, s.opt.MaxWrites, s.opt.identityCost()/kib)
		if testing.Verbose() && limit == 512*mib {
			for _, l := range p.Lines {
				t.Logf("%18s %8s %7.1f MiB", l.Account, l.Kind, float64(l.Bytes)/mib)
			}
		}
	}
}

func TestThePlansOfTheAcceptanceLoadsFit(t *testing.T) {
	for _, c := range []struct {
		limit int64
		o     Options
	}{
		{512 * mib, Options{WriteWait: 50 * time.Second, WriteQueue: 2000}},
		{8 << 30, Options{MaxWrites: 2500, Window: 256 * kib}},
		{1 << 30, Options{Window: 2 * mib, MaxWrites: 16}},
	} {
		k := newTestKernel(t, c.limit)
		c.o.Kernel, c.o.Store = k, newMemStore()
		if _, err := New(c.o); err != nil {
			t.Fatal(err)
		}
		addStoreLines(k)
		if err := k.Plan().Check(); err != nil {
			t.Errorf("%d MiB: %v", c.limit/mib, err)
		}
	}
}

func TestContradictionsNameBothSettings(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want []string
	}{
		{Options{MaxStreams: 10, MaxStreamsPerConnection: 20}, []string{"bazel.max_streams_per_connection (20)", "bazel.max_streams (10)"}},
		{Options{MaxStreams: 10, MaxWrites: 20}, []string{"bazel.max_writes (20)", "bazel.max_streams (10)"}},
		{Options{MaxStreams: 10, WriteQueue: 20}, []string{"bazel.write_queue (20)", "bazel.max_streams (10)"}},
		{Options{DoorWindow: 64 * kib, Window: 32 * kib}, []string{"bazel.door_window (65536)", "bazel.window (32768)"}},
		{Options{WriteWait: time.Minute}, []string{"bazel.write_wait (1m0s)", "bazel.read_stall (1m0s)"}},
		{Options{MaxWrites: -1}, []string{"bazel.max_writes (-1) is negative"}},
		{Options{DoorWindow: 100}, []string{"bazel.door_window (100) is below"}},
		{Options{ReadChunk: 2 * mib}, []string{"bazel.read_chunk (2097152) is above"}},
		{Options{FairBy: "pear"}, []string{`"pear"`, `"peer"`, `"instance"`}},
	} {
		c.o.Kernel, c.o.Store = newTestKernel(t, 1<<30), newMemStore()
		_, err := New(c.o)
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want an error with %q", err, want)
			}
		}
	}
	if _, err := New(Options{}); err == nil {
		t.Error("a service without kernel and store is made")
	}
}

func TestEveryLimitOfOneMakesAPlan(t *testing.T) { // O5
	k := newTestKernel(t, 512*mib)
	o := tinyOptions(k, newMemStore())
	if _, err := New(o); err != nil {
		t.Fatal(err)
	}
	addStoreLines(k)
	if err := k.Plan().Check(); err != nil {
		t.Error(err)
	}
}

// tinyOptions has every limit at one.
func tinyOptions(k *levee.Kernel, store blobstore.Store) Options {
	return Options{Kernel: k, Store: store, MaxStreams: 1, MaxWrites: 1, WriteQueue: 1, MaxConnections: 1, MaxHTTPConnections: 1,
		ReadMemory: 1, BatchMemory: 1, BatchReadMemory: 1, ACMemory: 1, FindMissingMemory: 1}
}
