package blobstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"testing"
)

func testDisk(t testing.TB, o Options) *Disk {
	t.Helper()
	d := openAgain(t, defaults(t, o))
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func defaults(t testing.TB, o Options) Options {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	if o.MaxBlobs == 0 {
		o.MaxBlobs = 1000
	}
	if o.MaxSize == 0 {
		o.MaxSize = 64 << 20
	}
	if o.MinFree == 0 {
		o.MinFree = -1
	}
	return o
}

func openAgain(t testing.TB, o Options) *Disk {
	t.Helper()
	d, err := OpenDisk(o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// crash lets go of a store as the end of its process would.
func crash(d *Disk) {
	d.journal.file.Close()
	d.lock.Close()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func put(t testing.TB, d *Disk, n, i int) (Key, []byte) {
	t.Helper()
	data := bytes.Repeat([]byte{byte(i), byte(i >> 8), 7, byte(n)}, n/4+1)[:n]
	key := stamp(data, i)
	must(t, d.Put(context.Background(), key, data))
	return key, data
}

func read(d *Disk, k Key) ([]byte, error) {
	b, err := d.Open(context.Background(), k)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	return io.ReadAll(io.NewSectionReader(b, 0, b.Size()))
}

func size(d *Disk, k Key) int64 {
	var s [1]int64
	d.Lookup([]Key{k}, s[:])
	return s[0]
}

func wantBlob(t testing.TB, d *Disk, k Key, data []byte) {
	t.Helper()
	if n := size(d, k); n != int64(len(data)) {
		t.Fatalf("Lookup says %d, want %d", n, len(data))
	}
	got, err := read(d, k)
	must(t, err)
	if !bytes.Equal(got, data) {
		t.Fatalf("read %d bytes that differ from the %d stored", len(got), len(data))
	}
}

func sumOf(data []byte) [32]byte { return sha256.Sum256(data) }
