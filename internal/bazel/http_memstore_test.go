package bazel

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"sync"

	"github.com/leveehq/levee/internal/blobstore"
)

// memStore is the smallest thing that keeps Store's contract, for what needs a store that fails on demand.
type memStore struct {
	openErr   error // of every Open
	createErr error
	writeErr  error
	mu        struct {
		sync.Mutex
		blobs   map[blobstore.Key][]byte
		uploads int
	}
}

func newMemStore() *memStore {
	s := &memStore{}
	s.mu.blobs = map[blobstore.Key][]byte{}
	return s
}

func (s *memStore) Lookup(keys []blobstore.Key, sizes []int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, k := range keys {
		sizes[i] = -1
		if b, ok := s.mu.blobs[k]; ok {
			sizes[i] = int64(len(b))
		}
	}
}

func (s *memStore) Open(_ context.Context, k blobstore.Key) (blobstore.Blob, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.openErr != nil {
		return nil, s.openErr
	}
	b, ok := s.mu.blobs[k]
	if !ok {
		return nil, blobstore.ErrNotExist
	}
	return memBlob{bytes.NewReader(b)}, nil
}

type memBlob struct{ *bytes.Reader }

func (memBlob) Close() error { return nil }

func (b memBlob) SendTo(w io.Writer, off, n int64) (int64, error) {
	return io.Copy(w, io.NewSectionReader(b, off, n))
}

func (s *memStore) Create(_ context.Context, k blobstore.Key, size, most int64) (blobstore.Upload, error) {
	if s.createErr != nil {
		return nil, s.createErr
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.uploads++
	return &memUpload{s: s, k: k, size: size, most: most}, nil
}

func (s *memStore) Put(ctx context.Context, k blobstore.Key, data []byte) error {
	u, err := s.Create(ctx, k, int64(len(data)), 0)
	if err != nil {
		return err
	}
	defer u.Abort()
	if _, err := u.Write(data); err != nil {
		return err
	}
	return u.Commit(ctx)
}

func (s *memStore) Resume(context.Context, string) (blobstore.Upload, error) {
	return nil, blobstore.ErrNotExist
}
func (s *memStore) Committed(string) (int64, bool) { return 0, false }

// open is the number of unfinished uploads.
func (s *memStore) open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.uploads
}

type memUpload struct {
	s    *memStore
	k    blobstore.Key
	size int64
	most int64
	b    []byte
	done bool
}

func (u *memUpload) Write(p []byte) (int, error) {
	n := int64(len(u.b) + len(p))
	switch {
	case u.s.writeErr != nil:
		return 0, u.s.writeErr
	case u.size >= 0 && n > u.size:
		return 0, blobstore.ErrSize
	case u.most > 0 && n > u.most:
		return 0, fmt.Errorf("%w: more than %d bytes", blobstore.ErrTooLarge, u.most)
	}
	u.b = append(u.b, p...)
	return len(p), nil
}

func (u *memUpload) Name(string) error { return nil }
func (u *memUpload) Written() int64    { return int64(len(u.b)) }
func (u *memUpload) Park()             { u.Abort() }

func (u *memUpload) Commit(context.Context) error {
	defer u.Abort()
	if u.size >= 0 && int64(len(u.b)) != u.size {
		return blobstore.ErrSize
	}
	if u.k.Kind == blobstore.CAS && sha256.Sum256(u.b) != u.k.Hash {
		return blobstore.ErrDigest
	}
	u.s.mu.Lock()
	defer u.s.mu.Unlock()
	u.s.mu.blobs[u.k] = u.b
	return nil
}

func (u *memUpload) Abort() {
	u.s.mu.Lock()
	defer u.s.mu.Unlock()
	if !u.done {
		u.done = true
		u.s.mu.uploads--
	}
}
