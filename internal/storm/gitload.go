package storm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// coalesce: full clones whose requests are equal to the byte, sent at once. They are not unpacked, so that the generator stays
// out of the way.
func coalesce(ctx context.Context, r *gitRun) ([]*tally, error) {
	t := r.tally("coalesce")
	r.together(func(i int, c *gitHTTP) {
		g := r.repos[i%len(r.repos)]
		r.oneFetch(ctx, c, t, g.url, g.full())
	})
	return []*tally{t}, nil
}

// distinct: as many clones of different commits, for which nothing can be shared.
func distinct(ctx context.Context, r *gitRun) ([]*tally, error) {
	t := r.tally("distinct")
	r.together(func(i int, c *gitHTTP) {
		g := r.repos[i%len(r.repos)]
		n := i / len(r.repos)
		if n >= len(g.commits) {
			t.breaks(fmt.Sprintf("%s has %d commits for %d clients", g.url, len(g.commits), r.o.Clients))
			return
		}
		r.oneFetch(ctx, c, t, g.url, gitFetch{wants: g.commits[n : n+1]}.request())
	})
	return []*tally{t}, nil
}

// together has each client do its work, all at once, and returns when the last has ended.
func (r *gitRun) together(work func(i int, c *gitHTTP)) {
	client := newGitHTTP(0)
	defer client.close()
	var wg sync.WaitGroup
	for i := range r.o.Clients {
		wg.Go(func() { work(i, client) })
	}
	wg.Wait()
}

// slowReaders: clones that are read at Rate, and beside them one ordinary clone after the other, which must not feel it.
func slowReaders(ctx context.Context, r *gitRun) ([]*tally, error) {
	slow, others := r.tally("slow"), r.tally("slow: others")
	client := newGitHTTP(slowBuffer)
	defer client.close()
	fast := newGitHTTP(0)
	defer fast.close()
	reading, done := context.WithCancel(ctx)
	var readers, rest sync.WaitGroup
	for i := range r.o.Clients {
		s := slowReader{rate: int64(r.o.Rate), stay: r.o.Slow, whenServed: true}
		readers.Go(func() { s.read(ctx, client, slow, r.repos[i%len(r.repos)]) })
	}
	for _, g := range r.repos {
		rest.Go(func() {
			for reading.Err() == nil {
				r.oneFetch(ctx, fast, others, g.url, g.full())
			}
		})
	}
	readers.Wait()
	done()
	rest.Wait()
	return []*tally{slow, others}, nil
}

// slowReader reads for a while and leaves.
type slowReader struct {
	rate       int64 // bytes a second
	stay       time.Duration
	whenServed bool // it stays for so long from its first byte on, and not from its request
}

// errDone ends a reader that has done its part: its server is not to blame.
var errDone = errors.New("read for as long as was asked for")

// read succeeds if the answer is not cut before it leaves. Latency is the time to the answer's first byte, and bytes are the
// answer's.
func (s slowReader) read(ctx context.Context, c *gitHTTP, t *tally, g *gitRepo) {
	t.offered.Add(1)
	t.open.Add(1)
	defer t.open.Add(-1)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	leaveLater := func() { time.AfterFunc(s.stay, func() { cancel(errDone) }) }
	if !s.whenServed {
		leaveLater()
	}
	began := time.Now()
	var first sync.Once
	a, err := c.fetch(ctx, g.url, g.full(), func(body io.Reader) io.Reader {
		return readFunc(func(p []byte) (int, error) {
			n, err := (&paced{ctx, body, s.rate}).Read(p)
			t.bytes.Add(int64(n))
			first.Do(func() {
				t.latency.add(time.Since(began))
				if s.whenServed {
					leaveLater()
				}
			})
			return n, err
		})
	})
	if err != nil && context.Cause(ctx) != errDone {
		t.gitFailed(err, a.bytes)
		return
	}
	t.ok.Add(1)
}

// readFunc is an io.Reader.
type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// leavePatience is what a server may take to notice that its clients have gone, and to end what it did for them.
const leavePatience = 10 * time.Second

// leave: clients that go away in mid-stream. Afterwards no child of the server may be left, and no permit held.
func leave(ctx context.Context, r *gitRun) ([]*tally, error) {
	t := r.tally("leave")
	client := newGitHTTP(slowBuffer)
	var wg sync.WaitGroup
	for i := range r.o.Clients {
		s := slowReader{rate: 5 * int64(r.o.Rate), stay: r.o.Leave}
		wg.Go(func() { s.read(ctx, client, t, r.repos[i%len(r.repos)]) })
	}
	wg.Wait()
	client.close()
	err := r.endLoad(ctx, t) // what runs beside holds permits, too
	return []*tally{t}, errors.Join(err, r.allGone(ctx, t))
}

// allGone waits until nothing of the load is left in the server.
func (r *gitRun) allGone(ctx context.Context, t *tally) error {
	deadline := time.Now().Add(leavePatience)
	for {
		left, err := r.left(ctx)
		switch {
		case err != nil || left == "":
			return err
		case time.Now().After(deadline):
			t.breaks(fmt.Sprintf("%s after the clients left there are still %s", leavePatience, left))
			return nil
		case !sleep(ctx, 100*time.Millisecond):
			return context.Cause(ctx)
		}
	}
}

// left says what the server still has of its clients: permits, children.
func (r *gitRun) left(ctx context.Context) (string, error) {
	maintains := false
	if r.o.Admin != "" {
		st, err := (&looker{w: r.watch}).status(ctx)
		if err != nil {
			return "", err
		}
		for _, g := range st.Gates {
			switch {
			case g.InUse == 0 || !strings.HasPrefix(g.Name, "git_"):
			case g.Name == "git_mirrors":
				maintains = true // the server's own work, whose children are no client's
			default:
				return fmt.Sprintf("%d held of gate %s", g.InUse, g.Name), nil
			}
		}
	}
	if r.tree == nil || maintains {
		return "", nil
	}
	u, err := r.tree.look()
	if err == nil && u.children > 0 {
		return fmt.Sprintf("%d child processes", u.children), nil
	}
	return "", err
}
