package blobstore

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"
)

func liveHeap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestABlobCostsNoMoreMemoryThanStated(t *testing.T) {
	const blobs = 300_000
	if BytesPerBlob > 100 {
		t.Fatalf("BytesPerBlob is %d", BytesPerBlob)
	}
	before := liveHeap()
	x := newIndex(blobs)
	now := time.Now()
	for i := range blobs {
		slot := x.hold()
		*x.at(slot) = entry{hash: indexKey(i).Hash, bits: flagPending}
		x.insert(slot)
	}
	if peak := x.buckets; len(peak) != blobs {
		t.Fatal("buckets grow")
	}
	x.touch(7, now)
	got := float64(liveHeap()-before) / blobs
	t.Logf("%.1f bytes for each blob", got)
	if got > BytesPerBlob {
		t.Fatalf("%.1f bytes for each blob, and BytesPerBlob says %d", got, BytesPerBlob)
	}
	runtime.KeepAlive(x)
}

func TestStartingCostsNoMoreMemoryThanStated(t *testing.T) {
	const blobs = 300_000
	o := Options{Dir: t.TempDir(), MaxBlobs: blobs, MaxSize: 1 << 40, MinFree: -1}
	d, err := OpenDisk(o)
	if err != nil {
		t.Fatal(err)
	}
	fillIndex(d, blobs)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = nil
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	d, err = OpenDisk(o)
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	defer d.Close()
	// All that was ever allocated, collected or not, so this bounds the peak; 4 MiB are for buffers and names.
	if got := int64(after.TotalAlloc - before.TotalAlloc); got > blobs*BytesPerBlob+4<<20 {
		t.Fatalf("starting allocates %.1f bytes for each blob, and BytesPerBlob says %d", float64(got)/blobs, BytesPerBlob)
	}
}

func TestAnUploadCostsNoMoreMemoryThanStated(t *testing.T) {
	for _, parked := range []bool{false, true} {
		d := testDisk(t, Options{MaxBlobs: 10, MaxSize: 1 << 30})
		const n = 500
		hold := make([]Upload, n)
		before := liveHeap()
		for i := range hold {
			u, err := d.Create(context.Background(), indexKey(i), 1<<20, 0)
			if err != nil {
				t.Fatal(err)
			}
			if err := u.Name(fmt.Sprintf("uploads/%d/blobs/some/quite/long/resource/name", i)); err != nil {
				t.Fatal(err)
			}
			if _, err := u.Write(make([]byte, 4096)); err != nil {
				t.Fatal(err)
			}
			if parked {
				u.Park()
			} else {
				hold[i] = u
			}
		}
		got := (liveHeap() - before) / n
		t.Logf("parked %v: %d bytes for each upload", parked, got)
		planned := int64(ActiveUploadBytes)
		if parked {
			planned = ParkedUploadBytes
		}
		if got > planned {
			t.Errorf("parked %v: %d bytes for each upload, and the plan has %d", parked, got, planned)
		}
		for _, u := range hold {
			if u != nil {
				u.Abort()
			}
		}
	}
}
