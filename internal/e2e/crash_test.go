package e2e

import (
	"testing"

	"github.com/leveehq/levee/internal/e2e/crash"
)

// The nightly run has two hundred of these.
func TestNoAcknowledgedBlobIsLostToKillMinus9(t *testing.T) { crash.Run(t, 10) }
