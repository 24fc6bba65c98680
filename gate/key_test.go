package gate

import (
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

func TestAHotKeysWaitersDoNotPinTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := mustNew(t, Options{Limit: 4, PerKey: 2, Queue: 100, Wait: time.Minute})
		var hot []*call
		for range 20 {
			hot = append(hot, admit(g, "hot", 1))
		}
		quiet := admit(g, "quiet", 2)
		if !quiet.admitted() {
			t.Fatal("eighteen waiters at their own limit keep another key from the room they may not use")
		}
		if _, err := g.TryAdmit("third", 1); err == nil {
			t.Fatal("admitted above the limit")
		}
		for i, c := range hot {
			if c.admitted() != (i < 2) {
				t.Fatalf("hot caller %d: admitted %v", i, c.admitted())
			}
		}
		quiet.release()
		for i, c := range hot {
			if !c.admitted() {
				t.Fatalf("hot caller %d was not woken by the one before it", i)
			}
			if s := g.Stats(); s.InUse > 2 {
				t.Fatalf("the hot key has %d in use, its limit is 2", s.InUse)
			}
			c.release()
		}
		wantEmpty(t, g)
	})
}

func TestAKeyAloneMayHoldMoreThanAKeyBesideAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := mustNew(t, Options{Limit: 8, PerKey: 7, PerKeyContended: 4, Queue: 100, Wait: time.Minute})
		var hot []*call
		for range 20 {
			hot = append(hot, admit(g, "hot", 1))
		}
		if s := g.Stats(); s.InUse != 7 {
			t.Fatalf("alone it has %d, want 7", s.InUse)
		}
		quiet := admit(g, "quiet", 1)
		if !quiet.admitted() {
			t.Fatal("the eighth is for another key")
		}
		second := admit(g, "quiet", 3)
		for i := range 3 { // 7, 6, 5: what it holds it keeps, but the room goes to the other
			if s := g.Stats(); s.InUse != int64(8-i) {
				t.Fatalf("%d in use after %d releases, want %d: the hot key was granted above its contended limit", s.InUse, i, 8-i)
			}
			hot[i].release()
		}
		if !second.admitted() {
			t.Fatal("the quiet key has room for three more")
		}
		if s := g.Stats(); s.InUse != 8 || hot[7].done() {
			t.Fatalf("%d in use, want 4 of each key", s.InUse)
		}
		hot[3].release()
		if !hot[7].admitted() || hot[8].done() {
			t.Fatal("below its contended limit the hot key gets exactly one more")
		}
		quiet.release()
		if hot[8].done() {
			t.Fatal("the other key still holds")
		}
		second.release()
		if s := g.Stats(); s.InUse != 7 || s.Keys != 1 {
			t.Fatalf("%d in use by %d keys: the hot key is alone again and must be woken up to 7", s.InUse, s.Keys)
		}
		for _, c := range hot {
			if !c.done() {
				t.Fatal("a waiter was forgotten")
			}
			if c.permit != nil {
				c.release()
			}
		}
		wantEmpty(t, g)
	})
}

func TestAWaitingKeyContendsAndStopsWhenItLeaves(t *testing.T) {
	for _, how := range []string{"cancel", "time-out"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := mustNew(t, Options{Limit: 8, PerKey: 6, PerKeyContended: 2, Queue: 100, Wait: time.Minute})
				first := admit(g, "hot", 5)
				other := admit(g, "other", 8) // fits only when the gate is empty
				advance(time.Second)
				more := admit(g, "hot", 1)
				if more.done() {
					t.Fatal("another key waits, so the contended limit holds")
				}
				if how == "cancel" {
					other.cancel(nil)
					synctest.Wait()
				} else {
					advance(59 * time.Second)
				}
				if !other.done() || !more.admitted() {
					t.Fatal("alone again, with room below its own limit, and not woken")
				}
				first.release()
				more.release()
				wantEmpty(t, g)
			})
		})
	}
}

func TestACostAboveItsKeysLimitIsAdmittedWhenTheKeyHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := mustNew(t, Options{Limit: 10, PerKey: 4, Queue: 10, Wait: time.Minute})
		other := admit(g, "other", 3)
		one := admit(g, "k", 1)
		large := admit(g, "k", 6)
		behind := admit(g, "k", 1)
		if large.done() || behind.done() {
			t.Fatal("admitted above the key's limit, or out of order")
		}
		one.release()
		if !large.admitted() || behind.done() {
			t.Fatal("the key holds nothing, so its large one goes, alone")
		}
		large.release()
		if !behind.admitted() {
			t.Fatal("not woken")
		}
		behind.release()
		other.release()
		wantEmpty(t, g)
	})
}

