package pgpool_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leveehq/levee/gate"
	"github.com/leveehq/levee/internal/graphql/pgpool"
	"github.com/leveehq/levee/internal/pglocal/pgtest"
)

func TestQ6ASaturatedPoolShedsWithinTheWait(t *testing.T) {
	_, d, _ := database(t, pgpool.Options{Budget: 2, Wait: time.Second})
	see := observer(t)
	ctx, cancel := context.WithCancel(context.Background())
	var slow sync.WaitGroup
	for range 2 {
		slow.Go(func() {
			err := d.Do(ctx, "slow", pgpool.Request{Statements: []pgpool.Statement{text("select pg_sleep(20)", nil)}})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("pg_sleep: %v", err)
			}
		})
	}
	until(t, 5*time.Second, "two sleep", func() bool {
		return see("select count(*) from pg_stat_activity where query like 'select pg_sleep(20)%' and state = 'active'") == "2"
	})
	var normal sync.WaitGroup
	for i := range 10 {
		normal.Go(func() {
			began := time.Now()
			_, err := try(d, "select 1")
			var shed *gate.Shed
			if !errors.As(err, &shed) || shed.Gate != "pg_connections" || shed.RetryAfter < time.Second {
				t.Errorf("request %d: %v", i, err)
			}
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("request %d waited %v", i, took)
			}
		})
	}
	normal.Wait()
	cancel()
	slow.Wait()
	ask(t, d, "select 1")
}

func TestQ6ManyRequestsOfManyStatementsShareTwoConnectionsWithoutADeadlock(t *testing.T) {
	for _, budget := range []int{1, 2} {
		t.Run(fmt.Sprint(budget), func(t *testing.T) {
			b, d, name := database(t, pgpool.Options{Budget: budget, Wait: 20 * time.Second})
			see := observer(t)
			var all sync.WaitGroup
			for i := range 50 {
				all.Go(func() {
					var out []string
					var r pgpool.Request
					for n := range 5 {
						r.Statements = append(r.Statements, text(fmt.Sprintf("select $1::int + %d from pg_sleep(0.001)", n), &out, fmt.Sprint(i)))
					}
					if err := d.Do(context.Background(), fmt.Sprint("key", i%7), r); err != nil || len(out) != 5 || out[4] != fmt.Sprint(i+4) {
						t.Errorf("request %d: %v, %v", i, out, err)
					}
				})
			}
			most := 0
			until(t, 20*time.Second, "all requests are done", func() bool {
				most = max(most, number(t, see("select count(*) from pg_stat_activity where application_name = 'levee' and datname = '"+name+"'")))
				return b.Stats().Requests == 50 && b.Stats().InUse+b.Stats().Waiting == 0
			})
			all.Wait()
			if most > budget || most == 0 {
				t.Errorf("PostgreSQL saw %d connections", most)
			}
		})
	}
}

func TestQ15ThirtyDatabasesStayWithinABudgetOfFifteen(t *testing.T) {
	const budget, databases = 15, 30
	base := pgtest.Database(t)
	b := rig(t, pgpool.Options{Budget: budget, Wait: 30 * time.Second, IdleTime: 2 * time.Second})
	see := observer(t)
	var all sync.WaitGroup
	var done atomic.Int64
	var names []string
	for i := range databases {
		name := fmt.Sprintf("%s_%d", base, i)
		see("create database " + name + " template " + base)
		t.Cleanup(func() { pgtest.Exec(t, "postgres", "drop database "+name+" with (force)") })
		names = append(names, name)
	}
	for _, name := range names {
		d := open(t, b, pgtest.Server(t).URL("postgres", name))
		for range 3 {
			all.Go(func() {
				for range 6 {
					got, err := try(d, "select current_database() from pg_sleep(0.002)")
					if err != nil || got[0] != name {
						t.Errorf("%s: %v, %v", name, got, err)
					}
				}
				done.Add(1)
			})
		}
	}
	most := 0
	until(t, 60*time.Second, "the load is done", func() bool {
		most = max(most, number(t, see("select count(*) from pg_stat_activity where application_name = 'levee'")), b.Stats().Open)
		return done.Load() == 3*databases
	})
	all.Wait()
	if most > budget || most < budget/2 {
		t.Errorf("there were %d connections", most)
	}
	s := b.Stats()
	if s.Closed["room"] == 0 || s.Failures != 0 {
		t.Errorf("%+v", s)
	}
	until(t, 10*time.Second, "idle connections are closed", func() bool {
		return b.Stats().Open == 0 && see("select count(*) from pg_stat_activity where application_name = 'levee'") == "0"
	})
}

func TestADatabaseGetsNoMoreThanItsShare(t *testing.T) {
	b, d, name := database(t, pgpool.Options{Budget: 4, PerDatabase: 1, Wait: 20 * time.Second})
	other := open(t, b, pgtest.Server(t).URL("postgres", "postgres"))
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() { ask(t, d, "select pg_sleep(0.02)") })
	}
	ask(t, other, "select 1")
	all.Wait()
	for _, s := range b.Stats().Databases {
		if s.Open != 1 {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

func TestHandlesShareConnectionsAndTheLastClosesThem(t *testing.T) {
	b, d, name := database(t, pgpool.Options{})
	second := open(t, b, pgtest.Server(t).URL("postgres", name))
	if a, c := ask(t, d, "select pg_backend_pid()"), ask(t, second, "select pg_backend_pid()"); !slices.Equal(a, c) {
		t.Fatalf("two connections: %v, %v", a, c)
	}
	d.Close()
	d.Close()
	ask(t, second, "select 1")
	second.Close()
	if s := b.Stats(); s.Open != 0 || s.Closed["released"] != 1 {
		t.Fatalf("%+v", s)
	}
	if _, err := try(second, "select 1"); err == nil {
		t.Fatal("a closed handle was used")
	}
}

func TestAKeyWithManyWaitersLeavesTurnsToOthers(t *testing.T) {
	_, d, _ := database(t, pgpool.Options{Budget: 1, Wait: 20 * time.Second})
	var order []string
	var mu sync.Mutex
	run := func(key string) {
		var r pgpool.Request
		r.Statements = append(r.Statements, text("select pg_sleep(0.02)", nil))
		if err := d.Do(context.Background(), key, r); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		order = append(order, key)
	}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { run("hot") })
	}
	until(t, 5*time.Second, "hot waits", func() bool { mu.Lock(); defer mu.Unlock(); return len(order) > 2 })
	all.Go(func() { run("cold") })
	all.Wait()
	if at := slices.Index(order, "cold"); at > 10 {
		t.Errorf("cold came after %d of hot", at)
	}
}
