package nightly

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leveehq/levee/internal/e2e/rig"
)

// Q11: twenty cold tenants at the same moment in 512 MiB; then a hundred changes of one schema.
func TestCaseQ11ColdTenantsAndAHundredSchemaChangesStayWithin512MiB(t *testing.T) {
	f, names := newFarm(t), tenantNames(20)
	for _, name := range names {
		f.add(t, "postgres", name, 100)
	}
	s := f.serve(t, `  watch = "100ms"`, "--memory-limit", "512MiB")
	building := most(t, s, func(st graphqlStatus) int { return st.Instances.Building }, func() {
		var all sync.WaitGroup
		for _, name := range names {
			for range 5 {
				all.Go(func() {
					if _, err := askTenant(s, name, itsNotes); err != nil {
						t.Error(err)
					}
				})
			}
		}
		all.Wait()
	})
	st := statusOf(t, s).Instances
	t.Logf("%d builds for %d tenants, at most %d seen at once; peak RSS %d MiB", st.Begun, len(names), building, s.PeakRSS()/mib)
	if building > 1 || st.Begun > uint64(len(names)) || st.Failed > 0 {
		t.Errorf("%d builds at once: %+v", building, st)
	}
	change := func(n int) {
		f.exec(t, "postgres", fmt.Sprintf("alter table t0.note add column c%d int", n))
		until(t, 20*time.Second, "the column is served", func() bool {
			_, err := askTenant(s, "t0", fmt.Sprintf("{ allNotes { nodes { c%d } } }", n))
			return err == nil
		})
	}
	var after10 int64
	for n := range 100 {
		change(n)
		if n == 9 {
			after10 = settledRSS(t, s)
		}
	}
	after100 := settledRSS(t, s)
	t.Logf("RSS %d MiB after 10 changes, %d MiB after 100; peak %d MiB", after10/mib, after100/mib, s.PeakRSS()/mib)
	if after100 > after10+after10/10 || s.PeakRSS() > 512*mib {
		t.Error("memory has grown")
	}
}

// settledRSS is the least of what is seen within some seconds, when nothing is built and nothing drains: collections come and go.
func settledRSS(t *testing.T, s *rig.Server) int64 {
	t.Helper()
	until(t, 20*time.Second, "former instances are gone", func() bool {
		st := statusOf(t, s).Instances
		return st.Draining+st.Closing+st.Building == 0
	})
	least := s.RSS()
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); <-time.After(100 * time.Millisecond) {
		least = min(least, s.RSS())
	}
	return least
}

// most is the greatest value that is seen while f runs.
func most(t *testing.T, s *rig.Server, value func(graphqlStatus) int, f func()) (n int) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	for {
		n = max(n, value(statusOf(t, s)))
		select {
		case <-done:
			return n
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// Q13: of a hundred schemas of a hundred tables one changes: it alone is built anew, and the others do not notice. A cold tenant reads
// its own schema only, and whoever asks it meanwhile gets all of it or is told to come back.
func TestCaseQ13AChangeOfOneSchemaOfAHundredIsItsTenantsAlone(t *testing.T) {
	f, names := newFarm(t), tenantNames(100)
	for _, name := range names {
		f.add(t, "postgres", name, 100)
	}
	f.exec(t, "postgres", "create database lone")
	f.add(t, "lone", "lone", 100)
	s := f.serve(t, `  watch = "500ms"`, "--memory-limit", "2GiB")
	for _, name := range names {
		if _, err := askTenant(s, name, itsNotes); err != nil {
			t.Fatal(err)
		}
	}
	built := statusOf(t, s).Instances.Begun
	p99 := map[bool]time.Duration{}
	changes := 0
	for round := range 6 { // in turn, and the best of each counts: what else the machine does hits any of them
		var took latencies
		changing := round%2 == 1
		if changing {
			changes++
			f.exec(t, "postgres", fmt.Sprintf("alter table t1.thing_7 add column c%d int", round))
		}
		evenly(50, 10*time.Second, func(n int) {
			name := names[n%len(names)]
			a, err := askTenant(s, name, itsNotes)
			if err != nil || a.Code != "" {
				t.Error(err, a.Code)
			}
			if name != "t1" {
				took.add(a.Took)
			}
		})
		if now := took.p99(); p99[changing] == 0 || now < p99[changing] {
			p99[changing] = now
		}
	}
	rebuilt := statusOf(t, s).Instances.Begun - built
	t.Logf("p99 of the others %v, and %v with a change of t1; %d changes, %d builds", p99[false], p99[true], changes, rebuilt)
	if rebuilt != uint64(changes) || p99[true] > p99[false]*12/10 {
		t.Error("the others notice")
	}
	alone, among := coldBuild(t, s, "lone"), coldBuild(t, s, "t50")
	t.Logf("a cold build takes %v alone, %v among a hundred schemas", alone, among)
	if among > 2*alone {
		t.Error("it reads more than its own schema")
	}
	f.coldCrowd(t, s, "t60")
}

// coldBuild is the median time of a few builds.
func coldBuild(t *testing.T, s *rig.Server, tenant string) time.Duration {
	t.Helper()
	var took []float64
	for range 7 {
		flushTenant(t, s, tenant)
		if a, err := askTenant(s, tenant, itsNotes); err != nil || a.Code != "" {
			t.Fatal(err, a.Code)
		}
		for _, in := range statusOf(t, s).Tenants {
			if in.Tenant == tenant {
				took = append(took, in.BuildSeconds)
			}
		}
	}
	if len(took) == 0 {
		t.Fatal("status does not show " + tenant)
	}
	slices.Sort(took)
	return time.Duration(took[len(took)/2] * float64(time.Second))
}

func flushTenant(t *testing.T, s *rig.Server, tenant string) {
	t.Helper()
	response, err := http.Post("http://"+s.Admin+"/graphql/flush?tenant="+tenant, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Fatal(response.Status)
	}
}

func (f *farm) coldCrowd(t *testing.T, s *rig.Server, tenant string) {
	flushTenant(t, s, tenant)
	before := statusOf(t, s).Instances.Begun
	var served, shed atomic.Int64
	var all sync.WaitGroup
	for i := range 500 {
		query := fmt.Sprintf("{ allThing%dS { nodes { rowId title state score at noteByNoteId { body } } } allNotes { nodes { body } } }", 2+i%99)
		all.Go(func() {
			a, err := askTenant(s, tenant, query)
			switch {
			case err != nil:
				t.Error(err)
			case a.Code != "":
				shed.Add(1)
			default:
				served.Add(1)
			}
		})
	}
	all.Wait()
	builds := statusOf(t, s).Instances.Begun - before
	t.Logf("of 500 at once to a cold tenant %d were served, %d shed, for %d builds", served.Load(), shed.Load(), builds)
	if builds != 1 || served.Load() == 0 {
		t.Errorf("%d builds, %d served", builds, served.Load())
	}
}
