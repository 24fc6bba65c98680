package residency

import (
	"context"
	"testing"
)

func newQuick(tb testing.TB) *Cache[string, int] {
	c, err := New(Options[string, int]{
		Name: "bench", Heap: 100, BuildPeak: 1,
		Build: func(context.Context, string) (int, error) { return 1, nil },
		Close: func(string, int) {},
		Size:  func(int) int64 { return 1 },
	})
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func BenchmarkLeaseOfAResident(b *testing.B) {
	c := newQuick(b)
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		l, err := c.Lease(ctx, "tenant-a")
		if err != nil {
			b.Fatal(err)
		}
		l.Release()
	}
}

func BenchmarkLeaseOfAResidentParallel(b *testing.B) {
	c := newQuick(b)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			l, err := c.Lease(context.Background(), "tenant-a")
			if err != nil {
				b.Error(err)
				return
			}
			l.Release()
		}
	})
}

func BenchmarkColdLease(b *testing.B) {
	c := newQuick(b)
	b.ReportAllocs()
	for b.Loop() {
		l, err := c.Lease(context.Background(), "tenant-a")
		if err != nil {
			b.Fatal(err)
		}
		l.Release()
		c.Evict("tenant-a")
	}
}
