package graphql

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/leveehq/levee/internal/accesslog"
	"github.com/leveehq/levee/internal/graphql/pgpool"
	"github.com/leveehq/levee/internal/graphql/sqlgen"
	"github.com/leveehq/levee/internal/pglocal/pgtest"
)

// tablesOf makes a database with n tables of eleven columns.
func tablesOf(t testing.TB, n int) string {
	t.Helper()
	database := pgtest.Database(t)
	pgtest.Exec(t, database, "create schema a")
	const batch = 250 // a transaction locks all it makes
	for from := 1; from <= n; from += batch {
		pgtest.Exec(t, database, fmt.Sprintf(`do $do$ begin for i in %d..%d loop
			execute format('create table a.thing_%%s(id bigserial primary key, parent_id bigint %%s, title text not null, body text, topic text, score int default 0, state text, price numeric, owner_id uuid, created_at timestamptz not null default now(), updated_at timestamptz)',
				i, case when i > 1 then format('references a.thing_%%s', i - 1) end);
			execute format('create index on a.thing_%%s(parent_id)', i);
		end loop; end $do$`, from, min(n, from+batch-1)))
	}
	return database
}

// The bytes that an instance is charged with are those of the heap, after it has served as many operations as it keeps plans of.
// LEVEE_TABLES measures other numbers of tables: go test -run AnInstanceTakes -v.
func TestAnInstanceTakesTheMemoryThatItIsChargedWith(t *testing.T) {
	numbers := []int{9, 1000}
	if more := os.Getenv("LEVEE_TABLES"); more != "" {
		numbers = nil
		for _, field := range strings.Fields(more) {
			n, err := strconv.Atoi(field)
			if err != nil {
				t.Fatal(err)
			}
			numbers = append(numbers, n)
		}
	}
	for _, n := range numbers {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			tenant := Tenant{DatabaseURL: pgtest.Server(t).URL("postgres", tablesOf(t, n)), Schemas: []string{"a"}, AllowBypassRLS: true}
			tenant.Auth.AnonymousRole = "none"
			s, _ := serve(t, Options{Tenants: []Tenant{tenant}, Log: accesslog.New(accesslog.Options{SampleOK: 1 << 30})})
			to := s.byName[""]
			db, err := s.pool.Database(to.url)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			build := func() *instance {
				in, err := s.read(t.Context(), to, db)
				if err != nil {
					t.Fatal(err)
				}
				for i := range 40 {
					query := fmt.Sprintf("query Q%d($n: Int) { all%s(first: $n, orderBy: [PRIMARY_KEY_DESC]) { nodes { id title body state score price createdAt } pageInfo { hasNextPage endCursor } totalCount } }", i, plurals(1+i%9))
					response, err := in.engine.Execute(t.Context(), plainDB{db}, sqlgen.Request{Query: query, Variables: map[string]any{"n": nil}})
					if err != nil || len(response.Errors) > 0 {
						t.Fatal(err, response)
					}
				}
				return in
			}
			build() // what is made once
			const copies = 8
			kept := make([]*instance, copies)
			before := liveHeap()
			for i := range kept {
				kept[i] = build()
			}
			each := (liveHeap() - before) / copies
			size := kept[0].size
			t.Logf("%d tables: charged with %d bytes, the heap grew by %d", n, size, each)
			if size < each*8/10 || size > each*12/10 {
				t.Errorf("%d tables: charged with %d bytes, the heap grew by %d", n, size, each)
			}
			runtime.KeepAlive(kept)
		})
	}
}

func plurals(n int) string { return fmt.Sprintf("Thing%dS", n) }

// plainDB runs statements as the login, without settings.
type plainDB struct{ db *pgpool.Database }

func (d plainDB) DoAll(ctx context.Context, statements []sqlgen.Statement) error {
	r := pgpool.Request{Idempotent: true}
	for _, s := range statements {
		r.Statements = append(r.Statements, pgpool.Statement{SQL: s.SQL, Params: s.Params, Each: s.Each})
	}
	return d.db.Do(ctx, "test", r)
}

func liveHeap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
