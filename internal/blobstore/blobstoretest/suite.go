// Package blobstoretest is the contract of blobstore.Store as tests. It knows no implementation.
package blobstoretest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/leveehq/levee/internal/blobstore"
)

// Limits of the store that a test asks for. Sizes count rounded up to 4 KiB, at least that much each.
type Limits struct {
	MaxSize  int64
	MaxBlobs int
}

// Opener makes an empty store that is closed when the test ends.
type Opener func(t testing.TB, l Limits) blobstore.Store

const (
	kib = 1 << 10
	mib = 1 << 20
)

// Run runs the contract's examples on stores made by open. Model holds it to the rest.
func Run(t *testing.T, open Opener) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, s blobstore.Store)
	}{
		{"AStoredBlobReadsBack", testReadsBack},
		{"AnUploadIsInvisibleUntilItIsCommitted", testInvisible},
		{"B4AShortUploadIsAnErrorAndLeavesNothing", testShort},
		{"B4AWriteBeyondTheDeclaredSizeIsAnError", testLong},
		{"B5WrongBytesAreAnErrorAndLeaveNothing", testWrongBytes},
		{"B10TwoUploadsOfOneBlobAreIndependent", testSameBlob},
		{"B10EveryCommitThatReturnsIsReadableAtOnce", testReadableAtOnce},
		{"B10ANameBelongsToOneUploadAtATime", testNames},
		{"B12TheEmptyBlobCanBeStored", testEmpty},
		{"B19TooLargeIsSaidAtTheStart", testTooLarge},
		{"AnAbortAfterTheEndDoesNothing", testAbort},
		{"AnActionResultIsReplacedAsAWhole", testReplace},
		{"AParkedUploadGoesOnWhereItWas", testPark},
		{"AParkedUploadWithoutANameIsGone", testParkNameless},
		{"AParkedUploadGivesWayToANewOneOfItsName", testParkReplaced},
		{"AnOpenBlobStaysReadableWhenItIsEvicted", testOpenEvicted},
		{"PartsOfABlobAreReadAndSent", testParts},
		{"AGoneCallerIsNotServed", testCancelled},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open(t, Limits{MaxSize: 16 * mib, MaxBlobs: 100})) })
	}
	t.Run("TheLeastRecentlyUsedGoesFirst", func(t *testing.T) {
		testOrder(t, open(t, Limits{MaxSize: 12 * kib, MaxBlobs: 100}))
	})
	t.Run("TheNumberOfBlobsIsBounded", func(t *testing.T) {
		testOrder(t, open(t, Limits{MaxSize: 16 * mib, MaxBlobs: 3}))
	})
	t.Run("ADeclaredSizeEvictsNothing", func(t *testing.T) {
		testDeclared(t, open(t, Limits{MaxSize: 16 * mib, MaxBlobs: 100}))
	})
}

// CAS is the key of data.
func CAS(data []byte) blobstore.Key {
	return blobstore.Key{Kind: blobstore.CAS, Hash: sha256.Sum256(data)}
}

// AC is the key of an action named so.
func AC(name string) blobstore.Key {
	return blobstore.Key{Kind: blobstore.AC, Hash: sha256.Sum256([]byte(name))}
}

// Bytes are n bytes that seed determines.
func Bytes(seed uint64, n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16), byte(seed >> 24)})
	_, _ = r.Read(b)
	return b
}

// Read returns the bytes of a blob.
func Read(s blobstore.Store, k blobstore.Key) ([]byte, error) {
	b, err := s.Open(context.Background(), k)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	return io.ReadAll(io.NewSectionReader(b, 0, b.Size()))
}

// Size is what Lookup says of one key.
func Size(s blobstore.Store, k blobstore.Key) int64 {
	var size [1]int64
	s.Lookup([]blobstore.Key{k}, size[:])
	return size[0]
}

// Store uploads data in pieces and commits it.
func Store(s blobstore.Store, k blobstore.Key, declared int64, data []byte) error {
	u, err := s.Create(context.Background(), k, declared, 0)
	if err != nil {
		return err
	}
	defer u.Abort()
	for p := data; len(p) > 0; {
		n := min(len(p), 16*kib)
		if _, err := u.Write(p[:n]); err != nil {
			return err
		}
		p = p[n:]
	}
	return u.Commit(context.Background())
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func want(t testing.TB, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Fatalf("error %v, want %v", got, want)
	}
}

