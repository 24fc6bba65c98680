package storm

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// GraphQLZipf is many tenants of unequal popularity, asked at an even rate. Every request should be served.
type GraphQLZipf struct {
	GraphQLOptions

	Exponent float64 `help:"The k-th most popular tenant is asked in proportion to 1/k^EXPONENT; 0 asks all alike." default:"1"`
	Rate     float64 `help:"Requests a second, whatever becomes of those before." default:"50"`

	// FirstLimit is for requests that were asked before their tenant had ever answered, WarmLimit for all others.
	FirstLimit time.Duration `help:"What first requests of a tenant may take at the 99th percentile; 0 does not judge." default:"0s"`
	WarmLimit  time.Duration `help:"What all others may take at the 99th percentile; 0 does not judge." default:"0s"`
}

func (s *GraphQLZipf) name() string            { return "zipf" }
func (s *GraphQLZipf) common() *GraphQLOptions { return &s.GraphQLOptions }

func (s *GraphQLZipf) validate() error {
	var errs []error
	if !(s.Exponent >= 0 && s.Exponent <= 10) {
		errs = append(errs, fmt.Errorf("exponent is %g: it must be from 0 to 10", s.Exponent))
	}
	if !(s.Rate > 0 && s.Rate <= maxRate) {
		errs = append(errs, fmt.Errorf("rate is %g: it must be above 0 and at most %d", s.Rate, maxRate))
	}
	return errors.Join(errs...)
}

func (s *GraphQLZipf) run(ctx context.Context, r *graphqlRun) ([]*tally, error) {
	first, warm := r.tally("zipf: first requests"), r.tally("zipf: warm requests")
	draw, all := newTenantDraw(s.Tenants, s.Exponent, s.Seed), questions(s.Rows)
	answered := make([]atomic.Bool, s.Tenants)
	var mu sync.Mutex // for draw
	missed := openLoop(r.offer, s.Rate, s.Requests, func(n int, due time.Time) {
		mu.Lock()
		i, q := draw.next(), all[draw.rng.IntN(len(all))]
		mu.Unlock()
		t := warm
		if !answered[i].Load() {
			t = first
		}
		if r.askTenant(ctx, t, tenantName(i), q, due) {
			answered[i].Store(true)
		}
	})
	if missed > 0 {
		warm.breaks(fmt.Sprintf("%d requests were not sent, because %d others had no answer yet", missed, maxGraphQLClients))
	}
	asked := 0
	for i := range answered {
		if answered[i].Load() {
			asked++
		}
	}
	first.note(fmt.Sprintf("%d of %d tenants were asked and answered", asked, s.Tenants))
	first.noSheds()
	warm.noSheds()
	first.judgeP99(s.FirstLimit)
	warm.judgeP99(s.WarmLimit)
	return []*tally{first, warm}, nil
}
