package blobstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func memOptions(t *testing.T, o Options) (Options, *memFS) {
	t.Helper()
	fs := newMemFS()
	o.FS, o.Dir = fs, "store"
	return defaults(t, o), fs
}

func TestAfterCloseTheOrderOfUseIsExact(t *testing.T) {
	o, _ := memOptions(t, Options{MaxSize: 5 * block})
	d := openAgain(t, o)
	var keys []Key
	for i := range 5 {
		k, _ := put(t, d, 100, i)
		keys = append(keys, k)
	}
	d.Lookup([]Key{keys[3], keys[0], keys[4]}, make([]int64, 3))
	must(t, d.Close())
	d = openAgain(t, o)
	defer d.Close()
	for i, victim := range []int{1, 2, 3, 0, 4} {
		put(t, d, 100, 100+i)
		if size(d, keys[victim]) != -1 {
			t.Fatalf("eviction %d did not take blob %d", i, victim)
		}
	}
}

func TestAfterACrashTheOrderOfUseIsThatOfAMinuteAgo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, _ := memOptions(t, Options{MaxSize: 3 * block})
		d := openAgain(t, o)
		var keys []Key
		for i := range 3 {
			k, _ := put(t, d, 100, i)
			keys = append(keys, k)
		}
		time.Sleep(touchEvery + time.Second)
		size(d, keys[0])
		d.tidy(t.Context())
		crash(d)
		d = openAgain(t, o)
		defer d.Close()
		put(t, d, 100, 9)
		if size(d, keys[1]) != -1 || size(d, keys[0]) == -1 {
			t.Fatal("a use from before the last minute was lost")
		}
	})
}

func TestADamagedOrMissingIndexIsRebuiltFromTheDirectories(t *testing.T) {
	damage := func(match string, what func(name string) error) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			names, err := filepath.Glob(filepath.Join(dir, match))
			must(t, err)
			if len(names) == 0 {
				t.Fatal("nothing to damage")
			}
			for _, n := range names {
				must(t, what(n))
			}
		}
	}
	flip := func(name string) error {
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		b[len(b)/2] ^= 1
		return os.WriteFile(name, b, 0o600)
	}
	for what, do := range map[string]func(t *testing.T, dir string){
		"a flipped bit":       damage("snapshot-*", flip),
		"a cut snapshot":      damage("snapshot-*", func(n string) error { return os.Truncate(n, 100) }),
		"an empty snapshot":   damage("snapshot-*", func(n string) error { return os.Truncate(n, 0) }),
		"no snapshot":         damage("snapshot-*", os.Remove),
		"no journal":          damage("journal-*", os.Remove),
		"no index at all":     damage("[sj]*-*", os.Remove),
		"no index, no state":  damage("[sj]*", os.Remove),
		"a damaged state":     damage("state", flip),
		"an unreadable state": damage("state", func(n string) error { return os.WriteFile(n, []byte("{"), 0o600) }),
	} {
		t.Run(what, func(t *testing.T) {
			o := defaults(t, Options{})
			d := openAgain(t, o)
			ac := Key{Kind: AC, Hash: [32]byte{5}}
			must(t, d.Put(t.Context(), ac, []byte("old")))
			k1, data1 := put(t, d, 5000, 1)
			must(t, d.Close())
			d = openAgain(t, o)
			must(t, d.Put(t.Context(), ac, []byte("new")))
			k2, data2 := put(t, d, 6000, 2)
			must(t, d.Close())
			do(t, o.Dir)
			for range 2 {
				d = openAgain(t, o)
				wantBlob(t, d, k1, data1)
				wantBlob(t, d, k2, data2)
				if what == "no index, no state" {
					// Nothing tells that the machine was not rebooted, and nothing to verify an action result by.
					if _, err := read(d, ac); !errors.Is(err, ErrNotExist) {
						t.Fatalf("error %v", err)
					}
				} else {
					wantBlob(t, d, ac, []byte("new"))
				}
				must(t, d.Close())
			}
		})
	}
}

func TestASmallerLimitKeepsTheNewest(t *testing.T) {
	for _, clean := range []bool{true, false} {
		o, fs := memOptions(t, Options{MaxBlobs: 3000, MaxSize: 1 << 30})
		d := openAgain(t, o)
		var keys []Key
		for i := range 2500 {
			k, _ := put(t, d, 100, i)
			keys = append(keys, k)
		}
		size(d, keys[0])
		if clean {
			must(t, d.Close())
		} else {
			crash(d)
		}
		o.MaxBlobs, o.MaxSize = 1100, 1050*block
		for range 2 { // the second start reads what the first one wrote
			d = openAgain(t, o)
			d.sweep(t.Context())
			must(t, d.trim(t.Context()))
			if n := d.Stats().Blobs; n != 1050 {
				t.Fatalf("%d blobs", n)
			}
			if size(d, keys[2500-1049]) != 100 || clean && size(d, keys[0]) != 100 || size(d, keys[2500-1052]) != -1 {
				t.Fatal("not the newest were kept")
			}
			checkFiles(t, "after shrinking", d, fs)
			crash(d)
		}
	}
}

