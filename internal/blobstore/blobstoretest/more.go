package blobstoretest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/leveehq/levee/internal/blobstore"
)

func testPark(t *testing.T, s blobstore.Store) {
	data := Bytes(1, 100_000)
	u := begin(t, s, CAS(data), int64(len(data)))
	must(t, u.Name("n"))
	for at := 0; ; at += 30_000 {
		end := min(at+30_000, len(data))
		write(t, u, data[at:end])
		u.Park()
		u.Abort() // the old hold is over: this must not hurt the parked upload
		if n, ok := s.Committed("n"); n != int64(end) || !ok {
			t.Fatalf("Committed says %d, %v, want %d", n, ok, end)
		}
		old := u
		var err error
		u, err = s.Resume(context.Background(), "n")
		must(t, err)
		defer u.Abort()
		old.Abort()
		if u.Written() != int64(end) {
			t.Fatalf("resumed at %d, want %d", u.Written(), end)
		}
		if end == len(data) {
			break
		}
	}
	must(t, u.Commit(context.Background()))
	wantBlob(t, s, CAS(data), data)
	_, err := s.Resume(context.Background(), "n")
	want(t, err, blobstore.ErrNotExist)
}

func testParkNameless(t *testing.T, s blobstore.Store) {
	u := begin(t, s, AC("k"), -1)
	write(t, u, []byte("abc"))
	u.Park()
	if u.Commit(context.Background()) == nil {
		t.Fatal("a parked upload commits")
	}
	wantAbsent(t, s, AC("k"))
}

func testParkReplaced(t *testing.T, s blobstore.Store) {
	u := begin(t, s, AC("k"), -1)
	must(t, u.Name("n"))
	write(t, u, []byte("abc"))
	u.Park()
	next := begin(t, s, AC("k"), -1)
	must(t, next.Name("n"))
	if n, ok := s.Committed("n"); n != 0 || !ok {
		t.Fatalf("Committed says %d, %v of the new upload", n, ok)
	}
	write(t, next, []byte("xyz"))
	must(t, next.Commit(context.Background()))
	wantBlob(t, s, AC("k"), []byte("xyz"))
}

func testOpenEvicted(t *testing.T, s blobstore.Store) {
	data := Bytes(1, 1*mib)
	must(t, s.Put(context.Background(), CAS(data), data))
	b, err := s.Open(context.Background(), CAS(data))
	must(t, err)
	defer b.Close()
	for i := range 20 {
		other := Bytes(uint64(100+i), 1*mib)
		must(t, s.Put(context.Background(), CAS(other), other))
	}
	wantAbsent(t, s, CAS(data))
	var got bytes.Buffer
	_, err = b.SendTo(&got, 0, b.Size())
	must(t, err)
	if !bytes.Equal(got.Bytes(), data) {
		t.Fatal("an open blob changed when it was evicted")
	}
}

func testParts(t *testing.T, s blobstore.Store) {
	data := Bytes(1, 1_000_001)
	must(t, s.Put(context.Background(), CAS(data), data))
	b, err := s.Open(context.Background(), CAS(data))
	must(t, err)
	defer b.Close()
	for _, r := range [][2]int64{{0, 0}, {0, 1}, {3, 70_000}, {999_999, 2}, {0, 1_000_001}, {1_000_001, 0}, {300_000, 600_000}} {
		off, n := r[0], r[1]
		p := make([]byte, n)
		if m, err := b.ReadAt(p, off); int64(m) != n || err != nil && err != io.EOF {
			t.Fatalf("ReadAt(%d, %d): %d, %v", off, n, m, err)
		}
		if !bytes.Equal(p, data[off:off+n]) {
			t.Fatalf("ReadAt(%d, %d) reads other bytes", off, n)
		}
		for _, w := range []interface {
			io.Writer
			Bytes() []byte
		}{new(bytes.Buffer), &plainWriter{}} {
			if m, err := b.SendTo(w, off, n); m != n || err != nil {
				t.Fatalf("SendTo(%d, %d): %d, %v", off, n, m, err)
			}
			if !bytes.Equal(w.Bytes(), data[off:off+n]) {
				t.Fatalf("SendTo(%d, %d) sends other bytes", off, n)
			}
		}
	}
}

// plainWriter has no ReadFrom.
type plainWriter struct{ b []byte }

func (w *plainWriter) Write(p []byte) (int, error) { w.b = append(w.b, p...); return len(p), nil }
func (w *plainWriter) Bytes() []byte               { return w.b }

// testCancelled: the caller's own cancellation comes back as such, and nothing is left.
func testCancelled(t *testing.T, s blobstore.Store) {
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(context.Background())
	data := Bytes(1, 5000)
	u := begin(t, s, CAS(data), 5000)
	write(t, u, data)
	cancel(gone)
	if err := u.Commit(ctx); err != nil {
		want(t, err, gone)
	}
	must(t, Store(s, CAS(data), 5000, data))
	wantBlob(t, s, CAS(data), data)
}

// testOrder works on a store with room for three small blobs.
func testOrder(t *testing.T, s blobstore.Store) {
	var keys []blobstore.Key
	put := func(i uint64) {
		data := Bytes(i, 1000)
		keys = append(keys, CAS(data))
		must(t, s.Put(context.Background(), CAS(data), data))
	}
	put(0)
	put(1)
	put(2)
	if Size(s, keys[0]) < 0 { // refreshes 0
		t.Fatal("0 is gone although there was room")
	}
	put(3) // evicts 1
	b, err := s.Open(context.Background(), keys[2])
	must(t, err)
	b.Close()
	put(4) // evicts 0
	for i, gone := range []bool{true, true, false, false, false} {
		if (Size(s, keys[i]) < 0) != gone {
			t.Fatalf("blob %d: gone is %v, want %v", i, !gone, gone)
		}
	}
}

func testDeclared(t *testing.T, s blobstore.Store) {
	data := Bytes(1, 1*mib)
	must(t, s.Put(context.Background(), CAS(data), data))
	for i := range 50 {
		u := begin(t, s, AC(string(rune('a'+i))), 16*mib)
		write(t, u, []byte{1})
	}
	wantBlob(t, s, CAS(data), data)
}
