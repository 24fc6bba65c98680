package graphql

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/leveehq/levee/internal/graphql/auth"
	"github.com/leveehq/levee/internal/pglocal/pgtest"
	"github.com/leveehq/levee/residency"
)

// Timers of those who wait, and what they wait for, were what kept instances of a gigabyte alive in the server that this one
// learns from.
func TestCallersThatGiveUpUnderChurnPinNothing(t *testing.T) {
	const tenants, callers, rounds = 6, 24, 25
	database := pgtest.Database(t)
	var sql strings.Builder
	for i := range tenants {
		fmt.Fprintf(&sql, "create schema s%d; create table s%[1]d.note (id int primary key, body text);", i)
	}
	pgtest.Exec(t, database, sql.String())
	o := Options{MaxInstances: 1, BuildWait: 5 * time.Millisecond}
	for i := range tenants {
		o.Tenants = append(o.Tenants, Tenant{Name: fmt.Sprintf("t%d", i), DatabaseURL: pgtest.Server(t).URL("postgres", database), Schemas: []string{fmt.Sprintf("s%d", i)},
			AllowBypassRLS: true, Auth: auth.Options{AnonymousRole: auth.ConnectionRole}})
	}
	s, _ := serve(t, o)
	var seen struct {
		sync.Mutex
		instances []weak.Pointer[instance]
	}
	var gaveUp, served atomic.Int64
	churn := func() {
		var all sync.WaitGroup
		for c := range callers {
			all.Go(func() {
				for round := range rounds {
					l, err := s.lease(context.Background(), s.byName[fmt.Sprintf("t%d", (c+round)%tenants)])
					var shed *residency.Shed
					switch {
					case err == nil:
						served.Add(1)
						seen.Lock()
						seen.instances = append(seen.instances, weak.Make(l.Value()))
						seen.Unlock()
						l.Release()
					case errors.As(err, &shed):
						gaveUp.Add(1)
					default:
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		until(t, "all builds and closes end", func() bool {
			s.cache.EvictWhere(func(instanceKey) bool { return true })
			st := s.cache.Stats()
			return st.Charged == 0 && st.Queued == 0 && st.Waiting == 0
		})
	}
	churn()
	before, goroutines := liveHeap(), runtime.NumGoroutine()
	churn()
	churn()
	after := liveHeap()
	if served.Load() == 0 || gaveUp.Load() == 0 {
		t.Fatalf("%d served and %d gave up: that shows nothing", served.Load(), gaveUp.Load())
	}
	alive := 0
	for _, w := range seen.instances {
		if w.Value() != nil {
			alive++
		}
	}
	t.Logf("%d leases, %d gave up; %d instances alive of %d uses; the heap went from %d to %d", served.Load(), gaveUp.Load(), alive, len(seen.instances), before, after)
	if alive > 0 {
		t.Errorf("%d uses of instances that are gone still keep them", alive)
	}
	if after > before+128*kib {
		t.Errorf("the heap grew from %d to %d bytes", before, after)
	}
	until(t, "no goroutine is left over", func() bool { return runtime.NumGoroutine() <= goroutines })
}
