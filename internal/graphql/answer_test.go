package graphql

import (
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leveehq/levee/internal/graphql/auth"
	"github.com/leveehq/levee/internal/pglocal/pgtest"
)

// A name that the client chooses is in the JSON of each row, and nowhere in what PostgreSQL sends: a thousand rows of four bytes
// are a hundred megabytes under a name of a hundred thousand letters.
func TestNamesThatTheClientChoosesAreChargedForInEveryRow(t *testing.T) {
	database := pgtest.Database(t)
	pgtest.Exec(t, database, `create schema s; create table s.note (id int primary key, tags int[], odd float8[]);
		insert into s.note select g, array(select generate_series(1, 10)), array_fill('NaN'::float8, array[30]) from generate_series(1, 1000) g`)
	tenant := Tenant{DatabaseURL: pgtest.Server(t).URL("postgres", database), Schemas: []string{"s"}, AllowBypassRLS: true, Auth: auth.Options{AnonymousRole: auth.ConnectionRole}}
	s, url := serve(t, Options{Tenants: []Tenant{tenant}, MaxResponse: mib, Wait: 30 * time.Second})
	name := func(letters int) string { return strings.Repeat("n", letters) }
	if status, body := ask(t, url, "{ allNotes(first: 1000) { nodes { "+name(500)+": rowId } } }"); status != 200 || len(body) < 500_000 {
		t.Errorf("half a megabyte: %d, %d bytes", status, len(body))
	}
	defer debug.SetGCPercent(debug.SetGCPercent(10)) // so that the heap is little more than what lives
	before := liveHeap()
	var most sync.Mutex
	peak := int64(0)
	stop := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		var m runtime.MemStats
		for {
			select {
			case <-stop:
				return
			default:
			}
			runtime.ReadMemStats(&m)
			most.Lock()
			peak = max(peak, int64(m.HeapAlloc))
			most.Unlock()
			runtime.Gosched()
		}
	})
	for what, query := range map[string]string{
		"long names":            "{ allNotes(first: 1000) { nodes { " + name(100_000) + ": rowId } } }",
		"long names of edges":   "{ allNotes(first: 1000) { edges { " + name(100_000) + ": cursor } } }",
		"an error in each item": "{ allNotes(first: 1000) { nodes { odd } } }",
	} {
		if status, body := ask(t, url, query); status != 400 || !strings.Contains(body, "RESPONSE_TOO_LARGE") {
			t.Errorf("%s: %d %.200s", what, status, body)
		}
	}
	close(stop)
	watch.Wait()
	if grown := peak - before; grown > s.shares.answers*2 {
		t.Errorf("the heap grew by %d bytes, and answers have %d", grown, s.shares.answers)
	}
	t.Logf("the heap grew by %d bytes, and answers have %d", peak-before, s.shares.answers)
	if n := s.gates.answers.Stats().InUse; n != 0 {
		t.Errorf("%d bytes are still charged", n)
	}
}
