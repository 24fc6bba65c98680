package e2e

import (
	"testing"
	"time"

	"github.com/leveehq/levee/internal/e2e/tenants"
)

// The nightly run has more of everything.
func TestThirtyTenantsShareFifteenConnectionsThroughFullPoolsAndDeathsOfPostgres(t *testing.T) {
	tenants.Run(t, 3*time.Second, 50, 2)
}
