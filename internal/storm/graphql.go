package storm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"sync"
	"time"
)

// GraphQLScenario is the options of one scenario: *GraphQLZipf and its like. They are all here.
type GraphQLScenario interface {
	name() string
	common() *GraphQLOptions
	validate() error
	run(ctx context.Context, r *graphqlRun) ([]*tally, error)
}

// graphqlRun is what a scenario stands on.
type graphqlRun struct {
	o     *GraphQLOptions
	http  *graphqlHTTP
	watch *watch
	show  *progress
	conns *connectionMeter // nil without a database

	before, after counters // of the server; nil if it does not tell
	report        *GraphQLReport

	// offer ends when no new work is to be begun.
	offer context.Context
}

// GraphQL offers the load of a scenario to a server and blocks until it has ended. The report is not nil when the error is
// that the run could not be finished.
func GraphQL(ctx context.Context, s GraphQLScenario, progress io.Writer) (*GraphQLReport, error) {
	if err := errors.Join(s.common().validate(), s.validate()); err != nil {
		return nil, &UsageError{err}
	}
	r := &graphqlRun{o: s.common()}
	r.report = &GraphQLReport{Report: Report{Target: r.o.Target, Started: time.Now(), Broken: []string{}}}
	if err := r.prepare(ctx, progress); err != nil {
		return nil, err
	}
	defer r.http.close()
	err := r.one(ctx, s)
	r.report.Seconds = time.Since(r.report.Started).Seconds()
	if err != nil {
		return r.report, fmt.Errorf("scenario %s: %w", s.name(), err)
	}
	return r.report, nil
}

func (r *graphqlRun) prepare(ctx context.Context, progress io.Writer) (err error) {
	if r.http, err = newGraphQLHTTP(r.o); err != nil {
		return &UsageError{err}
	}
	if r.watch, err = newWatch(ctx, &BazelOptions{Admin: r.o.Admin, PID: r.o.PID}); err != nil {
		return err
	}
	r.show = newProgress(progress, r.watch)
	if r.o.DatabaseURL == "" {
		return nil
	}
	r.conns, err = newConnectionMeter(ctx, r.o.DatabaseURL, r.o.Login)
	return err
}

// one runs the scenario within its bound in time.
func (r *graphqlRun) one(ctx context.Context, s GraphQLScenario) error {
	hard, cancel := context.WithTimeoutCause(ctx, r.o.Duration+r.o.Timeout+time.Minute, errors.New("the scenario's time is over"))
	defer cancel()
	offer, cancelOffer := context.WithTimeout(hard, r.o.Duration)
	defer cancelOffer()
	r.offer = offer
	stop := r.background(ctx)
	defer stop()
	r.show.scenario(s.name())
	before := r.watch.mark()
	r.before = r.counters(hard)
	tallies, err := s.run(hard, r)
	r.report.add(tallies, r.watch.memory(before))
	r.report.Counts = r.counters(context.WithoutCancel(hard)).since(r.before)
	stop()
	r.report.Server = r.watch.server()
	r.watch.judge(&r.report.Report, int64(r.o.MaxRSS))
	r.judgeConnections()
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return err
}

// background starts what observes; the func returned stops it and waits for it, and may be called twice.
func (r *graphqlRun) background(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { r.watch.run(ctx) })
	wg.Go(func() { r.show.run(ctx) })
	if r.conns != nil {
		wg.Go(func() { r.conns.run(ctx) })
	}
	return func() { cancel(); wg.Wait() }
}

// tally opens the books of one group of requests and shows them in the progress line.
func (r *graphqlRun) tally(name string) *tally {
	t := newTally(name)
	r.show.follow(t)
	return t
}

// judgeConnections holds the server to its budget.
func (r *graphqlRun) judgeConnections() {
	if r.conns == nil {
		return
	}
	peak, err := r.conns.close()
	r.report.Connections = peak
	if most := r.o.MaxConnections; most > 0 && peak > most {
		r.report.Broken = append(r.report.Broken, fmt.Sprintf("the server had %d connections open at once, above %d", peak, most))
	}
	if err != nil {
		r.report.Broken = append(r.report.Broken, fmt.Sprintf("its connections could not be counted all the time: %v", err))
	}
}

// openLoop begins work at an even rate, whatever becomes of what was begun before, until offer ends or most have begun, and
// waits for all. More than maxGraphQLClients at once is more than the generator means to hold: those are counted as missed.
func openLoop(offer context.Context, rate float64, most int, work func(n int, due time.Time)) (missed int) {
	var wg sync.WaitGroup
	defer wg.Wait()
	slots := make(chan struct{}, maxGraphQLClients)
	began := time.Now()
	for n := range most {
		due := began.Add(time.Duration(float64(n) / rate * float64(time.Second)))
		if !sleep(offer, time.Until(due)) {
			return missed
		}
		select {
		case slots <- struct{}{}:
			wg.Go(func() {
				defer func() { <-slots }()
				work(n, due)
			})
		default:
			missed++
		}
	}
	return missed
}

// closedLoop has n clients each do one piece of work after the other, until offer ends or most have begun.
func closedLoop(offer context.Context, n, most int, work func(client int)) {
	left := make(chan struct{})
	var wg sync.WaitGroup
	for client := range n {
		wg.Go(func() {
			for range left {
				work(client)
			}
		})
	}
	for range most {
		select {
		case left <- struct{}{}:
			continue
		case <-offer.Done():
		}
		break
	}
	close(left)
	wg.Wait()
}

// withoutURL drops what net/http puts before an error: the address, which would make each text unique.
func withoutURL(err error) error {
	if u := (*url.Error)(nil); errors.As(err, &u) {
		return u.Err
	}
	return err
}
