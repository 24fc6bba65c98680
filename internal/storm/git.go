package storm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// gitScenario is one kind of client of a Git cache.
type gitScenario struct {
	name  string
	alone bool // nothing runs beside it
	equal bool // all requests for a target are the same to the byte, so that one generation does for them
	run   func(ctx context.Context, r *gitRun) ([]*tally, error)
}

var gitScenarios = []gitScenario{
	{name: "clones", run: clones},
	{name: "coalesce", run: coalesce, equal: true, alone: true}, // probes make packs, too
	{name: "distinct", run: distinct},
	{name: "slow", run: slowReaders},
	{name: "leave", run: leave},
	{name: "quick", run: quick, alone: true},
}

func chosenGitScenarios(name string) (chosen []gitScenario) {
	for _, s := range gitScenarios {
		if s.name == name || name == "all" {
			chosen = append(chosen, s)
		}
	}
	return chosen
}

// gitRun is what the scenarios of one call of Git share.
type gitRun struct {
	o     GitOptions
	dir   string // for clones and the like
	repos []*gitRepo
	watch *watch
	show  *progress
	tree  *treeMeter // nil without a process id

	report  *GitReport
	costing costing // of the scenario that runs
	probes  *probes // likewise; nil if nothing runs beside it

	// offer ends when no new work is to be begun.
	offer context.Context
}

// Git runs the scenarios that o names against a Git cache, and blocks until they have ended; see Bazel. With o.Make or o.Serve
// it does that instead, and the report is nil.
func Git(ctx context.Context, o GitOptions, out, progress io.Writer) (*GitReport, error) {
	if err := gitMissing(); err != nil {
		return nil, err
	}
	switch {
	case o.Make != "":
		return nil, makeRepository(ctx, &o)
	case o.Serve != "":
		return nil, serveBackend(ctx, &o, out)
	}
	if err := o.validate(); err != nil {
		return nil, &UsageError{err}
	}
	dir, err := os.MkdirTemp(o.Dir, "levee-storm-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	r := &gitRun{o: o, dir: dir, report: &GitReport{Report: Report{Target: strings.Join(o.Target, " "), Started: time.Now(), Broken: []string{}}}}
	if err := r.prepare(ctx, progress); err != nil {
		return nil, err
	}
	err = r.all(ctx)
	r.report.Seconds = time.Since(r.report.Started).Seconds()
	return r.report, err
}

// prepare learns what is needed of the targets, and what observes the server.
func (r *gitRun) prepare(ctx context.Context, progress io.Writer) error {
	w, err := newWatch(ctx, &BazelOptions{Admin: r.o.Admin, PID: r.o.PID})
	if err != nil {
		return err
	}
	r.watch, r.show = w, newProgress(progress, w)
	if r.o.PID != 0 {
		if r.tree, err = newTreeMeter(r.o.PID); err != nil {
			return err
		}
	}
	if r.o.Scenario == "clones" && !r.o.Beside { // nothing need be known: the mirrors may be cold, and stay so until the load
		for _, url := range r.o.Target {
			r.repos = append(r.repos, &gitRepo{url: url})
		}
		return nil
	}
	for _, url := range r.o.Target {
		repo, err := r.learn(ctx, url)
		if err != nil {
			return fmt.Errorf("target %s: %w", url, err)
		}
		r.repos = append(r.repos, repo)
	}
	return nil
}

// all runs the scenarios one after the other.
func (r *gitRun) all(ctx context.Context) error {
	report := r.report
	if r.o.Scenario == "compare" { // which has nothing else ask the server while it measures
		return r.compare(ctx)
	}
	stop := r.background(ctx)
	defer stop()
	for _, s := range chosenGitScenarios(r.o.Scenario) {
		if err := r.one(ctx, s); err != nil {
			return fmt.Errorf("scenario %s: %w", s.name, err)
		}
	}
	stop()
	report.Server = r.watch.server()
	r.watch.judge(&report.Report, int64(r.o.MaxRSS))
	r.judge(ctx)
	return nil
}

// judge is what holds for the whole run.
func (r *gitRun) judge(ctx context.Context) {
	r.watch.mu.Lock()
	st := r.watch.mu.last
	r.watch.mu.Unlock()
	r.report.Broken = append(r.report.Broken, judgeCosts(r.report.Costs, &st)...)
	r.report.Broken = append(r.report.Broken, r.compareRefs(ctx)...)
}

// background starts what observes; the func returned stops it and waits for it, and may be called twice.
func (r *gitRun) background(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { r.watch.run(ctx) })
	wg.Go(func() { r.show.run(ctx) })
	if r.tree != nil {
		wg.Go(func() { r.tree.run(ctx) })
	}
	return func() { cancel(); wg.Wait() }
}

