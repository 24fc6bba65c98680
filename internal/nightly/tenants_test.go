package nightly

import (
	"testing"
	"time"

	"github.com/leveehq/levee/internal/e2e/tenants"
)

func TestThirtyTenantsShareFifteenConnectionsForAMinuteAndThroughTenDeathsOfPostgres(t *testing.T) {
	tenants.Run(t, time.Minute, 250, 10)
}
