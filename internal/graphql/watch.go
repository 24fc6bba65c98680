package graphql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leveehq/levee/gate"
	"github.com/leveehq/levee/internal/graphql/catalog"
	"github.com/leveehq/levee/internal/graphql/pgpool"
	"github.com/leveehq/levee/internal/graphql/sqlgen"
	"github.com/leveehq/levee/residency"
)

const (
	// watchers is how many databases are looked at or waited for at once: one that hangs must not hide changes of the others.
	watchers = 4

	// lookTime bounds one comparison.
	lookTime = 10 * time.Second

	// lookSoon is how old the last look may be when PostgreSQL has said that something is not there.
	lookSoon = time.Second
)

// lookAgain has a watcher compare the fingerprint, if the last time was longer ago than that. It never waits.
func (s *Service) lookAgain(in *instance, than time.Duration) {
	now := time.Now().UnixNano()
	before := in.looked.Load()
	if now-before < int64(than) || !in.looked.CompareAndSwap(before, now) {
		return
	}
	select {
	case s.watch <- in:
	default: // they have enough to do; the next request asks again a moment later
		in.looked.Store(before)
	}
}

// outdated tells an error that a change of the schema would explain.
func outdated(err error) bool {
	var e *pgconn.PgError
	return errors.Is(err, sqlgen.ErrChanged) || errors.As(err, &e) && slices.Contains(outdatedStates, e.Code)
}

// outdatedStates are of a schema, table, column, function or type that is not there, or is another one.
var outdatedStates = []string{"3F000", "42P01", "42703", "42883", "42704", "42804", "42846", "0A000"}

// undone tells that nothing of a request was done, because of such errors: it may be asked again.
func undone(r *sqlgen.Response, err error) bool {
	if err != nil {
		return outdated(err)
	}
	for i := 1; i < len(r.Data); i += 2 { // a key, a value, and so on
		if string(r.Data[i]) != "null" {
			return false
		}
	}
	return len(r.Errors) > 0 && r.Stream == nil && !slices.ContainsFunc(r.Errors, func(e sqlgen.Error) bool {
		var db *pgconn.PgError // one that PostgreSQL did not speak of may be of a change that is done
		return !errors.As(e.Cause, &db) || !outdated(db)
	})
}

// renewNow looks whether the schema has changed, at most once in lookSoon and once for all who ask at the same time, and waits for the
// successor.
func (s *Service) renewNow(ctx context.Context, in *instance) bool {
	done := s.renewals.DoChan(fmt.Sprintf("%p", in), func() (any, error) {
		if now := time.Now(); !in.renewed.Load() && now.Sub(in.suspected) >= lookSoon {
			in.suspected = now
			s.renewIfChanged(context.WithoutCancel(ctx), in)
		}
		return in.renewed.Load(), nil
	})
	select {
	case r := <-done:
		return r.Val.(bool)
	case <-ctx.Done():
		return false
	}
}

// lost notes that a tenant's database has not answered. Instances outlive a restart, and are looked at when it is back, since it may
// be back from a copy; those of a database that does not let us in go.
func (s *Service) lost(in *instance, gone *pgpool.Unavailable) {
	in.looked.Store(0)
	var e *pgconn.PgError
	if !errors.As(gone.Err, &e) || !slices.Contains(shutOut, e.Code) {
		return
	}
	if n := s.cache.EvictGroup(in.tenant.url); n > 0 {
		s.logger.Error("graphql database is gone; its tenants' instances are evicted", "tenant", in.tenant.name, "database", databaseName(in.tenant.url), "instances", n, "error", e.Message)
	}
}

// shutOut are the SQLSTATEs of a database that is not there, and of a login that is not, or may not.
var shutOut = []string{"3D000", "28000", "28P01"}

// isAway tells errors of a build that are those of the way to the database: nobody should wait for the end of a back-off when it is
// there again. The pool sees to it that few attempts are made meanwhile.
func isAway(err error) bool {
	return errors.As(err, new(*pgpool.Unavailable)) || errors.Is(err, gate.ErrShed)
}

// watcher compares fingerprints. What was built from an older state serves until its successor is there.
func (s *Service) watcher(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case in := <-s.watch:
			s.renewIfChanged(ctx, in)
		}
	}
}

func (s *Service) renewIfChanged(ctx context.Context, in *instance) {
	look, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	print, err := catalog.Fingerprint(look, querier{db: in.db, key: "levee:watch"}, catalog.Options{Schemas: in.tenant.schemas, RolesOfLogin: true})
	if err != nil || print == in.print || in.renewed.Swap(true) {
		return // what is wrong with the database, its requests will tell
	}
	s.logger.Info("graphql schema changed; the tenant is built anew", "tenant", in.tenant.name)
	err = s.cache.Refresh(ctx, in.tenant.key)
	in.renewed.Store(err == nil)
	switch {
	case err == nil || ctx.Err() != nil:
	case isUnsafe(err):
		s.logger.Error("graphql tenant is not served any more", "tenant", in.tenant.name, "error", err.Error())
		s.cache.Evict(in.tenant.key)
	case errors.Is(err, residency.ErrShed):
		s.logger.Warn("graphql schema changed, and there is no room to build it yet; the former one is served", "tenant", in.tenant.name, "error", err.Error())
	default:
		s.logger.Error("graphql schema changed, and cannot be built; the former one is served", "tenant", in.tenant.name, "error", err.Error())
	}
}
