package residency_test

import (
	"context"
	"fmt"
	"time"

	"github.com/leveehq/levee/residency"
)

func Example() {
	type schema struct{ tables []string }
	schemas, err := residency.New(residency.Options[string, *schema]{
		Name: "schemas",
		Build: func(_ context.Context, tenant string) (*schema, error) {
			fmt.Println("building", tenant)
			return &schema{tables: []string{tenant + ".note", tenant + ".person"}}, nil
		},
		Size:      func(s *schema) int64 { return int64(len(s.tables)) << 10 },
		Close:     func(tenant string, _ *schema) { fmt.Println("closing", tenant) },
		Heap:      64 << 20,
		Base:      16 << 20,
		BuildPeak: 4 << 20,
		IdleTTL:   time.Hour,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	use := func(tenant string) {
		lease, err := schemas.Lease(context.Background(), tenant)
		if err != nil {
			fmt.Println(err)
			return
		}
		defer lease.Release()
		fmt.Println(lease.Value().tables)
	}
	use("a")
	use("a")
	if err := schemas.Close(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// building a
	// [a.note a.person]
	// [a.note a.person]
	// closing a
}
