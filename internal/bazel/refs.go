package bazel

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/leveehq/levee/internal/blobstore"
)

// maxRefs digests are looked up in one step, which makes them all most recently used together. Only the trees of very
// large actions have more, and then it is one step for each so many.
const (
	maxRefs = 1024
	perRef  = 33 + 8 + 8
)

// errAbsent is an action result that refers to what is not in the store; its text names the first such digest. What is
// there and is not the message that it stands for is as good as absent: it cannot be what the client needs.
type errAbsent struct {
	d    digest
	kind string // what the blob should be and is not; empty if there is none
}

func (e errAbsent) Error() string {
	if e.kind != "" {
		return fmt.Sprintf("blob %v is in the cache and is not a %s", e.d, e.kind)
	}
	return fmt.Sprintf("blob %v is not in the cache", e.d)
}

// anySize accepts an entry of whatever size.
const anySize = -2

// refs gathers what an action result refers to and looks it up together.
type refs struct {
	store  blobstore.Store
	keys   []blobstore.Key
	want   []int64
	got    []int64
	absent *errAbsent // the first
}

func (r *refs) add(d digest) {
	if d.empty() {
		return
	}
	if d.impossible() {
		r.miss(d)
		return
	}
	r.addKey(d.key(), d.size)
}

func (r *refs) addKey(k blobstore.Key, size int64) {
	if len(r.keys) == maxRefs {
		r.lookup()
	}
	r.keys, r.want = append(r.keys, k), append(r.want, size)
}

func (r *refs) miss(d digest) { r.note(errAbsent{d: d}) }

func (r *refs) note(e errAbsent) {
	if r.absent == nil {
		r.absent = &e
	}
}

// lookup settles what was gathered, and refreshes it, complete or not: REAPI has the lifetime of what a client asked
// about increased, and the client of an incomplete result is about to upload the rest.
func (r *refs) lookup() {
	if cap(r.got) < len(r.keys) {
		r.got = make([]int64, len(r.keys))
	}
	r.got = r.got[:len(r.keys)]
	r.store.Lookup(r.keys, r.got)
	for i, got := range r.got {
		if want := r.want[i]; got != want && (want != anySize || got < 0) {
			r.miss(digest{hash: r.keys[i].Hash, size: want})
		}
	}
	r.keys, r.want = r.keys[:0], r.want[:0]
}

// done looks up the rest and returns errAbsent if anything was.
func (r *refs) done() error {
	r.lookup()
	if r.absent != nil {
		return *r.absent
	}
	return nil
}

// checkComplete finds out whether everything that a parsed action result refers to is in the store: files, streams, trees,
// and the files in trees. It returns nil, errAbsent, or the trouble that kept it from finding out, which is not absence.
// entry is refreshed along with them.
//
// A tree is read as it streams from the disk; only its digests are kept.
func (s *Service) checkComplete(ctx context.Context, entry blobstore.Key, a *actionResult, grow func(int64) error) error {
	r := refs{store: s.store}
	if entry.Kind == blobstore.AC {
		r.addKey(entry, anySize)
	}
	for _, d := range a.blobs {
		r.add(d)
	}
	for _, d := range a.trees {
		r.add(d)
		if err := s.treeRefs(ctx, d, &r); err != nil {
			return err
		}
	}
	if len(a.dirs) > 0 {
		if err := s.dirRefs(ctx, a.dirs, &r, grow); err != nil {
			return err
		}
	}
	return r.done()
}

const treeBuffer = 16 * kib

// treeRefs adds the files of a Tree { Directory root = 1; repeated Directory children = 2 }.
func (s *Service) treeRefs(ctx context.Context, d digest, r *refs) error {
	if d.empty() || d.impossible() {
		return nil
	}
	blob, err := s.store.Open(ctx, d.key())
	if errors.Is(err, blobstore.ErrNotExist) {
		r.miss(d)
		return nil
	}
	if err != nil {
		return err
	}
	defer blob.Close()
	if blob.Size() != d.size {
		r.miss(d)
		return nil
	}
	buf := getBuffer(treeBuffer)
	defer putBuffer(buf)
	f := newFields(io.NewSectionReader(blob, 0, d.size), d.size, *buf)
	for f.more() {
		num, typ, err := f.tag()
		switch {
		case err != nil:
		case ctx.Err() != nil: // a tree of a million files takes seconds, which nobody waits for any more
			return context.Cause(ctx)
		case num <= 2 && typ == protowire.BytesType:
			var outer int64
			if outer, err = f.enter(); err == nil {
				err = directoryRefs(f, r.add, nil)
				f.leave(outer)
			}
		case num <= 2:
			err = errMalformed
		default:
			err = f.skip(typ)
		}
		if errors.Is(err, errMalformed) {
			r.note(errAbsent{d, "Tree"})
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// directoryRefs reads a Directory { repeated FileNode files = 1; repeated DirectoryNode directories = 2; … }, whose nodes
// both have { string name = 1; Digest digest = 2 }. dir may be nil: a Tree holds its directories itself.
func directoryRefs(f *fields, file, dir func(digest)) error {
	for f.more() {
		num, typ, err := f.tag()
		switch {
		case err != nil:
		case num <= 2 && typ == protowire.BytesType:
			err = nodeRef(f, num == 1, file, dir)
		case num <= 2:
			err = errMalformed
		default:
			err = f.skip(typ)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func nodeRef(f *fields, isFile bool, file, dir func(digest)) error {
	outer, err := f.enter()
	if err != nil {
		return err
	}
	for f.more() {
		num, typ, err := f.tag()
		if err != nil {
			return err
		}
		if num != 2 || typ != protowire.BytesType {
			if err := f.skip(typ); err != nil {
				return err
			}
			continue
		}
		d, err := f.digestField()
		if err != nil {
			return err
		}
		switch {
		case isFile:
			file(d)
		case dir != nil:
			dir(d)
		}
	}
	f.leave(outer)
	return nil
}

// dirRefs adds all that is below directories which are stored one by one (output_directory_format DIRECTORY_ONLY).
func (s *Service) dirRefs(ctx context.Context, roots []digest, r *refs, grow func(int64) error) error {
	w := newDirWalk(s, roots, grow)
	w.file = r.add
	for {
		d, _, err := w.next(ctx)
		switch {
		case err == io.EOF:
			return nil
		case errors.Is(err, blobstore.ErrNotExist):
			r.miss(d)
			return nil
		case errors.Is(err, errMalformed):
			r.note(errAbsent{d, "Directory"})
			return nil
		case err != nil:
			return err
		}
		r.add(d)
	}
}