func TestWithinAKeyTheFirstToComeIsTheFirstToGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := mustNew(t, Options{Limit: 3, Queue: 100, Wait: time.Hour})
		holder := admit(g, "k", 3)
		var waiters []*call
		for i := range 30 {
			waiters = append(waiters, admit(g, "k", int64(1+i%3)))
		}
		holder.release()
		for i, c := range waiters {
			for _, later := range waiters[i+1:] {
				if later.done() && !c.done() {
					t.Fatalf("waiter %d was overtaken", i)
				}
			}
			if !c.admitted() {
				t.Fatalf("waiter %d is next and was not granted", i)
			}
			c.release()
		}
		wantEmpty(t, g)
	})
}

func TestTurnsGoRoundTheKeysByCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := mustNew(t, Options{Limit: 4, Queue: 100, Wait: time.Hour})
		holder := admit(g, "x", 4)
		var waiters []*call
		for key, cost := range map[string]int64{"a": 1, "b": 2, "c": 4} {
			for range 12 / cost * 2 {
				waiters = append(waiters, admit(g, key, cost))
			}
		}
		holder.release()
		served := map[string]int64{}
		for range 9 { // rounds of one full gate each
			var round []*call
			for _, c := range waiters {
				if c.admitted() && c.permit.key != nil {
					round = append(round, c)
					served[c.key] += c.cost
				}
			}
			for _, c := range round {
				c.permit.Release()
			}
			synctest.Wait()
		}
		for key, cost := range served {
			if cost != 12 {
				t.Errorf("after three rounds key %s was served %d, want 12 like the others: %v", key, cost, served)
			}
		}
		for _, c := range waiters {
			c.cancel(nil)
			synctest.Wait()
			c.permit.Release()
		}
		wantEmpty(t, g)
	})
}

func TestAKeyThatComesIsReachedAfterOneTurnOfEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := mustNew(t, Options{Limit: 1, Queue: 1000, Wait: time.Hour})
		holder := admit(g, "0", 1)
		var others []*call
		for i := range 200 {
			others = append(others, admit(g, strconv.Itoa(i%10), 1))
		}
		quiet := admit(g, "quiet", 1)
		for served := 0; !quiet.done(); served++ {
			if served > 10 {
				t.Fatalf("%d others were served before it, there are ten keys", served)
			}
			holder.release()
			for _, c := range others {
				if c.admitted() && c.permit.key != nil {
					holder = c
				}
			}
		}
		quiet.permit.Release()
		g.Close()
		synctest.Wait()
		for _, c := range others {
			c.permit.Release()
		}
		wantEmpty(t, g)
	})
}

func TestIdleKeysLeaveNoState(t *testing.T) {
	g := mustNew(t, Options{Limit: 100_000, Queue: 10, Wait: time.Minute})
	measure := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := measure()
	permits := make([]*Permit, 0, 100_000)
	for i := range cap(permits) {
		p, err := g.TryAdmit(fmt.Sprintf("a client with a rather long name, number %d", i), 1)
		if err != nil {
			t.Fatal(err)
		}
		permits = append(permits, p)
	}
	if n := g.Stats().Keys; n != cap(permits) {
		t.Fatalf("%d active keys, want %d", n, cap(permits))
	}
	for _, p := range permits {
		p.Release()
	}
	permits = nil
	wantEmpty(t, g)
	if after := measure(); after > before+64<<10 {
		t.Errorf("%d bytes are left of keys that are gone", after-before)
	}
	runtime.KeepAlive(g)
}

func TestTheTableFindsWhatItHolds(t *testing.T) {
	table := newTable()
	var in []*keyState
	for i := range 1000 {
		k := &keyState{name: strconv.Itoa(i)}
		k.hash = table.hash(k.name) % 64 // many share one
		table.put(k)
		in = append(in, k)
	}
	for i, k := range in {
		if table.get(k.hash, k.name) != k {
			t.Fatalf("key %d is lost", i)
		}
		table.drop(k)
		if table.get(k.hash, k.name) != nil || table.n != 999-i {
			t.Fatalf("key %d is still there", i)
		}
	}
	if len(table.buckets) != minBuckets {
		t.Errorf("the empty table keeps %d buckets", len(table.buckets))
	}
}

func TestAnAdmissionAllocatesOnlyItsPermit(t *testing.T) {
	g := mustNew(t, Options{Limit: 10, Queue: 10, Wait: time.Second})
	ctx := t.Context()
	if n := testing.AllocsPerRun(1000, func() {
		p, err := g.Admit(ctx, "k", 1)
		if err != nil {
			t.Fatal(err)
		}
		p.Release()
	}); n > 1 {
		t.Errorf("%v allocations, want at most 1", n)
	}
}

func TestStatsDoNotGrowWithTheKeys(t *testing.T) {
	allocs := func(keys int) float64 {
		g := mustNew(t, Options{Limit: 1 << 20})
		for i := range keys {
			if _, err := g.TryAdmit(strconv.Itoa(i), 1); err != nil {
				t.Fatal(err)
			}
		}
		return testing.AllocsPerRun(100, func() { _ = g.Stats() })
	}
	if few, many := allocs(1), allocs(10_000); many > few {
		t.Errorf("%v allocations with 10000 keys and %v with one", many, few)
	}
}
