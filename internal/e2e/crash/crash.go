package crash

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leveehq/levee/internal/e2e/rig"
)

// Run kills the server rounds times and checks after each restart, with the flags given to each life.
func Run(t testing.TB, rounds int, flags ...string) {
	t.Helper()
	r := &runner{t: t, dir: t.TempDir(), books: newBooks(), flags: append([]string{"--store-max-size", "8GiB"}, flags...)}
	for n := range rounds {
		if r.round(n); t.Failed() {
			return
		}
	}
	r.last()
	t.Logf("%d kills, %d blobs and %d action results acknowledged", rounds, len(r.books.allBlobs()), len(r.books.allResults()))
}

type runner struct {
	t     testing.TB
	dir   string
	flags []string
	books *books

	// Of the life before.
	acknowledged, unfinished []content
}

const (
	shortestLife = 30 * time.Millisecond
	longestLife  = 600 * time.Millisecond
	tempLimit    = 10 * time.Second // after a restart no temporary file may be left
	checkLimit   = 2 * time.Minute
)

// round is one life: start, check what earlier lives have left, work, die.
func (r *runner) round(n int) {
	r.t.Helper()
	s, err := rig.TryStart(r.dir, r.flags...)
	if err != nil {
		r.t.Fatalf("start %d: %v", n, err)
	}
	defer s.Kill()
	c, err := newClient(s)
	if err != nil {
		r.t.Fatal(err)
	}
	defer c.close()
	r.check(c)
	r.noTemp()

	ctx, cancel := context.WithCancel(r.t.Context())
	work := &traffic{c: c, books: r.books, wrong: r.t.Errorf}
	done := make(chan struct{})
	go func() { work.run(ctx); close(done) }()
	<-time.After(shortestLife + rand.N(longestLife-shortestLife)) // the moment of the kill is what is random
	s.Kill()
	cancel()
	<-done
	r.acknowledged, r.unfinished = r.books.closeRound()
	if r.t.Failed() {
		r.t.Logf("in life %d; end of the server's log:\n%s", n, s.Log())
	}
}

// check reads all that the life before has acknowledged or begun, and asks for all that earlier lives have.
func (r *runner) check(c *client) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), checkLimit)
	defer cancel()
	for _, b := range r.acknowledged {
		r.mustHave(ctx, c, b)
	}
	for _, b := range r.unfinished {
		body, err := c.read(ctx, b)
		switch {
		case errors.Is(err, errAbsent):
		case err != nil:
			r.t.Errorf("reading a blob whose upload was cut: %v", err)
		case !b.is(body):
			r.t.Errorf("%d wrong bytes are served for the blob %s of %d bytes, whose upload was cut", len(body), b.hash, b.size)
		}
	}
	missing, err := c.missing(ctx, r.books.allBlobs())
	if err != nil {
		r.t.Errorf("FindMissingBlobs: %v", err)
	}
	if len(missing) > 0 {
		r.t.Errorf("%d acknowledged blobs are missing, the first is %s", len(missing), missing[0])
	}
	for key, want := range r.books.allResults() {
		r.mustHold(ctx, c, key, want)
	}
}

func (r *runner) mustHave(ctx context.Context, c *client, b content) {
	r.t.Helper()
	body, err := c.read(ctx, b)
	if err != nil {
		r.t.Errorf("the acknowledged blob %s of %d bytes: %v", b.hash, b.size, err)
	} else if !b.is(body) {
		r.t.Errorf("%d wrong bytes are served for the acknowledged blob %s of %d bytes", len(body), b.hash, b.size)
	}
}

// mustHold checks a key of the action cache. Once its value is known it is the only one that later lives may show.
func (r *runner) mustHold(ctx context.Context, c *client, key string, want result) {
	r.t.Helper()
	is := func(content) bool { return false }
	d, err := c.result(ctx, key)
	if err == nil {
		is = func(b content) bool { return d.Hash == b.hash && d.SizeBytes == int64(b.size) }
	} else if body, httpErr := c.get(ctx, "/ac/"+key); httpErr == nil {
		is, err = func(b content) bool { return b.is(body) }, nil
	} else if !errors.Is(httpErr, errAbsent) {
		err = httpErr
	}
	switch {
	case err == nil:
		for _, b := range want.may {
			if is(b) {
				r.books.settled(key, b)
				return
			}
		}
		r.t.Errorf("the action %s has a result that was never stored for it, or one that was replaced", key)
	case want.stored:
		r.t.Errorf("the acknowledged result of the action %s: %v", key, err)
	case !errors.Is(err, errAbsent):
		r.t.Errorf("the result of the action %s, which was on its way: %v", key, err)
	}
}

// noTemp waits until nothing unfinished is left on disk.
func (r *runner) noTemp() {
	r.t.Helper()
	deadline := time.Now().Add(tempLimit)
	for {
		left := unfinishedFiles(r.dir)
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			r.t.Errorf("%d unfinished files are left %s after the restart, such as %s", len(left), tempLimit, left[0])
			return
		}
		<-time.After(20 * time.Millisecond)
	}
}

// unfinishedFiles are those in a directory that is called tmp or with a name that ends so.
func unfinishedFiles(dir string) (paths []string) {
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // gone while walking
		}
		if filepath.Base(filepath.Dir(path)) == "tmp" || strings.HasSuffix(path, ".tmp") {
			paths = append(paths, path)
		}
		return nil
	})
	return paths
}

// last reads everything once more, after a clean stop and a start.
func (r *runner) last() {
	r.t.Helper()
	s := rig.Start(r.t, r.dir, r.flags...)
	c, err := newClient(s)
	if err != nil {
		r.t.Fatal(err)
	}
	defer c.close()
	r.check(c)
	r.noTemp()
	for _, b := range r.books.allBlobs() {
		r.mustHave(r.t.Context(), c, b)
	}
	if err := s.Stop(); err != nil {
		r.t.Errorf("the clean stop: %v", err)
	}
}
