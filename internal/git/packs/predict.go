package packs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leveehq/levee/internal/git/child"
	"github.com/leveehq/levee/internal/git/pkt"
)

// cost of a generation, as predicted.
type cost struct {
	quick bool
	bytes int64  // of the permit and of the child's budget
	kind  string // of request, for the history
}

// What pack-objects takes for a clone, before anything was measured. With a bitmap nearly everything is copied from pack to pack,
// and what it takes is the bitmap; without, a table of all objects, what it parses of them, and what its settings let it take
// besides. The first is meant to be near, since one that runs out of memory is tried again with more; a test holds the second.
const (
	bitmapBase      = 8 << 20
	bitmapPerObject = 24
	walkBase        = 12 << 20
	walkPerObject   = 400
)

// quickPerObject is what an object may take of QuickSlot: it says how many objects are few.
const quickPerObject = 4 << 10

// Bounds of a look at what is wanted. What is beyond is taken for a clone.
const (
	lookWants = 4096
	lookHaves = 256
	lookMost  = 5 * time.Second
)

var errEnough = errors.New("more objects than are few")

// predict looks at what is wanted, since neither the presence of haves nor that of a filter tells the cost: a lazy fetch of two
// blobs has the shape of a partial clone, and a have costs a client nothing. It needs a permit for its children, which it gives
// back.
func (f *flight) predict(ctx context.Context) (cost, error) {
	permit, err := f.admit(ctx, f.c.o.Rounds, f.job.Caller, f.c.o.RoundSlot)
	if err != nil {
		return cost{}, err
	}
	defer permit.Release()
	ctx, cancel := context.WithTimeoutCause(ctx, lookMost, errEnough)
	defer cancel()
	k, quick, err := f.look(ctx)
	if err != nil && !errors.Is(err, errEnough) {
		return cost{}, err
	}
	return f.price(k, quick && err == nil), nil
}

// price is in bytes; what was quick by the look may have been found not to be, by what earlier ones took.
func (f *flight) price(kind string, quick bool) cost {
	o, lease := &f.c.o, f.job.Lease
	if quick {
		key := peakKey{lease.Repo.String(), kind}
		n := max(f.c.peaks.predict(key, lease.Objects, 0), o.QuickSlot)
		if n <= 2*o.QuickSlot && n <= o.Quick.Stats().Limit {
			return cost{true, n, kind}
		}
		return cost{false, max(n, o.Slot), kind}
	}
	guess := walkBase + walkPerObject*lease.Objects
	if !strings.HasPrefix(kind, deepen) && hasBitmap(lease.Dir) { // shallow clients get no use of one
		kind += ", bitmap"
		guess = bitmapBase + bitmapPerObject*lease.Objects
	}
	n := f.c.peaks.predict(peakKey{lease.Repo.String(), kind}, lease.Objects, guess)
	return cost{false, max(n, o.Slot), kind}
}

const deepen = "deepen"

// hasBitmap tells whether one of the repository's packs, or all of them together, has one.
func hasBitmap(dir string) bool {
	names, err := os.ReadDir(filepath.Join(dir, "objects", "pack"))
	return err == nil && slices.ContainsFunc(names, func(n os.DirEntry) bool { return strings.HasSuffix(n.Name(), ".bitmap") })
}

// look tells the kind of request, and whether it is about few objects.
func (f *flight) look(ctx context.Context) (kind string, quick bool, err error) {
	r := f.job.Request
	few := f.c.o.QuickSlot / quickPerObject
	if len(r.Wants)+len(r.WantRefs) > lookWants {
		return "clone", false, nil
	}
	wants, haves, err := f.types(ctx)
	if err != nil {
		return "clone", false, err
	}
	switch deepens := r.Depth > 0 || r.DeepenSince != "" || len(r.DeepenNot) > 0; {
	case len(wants.names) == 0: // upload-pack will say so
		return "nothing", true, nil
	case wants.blobs == len(wants.names):
		return "blobs", wants.largest <= f.c.o.QuickSlot/2 && int64(wants.blobs) <= few, nil
	case deepens && (r.Depth != 1 || r.DeepenRelative):
		return deepen, f.job.Lease.Objects <= few, nil
	case deepens:
		quick, err = f.reaches(ctx, few, "--no-walk", wants.names, nil)
		return deepen + " 1", quick, err
	case wants.commits > 0 && len(haves.names) == 0:
		return "clone" + filtered(r), f.job.Lease.Objects <= few, nil
	}
	quick, err = f.reaches(ctx, few, "", wants.names, haves.names)
	return "fetch" + filtered(r), quick, err
}