func TestOnlyTheTailOfTheJournalIsReadAndNoFileIsLookedAt(t *testing.T) {
	o, fs := memOptions(t, Options{})
	d := openAgain(t, o)
	for i := range 200 {
		put(t, d, 100, i)
	}
	must(t, d.snapshot(t.Context()))
	k, data := put(t, d, 100, 1000)
	crash(d)
	fs.fault = func(op, name string) error {
		if strings.Contains(name, "store/cas/") && op != "syncdir" {
			t.Errorf("%s %s", op, name)
		}
		return nil
	}
	d = openAgain(t, o)
	defer d.Close()
	fs.fault = nil
	if got := d.Stats(); got.Blobs != 201 || got.JournalBytes > 300 {
		t.Fatalf("%+v", got)
	}
	wantBlob(t, d, k, data)
}

func TestSnapshotsAreWrittenWhileTheStoreIsUsed(t *testing.T) {
	fs := newMemFS()
	d := testDisk(t, Options{FS: fs, Dir: "store", MaxSize: 64 * block, MaxBlobs: 2000})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		for ctx.Err() == nil {
			if err := d.snapshot(context.Background()); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for i := range 3 {
		hammer(t, d, i, 400)
	}
	stop()
	must(t, <-done)
	must(t, d.flushQueued(t.Context()))
	left := fs.after(killLoses)
	want := liveKeys(d)
	again := openAgain(t, Options{FS: left, Dir: "store", MaxSize: 64 * block, MaxBlobs: 2000, MinFree: -1})
	if got := again.Stats(); got.Blobs != len(want) {
		t.Fatalf("%d blobs, want %d", got.Blobs, len(want))
	}
	for _, k := range want {
		if _, err := read(again, k); err != nil {
			t.Fatal(err)
		}
	}
	must(t, again.Close())
}

func TestRunKeepsTheJournalShortAndEndsItsGoroutines(t *testing.T) {
	defer goleak.VerifyNone(t)
	synctest.Test(t, func(t *testing.T) {
		o, fs := memOptions(t, Options{MaxBlobs: 200, MaxSize: 1 << 30})
		d := openAgain(t, o)
		orphan := d.blobPath(indexKey(1), 1)
		crash(d)
		f, err := fs.Open(orphan, os.O_CREATE|os.O_WRONLY)
		must(t, err)
		_, err = f.WriteAt([]byte("orphan"), 0)
		must(t, err)
		d = openAgain(t, o)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- d.Run(ctx) }()
		payload := make([]byte, maxTouches*4)
		touched := make([]uint32, len(payload)/4)
		must(t, d.lead.acquire(ctx))
		for d.journal.off < tailMin+1 { // a long history of touches
			must(t, d.journal.append(appendTouches(nil, 1, touched), false))
		}
		d.lead.release()
		k, data := put(t, d, 100, 1)
		time.Sleep(5 * time.Second)
		if s := d.Stats(); s.JournalBytes > 1000 || s.SnapshotBytes == 0 {
			t.Fatalf("%+v", s)
		}
		checkFiles(t, "after the sweep", d, fs)
		stop()
		must(t, <-done)
		must(t, d.Close())
		d = openAgain(t, o)
		wantBlob(t, d, k, data)
		if d.unclean {
			t.Fatal("a store that was closed in order is swept")
		}
		must(t, d.Close())
	})
}

// TestAfterARebootABlobIsVerifiedOnce also says what the log tells of a damaged one.
func TestAfterARebootABlobIsVerifiedOnce(t *testing.T) {
	o, fs := memOptions(t, Options{})
	var log bytes.Buffer
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	o.boot = "a"
	d := openAgain(t, o)
	good, data := put(t, d, 5000, 1)
	bad, _ := put(t, d, 5000, 2)
	slot, _ := d.mu.idx.find(bad)
	clear(fs.find(d.blobPath(bad, d.mu.idx.at(slot).gen)).bytes)
	must(t, d.Close())
	o.boot = "b"
	reads := 0
	fs.fault = func(op, name string) error {
		if op == "read" && strings.Contains(name, "/cas/") {
			reads++
		}
		return nil
	}
	d = openAgain(t, o)
	open := func(k Key) error {
		b, err := d.Open(t.Context(), k)
		if err == nil {
			b.Close()
		}
		return err
	}
	must(t, open(good))
	if reads == 0 {
		t.Fatal("it was not verified")
	}
	reads = 0
	must(t, open(good))
	must(t, d.Close())
	d = openAgain(t, o)
	defer d.Close()
	must(t, open(good))
	if reads != 0 {
		t.Fatal("it was verified again")
	}
	if err := open(bad); !errors.Is(err, ErrNotExist) || size(d, bad) != -1 {
		t.Fatalf("error %v", err)
	}
	if !strings.Contains(log.String(), "forgotten") {
		t.Fatal("the log does not tell")
	}
	wantBlob(t, d, good, data)
}

func TestTemporaryFilesAreGoneBeforeTheStoreIsReady(t *testing.T) {
	o := defaults(t, Options{})
	must(t, openAgain(t, o).Close())
	for i := range 3000 {
		must(t, os.WriteFile(filepath.Join(o.Dir, "tmp", fmt.Sprint(i)), nil, 0o600))
	}
	d := openAgain(t, o)
	defer d.Close()
	names, err := os.ReadDir(filepath.Join(o.Dir, "tmp"))
	if must(t, err); len(names) != 0 {
		t.Fatalf("%d temporary files", len(names))
	}
}