func wantBlob(t testing.TB, s blobstore.Store, k blobstore.Key, data []byte) {
	t.Helper()
	if n := Size(s, k); n != int64(len(data)) {
		t.Fatalf("Lookup says %d, want %d", n, len(data))
	}
	got, err := Read(s, k)
	must(t, err)
	if !bytes.Equal(got, data) {
		t.Fatalf("read %d bytes that differ from the %d stored", len(got), len(data))
	}
}

func wantAbsent(t testing.TB, s blobstore.Store, k blobstore.Key) {
	t.Helper()
	if n := Size(s, k); n != -1 {
		t.Fatalf("Lookup says %d, want -1", n)
	}
	_, err := s.Open(context.Background(), k)
	want(t, err, blobstore.ErrNotExist)
}

func begin(t testing.TB, s blobstore.Store, k blobstore.Key, size int64) blobstore.Upload {
	t.Helper()
	u, err := s.Create(context.Background(), k, size, 0)
	must(t, err)
	t.Cleanup(u.Abort)
	return u
}

func write(t testing.TB, u blobstore.Upload, b []byte) {
	t.Helper()
	n, err := u.Write(b)
	must(t, err)
	if n != len(b) {
		t.Fatalf("wrote %d of %d bytes", n, len(b))
	}
}

func testReadsBack(t *testing.T, s blobstore.Store) {
	for i, n := range []int{1, 4095, 4096, 4097, 100_000, 3 * mib} {
		data := Bytes(uint64(i), n)
		must(t, Store(s, CAS(data), int64(n), data))
		wantBlob(t, s, CAS(data), data)
		wantAbsent(t, s, blobstore.Key{Kind: blobstore.AC, Hash: CAS(data).Hash})
		put := Bytes(uint64(100+i), n)
		must(t, s.Put(context.Background(), CAS(put), put))
		must(t, s.Put(context.Background(), CAS(put), put))
		wantBlob(t, s, CAS(put), put)
		unknown := Bytes(uint64(200+i), n)
		must(t, Store(s, CAS(unknown), -1, unknown))
		wantBlob(t, s, CAS(unknown), unknown)
	}
}

func testInvisible(t *testing.T, s blobstore.Store) {
	data := Bytes(1, 40_000)
	u := begin(t, s, CAS(data), int64(len(data)))
	write(t, u, data)
	if u.Written() != int64(len(data)) {
		t.Fatalf("Written is %d", u.Written())
	}
	wantAbsent(t, s, CAS(data))
	must(t, u.Commit(context.Background()))
	wantBlob(t, s, CAS(data), data)
}

func testShort(t *testing.T, s blobstore.Store) {
	data := Bytes(1, 81)
	for _, k := range []blobstore.Key{CAS(data), AC("k")} {
		want(t, Store(s, k, 81, data[:40]), blobstore.ErrSize)
		wantAbsent(t, s, k)
		want(t, Store(s, k, 81, nil), blobstore.ErrSize)
		wantAbsent(t, s, k)
		must(t, Store(s, k, 81, data))
		wantBlob(t, s, k, data)
	}
}

func testLong(t *testing.T, s blobstore.Store) {
	data := Bytes(1, 81)
	u := begin(t, s, CAS(data), 81)
	write(t, u, data[:80])
	_, err := u.Write(data[:2])
	want(t, err, blobstore.ErrSize)
	write(t, u, data[80:]) // the write that was too long stored nothing
	must(t, u.Commit(context.Background()))
	wantBlob(t, s, CAS(data), data)
}

func testWrongBytes(t *testing.T, s blobstore.Store) {
	h, x := []byte("hello\n"), []byte("other\n")
	want(t, Store(s, CAS(h), 6, x), blobstore.ErrDigest)
	wantAbsent(t, s, CAS(h))
	want(t, s.Put(context.Background(), CAS(h), x), blobstore.ErrDigest)
	wantAbsent(t, s, CAS(h))
	must(t, Store(s, CAS(h), 6, h))
	want(t, s.Put(context.Background(), CAS(h), x), blobstore.ErrDigest)
	wantBlob(t, s, CAS(h), h)
}

