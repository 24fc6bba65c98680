package blobstore

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

func parkOne(t *testing.T, d *Disk, name string, n int) {
	t.Helper()
	u, err := d.Create(t.Context(), Key{Kind: AC, Hash: [32]byte{1}}, -1, 0)
	must(t, err)
	must(t, u.Name(name))
	_, err = u.Write(make([]byte, n))
	must(t, err)
	u.Park()
}

func TestAParkedUploadIsDroppedWhenItsTimeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, fs, _ := faultyDisk(t, Options{ParkFor: time.Minute})
		parkOne(t, d, "a", 5000)
		time.Sleep(30 * time.Second)
		parkOne(t, d, "b", 5000)
		time.Sleep(31 * time.Second)
		if _, err := d.Resume(t.Context(), "a"); !errors.Is(err, ErrNotExist) {
			t.Fatalf("error %v", err)
		}
		must(t, d.expireParked(t.Context()))
		if s := d.Stats(); s.UploadsParked != 1 || s.Reserved != 2*block {
			t.Fatalf("%+v", s)
		}
		u, err := d.Resume(t.Context(), "b")
		must(t, err)
		u.Abort()
		checkNoUploads(t, d)
		checkFiles(t, "afterwards", d, fs)
	})
}

func TestParkedUploadsGiveWayBeforeBlobsDo(t *testing.T) {
	d, fs, _ := faultyDisk(t, Options{MaxSize: 10 * block})
	k, data := put(t, d, 100, 1)
	parkOne(t, d, "old", 4*block)
	parkOne(t, d, "new", 4*block)
	put(t, d, 2*block, 2)
	if _, ok := d.Committed("old"); ok {
		t.Fatal("the oldest parked upload did not give way")
	}
	if n, ok := d.Committed("new"); n != 4*block || !ok {
		t.Fatal("more gave way than had to")
	}
	wantBlob(t, d, k, data)
	put(t, d, 8*block, 3)
	if _, ok := d.Committed("new"); ok {
		t.Fatal("a parked upload outlived a blob's need for room")
	}
	wantBlob(t, d, k, data)
	checkNoUploads(t, d)
	checkFiles(t, "afterwards", d, fs)
}

func TestParkedUploadsAreBoundedAndHoldNoDescriptor(t *testing.T) {
	d := testDisk(t, Options{MaxParked: 10, MaxUploads: 20})
	before := descriptors(t)
	for i := range 30 {
		parkOne(t, d, fmt.Sprint(i), 100)
	}
	if s := d.Stats(); s.UploadsParked != 10 || s.UploadsActive != 0 {
		t.Fatalf("%+v", s)
	}
	if n := descriptors(t); n > before {
		t.Fatalf("%d descriptors, %d before", n, before)
	}
	if _, ok := d.Committed("19"); ok {
		t.Fatal("the oldest did not give way")
	}
	if _, ok := d.Committed("20"); !ok {
		t.Fatal("a newer one gave way")
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(names)
}

func TestUnfinishedUploadsAreBounded(t *testing.T) {
	d := testDisk(t, Options{MaxUploads: 3})
	parkOne(t, d, "parked", 100)
	var active []Upload
	for range 3 { // the third takes the parked one's place
		u, err := d.Create(t.Context(), indexKey(1), 10, 0)
		must(t, err)
		active = append(active, u)
	}
	if _, ok := d.Committed("parked"); ok {
		t.Fatal("the parked upload did not give way")
	}
	_, err := d.Create(t.Context(), indexKey(1), 10, 0)
	wantNoSpace(t, err, "uploads")
	active[0].Abort()
	u, err := d.Create(t.Context(), indexKey(1), 10, 0)
	must(t, err)
	u.Abort()
	for _, u := range active {
		u.Abort()
	}
	checkNoUploads(t, d)
}

func TestAnUploadThatWaitsForRoomThatNeverComesIsShed(t *testing.T) {
	d := testDisk(t, Options{MaxSize: 4 * block})
	a, err := d.Create(t.Context(), indexKey(1), 4*block, 0)
	must(t, err)
	defer a.Abort()
	_, err = a.Write(make([]byte, 3*block))
	must(t, err)
	b, err := d.Create(t.Context(), indexKey(2), 4*block, 0)
	must(t, err)
	defer b.Abort()
	_, err = b.Write(make([]byte, 2*block))
	wantNoSpace(t, err, "uploads")
	_, err = a.Write(make([]byte, block)) // what was shed holds nothing
	must(t, err)
}
