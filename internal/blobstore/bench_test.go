package blobstore

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"io"
	"testing"
	"time"
)

func benchDisk(b *testing.B, o Options) *Disk {
	b.Helper()
	o.Dir = b.TempDir()
	o.MinFree = -1
	if o.MaxBlobs == 0 {
		o.MaxBlobs = 1 << 20
	}
	if o.MaxSize == 0 {
		o.MaxSize = 8 << 30
	}
	d, err := OpenDisk(o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { d.Close() })
	return d
}

// stamp makes data unlike any other, and returns its key.
func stamp(data []byte, i int) Key {
	binary.LittleEndian.PutUint64(data, uint64(i)+1)
	return Key{Hash: sha256.Sum256(data)}
}

// BenchmarkPut4K includes hashing: once for the key, once in Put.
func BenchmarkPut4K(b *testing.B) {
	d := benchDisk(b, Options{})
	data := make([]byte, 4096)
	b.ReportAllocs()
	for i := range b.N {
		if err := d.Put(context.Background(), stamp(data, i), data); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPut4KEvicting runs on a store that is full: each Put removes a file, too.
func BenchmarkPut4KEvicting(b *testing.B) {
	d := benchDisk(b, Options{MaxSize: 4 << 20})
	data := make([]byte, 4096)
	for i := range 1024 {
		if err := d.Put(context.Background(), stamp(data, i), data); err != nil {
			b.Fatal(err)
		}
	}
	b.ResetTimer()
	for i := range b.N {
		if err := d.Put(context.Background(), stamp(data, 1024+i), data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPut4KParallel(b *testing.B) {
	d := benchDisk(b, Options{})
	var seeds = make(chan int, 1)
	seeds <- 0
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		seed := <-seeds
		seeds <- seed + 1
		data := make([]byte, 4096)
		for i := 0; pb.Next(); i++ {
			if err := d.Put(context.Background(), stamp(data, seed<<32|i), data); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkWrite2M uploads in pieces of 16 KiB; the key's hash is not timed.
func BenchmarkWrite2M(b *testing.B) {
	d := benchDisk(b, Options{MaxSize: 256 << 20})
	data := make([]byte, 2<<20)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for i := range b.N {
		b.StopTimer()
		key := stamp(data, i)
		b.StartTimer()
		u, err := d.Create(context.Background(), key, int64(len(data)), 0)
		if err != nil {
			b.Fatal(err)
		}
		for p := data; len(p) > 0; p = p[16<<10:] {
			if _, err := u.Write(p[:16<<10]); err != nil {
				b.Fatal(err)
			}
		}
		if err := u.Commit(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLookup1000(b *testing.B) {
	d := benchDisk(b, Options{})
	fillIndex(d, 400_000)
	keys, sizes := make([]Key, 1000), make([]int64, 1000)
	for i := range keys {
		keys[i] = indexKey(i * 397)
	}
	b.ReportAllocs()
	for b.Loop() {
		d.Lookup(keys, sizes)
	}
	if sizes[999] < 0 {
		b.Fatal("not found")
	}
}

func BenchmarkOpenAndRead4K(b *testing.B) {
	d := benchDisk(b, Options{})
	data := make([]byte, 4096)
	var keys [1000]Key
	for i := range keys {
		keys[i] = stamp(data, i)
		if err := d.Put(context.Background(), keys[i], data); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		blob, err := d.Open(context.Background(), keys[i%len(keys)])
		if err != nil {
			b.Fatal(err)
		}
		if _, err := blob.ReadAt(data, 0); err != nil && err != io.EOF {
			b.Fatal(err)
		}
		blob.Close()
		i++
	}
}

// BenchmarkRestart measures a start with a million blobs: after Close (a snapshot), and after a crash (journals only).
func BenchmarkRestart(b *testing.B) {
	const blobs = 1_000_000
	for _, how := range []string{"snapshot", "journal"} {
		b.Run(how, func(b *testing.B) {
			o := Options{Dir: b.TempDir(), MaxBlobs: blobs, MaxSize: 1 << 40, MinFree: -1}
			d, err := OpenDisk(o)
			if err != nil {
				b.Fatal(err)
			}
			if how == "journal" {
				journalIndex(b, d, blobs)
				d.journal.file.Close()
				d.lock.Close()
			} else {
				fillIndex(d, blobs)
				if err := d.Close(); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				d, err := OpenDisk(o)
				if err != nil {
					b.Fatal(err)
				}
				if d.mu.idx.live != blobs {
					b.Fatalf("%d blobs", d.mu.idx.live)
				}
				d.journal.file.Close() // as a crash would
				d.lock.Close()
			}
		})
	}
}

func indexKey(i int) Key {
	return Key{Hash: sha256.Sum256(binary.LittleEndian.AppendUint64(nil, uint64(i)))}
}

// fillIndex makes d believe in n blobs that have no files.
func fillIndex(d *Disk, n int) {
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range n {
		addEntry(d, i, now)
	}
}

func addEntry(d *Disk, i int, now time.Time) (slot uint32) {
	slot = d.mu.idx.hold()
	*d.mu.idx.at(slot) = entry{hash: indexKey(i).Hash, gen: d.nextGenLocked(), bits: 4096<<sizeShift | flagPending, tick: d.mu.idx.nextTick(now)}
	d.mu.idx.insert(slot)
	d.mu.used += 4096
	return slot
}

// journalIndex does the same through the journal.
func journalIndex(b *testing.B, d *Disk, n int) {
	now := time.Now()
	var buf []byte
	for i := range n {
		slot := addEntry(d, i, now)
		buf = appendPut(buf, slot, d.mu.idx.at(slot))
		if len(buf) > 1<<20 || i == n-1 {
			if err := d.journal.append(buf, false); err != nil {
				b.Fatal(err)
			}
			buf = buf[:0]
		}
	}
}
