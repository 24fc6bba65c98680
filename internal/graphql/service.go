package graphql

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"

	"github.com/leveehq/levee"
	"github.com/leveehq/levee/governor"
	"github.com/leveehq/levee/internal/accesslog"
	"github.com/leveehq/levee/internal/graphql/auth"
	"github.com/leveehq/levee/internal/graphql/pgpool"
	"github.com/leveehq/levee/residency"
)

// Service answers GraphQL requests. It is an http.Handler.
type Service struct {
	opt    Options // filled
	kernel *levee.Kernel
	log    *accesslog.Log
	logger *slog.Logger
	shares shares
	gates  gates
	pool   *pgpool.Budget
	cache  *residency.Cache[instanceKey, *instance]
	count  counters

	byName, byHost map[string]*resolved
	routes         routes
	routeDB        *pgpool.Database
	verifiers      verifiers
	tenants        known
	logins         logins
	watch          chan *instance
	renewals       singleflight.Group // by instance
}

type lease = *residency.Lease[*instance]

// known says what a key stands for, for those that are being built or resident.
type known struct {
	mu struct {
		sync.Mutex
		by map[instanceKey]*resolved
	}
}

// maxKnown bounds keys that are remembered; those without an instance go first.
const maxKnown = 20_000

func (k *known) put(t *resolved) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.mu.by == nil {
		k.mu.by = map[instanceKey]*resolved{}
	}
	if _, ok := k.mu.by[t.key]; !ok {
		k.mu.by[t.key] = t
	}
}

func (k *known) get(key instanceKey) *resolved {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.mu.by[key]
}

// keepOnly forgets all but these, when there are many.
func (k *known) keepOnly(live map[instanceKey]bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.mu.by) > maxKnown {
		maps.DeleteFunc(k.mu.by, func(key instanceKey, _ *resolved) bool { return !live[key] })
	}
}

// New checks o, makes gates, pool and cache, and registers the plan's lines. It opens and starts nothing. An error names the
// settings that contradict each other.
func New(o Options) (*Service, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	o.fill(o.Kernel.Limit())
	if o.Memory >= o.Kernel.Limit() {
		return nil, fmt.Errorf("graphql.memory (%d bytes) is not below memory_limit (%d bytes): lower the first or raise the second", o.Memory, o.Kernel.Limit())
	}
	s := &Service{opt: o, kernel: o.Kernel, log: o.Log, logger: o.Logger, byName: map[string]*resolved{}, byHost: map[string]*resolved{}, watch: make(chan *instance, 64)}
	s.verifiers.by, s.verifiers.added = map[string]*auth.Verifier{}, make(chan *auth.Verifier, maxVerifiers)
	var err error
	if s.shares, err = s.opt.divide(); err != nil {
		return nil, err
	}
	if s.gates, err = s.opt.makeGates(o.Kernel, s.shares); err != nil {
		return nil, fmt.Errorf("graphql: %w", err)
	}
	if s.pool, err = pgpool.New(s.opt.poolOptions(o.Kernel)); err != nil {
		return nil, fmt.Errorf("graphql: %w", err)
	}
	if err := s.makeCache(); err != nil {
		return nil, err
	}
	if err := s.makeTenants(); err != nil {
		return nil, err
	}
	s.addLines()
	o.Kernel.AddStatus("graphql", func() any { return s.Status() })
	return s, nil
}

func (s *Service) makeCache() (err error) {
	o := &s.opt
	peak := min(int64(buildPeak), s.shares.instances/2)
	s.cache, err = residency.New(residency.Options[instanceKey, *instance]{
		Name: "graphql_instances", Build: s.buildAndTell, Close: s.closeInstance, Transient: isAway,
		Size:  func(in *instance) int64 { return in.size },
		Group: s.databaseOf,
		Heap:  s.shares.instances, BuildPeak: peak, Instance: 256 * kib,
		Queue:        int(s.shares.requests) / 2, // places at the door that are left for those whose instance is there
		MaxInstances: o.MaxInstances, MaxBuilds: o.MaxBuilds, WaitTimeout: o.BuildWait, BuildMax: o.BuildMax,
		DrainTimeout: max(2*o.Timeout, time.Minute), IdleTTL: o.IdleTTL, Level: s.level,
	})
	if err != nil {
		return fmt.Errorf("graphql: %w", err)
	}
	return nil
}

