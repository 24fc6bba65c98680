package e2e

import (
	"testing"

	"github.com/leveehq/levee/internal/e2e/gitcases"
)

// The nightly run has them at full length.
func TestEveryGitCaseHolds(t *testing.T) { gitcases.RunAll(t, gitcases.Small, nil) }
