package pgpool_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/leveehq/levee/internal/graphql/pgpool"
	"github.com/leveehq/levee/internal/pglocal/pgtest"
)

func TestQ18PreparedStatementsStayWithinTheirCap(t *testing.T) {
	_, d, _ := database(t, pgpool.Options{Budget: 1, Statements: 20})
	for i := range 500 {
		sql := fmt.Sprintf("select %d, $1::int", i)
		if i%7 == 0 {
			sql = fmt.Sprintf("select %d/(%d-%d)", i, i, i) // parsed, fails
		}
		var r pgpool.Request
		r.Statements = append(r.Statements, text(sql, nil), text("select 'always'", nil))
		if i%7 != 0 {
			r.Statements[0].Params = [][]byte{[]byte("1")}
		}
		_ = d.Do(context.Background(), "key", r)
		if i%50 == 0 {
			if n := number(t, ask(t, d, "select count(*) from pg_prepared_statements")[0]); n > 20 {
				t.Fatalf("after %d statements %d are prepared", i, n)
			}
		}
	}
	got := ask(t, d, "select count(*) from pg_prepared_statements where statement = 'select ''always'''")
	if got[0] != "1" {
		t.Fatalf("the one that is always used is prepared %s times", got[0])
	}
}

func TestQ18AChangedTableReachesNoClientAsAnErrorOfACachedPlan(t *testing.T) {
	b, d, name := database(t, pgpool.Options{Budget: 2})
	pgtest.Exec(t, name, "create table thing (id int, name text)")
	read := func() error {
		var out []string
		return d.Do(context.Background(), "key", pgpool.Request{Statements: []pgpool.Statement{
			text("insert into thing values (1, 'a') returning id", &out), text("select * from thing", &out)}})
	}
	for i := range 10 {
		if err := read(); err != nil {
			t.Fatal(err)
		}
		ask(t, d, "select * from thing")
		pgtest.Exec(t, name, fmt.Sprintf("alter table thing add column c%d int", i))
		if err := read(); err != nil {
			t.Fatalf("after change %d: %v", i, err)
		}
		ask(t, d, "select * from thing")
	}
	if got := ask(t, d, "select count(*) from thing")[0]; got != "20" {
		t.Fatalf("%s rows: something ran twice", got)
	}
	if b.Stats().Repeated == 0 {
		t.Fatal("nothing was repeated: the test tests nothing")
	}
}

func TestQ18StatementsThatAreGoneAreSeenToAndTheirNamesAreNotUsedAgain(t *testing.T) {
	_, d, _ := database(t, pgpool.Options{Budget: 1, Statements: 10})
	for range 5 {
		for i := range 4 {
			ask(t, d, fmt.Sprintf("select %d", i))
		}
		ask(t, d, "deallocate all")
	}
	if n := number(t, ask(t, d, "select count(*) from pg_prepared_statements")[0]); n > 10 {
		t.Fatal(n)
	}
}

func TestQ18APoolerThatGivesConnectionsByTransactionWorks(t *testing.T) {
	name := pgtest.Database(t)
	pgtest.Exec(t, name, q3Schema)
	for kind, url := range poolers(t, name, 2) {
		t.Run(kind, func(t *testing.T) { behindPooler(t, url) })
	}
}

func behindPooler(t *testing.T, url string) {
	b := rig(t, pgpool.Options{Budget: 8, Pooler: true, Wait: 20 * time.Second})
	d := open(t, b, url)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 25 {
				sub := []string{"u1", "u2"}[(i+n)%2]
				var out []string
				sql := fmt.Sprintf("select id from note where %d = %d order by 1", n, n)
				r := pgpool.Request{Settings: visitor(sub), Timeout: 5 * time.Second, Statements: []pgpool.Statement{text(sql, &out)}}
				if n%3 == 0 {
					r.Statements = append(r.Statements, text("select taint()", nil))
				}
				err := d.Do(context.Background(), "key", r)
				if want := map[string][]string{"u1": {"1", "2"}, "u2": {"3", "4"}}[sub]; err != nil || !slices.Equal(out, want) {
					t.Errorf("%s: %v, %v", sub, out, err)
				}
				if got, err := try(d, "select id from note", visitor("")...); err != nil || len(got) != 0 {
					t.Errorf("anonymous: %v, %v", got, err)
				}
				if got, err := try(d, "select current_user, coalesce(current_setting('app.nobody_knows', true), '')"); err != nil || got[0] != "postgres" || got[1] != "" {
					t.Errorf("no role: %v, %v", got, err)
				}
			}
		})
	}
	all.Wait()
}
