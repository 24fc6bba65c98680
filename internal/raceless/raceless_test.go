package raceless

import (
	"os"
	"os/exec"
	"testing"
)

const askEnv = "LEVEE_TEST_RACELESS"

func TestMain(m *testing.M) {
	if os.Getenv(askEnv) == "" {
		os.Exit(m.Run())
	}
	if hasDetector() {
		os.Exit(1)
	}
}

func TestTheBinaryHasNoRaceDetectorWhateverThisOneHas(t *testing.T) {
	cmd := exec.Command(Binary(t))
	cmd.Env = append(os.Environ(), askEnv+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
