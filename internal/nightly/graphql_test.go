package nightly

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leveehq/levee/internal/e2e/rig"
)

// evenly calls f at a rate, whatever becomes of the calls before, and returns when all have.
func evenly(perSecond int, d time.Duration, f func(n int)) {
	var all sync.WaitGroup
	tick := time.NewTicker(time.Second / time.Duration(perSecond))
	defer tick.Stop()
	for n, end := 0, time.Now().Add(d); time.Now().Before(end); n++ {
		<-tick.C
		all.Go(func() { f(n) })
	}
	all.Wait()
}

// Q1: 200 tenants of 100 tables in 1 GiB, of unequal popularity for ten minutes, and then all of them twice.
func TestCaseQ1TwoHundredTenantsStayWithinAGibibyte(t *testing.T) {
	const tenants = 200
	f, names := newFarm(t), tenantNames(tenants)
	for _, name := range names {
		f.add(t, "postgres", name, 100)
	}
	s := f.serve(t, "", "--memory-limit", "1GiB")
	var served, shed, late atomic.Int64
	var took latencies
	warm := time.Now().Add(3 * time.Minute) // until then most are cold, and are built one by one
	ask := func(tenant string) {
		began := time.Now()
		a, err := askTenant(s, tenant, itsNotes)
		switch {
		case err != nil:
			t.Error(err)
		case a.Code != "":
			shed.Add(1)
			if began.After(warm) {
				late.Add(1)
			}
		default:
			served.Add(1)
			took.add(a.Took)
		}
	}
	zipf := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 1, tenants-1)
	order := make([]string, 10*60*50+100)
	for i := range order {
		order[i] = names[zipf.Uint64()]
	}
	evenly(50, 10*time.Minute, func(n int) { ask(order[n]) })
	afterZipf := s.PeakRSS()
	for range 2 {
		for _, name := range names {
			ask(name)
		}
	}
	st := statusOf(t, s)
	t.Logf("%d served, %d shed, %d of them after three minutes, p99 %v; capacity %d, resident %d, charged %d of %d KiB; peak RSS %d MiB after the ten minutes, %d MiB after the scans",
		served.Load(), shed.Load(), late.Load(), took.p99(), st.Instances.Capacity, st.Instances.Resident, st.Instances.Charged>>10, st.Instances.Budget>>10, afterZipf/mib, s.PeakRSS()/mib)
	if s.PeakRSS() > gib || late.Load() > 0 {
		t.Errorf("peak RSS %d MiB, %d shed though nearly all were warm", s.PeakRSS()/mib, late.Load())
	}
	if st.Instances.Capacity == 0 || st.Instances.Charged > st.Instances.Budget || len(st.Tenants) == 0 || st.Tenants[0].Bytes == 0 {
		t.Errorf("status shows %+v", st)
	}
}

// Q2: three tenants in room for two, asked by fifty clients for a minute.
func TestCaseQ2ThreeTenantsInRoomForTwoForAMinute(t *testing.T) {
	f, names := newFarm(t), tenantNames(3)
	for _, name := range names {
		f.exec(t, "postgres", "create database "+name)
		f.add(t, name, name, 20)
	}
	s := f.serve(t, "  max_instances = 2", "--memory-limit", "1GiB")
	var served, shed atomic.Int64
	end := time.Now().Add(time.Minute)
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			for n := i; time.Now().Before(end); n++ {
				a, err := askTenant(s, names[n%3], itsNotes)
				switch {
				case err != nil:
					t.Error(err)
				case a.Code != "":
					shed.Add(1)
				default:
					served.Add(1)
				}
			}
		})
	}
	all.Wait()
	st := statusOf(t, s).Instances
	evicted := uint64(0)
	for _, n := range st.Evicted {
		evicted += n
	}
	t.Logf("%d served, %d shed, %d builds, %d evictions; peak RSS %d MiB", served.Load(), shed.Load(), st.Begun, evicted, s.PeakRSS()/mib)
	if served.Load() == 0 || st.Begun > evicted+3 || st.Failed > 0 {
		t.Errorf("%+v", st)
	}
}

// Q18: 200,000 documents of 10 kB that never come again.
func TestCaseQ18TwoHundredThousandDocumentsLeaveMemoryFlat(t *testing.T) {
	const documents, warm, clients = 200_000, 10_000, 8
	f := newFarm(t)
	f.add(t, "postgres", "t0", 20)
	s := f.serve(t, "", "--memory-limit", "512MiB")
	send := func(from, to int) int64 {
		var next atomic.Int64
		next.Store(int64(from))
		var all sync.WaitGroup
		for range clients {
			all.Go(func() {
				for n := next.Add(1); n <= int64(to); n = next.Add(1) {
					sendUnique(t, s, n)
				}
			})
		}
		all.Wait()
		return s.PeakRSS()
	}
	before := send(0, warm)
	after := send(warm, documents)
	t.Logf("peak RSS %d MiB after %d documents, %d MiB after %d", before/mib, warm, after/mib, documents)
	if after > before+16*mib {
		t.Error("memory is not flat")
	}
}

func sendUnique(t *testing.T, s *rig.Server, n int64) {
	name := fmt.Sprintf("x%d", n)
	a, err := askTenant(s, "t0", "{ "+name+": __typename query { "+strings.Repeat("__typename ", 900)+"} }")
	if err != nil || a.Code != "" || !strings.Contains(a.Text, name) {
		t.Errorf("document %d: %v %s", n, err, a.Code)
	}
}
