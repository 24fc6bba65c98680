package storm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
)

// scenario is one kind of client. run offers load until ctx.Done of r.offer, or by count, and returns what its groups
// of clients met with. An error means that the load could not be offered at all.
type scenario struct {
	name    string
	hostile bool
	part    bool         // of another scenario: runs only by name
	prepare func() error // what takes long and offers no load; may be nil
	run     func(ctx context.Context, r *run) ([]*tally, error)
}

// scenarios in the order in which "all" and "hostile" run them. It is filled by init, for the options' validation
// reads it and some scenarios validate options.
var scenarios []scenario

func init() {
	scenarios = []scenario{
		{name: "writers", run: writers},
		{name: "stalled", run: stalled},
		{name: "readers", run: readers},
		{name: "tenants", run: tenants},
		{name: "burst", part: true, run: burstAlone},
		{name: "quiet", part: true, run: quietAlone},
		{name: "tail", run: tail},
		{name: "tiny-frames", hostile: true, run: tinyFrames},
		{name: "endless", hostile: true, run: endlessMessages},
		{name: "batches", hostile: true, run: hugeBatches},
		{name: "bombs", hostile: true, run: zstdBombs,
			prepare: func() error { _, err := theBomb(); return err }},
		{name: "idle", hostile: true, run: idleConnections},
		{name: "stalled-uploads", hostile: true, run: stalledUploads},
		{name: "slow-readers", hostile: true, run: frozenReaders},
		{name: "rapid-reset", hostile: true, run: rapidReset},
		{name: "ping-flood", hostile: true, run: pingFlood},
		{name: "header-flood", hostile: true, run: headerFlood},
		{name: "fill", part: true, run: fillAccounts},
	}
}

func selected(name string) ([]scenario, error) {
	var chosen []scenario
	for _, s := range scenarios {
		if s.name == name || name == "all" && !s.hostile && !s.part || name == "hostile" && s.hostile {
			chosen = append(chosen, s)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("there is no scenario %q: use one of %s", name, Vars()["storm_scenarios"])
	}
	return chosen, nil
}

// run is what the scenarios of one call of Bazel share.
type run struct {
	o     BazelOptions
	src   *source
	watch *watch
	show  *progress

	accounts []Account // of scenario fill

	// offer ends when no new work is to be begun. Work under way then has a grace of two call time-outs at least, after which
	// the scenario's own context ends.
	offer context.Context
	end   context.CancelFunc // of offer
}

// Bazel runs the scenarios that o names against a Bazel remote cache, and blocks until they have ended. A line of
// progress goes to progress each second; nil for none.
//
// The error is a *UsageError if o is wrong; any other one means that the run could not be finished, and the report,
// if there is one, holds what was seen until then. Whether promises were broken is the report's to say.
func Bazel(ctx context.Context, o BazelOptions, progress io.Writer) (*Report, error) {
	if err := o.validate(); err != nil {
		return nil, &UsageError{err}
	}
	chosen, err := selected(o.Scenario)
	if err != nil {
		return nil, &UsageError{err}
	}
	if o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	if err := reach(ctx, &o); err != nil {
		return nil, err
	}
	w, err := newWatch(ctx, &o)
	if err != nil {
		return nil, err
	}
	r := &run{o: o, src: newSource(o.Seed), watch: w, show: newProgress(progress, w)}
	stop := r.background(ctx)
	defer stop()

	report := &Report{Target: o.Target, Started: time.Now(), Broken: []string{}}
	for _, s := range chosen {
		sections, err := r.one(ctx, s)
		report.Sections = append(report.Sections, sections...)
		if err != nil {
			return report, fmt.Errorf("scenario %s: %w", s.name, err)
		}
	}
	stop()
	report.Seconds = time.Since(report.Started).Seconds()
	report.Server = w.server()
	w.judge(report, int64(o.MaxRSS))
	report.Accounts = r.accounts
	report.Broken = append(report.Broken, judgeAccounts(r.accounts)...)
	if err := reach(ctx, &o); err != nil {
		report.Broken = append(report.Broken, "the server does not answer after the load: "+err.Error())
	}
	return report, nil
}

// background starts what observes; the func returned stops it and waits for it, and may be called twice.
func (r *run) background(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{}, 2)
	go func() { r.watch.run(ctx); done <- struct{}{} }()
	go func() { r.show.run(ctx); done <- struct{}{} }()
	stopped := false
	return func() {
		cancel()
		if stopped {
			return
		}
		stopped = true
		<-done
		<-done
	}
}

// one runs a scenario within its bound in time.
func (r *run) one(ctx context.Context, s scenario) ([]Section, error) {
	if s.prepare != nil {
		if err := s.prepare(); err != nil {
			return nil, err
		}
	}
	hard, cancel := context.WithTimeoutCause(ctx, r.o.Duration+3*r.o.CallTimeout, errors.New("the scenario's time is over"))
	defer cancel()
	r.begin(hard)
	defer func() { r.end() }() // of the last to begin
	before := r.watch.mark()
	r.show.scenario(s.name)
	tallies, err := s.run(hard, r)
	var sections []Section
	for i, t := range tallies {
		section := t.section()
		if i == 0 {
			section.Memory = r.watch.memory(before)
		}
		sections = append(sections, section)
	}
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return sections, err
}

// begin has the time of the load begin now: a scenario that has to store something first calls it again.
func (r *run) begin(ctx context.Context) {
	if r.end != nil {
		r.end()
	}
	r.offer, r.end = context.WithTimeout(ctx, r.o.Duration)
}

// tally opens the books of one group of clients and shows them in the progress line.
func (r *run) tally(name string) *tally {
	t := newTally(name)
	r.show.follow(t)
	return t
}

// reach makes the one call that a server never sheds.
func reach(ctx context.Context, o *BazelOptions) error {
	p, err := dialPool(o.Target, 1, "")
	if err != nil {
		return err
	}
	defer p.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, err = repb.NewCapabilitiesClient(p.conn(0)).GetCapabilities(ctx, &repb.GetCapabilitiesRequest{InstanceName: o.Instance})
	if err != nil {
		return fmt.Errorf("no Bazel cache answers at %s: %w", o.Target, err)
	}
	return nil
}
