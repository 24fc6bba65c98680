package graphql

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/leveehq/levee/internal/graphql/catalog"
)

// LoginWarning is a login that row level security does not bind.
type LoginWarning struct {
	Tenant   string `json:"tenant"`
	Database string `json:"database"` // without credentials
	Allowed  bool   `json:"allowed"`  // by allow_bypass_rls; others are refused
	Warning  string `json:"warning"`
}

// logins are the warnings of what was built last, or failed to be, for each key.
type logins struct {
	mu struct {
		sync.Mutex
		by map[instanceKey]LoginWarning
	}
}

// buildAndTell is build, and tells of a login that row level security does not bind, whether that is refused or allowed.
func (s *Service) buildAndTell(ctx context.Context, key instanceKey) (*instance, error) {
	in, err := s.build(ctx, key)
	told := err
	if err == nil && in.tenant.bypass {
		strict := *in.tenant
		strict.bypass = false
		told = s.checkLogin(ctx, &strict, querier{db: in.db, key: "levee:build"}, catalog.Options{Schemas: strict.schemas, RolesOfLogin: true})
	}
	var unsafe *UnsafeLogin
	switch {
	case errors.As(told, &unsafe):
		s.warnOfLogin(key, unsafe)
	case err == nil:
		s.logins.forget(key)
	}
	return in, err
}

func (s *Service) warnOfLogin(key instanceKey, unsafe *UnsafeLogin) {
	t := s.tenants.get(key)
	w := LoginWarning{Tenant: t.name, Database: databaseName(t.url), Allowed: t.bypass, Warning: unsafe.Error()}
	if s.logins.put(key, w) {
		s.logger.Warn("graphql login is not bound by row level security", "tenant", w.Tenant, "database", w.Database, "allowed", w.Allowed, "warning", w.Warning)
	}
}

// put tells whether that is news.
func (l *logins) put(key instanceKey, w LoginWarning) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.by[key] == w {
		return false
	}
	if l.mu.by == nil {
		l.mu.by = map[instanceKey]LoginWarning{}
	}
	if len(l.mu.by) < mostTenants { // those that are not shown are in the log
		l.mu.by[key] = w
	}
	return true
}

func (l *logins) forget(key instanceKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.mu.by, key)
}

func (l *logins) list() []LoginWarning {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := []LoginWarning{}
	for _, w := range l.mu.by {
		list = append(list, w)
	}
	slices.SortFunc(list, func(a, b LoginWarning) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Database, b.Database))
	})
	return list
}
