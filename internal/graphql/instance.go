package graphql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/leveehq/levee/internal/graphql/catalog"
	"github.com/leveehq/levee/internal/graphql/pgpool"
	"github.com/leveehq/levee/internal/graphql/schema"
	"github.com/leveehq/levee/internal/graphql/sqlgen"
)

// instance is what a tenant's requests run on. The cache leases it; nothing in it changes but what engine keeps of plans.
type instance struct {
	tenant *resolved
	db     *pgpool.Database
	schema *schema.Schema
	engine *sqlgen.Engine
	print  string // the fingerprint that it was built from
	size   int64

	writes    atomic.Bool  // a query has written, or may
	suspected time.Time    // when it was last looked at because of an error; of renewNow
	renewed   atomic.Bool  // its successor is there, or on its way
	looked    atomic.Int64 // when the database was last asked whether print still holds, in Unix nanoseconds
}

// overhead is what an instance keeps besides what its parts report.
const overhead = 2 * kib

// buildTries bounds how often a build begins anew because the schema changed under it.
const buildTries = 4

// build makes the instance of a key. Whoever asks for a key has entered what it stands for in s.tenants before.
func (s *Service) build(ctx context.Context, key instanceKey) (*instance, error) {
	t := s.tenants.get(key)
	if t == nil {
		return nil, fmt.Errorf("nobody has asked for this tenant") // cannot happen: see lease
	}
	db, err := s.pool.Database(t.url)
	if err != nil {
		return nil, fmt.Errorf("graphql tenant %q: %w", t.name, err)
	}
	in, err := s.read(ctx, t, db)
	if err != nil {
		db.Close()
		return nil, fmt.Errorf("graphql tenant %q: %w", t.name, err)
	}
	for _, w := range in.schema.Warnings() {
		s.logger.Warn("graphql schema", "tenant", t.name, "warning", w)
	}
	return in, nil
}

// read builds from one state of the catalog: the fingerprint before and after must be the same.
func (s *Service) read(ctx context.Context, t *resolved, db *pgpool.Database) (*instance, error) {
	q := querier{db: db, key: "levee:build"}
	o := catalog.Options{Schemas: t.schemas, RolesOfLogin: true}
	print, err := catalog.Fingerprint(ctx, q, o)
	for range buildTries {
		if err != nil {
			return nil, err
		}
		if err := s.checkLogin(ctx, t, q, o); err != nil {
			return nil, err
		}
		c, err := catalog.Read(ctx, q, o)
		if err != nil {
			return nil, err
		}
		again, err := catalog.Fingerprint(ctx, q, o)
		if err != nil {
			return nil, err
		}
		if again != print {
			print = again
			continue
		}
		return s.assemble(t, db, c, print)
	}
	return nil, fmt.Errorf("its schemas changed %d times while they were read: try again when the migration has ended", buildTries)
}

func (s *Service) assemble(t *resolved, db *pgpool.Database, c *catalog.Catalog, print string) (*instance, error) {
	sch, err := schema.New(c)
	if err != nil {
		return nil, err
	}
	engine := sqlgen.New(sch, sqlgen.Options{Limits: s.opt.Limits, PlanBytes: s.opt.PlanBytes, Admit: s.admitCompile(t.name), Mark: "/*" + print[:8] + "*/ "})
	in := &instance{tenant: t, db: db, schema: sch, print: print, engine: engine}
	in.writes.Store(s.opt.WritingQueries)
	in.size = c.Size() + sch.Size() + int64(s.opt.PlanBytes) + overhead
	in.looked.Store(time.Now().UnixNano())
	return in, nil
}

// admitCompile has one document parsed and compiled at a time, fairly between tenants.
func (s *Service) admitCompile(tenant string) func(context.Context) (func(), error) {
	return func(ctx context.Context) (func(), error) {
		p, err := s.gates.compile.Admit(ctx, tenant, 1)
		if err != nil {
			return nil, err
		}
		return p.Release, nil
	}
}

// UnsafeLogin is the error of a login that row level security does not bind, where nobody has allowed it.
type UnsafeLogin struct{ text string }

func (e *UnsafeLogin) Error() string { return e.text }

func (s *Service) checkLogin(ctx context.Context, t *resolved, q querier, o catalog.Options) error {
	if t.bypass {
		return nil
	}
	l, err := catalog.ReadLogin(ctx, q, o)
	if err != nil {
		return err
	}
	why := ""
	switch {
	case l.Superuser:
		why = "is a superuser"
	case l.BypassRLS:
		why = "has BYPASSRLS"
	case len(l.Owns) > 0:
		why = "owns " + strings.Join(l.Owns, ", ") + ", whose policies do not bind an owner unless row level security is forced"
	default:
		return nil
	}
	return &UnsafeLogin{fmt.Sprintf("the database login %q %s, so its requests could read every row: log in as a role that owns nothing and is granted the roles of requests, or set allow_bypass_rls", l.Role, why)}
}

func (s *Service) closeInstance(_ instanceKey, in *instance) { in.db.Close() }

// querier reads catalogs through the pool. Each statement is a transaction of its own.
type querier struct {
	db   *pgpool.Database
	key  string
	role string // "": the login's
}

// As lets the rows of enums be read as a role that may.
func (q querier) As(role string) catalog.Querier { return querier{q.db, q.key, role} }

func (q querier) Query(ctx context.Context, sql string, params []string, each func([][]byte) error) error {
	values := make([][]byte, len(params))
	for i, p := range params {
		values[i] = []byte(p)
	}
	r := pgpool.Request{Idempotent: true, ReadOnly: true, Settings: oncePlanned,
		Statements: []pgpool.Statement{{SQL: sql, Params: values, TextResults: true, Each: each}}}
	if q.role != "" {
		r.Settings = append(slices.Clip(r.Settings), pgpool.Setting{Name: "role", Value: q.role})
	}
	return q.db.Do(ctx, q.key, r)
}

// oncePlanned has statements planned once for each connection: the same few are run again and again, and half of a build was planning.
// Such plans look dear beside many tables of others', but neither workers nor compiled code are worth their start, and the compiler's 11 MiB.
var oncePlanned = []pgpool.Setting{
	{Name: "plan_cache_mode", Value: "force_generic_plan"}, {Name: "jit", Value: "off"}, {Name: "max_parallel_workers_per_gather", Value: "0"},
}

// lease returns the tenant's instance, built if need be.
func (s *Service) lease(ctx context.Context, t *resolved) (lease, error) {
	s.tenants.put(t)
	return s.cache.Lease(ctx, t.key)
}

// isUnsafe tells whether a build failed because of its login.
func isUnsafe(err error) bool { return errors.As(err, new(*UnsafeLogin)) }
