package blobstore_test

import (
	"testing"

	"github.com/leveehq/levee/internal/blobstore"
	"github.com/leveehq/levee/internal/blobstore/blobstoretest"
)

func openDisk(t testing.TB, o blobstore.Options) *blobstore.Disk {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	if o.MaxBlobs == 0 {
		o.MaxBlobs = 1000
	}
	o.MinFree = -1
	d, err := blobstore.OpenDisk(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func TestADiskKeepsTheContract(t *testing.T) {
	blobstoretest.Run(t, func(t testing.TB, l blobstoretest.Limits) blobstore.Store {
		return openDisk(t, blobstore.Options{MaxSize: l.MaxSize, MaxBlobs: l.MaxBlobs})
	})
}

func TestADiskThatFlushesKeepsTheContract(t *testing.T) {
	blobstoretest.Run(t, func(t testing.TB, l blobstoretest.Limits) blobstore.Store {
		return openDisk(t, blobstore.Options{MaxSize: l.MaxSize, MaxBlobs: l.MaxBlobs, Durability: blobstore.Fsync, FS: blobstore.NewMemFS()})
	})
}

func TestADiskBehavesLikeTheModel(t *testing.T) {
	blobstoretest.Model(t, func(t testing.TB, l blobstoretest.Limits) blobstore.Store {
		return openDisk(t, blobstore.Options{MaxSize: l.MaxSize, MaxBlobs: l.MaxBlobs, FS: blobstore.NewMemFS()})
	})
}
