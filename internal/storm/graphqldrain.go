package storm

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// GraphQLDrain flushes a tenant while one of its requests sleeps in PostgreSQL, and asks it again. The sleeping request ends
// as if nothing had happened, and what it used is closed after it, once.
type GraphQLDrain struct {
	GraphQLOptions

	Nap    time.Duration `help:"How long the slow request sleeps." default:"3s"`
	Rounds int           `help:"How often all of it is done, one tenant after the other." default:"3"`
}

func (s *GraphQLDrain) name() string            { return "drain" }
func (s *GraphQLDrain) common() *GraphQLOptions { return &s.GraphQLOptions }

func (s *GraphQLDrain) validate() error {
	errs := []error{checkDuration("nap", s.Nap), numberRange{"rounds", s.Rounds, 1, 1000}.check()}
	if s.Admin == "" {
		errs = append(errs, errors.New("drain needs an --admin address to flush at"))
	}
	return errors.Join(errs...)
}

func (s *GraphQLDrain) run(ctx context.Context, r *graphqlRun) ([]*tally, error) {
	slow, again := r.tally("drain: slow request"), r.tally("drain: asked again")
	quick := questions(s.Rows)[0]
	done := 0
	for ; done < s.Rounds && r.offer.Err() == nil; done++ {
		tenant := tenantName(done % s.Tenants)
		if !r.askTenant(ctx, again, tenant, quick, time.Now()) { // so that no build is in the figures below
			break
		}
		if err := s.round(ctx, r, slow, again, tenant, quick); err != nil {
			return []*tally{slow, again}, err
		}
	}
	if done < s.Rounds {
		slow.breaks(fmt.Sprintf("%d of %d rounds were done", done, s.Rounds))
	}
	slow.noSheds()
	s.judge(ctx, r, slow, done)
	return []*tally{slow, again}, nil
}

// round is the scenario for one tenant.
func (s *GraphQLDrain) round(ctx context.Context, r *graphqlRun, slow, again *tally, tenant string, quick question) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	napping := make(chan struct{})
	began := time.Now()
	wg.Go(func() {
		defer close(napping)
		right := r.askTenant(ctx, slow, tenant, napQuestion(s.Nap), began)
		if took := time.Since(began); right && took < s.Nap {
			slow.breaks(fmt.Sprintf("%s: the slow request ended after %s, before its nap did", tenant, short(took)))
		}
	})
	sleep(ctx, s.Nap/4)
	if err := r.flush(ctx, tenant); err != nil {
		return err
	}
	r.askTenant(ctx, again, tenant, quick, time.Now())
	select {
	case <-napping: // too late to see it drain
	default:
		if closed, known := s.gone(ctx, r); known && closed {
			slow.breaks(tenant + ": nothing drains while the slow request is under way")
		}
	}
	return nil
}

// gone tells whether no instance drains or is being closed.
func (s *GraphQLDrain) gone(ctx context.Context, r *graphqlRun) (gone, known bool) {
	c := r.counters(ctx)
	draining, known := c.sum(metricDraining)
	closing, _ := c.sum(metricClosing)
	return draining+closing == 0, known
}

// judge holds that each flush made one instance leave, once, and that none is left over. Those that make room are others'.
func (s *GraphQLDrain) judge(ctx context.Context, r *graphqlRun, t *tally, rounds int) {
	if _, known := s.gone(ctx, r); !known {
		t.breaks("the server does not tell what drains (" + metricDraining + ")")
		return
	}
	if !until(ctx, drainPatience, func() bool { gone, _ := s.gone(ctx, r); return gone }) {
		t.breaks(fmt.Sprintf("instances still drain %s after the last request", drainPatience))
	}
	if n, known := r.rise(ctx, metricFlushed); known && int(n) != rounds {
		t.breaks(fmt.Sprintf("%d flushes made %.0f instances leave", rounds, n))
	}
}

const drainPatience = 10 * time.Second

// flush has the server let go of a tenant's instance.
func (r *graphqlRun) flush(ctx context.Context, tenant string) error {
	u := url.URL{Scheme: "http", Host: r.o.Admin, Path: flushPath, RawQuery: url.Values{"tenant": {tenant}}.Encode()}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), nil)
	if err != nil {
		return err
	}
	resp, err := r.watch.http.Do(req)
	if err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("flush of %s: %s", tenant, strings.ToLower(resp.Status))
	}
	return nil
}

const flushPath = "/graphql/flush"
