package storm

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// GraphQLCold is a cold storm: many tenants that are not resident, asked at the same moment, by several callers each. Answers
// may be sheds, but each must say so, and callers of one tenant share one build.
type GraphQLCold struct {
	GraphQLOptions

	Callers   int `help:"Callers of each tenant." default:"10"`
	MaxBuilds int `help:"Builds that the server may have under way at once." default:"1"`
}

func (s *GraphQLCold) name() string            { return "cold" }
func (s *GraphQLCold) common() *GraphQLOptions { return &s.GraphQLOptions }

func (s *GraphQLCold) validate() error {
	errs := []error{numberRange{"callers", s.Callers, 1, maxGraphQLClients}.check(), numberRange{"max-builds", s.MaxBuilds, 1, 1000}.check()}
	if n := s.Callers * s.Tenants; n > 10*maxGraphQLClients {
		errs = append(errs, fmt.Errorf("%d tenants with %d callers each are %d requests at once: at most %d are", s.Tenants, s.Callers, n, 10*maxGraphQLClients))
	}
	return errors.Join(errs...)
}

func (s *GraphQLCold) run(ctx context.Context, r *graphqlRun) ([]*tally, error) {
	t := r.tally("cold")
	q := questions(s.Rows)[0]
	building, known := r.peak(ctx, metricBuilding, func() { s.storm(ctx, r, t, q) })
	if known {
		t.note(fmt.Sprintf("%.0f builds were seen under way at once", building))
		if int(building) > s.MaxBuilds {
			t.breaks(fmt.Sprintf("%.0f builds were under way at once, above %d", building, s.MaxBuilds))
		}
	}
	builds, known := r.rise(ctx, metricBuilds)
	switch {
	case !known && r.o.Admin != "":
		t.breaks("the server does not tell how many builds there were (" + metricBuilds + ")")
	case known && int(builds) > s.Tenants:
		t.breaks(fmt.Sprintf("%d tenants took %.0f builds: callers of one tenant did not share", s.Tenants, builds))
	case known:
		t.note(fmt.Sprintf("%.0f builds for %d tenants", builds, s.Tenants))
	}
	return []*tally{t}, nil
}

// storm lets all callers go at once and waits for all.
func (s *GraphQLCold) storm(ctx context.Context, r *graphqlRun, t *tally, q question) {
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range s.Tenants * s.Callers {
		wg.Go(func() {
			<-start
			r.askTenant(ctx, t, tenantName(i%s.Tenants), q, time.Now())
		})
	}
	close(start)
	wg.Wait()
}

// GraphQLChurn asks more tenants, all alike, than the server has room for. Each answer is right or a shed that says so, and
// when all is over nothing is left.
type GraphQLChurn struct {
	GraphQLOptions

	Clients   int           `help:"Clients, each of which asks one tenant after the other." default:"16"`
	MinBuilds float64       `help:"Builds a second that there must be; 0 does not judge." default:"0"`
	Settle    time.Duration `help:"Time after which no goroutine and no connection may be left that was not there before; 0 does not judge." default:"60s"`
}

func (s *GraphQLChurn) name() string            { return "churn" }
func (s *GraphQLChurn) common() *GraphQLOptions { return &s.GraphQLOptions }

func (s *GraphQLChurn) validate() error {
	errs := []error{numberRange{"clients", s.Clients, 1, maxGraphQLClients}.check()}
	if s.MinBuilds < 0 || s.Settle < 0 || s.Settle > maxDuration {
		errs = append(errs, fmt.Errorf("min-builds and settle must not be negative, and settle at most %s", maxDuration))
	}
	if s.MinBuilds > 0 && s.Admin == "" {
		errs = append(errs, errors.New("min-builds needs an --admin address to count builds at"))
	}
	return errors.Join(errs...)
}

func (s *GraphQLChurn) run(ctx context.Context, r *graphqlRun) ([]*tally, error) {
	t := r.tally("churn")
	all := questions(s.Rows)
	draws := make([]*tenantDraw, s.Clients)
	for i := range draws {
		draws[i] = newTenantDraw(s.Tenants, 0, s.Seed+uint64(i))
	}
	began := time.Now()
	closedLoop(r.offer, s.Clients, s.Requests, func(client int) {
		d := draws[client]
		if !r.askTenant(ctx, t, tenantName(d.next()), all[d.rng.IntN(len(all))], time.Now()) {
			sleep(ctx, shedPause)
		}
	})
	s.judgeBuilds(ctx, r, t, time.Since(began))
	s.judgeLeft(ctx, r, t)
	return []*tally{t}, nil
}

// shedPause keeps clients that are turned away from asking as fast as they can; they ask for another tenant, so that
// Retry-After does not bind them.
const shedPause = 10 * time.Millisecond

func (s *GraphQLChurn) judgeBuilds(ctx context.Context, r *graphqlRun, t *tally, took time.Duration) {
	builds, known := r.rise(ctx, metricBuilds)
	if !known {
		if s.MinBuilds > 0 {
			t.breaks("the server does not tell how many builds there were (" + metricBuilds + ")")
		}
		return
	}
	rate := builds / took.Seconds()
	t.note(fmt.Sprintf("%.0f builds, %.1f a second", builds, rate))
	if rate < s.MinBuilds {
		t.breaks(fmt.Sprintf("%.1f builds a second, below %g", rate, s.MinBuilds))
	}
	if n := t.offered.Load(); builds > float64(n) {
		t.breaks(fmt.Sprintf("%.0f builds for %d requests: some caused more than one", builds, n))
	}
}

// spareGoroutines are those of connections that admin clients and probes hold open, and of instances that are resident now.
const spareGoroutines = 32

// judgeLeft waits until the server is as it was before. Our own connections to it go first.
func (s *GraphQLChurn) judgeLeft(ctx context.Context, r *graphqlRun, t *tally) {
	if s.Settle == 0 {
		return
	}
	r.http.close()
	before, known := r.before.sum(metricGoroutines)
	var now float64
	if known && !until(ctx, s.Settle, func() bool {
		now, _ = r.gauge(ctx, metricGoroutines)
		return now <= before+spareGoroutines
	}) {
		t.breaks(fmt.Sprintf("%.0f goroutines are left after %s; there were %.0f", now, s.Settle, before))
	}
	if r.conns != nil && !until(ctx, s.Settle, func() bool { return r.conns.more() <= 0 }) {
		t.breaks(fmt.Sprintf("%d connections are left after %s", r.conns.more(), s.Settle))
	}
}
