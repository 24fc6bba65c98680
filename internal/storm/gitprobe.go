package storm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// gitRepo is what storm knows of a target.
type gitRepo struct {
	url     string
	wants   []string // what a clone wants: every object that a branch or a tag names
	commits []string // of HEAD's first parents, the newest first
	blobs   []string // of HEAD's tree
	filters bool     // the server can filter objects, so that single ones may be asked for
}

// full is the request of a clone.
func (g *gitRepo) full() []byte { return gitFetch{wants: g.wants}.request() }

// history is how many commits are learned: a distinct want for each client, and something to fetch an increment from.
func (o *GitOptions) history() int { return max(o.Clients, 20) + 1 }

// learnWait is for a server that has to make a mirror first.
const learnWait = 10 * time.Minute

// learn asks for the refs of a repository, and for some of its commits and the names of its blobs, which cost a server little.
func (r *gitRun) learn(ctx context.Context, url string) (*gitRepo, error) {
	ctx, cancel := context.WithTimeout(ctx, learnWait)
	defer cancel()
	client := newGitHTTP(0)
	defer client.close()
	refs, err := client.lsRemote(ctx, url)
	if err != nil {
		return nil, err
	}
	can, err := client.capabilities(ctx, url)
	if err != nil {
		return nil, err
	}
	g := &gitRepo{url: url, wants: wantsOf(refs), filters: canFilter(can)}
	if len(g.wants) == 0 {
		return nil, errors.New("it has no branch and no tag")
	}
	dir, err := os.MkdirTemp(r.dir, "learn-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	into := filepath.Join(dir, "r")
	_, err = gitOutput(ctx, "clone", "--quiet", "--bare", "--single-branch", "--filter=blob:none", "--depth="+strconv.Itoa(r.o.history()), url, into)
	if err != nil {
		return nil, err
	}
	return g, g.read(ctx, into)
}

func (g *gitRepo) read(ctx context.Context, dir string) error {
	commits, err := gitOutput(ctx, "-C", dir, "rev-list", "--first-parent", "HEAD")
	if err != nil {
		return err
	}
	g.commits = strings.Fields(commits)
	tree, err := gitOutput(ctx, "-C", dir, "ls-tree", "-r", "HEAD")
	if err != nil {
		return err
	}
	for line := range strings.Lines(tree) {
		if f := strings.Fields(line); len(f) > 3 && f[1] == "blob" {
			g.blobs = append(g.blobs, f[2])
		}
	}
	return nil
}

// canFilter looks for "filter" among what follows "fetch=".
func canFilter(capabilities []string) bool {
	for _, c := range capabilities {
		if words, ok := strings.CutPrefix(c, "fetch="); ok && slices.Contains(strings.Fields(words), "filter") {
			return true
		}
	}
	return false
}

// wantsOf takes the objects that branches and tags name from an answer to ls-refs, each once.
func wantsOf(refs []string) (wants []string) {
	seen := map[string]bool{}
	for _, line := range refs {
		f := strings.Fields(line)
		if len(f) < 2 || seen[f[0]] || !strings.HasPrefix(f[1], "refs/heads/") && !strings.HasPrefix(f[1], "refs/tags/") {
			continue
		}
		seen[f[0]] = true
		wants = append(wants, f[0])
	}
	return wants
}

// probes ask for what must stay quick, each kind once a second, whatever else goes on.
type probes struct {
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	tallies []*tally
}

const probeEvery = time.Second

// probe is one kind: what a repository must have for it, and how it is asked.
type probe struct {
	name string
	can  func(g *gitRepo) bool
	ask  func(ctx context.Context, c *gitHTTP, g *gitRepo, n int) (int64, error)
}

var probeKinds = []probe{
	{"ls-remote", func(*gitRepo) bool { return true },
		func(ctx context.Context, c *gitHTTP, g *gitRepo, _ int) (int64, error) {
			_, err := c.lsRemote(ctx, g.url)
			return 0, err
		}},
	{"incremental", func(g *gitRepo) bool { return len(g.commits) > 1 },
		func(ctx context.Context, c *gitHTTP, g *gitRepo, n int) (int64, error) {
			have := g.commits[1+n%(len(g.commits)-1)]
			a, err := c.fetch(ctx, g.url, gitFetch{wants: g.commits[:1], haves: []string{have}}.request(), nil)
			return a.bytes, err
		}},
	{"lazy", func(g *gitRepo) bool { return g.filters && len(g.blobs) > 1 },
		func(ctx context.Context, c *gitHTTP, g *gitRepo, n int) (int64, error) {
			two := []string{g.blobs[2*n%len(g.blobs)], g.blobs[(2*n+1)%len(g.blobs)]}
			a, err := c.fetch(ctx, g.url, gitFetch{wants: two, filter: "blob:none"}.request(), nil)
			return a.bytes, err
		}},
}

// beside starts the probes. They end with stop or ctx.
func (r *gitRun) beside(ctx context.Context) *probes {
	p := &probes{}
	asking, cancel := context.WithCancel(ctx)
	p.cancel = cancel
	for _, kind := range probeKinds {
		t := newTally("quick: " + kind.name) // not in the progress line, which is the load's
		p.tallies = append(p.tallies, t)
		p.wg.Go(func() { r.probe(ctx, asking, kind, t) })
	}
	return p
}

// probe goes on until asking ends; what is under way then is waited for, as long as ctx.
func (r *gitRun) probe(ctx, asking context.Context, kind probe, t *tally) {
	client := newGitHTTP(0)
	defer client.close()
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for n := 0; ; n++ {
		if g := r.repos[n%len(r.repos)]; kind.can(g) {
			t.one(func() (int64, error) { return kind.ask(ctx, client, g, n) })
		}
		select {
		case <-asking.Done():
			return
		case <-tick.C:
		}
	}
}

// one books one request.
func (t *tally) one(ask func() (int64, error)) {
	t.offered.Add(1)
	t.open.Add(1)
	defer t.open.Add(-1)
	began := time.Now()
	n, err := ask()
	if err != nil {
		t.gitFailed(err, n)
		return
	}
	t.latency.add(time.Since(began))
	t.bytes.Add(n)
	t.ok.Add(1)
}

func (p *probes) stop() {
	p.cancel()
	p.wg.Wait()
}

// end stops them and says which were not quick.
func (p *probes) end(limit time.Duration) []*tally {
	p.stop()
	for _, t := range p.tallies {
		if t.offered.Load() == 0 {
			t.note("never asked for: no target has enough commits or files, or the server cannot filter")
		}
		t.judgeQuick(limit)
	}
	return p.tallies
}

func (t *tally) judgeQuick(limit time.Duration) {
	if p99 := t.latency.latency().P99; limit > 0 && p99 > limit {
		t.breaks(fmt.Sprintf("took %s at the 99th percentile, above %s", short(p99), short(limit)))
	}
	if n := t.shedCount(); n > 0 {
		t.breaks(fmt.Sprintf("%d of what must stay quick were shed", n))
	}
}

// quick: the probes alone, for use beside another storm.
func quick(ctx context.Context, r *gitRun) ([]*tally, error) {
	p := r.beside(ctx)
	<-r.offer.Done()
	return p.end(r.o.QuickLimit), nil
}
