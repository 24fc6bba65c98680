// Package blobstore keeps bytes on disk by digest.
//
// It refuses to decide who may write, and when: admission is for gates before it. It knows no protocol, no compression
// and no instance names, follows no references between blobs, and never reports trouble as absence.
//
// A blob is one file. An index in memory says which there are, how large, and in which order they were used:
//
//   - Bytes reserve room as they arrive: the least recently used blobs go, parked uploads before them. What leaves is
//     counted until its file is gone, so the disk never holds more than MaxSize (plus the index's own files).
//   - A whole upload is verified, renamed to its final name, and journalled; only then can it be seen.
//   - After a crash a snapshot and the tail of a journal bring the index back; files they do not name are swept later.
package blobstore

import (
	"context"
	"errors"
	"io"
)

// Kind tells content-addressed blobs from action results.
type Kind uint8

const (
	CAS Kind = iota // Hash is the SHA-256 of the bytes; verified
	AC              // Hash is a key chosen by the caller; bytes are opaque and may be replaced
)

func (k Kind) String() string {
	if k == AC {
		return "ac"
	}
	return "cas"
}

// Key names a blob.
type Key struct {
	Kind Kind
	Hash [32]byte
}

var (
	ErrNotExist = errors.New("blob does not exist")
	ErrDigest   = errors.New("bytes do not hash to the digest")    // wrapped with both digests
	ErrSize     = errors.New("size differs from the declared one") // too short or too long; wrapped with both sizes
	ErrTooLarge = errors.New("blob is larger than the store accepts")
	ErrBusy     = errors.New("upload is in use by another call")
	ErrClosed   = errors.New("blob store is closed")
)

// NoSpace says that a write was turned away for want of room; reads go on. Reason is "disk_full" (ENOSPC),
// "min_free" (the floor) or "uploads" (too many unfinished uploads, or they fill the store).
type NoSpace struct {
	Reason string
	Detail string
}

func (e *NoSpace) Error() string { return "no space: " + e.Reason + ": " + e.Detail }

// Store is the seam between protocol front ends and bytes. Errors other than the ones above are I/O trouble and
// must never be reported as "missing".
type Store interface {
	// Lookup sets sizes[i] to the stored size of keys[i] or -1, and makes every present one the most recently
	// used, all in one step. Memory only: it never touches the disk. len(sizes) == len(keys).
	Lookup(keys []Key, sizes []int64)

	// Open returns the blob for reading and makes it most recently used. It stays readable while open, even if
	// evicted. A file removed or cut by hand is ErrNotExist, and is forgotten. ctx ends the blob's reads, too.
	Open(ctx context.Context, key Key) (Blob, error)

	// Put stores a whole blob that is in memory: Create, Write and Commit in one, and faster for small blobs.
	Put(ctx context.Context, key Key, data []byte) error

	// Create begins an upload. size is the declared size; -1 if unknown. Space is reserved as bytes are written.
	// max bounds the bytes accepted when size is -1 (0 = the store's largest blob). ctx ends the upload's writes, too.
	Create(ctx context.Context, key Key, size, max int64) (Upload, error)

	// Resume takes a parked upload back: its Written is where to go on. ErrNotExist, or ErrBusy while another
	// call holds the upload of that name.
	Resume(ctx context.Context, name string) (Upload, error)

	// Committed is the number of bytes that the parked or active upload of that name holds.
	Committed(name string) (n int64, ok bool)
}

// Blob is an open stored blob.
type Blob interface {
	io.ReaderAt
	io.Closer
	Size() int64
	// SendTo writes the bytes [off, off+n) to w, with sendfile where w allows it. One call at a time.
	SendTo(w io.Writer, off, n int64) (int64, error)
}

// Upload is an unfinished blob: invisible, counted. Exactly one of Commit, Park, Abort ends it; Abort after
// another is a no-op so that it can be deferred.
type Upload interface {
	io.Writer // a write past the declared size returns ErrSize, and stores nothing
	// Name gives it the resource name under which it can be parked; ErrBusy if another call's upload has it. A parked
	// upload of that name is dropped: its client began anew.
	Name(name string) error
	Written() int64
	Commit(ctx context.Context) error // verifies size and digest, makes the blob appear; when nil it survives kill -9
	Park()                            // keeps it for Resume for a bounded time and within a bounded number; needs Name
	Abort()
}
