package packs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/leveehq/levee/internal/git/child"
	"github.com/leveehq/levee/internal/git/pkt"
)

// wanted is what a look at a request found.
type wanted struct {
	kind    string // of request, for the history: of a small set, none of it a client's words
	quick   bool
	shallow bool
	objects int64 // counted; 0 is not
	largest int64 // of blobs that are wanted by name
}

// Bounds of a look. What is beyond is taken for a clone.
const (
	lookWants   = 4096
	lookHaves   = 256
	lookMost    = 5 * time.Second
	lookObjects = 200_000 // of a checkout
	perDepth    = 64      // objects that each further generation of commits adds to a checkout, at a guess
)

var errEnough = errors.New("more objects than are worth counting")

// clone is what all of the repository costs.
func (f *flight) clone() wanted {
	return wanted{kind: "clone" + filtered(f.job.Request), quick: f.job.Lease.Objects <= f.few()}
}

func (f *flight) look(ctx context.Context) (wanted, error) {
	r := f.job.Request
	if len(r.Wants)+len(r.WantRefs) > lookWants {
		return f.clone(), nil
	}
	wants, haves, err := f.types(ctx)
	switch {
	case err != nil:
		return f.clone(), err
	case len(wants.names) == 0: // upload-pack will say so
		return wanted{kind: "nothing", quick: true}, nil
	case wants.blobs == len(wants.names):
		w := wanted{kind: "blobs", objects: int64(wants.blobs), largest: wants.largest}
		w.quick = w.objects <= f.few() && w.largest <= f.c.o.QuickSlot/2
		return w, nil
	case deepens(r):
		return f.lookShallow(ctx, wants)
	case wants.commits > 0 && len(haves.names) == 0:
		return f.clone(), nil
	}
	n, err := f.reaches(ctx, f.few(), "--use-bitmap-index", wants.names, haves.names)
	return wanted{kind: "fetch" + filtered(r), quick: n > 0}, err
}

func deepens(r *pkt.Request) bool { return r.Depth > 0 || r.DeepenSince != "" || len(r.DeepenNot) > 0 }

// lookShallow counts a checkout, which is most of what a shallow clone gets.
func (f *flight) lookShallow(ctx context.Context, wants found) (wanted, error) {
	r := f.job.Request
	n, err := f.reaches(ctx, lookObjects, "--no-walk", wants.names, nil)
	w := wanted{kind: "shallow", shallow: true}
	if n == 0 || r.Depth == 0 {
		return w, err
	}
	w.objects = n + min(perDepth*int64(r.Depth-1), f.job.Lease.Objects)
	w.quick = w.objects <= f.few()
	return w, err
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

// reaches counts what the wants reach and the haves do not, up to most objects; beyond, or if it cannot be counted, it is 0.
func (f *flight) reaches(ctx context.Context, most int64, how string, wants, haves []string) (int64, error) {
	args := []string{"rev-list", "--objects", "--stdin", how}
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
	switch {
	case count.left < 0: // whether it was ended, or had come to its end by itself
		return 0, nil
	case errors.As(err, new(*child.ExitError)):
		// There are too many to be counted in a round's memory; or it is a filter that rev-list does not take, and upload-pack
		// will say what is wrong with it.
		return 0, nil
	case err != nil:
		return 0, err
	}
	return max(most-count.left, 1), nil // nothing is few, too
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
