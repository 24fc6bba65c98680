package blobstore

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestADirectoryBelongsToOneProcess(t *testing.T) {
	d := testDisk(t, Options{})
	_, err := OpenDisk(d.opts)
	if err == nil || !strings.Contains(err.Error(), "in use") {
		t.Fatalf("error %v", err)
	}
}

func TestAStoreOfANewerVersionIsRefused(t *testing.T) {
	o := defaults(t, Options{})
	must(t, openAgain(t, o).Close())
	must(t, os.WriteFile(filepath.Join(o.Dir, "state"), []byte(`{"Version":2}`), 0o600))
	if _, err := OpenDisk(o); err == nil || !strings.Contains(err.Error(), "newer version") {
		t.Fatalf("error %v", err)
	}
}

func TestTheDefaultSizeIsTheSameAfterARestart(t *testing.T) {
	o, fs := memOptions(t, Options{})
	o.MaxSize = 0
	fs.free = 100 << 10
	d := openAgain(t, o)
	if n := d.Stats().MaxSize; n != 48<<10 { // half, rounded down
		t.Fatalf("%d", n)
	}
	put(t, d, 5*block, 1)
	fs.free -= 5 * block
	must(t, d.Close())
	d = openAgain(t, o)
	if n := d.Stats().MaxSize; n != 48<<10 {
		t.Fatalf("%d after a restart", n)
	}
	must(t, d.Close())
	fs.free = 1 << 40
	o.MinFree = 0
	d = openAgain(t, o)
	if s := d.Stats(); s.MaxSize != 10<<30 || s.MinFree != 1<<30 {
		t.Fatalf("%+v", s)
	}
	must(t, d.Close())
}

func TestOptionsThatContradictEachOtherAreErrors(t *testing.T) {
	good := Options{Dir: "x", MaxBlobs: 1}
	for want, change := range map[string]func(o *Options){
		"Dir":        func(o *Options) { o.Dir = "" },
		"MaxBlobs":   func(o *Options) { o.MaxBlobs = 0 },
		"MaxSize":    func(o *Options) { o.MaxSize = -1 },
		"MaxBlob":    func(o *Options) { o.MaxSize, o.MaxBlob = 1<<20, 2<<20 },
		"negative":   func(o *Options) { o.IOSlots = -1 },
		"MaxParked":  func(o *Options) { o.MaxUploads, o.MaxParked = 1, 2 },
		"durability": func(o *Options) { o.Durability = "often" },
	} {
		o := good
		change(&o)
		if _, err := OpenDisk(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v", want, err)
		}
	}
}

func TestAClosedStoreSaysSo(t *testing.T) {
	o, _ := memOptions(t, Options{})
	d := openAgain(t, o)
	k, data := put(t, d, 100, 1)
	u, err := d.Create(t.Context(), indexKey(1), 10, 0)
	must(t, err)
	must(t, d.Close())
	must(t, d.Close())
	_, openErr := d.Open(t.Context(), k)
	_, createErr := d.Create(t.Context(), k, 1, 0)
	_, writeErr := u.Write(make([]byte, 10))
	for i, err := range []error{openErr, createErr, writeErr, d.Put(t.Context(), stampOf([]byte("n")), []byte("n"))} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%d: error %v", i, err)
		}
	}
	u.Abort()
	d = openAgain(t, o)
	wantBlob(t, d, k, data)
	must(t, d.Close())
}