// one runs a scenario within its bound in time.
func (r *gitRun) one(ctx context.Context, s gitScenario) error {
	hard, cancel := context.WithTimeoutCause(ctx, 2*r.o.Duration, errors.New("the scenario's time is over"))
	defer cancel()
	offer, cancelOffer := context.WithTimeout(hard, r.o.Duration)
	defer cancelOffer()
	r.offer = offer
	r.show.scenario(s.name)
	before := r.watch.mark()
	if err := r.beginCost(hard, s.name); err != nil {
		return err
	}
	if r.o.Beside && !s.alone {
		r.probes = r.beside(hard)
	}
	tallies, err := s.run(hard, r)
	costErr := r.endLoad(hard, tallies...)
	if r.probes != nil {
		tallies, r.probes = append(tallies, r.probes.end(r.o.QuickLimit)...), nil
	}
	memory := r.watch.memory(before)
	c := *r.costing.cost
	s.judge(c, len(r.repos), tallies)
	for i, t := range tallies {
		section := t.section()
		if i == 0 {
			section.Memory = memory
		}
		r.report.Sections = append(r.report.Sections, section)
	}
	r.report.Costs = append(r.report.Costs, c)
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return errors.Join(err, costErr)
}

func (s *gitScenario) judge(c Cost, repos int, tallies []*tally) {
	if !s.equal || c.Packs == nil || len(tallies) == 0 {
		return
	}
	if c.Packs.Generations > uint64(repos) {
		tallies[0].breaks(fmt.Sprintf("equal requests for %d repositories took %d generations", repos, c.Packs.Generations))
	}
}

// endLoad stops what runs beside the load and what measures it, before the clients' own work goes on. Only its first call in
// a scenario counts.
func (r *gitRun) endLoad(ctx context.Context, tallies ...*tally) error {
	if r.costing.cost != nil {
		return nil
	}
	if r.probes != nil {
		r.probes.stop()
	}
	return r.endCost(ctx, tallies)
}

// tally opens the books of one group of clients and shows them in the progress line.
func (r *gitRun) tally(name string) *tally {
	t := newTally(name)
	r.show.follow(t)
	return t
}

func (r *gitRun) urls() (urls []string) {
	for _, repo := range r.repos {
		urls = append(urls, repo.url)
	}
	return urls
}

// costing is a measurement under way.
type costing struct {
	name   string
	began  time.Time
	before *PackCounts
	cost   *Cost // nil until it has ended
}

func (r *gitRun) beginCost(ctx context.Context, name string) error {
	r.costing = costing{name: name, began: time.Now(), before: r.packCounts(ctx)}
	if r.tree == nil {
		return nil
	}
	return r.tree.mark()
}

func (r *gitRun) endCost(ctx context.Context, tallies []*tally) (err error) {
	c := &Cost{Name: r.costing.name, Seconds: time.Since(r.costing.began).Seconds()}
	r.costing.cost = c
	for _, t := range tallies {
		c.Bytes += t.bytes.Load()
	}
	if r.tree != nil {
		var u treeUse
		u, err = r.tree.since()
		c.fill(u)
	}
	if before, after := r.costing.before, r.packCounts(ctx); !c.foreign() && before != nil && after != nil {
		c.Packs = &PackCounts{after.Generations - before.Generations, after.Hits - before.Hits, after.Coalesced - before.Coalesced}
	}
	return err
}

func (c *Cost) fill(u treeUse) {
	c.Measured = true
	c.CPU, c.GitCPU = u.cpu.Seconds(), u.childCPU.Seconds()
	c.Anon, c.GitAnon, c.Children, c.Packing = u.anon, u.childAnon, u.children, u.packing
}

// packCounts are the server's own; nil if it does not tell.
func (r *gitRun) packCounts(ctx context.Context) *PackCounts {
	if r.o.Admin == "" {
		return nil
	}
	var st struct {
		Services struct {
			Git *struct {
				Packs *PackCounts `json:"packs"`
			} `json:"git"`
		} `json:"services"`
	}
	err := r.watch.page(ctx, "/status", func(body io.Reader) error { return json.NewDecoder(body).Decode(&st) })
	if err != nil || st.Services.Git == nil {
		return nil
	}
	return st.Services.Git.Packs
}

// compareRefs holds what the targets advertise against what their upstreams do.
func (r *gitRun) compareRefs(ctx context.Context) (broken []string) {
	client := newGitHTTP(0)
	defer client.close()
	ctx, cancel := context.WithTimeout(ctx, learnWait)
	defer cancel()
	for i, upstream := range r.o.Upstream {
		theirs, err := client.lsRemote(ctx, upstream)
		if err != nil {
			broken = append(broken, fmt.Sprintf("upstream %s: %v", upstream, err))
			continue
		}
		ours, err := client.lsRemote(ctx, r.o.Target[i])
		if err != nil {
			broken = append(broken, fmt.Sprintf("%s does not advertise: %v", r.o.Target[i], err))
			continue
		}
		if !slices.Equal(ours, theirs) {
			broken = append(broken, fmt.Sprintf("%s advertises %d lines and its upstream %d, or others: %s", r.o.Target[i], len(ours), len(theirs), firstDifference(ours, theirs)))
		}
	}
	return broken
}

func firstDifference(ours, theirs []string) string {
	for i := range max(len(ours), len(theirs)) {
		var a, b string
		if i < len(ours) {
			a = ours[i]
		}
		if i < len(theirs) {
			b = theirs[i]
		}
		if a != b {
			return fmt.Sprintf("%q instead of %q", a, b)
		}
	}
	return "none"
}
