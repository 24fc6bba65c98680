package bazel

import (
	"context"
	"io"

	"github.com/leveehq/levee/internal/blobstore"
)

const (
	// walkBase is what a walk may take before it asks for more: the queue and the set of freeDirs directories.
	walkBase = freeDirs * perDir
	freeDirs = 2048
	perDir   = 128

	// treePage is the size at which a page of GetTree is sent, and the largest directory that a walk reads for free.
	treePage = 256 * kib
)

// dirWalk goes through directories that are stored one by one, breadth first, each distinct one once. What it holds is
// bounded by what grow lets it: a tree can be made that unfolds without end.
type dirWalk struct {
	s     *Service
	queue []digest
	seen  map[[32]byte]struct{}
	room  int // directories until grow is asked again
	grow  func(bytes int64) error
	large int64        // the largest directory that was paid for
	file  func(digest) // told of each file; may be nil
}

func newDirWalk(s *Service, roots []digest, grow func(int64) error) *dirWalk {
	w := &dirWalk{s: s, seen: map[[32]byte]struct{}{}, room: freeDirs, grow: grow, large: treePage, file: func(digest) {}}
	for _, d := range roots {
		w.push(d)
	}
	return w
}

func (w *dirWalk) push(d digest) {
	if _, ok := w.seen[d.hash]; ok {
		return
	}
	w.seen[d.hash] = struct{}{}
	w.queue = append(w.queue, d)
	w.room--
}

// next returns the next directory and its bytes, valid until grow fails or the caller lets go. io.EOF ends the walk; any
// other error is that of the directory that it comes with, or of grow.
func (w *dirWalk) next(ctx context.Context) (d digest, data []byte, err error) {
	if len(w.queue) == 0 {
		return d, nil, io.EOF
	}
	d, w.queue = w.queue[0], w.queue[1:]
	if d.empty() { // a directory with nothing in it has no bytes
		return d, nil, nil
	}
	if data, err = w.read(ctx, d); err != nil {
		return d, nil, err
	}
	if err := directoryRefs(bytesFields(data), w.file, w.push); err != nil {
		return d, nil, err
	}
	if w.room < 0 {
		more := -w.room + freeDirs
		if err := w.grow(int64(more) * perDir); err != nil {
			return d, nil, err
		}
		w.room += more
	}
	return d, data, nil
}

func (w *dirWalk) read(ctx context.Context, d digest) ([]byte, error) {
	if d.impossible() {
		return nil, blobstore.ErrNotExist
	}
	blob, err := w.s.store.Open(ctx, d.key())
	if err != nil {
		return nil, err
	}
	defer blob.Close()
	if blob.Size() != d.size {
		return nil, blobstore.ErrNotExist
	}
	if d.size > w.large {
		if err := w.grow(d.size - w.large); err != nil {
			return nil, err
		}
		w.large = d.size
	}
	data := make([]byte, d.size)
	if n, err := blob.ReadAt(data, 0); err != nil && (err != io.EOF || int64(n) < d.size) {
		return nil, noEOF(err)
	}
	return data, nil
}