func testSameBlob(t *testing.T, s blobstore.Store) {
	data := Bytes(1, 200_000)
	slow := begin(t, s, CAS(data), int64(len(data)))
	write(t, slow, data[:100_000])
	must(t, Store(s, CAS(data), int64(len(data)), data))
	wantBlob(t, s, CAS(data), data)
	write(t, slow, data[100_000:])
	must(t, slow.Commit(context.Background()))
	wantBlob(t, s, CAS(data), data)
}

func testReadableAtOnce(t *testing.T, s blobstore.Store) {
	for round := range 10 {
		data := Bytes(uint64(round), 20_000)
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				var err error
				if i%2 == 0 {
					err = Store(s, CAS(data), int64(len(data)), data)
				} else {
					err = s.Put(context.Background(), CAS(data), data)
				}
				if err != nil {
					t.Error(err)
				} else if got, err := Read(s, CAS(data)); err != nil || !bytes.Equal(got, data) {
					t.Errorf("after Commit: %d bytes, %v", len(got), err)
				}
			})
		}
		wg.Wait()
	}
}

func testNames(t *testing.T, s blobstore.Store) {
	data := Bytes(1, 10)
	a, b := begin(t, s, CAS(data), 10), begin(t, s, CAS(data), 10)
	must(t, a.Name("n"))
	must(t, a.Name("n"))
	want(t, b.Name("n"), blobstore.ErrBusy)
	_, err := s.Resume(context.Background(), "n")
	want(t, err, blobstore.ErrBusy)
	write(t, a, data)
	if n, ok := s.Committed("n"); n != 10 || !ok {
		t.Fatalf("Committed says %d, %v", n, ok)
	}
	must(t, a.Commit(context.Background()))
	if _, ok := s.Committed("n"); ok {
		t.Fatal("a finished upload keeps its name")
	}
	must(t, b.Name("n"))
	b.Abort()
	_, err = s.Resume(context.Background(), "n")
	want(t, err, blobstore.ErrNotExist)
}

func testEmpty(t *testing.T, s blobstore.Store) {
	must(t, Store(s, CAS(nil), 0, nil))
	wantBlob(t, s, CAS(nil), nil)
	must(t, s.Put(context.Background(), CAS(nil), nil))
	must(t, Store(s, AC("empty"), -1, nil))
	wantBlob(t, s, AC("empty"), nil)
}

func testTooLarge(t *testing.T, s blobstore.Store) {
	_, err := s.Create(context.Background(), AC("big"), 16*mib+1, 0)
	want(t, err, blobstore.ErrTooLarge)
	u, err := s.Create(context.Background(), AC("big"), -1, 1000)
	must(t, err)
	defer u.Abort()
	write(t, u, Bytes(1, 1000))
	_, err = u.Write([]byte{1})
	want(t, err, blobstore.ErrTooLarge)
	want(t, s.Put(context.Background(), AC("big"), make([]byte, 16*mib+1)), blobstore.ErrTooLarge)
}

func testAbort(t *testing.T, s blobstore.Store) {
	data := Bytes(1, 5000)
	u := begin(t, s, CAS(data), 5000)
	write(t, u, data)
	must(t, u.Commit(context.Background()))
	u.Abort()
	wantBlob(t, s, CAS(data), data)
	gone := begin(t, s, AC("x"), -1)
	write(t, gone, data)
	gone.Abort()
	gone.Abort()
	if _, err := gone.Write(data); err == nil {
		t.Fatal("an aborted upload takes bytes")
	}
	if gone.Commit(context.Background()) == nil {
		t.Fatal("an aborted upload commits")
	}
	wantAbsent(t, s, AC("x"))
}

func testReplace(t *testing.T, s blobstore.Store) {
	old, next := Bytes(1, 5000), Bytes(2, 9000)
	must(t, s.Put(context.Background(), AC("k"), old))
	open, err := s.Open(context.Background(), AC("k"))
	must(t, err)
	defer open.Close()
	must(t, Store(s, AC("k"), -1, next))
	wantBlob(t, s, AC("k"), next)
	got := make([]byte, open.Size())
	_, err = open.ReadAt(got, 0)
	if err != nil && err != io.EOF || !bytes.Equal(got, old) {
		t.Fatalf("who had it open reads %v and not the old bytes", err)
	}
}
