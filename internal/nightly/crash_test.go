package nightly

import (
	"os"
	"testing"

	"github.com/leveehq/levee/internal/e2e/crash"
	"github.com/leveehq/levee/internal/e2e/rig"
)

func TestMain(m *testing.M) { os.Exit(rig.Main(m)) }

func TestNoAcknowledgedBlobIsLostToTwoHundredKills(t *testing.T) { crash.Run(t, 200) }

func TestNoAcknowledgedBlobIsLostToKillsWithFsync(t *testing.T) {
	crash.Run(t, 50, "--store-durability", "fsync")
}
