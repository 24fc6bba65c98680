package packs

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// cost of a generation, as predicted.
type cost struct {
	quick bool
	bytes int64  // of the permit and of the child's budget
	kind  string // of request, for the history
}

// What pack-objects takes before anything was measured. With a bitmap nearly everything is copied from pack to pack, and what it
// takes is the bitmap; without, a table of all objects, what it parses of them, and what its settings let it take besides. The
// first is meant to be near, since one that runs out of memory is tried again with more; a test holds both.
const (
	bitmapBase      = 8 << 20
	bitmapPerObject = 24
	walkBase        = 12 << 20
	walkPerObject   = 400
)

// quickPerObject is what an object may take of QuickSlot: it says how many objects are few.
const quickPerObject = 4 << 10

func (f *flight) few() int64 { return f.c.o.QuickSlot / quickPerObject }

// predict looks at what is wanted, since neither the presence of haves nor that of a filter tells the cost: a lazy fetch of two
// blobs has the shape of a partial clone, and a have costs a client nothing. It needs a permit for its children, which it gives
// back. Of a clone all is known, so a queue of clones starts no child.
func (f *flight) predict(ctx context.Context) (cost, error) {
	if f.job.Clone && !deepens(f.job.Request) {
		return f.price(f.clone()), nil
	}
	permit, err := f.admit(ctx, f.c.o.Rounds, f.job.Caller, f.c.o.RoundSlot)
	if err != nil {
		return cost{}, err
	}
	defer permit.Release()
	ctx, cancel := context.WithTimeoutCause(ctx, lookMost, errEnough)
	defer cancel()
	w, err := f.look(ctx)
	if err != nil && !errors.Is(err, errEnough) {
		return cost{}, err
	}
	return f.price(w), nil
}

// price is in bytes. What is quick by the look may have been found not to be, by what earlier ones took.
func (f *flight) price(w wanted) cost {
	o, lease := &f.c.o, f.job.Lease
	predict := func(kind string, guess int64) int64 {
		return f.c.peaks.predict(peakKey{lease.Repo.String(), kind}, lease.Objects, guess)
	}
	if w.quick {
		kind := "quick " + w.kind
		n := max(predict(kind, 0), o.QuickSlot)
		if n <= 2*o.QuickSlot && n <= o.Quick.Stats().Limit {
			return cost{true, n, kind}
		}
		return cost{false, max(n, o.Slot), kind}
	}
	kind, guess := w.kind, walkBase+walkPerObject*lease.Objects
	switch {
	case w.objects > 0:
		guess = walkBase + walkPerObject*w.objects + 2*w.largest
	case !w.shallow && hasBitmap(lease.Dir): // what is shallow gets no use of one
		kind += ", bitmap"
		guess = bitmapBase + bitmapPerObject*lease.Objects
	}
	return cost{false, max(predict(kind, guess), o.Slot), kind}
}

// hasBitmap tells whether one of the repository's packs, or all of them together, has one.
func hasBitmap(dir string) bool {
	names, err := os.ReadDir(filepath.Join(dir, "objects", "pack"))
	return err == nil && slices.ContainsFunc(names, func(n os.DirEntry) bool { return strings.HasSuffix(n.Name(), ".bitmap") })
}
