package pgpool_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leveehq/levee/internal/graphql/pgpool"
	"github.com/leveehq/levee/internal/pglocal/pgtest"
)

// BenchmarkDo is a row by its primary key, as a role, with a claim and a time-out.
func BenchmarkDo(b *testing.B) {
	for _, parallel := range []int{1, 16} {
		b.Run(fmt.Sprint(parallel), func(b *testing.B) {
			_, d, name := database(b, pgpool.Options{Budget: 16, Wait: 10 * time.Second})
			pgtest.Exec(b, name, benchSchema)
			b.ReportAllocs()
			b.SetParallelism(max(1, parallel/2)) // times GOMAXPROCS
			b.ResetTimer()
			var next atomic.Int64
			if parallel == 1 {
				for b.Loop() {
					benchOne(b, d, "1")
				}
				return
			}
			b.RunParallel(func(pb *testing.PB) {
				id := fmt.Sprint(1 + next.Add(1)%1000)
				for pb.Next() {
					benchOne(b, d, id)
				}
			})
		})
	}
}

const benchSchema = `do $$ begin create role pool_bench nologin; exception when duplicate_object then null; end $$;
	create table item (id int primary key, name text not null);
	insert into item select i, 'item ' || i from generate_series(1, 1000) i; analyze item; grant select on item to pool_bench`

func benchOne(b *testing.B, d *pgpool.Database, id string) {
	rows := 0
	err := d.Do(context.Background(), "key", pgpool.Request{
		Settings: []pgpool.Setting{{Name: "role", Value: "pool_bench"}, {Name: "jwt.claims.sub", Value: "u1"}},
		Timeout:  5 * time.Second, Idempotent: true,
		Statements: []pgpool.Statement{{SQL: "select id, name from item where id = $1", Params: [][]byte{[]byte(id)},
			Each: func([][]byte) error { rows++; return nil }}},
	})
	if err != nil || rows != 1 {
		b.Errorf("%d rows, %v", rows, err)
	}
}
