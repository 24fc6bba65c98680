package blobstore

import (
	"bytes"
	"errors"
	"log/slog"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// full fails every write and every new name with err while err is not nil.
type full struct{ err error }

func (f *full) call(op, _ string) error {
	if op == "write" || op == "create" || op == "sync" {
		return f.err
	}
	return nil
}

func TestB11AStoreOpensOnAFullDiskAndServesReadsUntilThereIsRoomToWrite(t *testing.T) {
	for _, no := range []error{syscall.ENOSPC, syscall.EDQUOT} {
		for _, how := range []string{"closed", "killed", "without an index"} {
			t.Run(no.Error()+", "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { startFull(t, no, how) })
			})
		}
	}
}

func startFull(t *testing.T, no error, how string) {
	fs, f := newMemFS(), &full{}
	fs.fault = f.call
	var log bytes.Buffer
	o := defaults(t, Options{FS: fs, Dir: "store", Logger: slog.New(slog.NewTextHandler(&log, nil)), boot: "b"})
	d := openAgain(t, o)
	k, data := put(t, d, 5000, 1)
	gone, _ := put(t, d, 6000, 2)
	if how == "closed" {
		must(t, d.Close())
	} else {
		crash(d)
	}
	if how == "without an index" {
		snapshots, journals, err := d.indexFiles()
		must(t, err)
		for _, n := range snapshots {
			must(t, fs.Remove(d.snapshotPath(n)))
		}
		for _, n := range journals {
			must(t, fs.Remove(d.journalPath(n)))
		}
	}

	f.err = no
	d = openAgain(t, o)
	wantBlob(t, d, k, data)
	slot, _ := d.mu.idx.find(gone)
	must(t, fs.Remove(d.blobPath(gone, d.mu.idx.at(slot).gen)))
	if _, err := read(d, gone); !errors.Is(err, ErrNotExist) {
		t.Errorf("a file removed by hand: %v", err)
	}
	extra := bytes.Repeat([]byte("x"), 7000)
	var shed *NoSpace
	if err := d.Put(t.Context(), stamp(extra, 3), extra); !errors.As(err, &shed) || shed.Reason != "disk_full" {
		t.Errorf("a write on the full disk: %v", err)
	}
	if reason, _ := d.Shedding(); reason != "disk_full" {
		t.Errorf("shedding %q", reason)
	}
	for range 3 {
		d.tidy(t.Context())
		wantBlob(t, d, k, data)
	}
	if len(fs.dirs["store"]) > 6 {
		t.Errorf("debris: %v", fs.dirs["store"])
	}

	f.err = nil
	time.Sleep(2 * fullFor) // virtual: what room believes runs out
	d.tidy(t.Context())
	wrote, its := put(t, d, 8000, 4)
	crash(d)
	d = openAgain(t, o)
	wantBlob(t, d, k, data)
	wantBlob(t, d, wrote, its)
	if n := size(d, gone); n >= 0 {
		t.Errorf("the blob that was forgotten on the full disk is back, %d bytes", n)
	}
	must(t, d.Close())
}

func TestAStoreThatEndsOnTheDiskThatWasFullWhenItBeganLosesNothing(t *testing.T) {
	fs, f := newMemFS(), &full{}
	fs.fault = f.call
	o := defaults(t, Options{FS: fs, Dir: "store", boot: "b"})
	d := openAgain(t, o)
	k, data := put(t, d, 5000, 1)
	must(t, d.Close())
	for range 3 {
		f.err = syscall.ENOSPC
		d = openAgain(t, o)
		wantBlob(t, d, k, data)
		if err := d.Close(); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("Close says %v", err)
		}
	}
	f.err = nil
	d = openAgain(t, o)
	wantBlob(t, d, k, data)
	must(t, d.Close())
}

func TestAStoreThatOpensOnAFullDiskKeepsWhatItHasWhenThereIsRoomAgain(t *testing.T) {
	fs := newMemFS()
	o := Options{FS: fs, Dir: "store", MaxBlobs: 1000, boot: "b"}
	d := openAgain(t, o)
	k, data := put(t, d, 5000, 1)
	must(t, d.Close())
	fs.free = 0
	d = openAgain(t, o)
	fs.free = 1 << 39
	d.space.next.Store(0)
	for i := range 20 {
		put(t, d, 50_000, 2+i)
	}
	wantBlob(t, d, k, data)
	must(t, d.Close())
}
