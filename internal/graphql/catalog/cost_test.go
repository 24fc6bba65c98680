package catalog

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leveehq/levee/internal/pglocal/pgtest"
)

// tables makes n tables of eleven columns, each with a key, two indexes and a foreign key to the one before.
func tables(t testing.TB, database string, n int) {
	pgtest.Exec(t, database, "create schema a")
	const batch = 500 // a transaction locks all it makes
	for from := 1; from <= n; from += batch {
		pgtest.Exec(t, database, strings.NewReplacer("$from", strconv.Itoa(from), "$to", strconv.Itoa(min(n, from+batch-1))).Replace(`do $do$ begin for i in $from..$to loop
			execute format('create table a.some_table_%s(id bigserial primary key, parent_id bigint %s, title text not null, body text, topic text, score int default 0, state text, price numeric, owner_id uuid, created_at timestamptz not null default now(), updated_at timestamptz)',
				i, case when i > 1 then format('references a.some_table_%s', i - 1) end);
			execute format('create index on a.some_table_%s(parent_id)', i);
		end loop; end $do$`))
	}
}

var ofTables = Options{Schemas: []string{"a"}}

func TestTheSizeIsThatOfTheHeap(t *testing.T) {
	for _, n := range []int{9, 1000} {
		database := pgtest.Database(t)
		tables(t, database, n)
		q := connect(t, "postgres", database)
		const copies = 8
		kept := make([]*Catalog, copies)
		before := liveHeap()
		for i := range kept {
			kept[i] = read(t, q, ofTables)
		}
		each := (liveHeap() - before) / copies
		size := kept[0].Size()
		if size < each*8/10 || size > each*12/10 {
			t.Errorf("%d tables: Size says %d bytes, the heap grew by %d", n, size, each)
		}
		if most := int64(n)*760 + 4<<10; size > most {
			t.Errorf("%d tables of eleven columns take %d bytes, more than %d", n, size, most)
		}
		runtime.KeepAlive(kept)
	}
}

func liveHeap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestASmallSchemaInALargeDatabaseCostsLittle counts what is read, not the time: that depends on the machine. A row of
// pg_class is read for each one that there is; all else is looked up.
func TestASmallSchemaInALargeDatabaseCostsLittle(t *testing.T) {
	others := 2000
	if os.Getenv("LEVEE_NIGHTLY") != "" {
		others = 20000 // 60,000 rows of pg_class: tables, keys, and what holds their long values
	}
	database := pgtest.Database(t)
	tables(t, database, 5)
	crowd(t, database, others)
	q := connect(t, "postgres", database)
	before := backendMemory(t, q)
	start := time.Now()
	c := read(t, q, ofTables)
	took := time.Since(start)
	if _, err := Fingerprint(t.Context(), q, ofTables); err != nil {
		t.Fatal(err)
	}
	grown := backendMemory(t, q) - before
	t.Logf("beside %d other tables: %d bytes, read in %v, the backend grew by %d bytes", others, c.Size(), took, grown)
	if c.Size() > 8<<10 {
		t.Errorf("five tables take %d bytes", c.Size())
	}
	if grown > 5<<20 {
		t.Errorf("the PostgreSQL backend grew by %d bytes", grown)
	}
	if took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
}

// crowd makes tables in another schema.
func crowd(t testing.TB, database string, n int) {
	pgtest.Exec(t, database, "create schema crowd")
	const batch = 500
	for from := 0; from < n; from += batch {
		pgtest.Exec(t, database, fmt.Sprintf(`do $do$ begin for i in %d..%d loop
			execute format('create table crowd.t%%s(id int primary key, a text, b text, c int, d timestamptz)', i);
		end loop; end $do$`, from, min(n, from+batch)-1))
	}
	pgtest.Exec(t, database, "analyze pg_catalog.pg_class, pg_catalog.pg_attribute, pg_catalog.pg_type, pg_catalog.pg_depend")
}

// backendMemory is what the connection's server process has allocated for itself.
func backendMemory(t testing.TB, q querier) (bytes int) {
	t.Helper()
	err := q.Query(t.Context(), `select sum(total_bytes) from pg_catalog.pg_backend_memory_contexts`, nil, func(columns [][]byte) (err error) {
		bytes, err = strconv.Atoi(string(columns[0]))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}

func BenchmarkRead(b *testing.B) {
	for _, n := range []int{9, 1000, 10000} {
		b.Run(strconv.Itoa(n)+"tables", func(b *testing.B) {
			database := pgtest.Database(b)
			tables(b, database, n)
			q := connect(b, "postgres", database)
			b.Run("Read", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					b.ReportMetric(float64(read(b, q, ofTables).Size()), "size")
				}
			})
			b.Run("Fingerprint", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := Fingerprint(b.Context(), q, ofTables); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}