// databaseOf groups instances by the database that they would lose together.
func (s *Service) databaseOf(key instanceKey) string {
	if t := s.tenants.get(key); t != nil {
		return t.url
	}
	return ""
}

func (s *Service) level() residency.Level {
	switch s.kernel.Level() {
	case governor.Shed:
		return residency.LevelShed
	case governor.Evict:
		return residency.LevelEvict
	default:
		return residency.LevelNormal
	}
}

func (s *Service) makeTenants() error {
	for _, t := range s.opt.Tenants {
		r, err := s.resolve(t)
		if err != nil {
			return err
		}
		s.byName[t.Name] = r
		for _, h := range t.Hosts {
			s.byHost[strings.ToLower(h)] = r
		}
	}
	if s.opt.Resolver == nil {
		return nil
	}
	db, err := s.pool.Database(s.opt.Resolver.DatabaseURL)
	if err != nil {
		return fmt.Errorf("graphql.resolver.database_url: %w", err)
	}
	s.routeDB = db
	s.routes.left = s.leaveInstance
	s.routes.ask, s.routes.ttl, s.routes.negative = s.askRoute, s.opt.Resolver.TTL, s.opt.Resolver.NegativeTTL
	return nil
}

// leaveInstance evicts what no route leads to any more, unless it is a listed tenant's too.
func (s *Service) leaveInstance(key instanceKey) {
	for _, t := range s.byName {
		if t.key == key {
			return
		}
	}
	s.cache.Evict(key)
}

// Run does upkeep until ctx ends: idle connections and instances, keys of issuers, changes of schemas. It then closes
// everything, and returns when all connections are gone.
func (s *Service) Run(ctx context.Context) error {
	g, working := errgroup.WithContext(ctx)
	g.Go(func() error { return s.pool.Run(working) })
	for range watchers {
		g.Go(func() error { return s.watcher(working) })
	}
	g.Go(func() error { return s.tend(working) })
	g.Go(func() error { return s.runVerifiers(working, g) })
	if s.opt.SampleFile != "" {
		g.Go(func() error { return s.sample(working) })
	}
	err := g.Wait()
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	return errors.Join(err, s.cache.Close(end), s.pool.Close(end))
}

const closeTime = 10 * time.Second

// runVerifiers keeps the keys of all sets of options fresh, those that come later included.
func (s *Service) runVerifiers(ctx context.Context, g *errgroup.Group) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case v := <-s.verifiers.added:
			g.Go(func() error { return v.Run(ctx) })
		}
	}
}

// warmTime is how long an instance that was used is kept when memory is short, if no build needs its room: while the level is shed it
// could not be built again.
const warmTime = 30 * time.Second

// tend evicts what is idle, and more while memory is short: a quarter of what is resident each second, of what is not warm.
func (s *Service) tend(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			bytes := int64(0)
			if s.kernel.Level() != governor.Normal {
				bytes = min(s.cache.Stats().ResidentBytes/4, s.cold(time.Now()))
			}
			s.cache.Shrink(bytes)
			s.forgetUnused()
		}
	}
}

// cold is the size of what nobody has used for warmTime.
func (s *Service) cold(now time.Time) (bytes int64) {
	for _, in := range s.cache.Instances() {
		if in.State == residency.Resident && in.Leases == 0 && now.Sub(in.LastUse) >= warmTime {
			bytes += in.Bytes
		}
	}
	return bytes
}

func (s *Service) forgetUnused() {
	live := map[instanceKey]bool{}
	for _, t := range s.byName {
		live[t.key] = true
	}
	for _, in := range s.cache.Instances() {
		live[in.Key] = true
	}
	s.tenants.keepOnly(live)
}

// Memory is what all lines of GraphQL's are made for, in bytes.
func (s *Service) Memory() int64 { return s.opt.Memory }

// Connections is how many connections of the HTTP listener are planned within Memory. Their lines are the listener's.
func (s *Service) Connections() int { return int(s.shares.requests) }