// filtered keeps the words of clients out of the history.
func filtered(r *pkt.Request) string {
	if r.Filter == "" {
		return ""
	}
	return ", filtered"
}

// found is what a mirror has of the objects asked for.
type found struct {
	names          []string
	blobs, commits int // tags count as commits
	largest        int64
}

// types asks for the types of wants and of some haves.
func (f *flight) types(ctx context.Context) (wants, haves found, err error) {
	var ask, out bytes.Buffer
	for _, w := range f.job.Request.Wants {
		fmt.Fprintln(&ask, w)
	}
	for _, w := range f.job.Request.WantRefs {
		fmt.Fprintln(&ask, strings.ReplaceAll(w, "\n", ""))
	}
	for _, h := range head(f.job.Request.Haves, lookHaves) {
		fmt.Fprintln(&ask, h)
	}
	_, err = f.c.o.Runner.Run(ctx, child.Cmd{
		Dir: f.job.Lease.Dir, Args: []string{"cat-file", "--batch-check=%(objectname) %(objecttype) %(objectsize)"},
		Budget: child.Budget{Bytes: f.c.o.RoundSlot}, Stdin: &ask, Stdout: &out,
	})
	if err != nil {
		return found{}, found{}, err
	}
	left := len(f.job.Request.Wants) + len(f.job.Request.WantRefs)
	for line := range strings.Lines(out.String()) {
		side := &wants
		if left--; left < 0 {
			side = &haves
		}
		side.add(strings.Fields(line))
	}
	return wants, haves, nil
}

func (o *found) add(fields []string) {
	if len(fields) != 3 { // "… missing"
		return
	}
	o.names = append(o.names, fields[0])
	switch fields[1] {
	case "blob":
		o.blobs++
	case "commit", "tag":
		o.commits++
	}
	if n, err := strconv.ParseInt(fields[2], 10, 64); err == nil {
		o.largest = max(o.largest, n)
	}
}

// reaches tells whether the wants reach no more than most objects that the haves do not. It stops counting there.
func (f *flight) reaches(ctx context.Context, most int64, walk string, wants, haves []string) (bool, error) {
	args := []string{"rev-list", "--objects", "--stdin"}
	if walk != "" {
		args = append(args, walk)
	} else {
		args = append(args, "--use-bitmap-index")
	}
	if filter := f.job.Request.Filter; filter != "" {
		args = append(args, "--filter="+filter, "--filter-provided-objects")
	}
	var in strings.Builder
	for _, w := range wants {
		fmt.Fprintln(&in, w)
	}
	for _, h := range haves {
		fmt.Fprintln(&in, "^"+h)
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	count := &lines{left: most, enough: func() { stop(errEnough) }}
	_, err := f.c.o.Runner.Run(ctx, child.Cmd{
		Dir: f.job.Lease.Dir, Args: args, Budget: child.Budget{Bytes: f.c.o.RoundSlot},
		Stdin: strings.NewReader(in.String()), Stdout: count,
	})
	if count.left < 0 { // whether it was ended, or had come to its end by itself
		return false, nil
	}
	var exit *child.ExitError
	if errors.As(err, &exit) && exit.OutOfMemory { // too many to be counted, so not few
		return false, nil
	}
	if errors.As(err, &exit) { // a filter that rev-list does not take; upload-pack will say what is wrong with it
		return false, nil
	}
	return err == nil, err
}

// lines counts, and says when it is enough.
type lines struct {
	left   int64
	enough func()
}

func (l *lines) Write(p []byte) (int, error) {
	if l.left -= int64(bytes.Count(p, []byte("\n"))); l.left < 0 {
		l.enough()
	}
	return len(p), nil
}

func head[T any](list []T, n int) []T { return list[:min(n, len(list))] }
