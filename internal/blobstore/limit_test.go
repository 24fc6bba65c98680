package blobstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
)

// TestB11TheDiskNeverHoldsMoreThanItsLimit counts the bytes on disk at every write, with many writers at once.
func TestB11TheDiskNeverHoldsMoreThanItsLimit(t *testing.T) {
	fs := newMemFS()
	const limit = 64 * block
	d := testDisk(t, Options{FS: fs, Dir: "store", MaxSize: limit, MaxBlobs: 40, MaxParked: 4})
	fs.fault = func(op, name string) error {
		if op == "write" {
			if _, _, n := fs.files(); n > limit {
				t.Errorf("%d bytes are on disk, and the limit is %d", n, limit)
			}
		}
		return nil
	}
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() { hammer(t, d, w, 300) })
	}
	wg.Wait()
	fs.fault = nil
	must(t, d.expireParked(t.Context()))
	checkNoUploads(t, d)
	checkFiles(t, "afterwards", d, fs)
}

// hammer uses the store in every way; errors that it may give are those of a store that is full of uploads.
func hammer(t *testing.T, d *Disk, worker, rounds int) {
	ctx := context.Background()
	for i := range rounds {
		n := []int{10, 4096, 9000, 30_000}[(worker+i)%4]
		data := make([]byte, n)
		k := stamp(data, i%50) // workers meet on the same keys
		if i%5 == 0 {
			k = Key{Kind: AC, Hash: [32]byte{byte(i % 7)}}
		}
		err := func() error {
			if i%3 == 0 {
				return d.Put(ctx, k, data)
			}
			u, err := d.Create(ctx, k, int64(n), 0)
			if err != nil {
				return err
			}
			defer u.Abort()
			if _, err := u.Write(data[:n/2]); err != nil {
				return err
			}
			if i%11 == 0 && u.Name(fmt.Sprint(worker)) == nil {
				u.Park()
				if u, err = d.Resume(ctx, fmt.Sprint(worker)); err != nil {
					return nil // it gave way
				}
				defer u.Abort()
			}
			if _, err := u.Write(data[n/2:]); err != nil || i%13 == 0 {
				return err
			}
			return u.Commit(ctx)
		}()
		var full *NoSpace
		if err != nil && !errors.As(err, &full) {
			t.Error(err)
		}
		if got, err := read(d, k); err == nil && k.Kind == CAS && sumOf(got) != k.Hash {
			t.Error("wrong bytes")
		} else if err != nil && !errors.Is(err, ErrNotExist) {
			t.Error(err)
		}
	}
}

func checkNoUploads(t *testing.T, d *Disk) {
	t.Helper()
	if s := d.Stats(); s.Reserved != 0 || s.UploadsActive != 0 || s.UploadsParked != 0 || d.active.Load() != 0 {
		t.Fatalf("uploads are left: %+v, %d active", s, d.active.Load())
	}
}

func TestB11UploadsHeldWhileOthersPushEndReadableOrWithAnError(t *testing.T) {
	o := defaults(t, Options{MaxSize: 64 << 10, MaxBlobs: 100})
	d := openAgain(t, o)
	type held struct {
		u    Upload
		key  Key
		data []byte
	}
	var all []held
	for i := range 10 {
		data := make([]byte, 8<<10)
		h := held{key: stamp(data, i), data: data}
		var err error
		h.u, err = d.Create(t.Context(), h.key, int64(len(data)), 0)
		must(t, err)
		if _, err = h.u.Write(data[:7<<10]); err != nil {
			wantNoSpace(t, err, "uploads")
		}
		all = append(all, h)
	}
	for i := range 16 {
		data := make([]byte, 4<<10)
		if err := d.Put(t.Context(), stamp(data, 100+i), data); err != nil {
			wantNoSpace(t, err, "uploads")
		}
	}
	done := 0
	for _, h := range all {
		_, err := h.u.Write(h.data[7<<10:])
		if err == nil {
			err = h.u.Commit(t.Context())
		}
		if h.u.Abort(); err != nil {
			wantNoSpace(t, err, "uploads")
			continue
		}
		wantBlob(t, d, h.key, h.data)
		done++
	}
	if s := d.Stats(); done == 0 || s.Bytes > o.MaxSize || s.Reserved != 0 {
		t.Fatalf("%d done, %+v", done, s)
	}
	before := d.Stats().Bytes
	must(t, d.Close())
	again := openAgain(t, o)
	if got := again.Stats().Bytes; got != before {
		t.Fatalf("%d bytes after a restart, %d before", got, before)
	}
	must(t, again.Close())
}
