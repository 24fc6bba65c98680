package gate

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
)

func BenchmarkAdmitUncontended(b *testing.B) {
	g := mustNew(b, Options{Limit: 10, Queue: 10, Wait: time.Second})
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		p, err := g.Admit(ctx, "10.0.0.1", 1)
		if err != nil {
			b.Fatal(err)
		}
		p.Release()
	}
}

func BenchmarkTryAdmitUncontended(b *testing.B) {
	g := mustNew(b, Options{Limit: 10})
	b.ReportAllocs()
	for b.Loop() {
		p, err := g.TryAdmit("10.0.0.1", 1)
		if err != nil {
			b.Fatal(err)
		}
		p.Release()
	}
}

// Every admission but the first few waits for another's release.
func BenchmarkAdmitContendedParallel(b *testing.B) {
	for _, callers := range []int{8, 64, 512} {
		b.Run(fmt.Sprintf("callersPerCPU=%d", callers), func(b *testing.B) {
			g := mustNew(b, Options{Limit: 2, Queue: 1 << 20, Wait: time.Minute})
			var id atomic.Int64
			b.ReportAllocs()
			b.SetParallelism(callers)
			b.RunParallel(func(pb *testing.PB) {
				key := strconv.FormatInt(id.Add(1)%16, 10)
				for pb.Next() {
					p, err := g.Admit(context.Background(), key, 1)
					if err != nil {
						b.Error(err)
						return
					}
					p.Release()
				}
			})
		})
	}
}

// One key comes and goes while as many as the name says hold a permit, or wait at their own limit.
func BenchmarkAdmitManyKeys(b *testing.B) {
	for _, keys := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("holding=%d", keys), func(b *testing.B) {
			g := mustNew(b, Options{Limit: int64(keys) + 10})
			for i := range keys {
				if _, err := g.TryAdmit(strconv.Itoa(i), 1); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				p, err := g.Admit(context.Background(), "another", 1)
				if err != nil {
					b.Fatal(err)
				}
				p.Release()
			}
		})
	}
}

func BenchmarkStatsWithManyKeys(b *testing.B) {
	g := mustNew(b, Options{Limit: 10_000})
	for i := range 10_000 {
		if _, err := g.TryAdmit(strconv.Itoa(i), 1); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		_ = g.Stats()
	}
}
