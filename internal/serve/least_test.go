package serve

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/leveehq/levee"
	"github.com/leveehq/levee/internal/bytesize"
)

func TestTheAdvisedMemoryLimitIsTheLeastThatFits(t *testing.T) {
	for _, flags := range []map[string]string{
		{"memory-limit": "16MiB"},
		{"memory-limit": "128MiB"},
		{"memory-limit": "256MiB", "store-max-blobs": "2000000"},
		{"memory-limit": "512MiB", "bazel-max-streams": "40000"},
	} {
		err := build(t, flags).Plan().Check()
		var unfit *levee.PlanError
		if !errors.As(err, &unfit) || unfit.Plan.Needed == 0 {
			t.Fatalf("%v: %v", flags, err)
		}
		needed := unfit.Plan.Needed
		if want := "raise the memory limit to " + bytesize.Format(needed); !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %q is not in %q", flags, want, err)
		}
		flags["memory-limit"] = fmt.Sprint(needed)
		if err := build(t, flags).Plan().Check(); err != nil {
			t.Errorf("the advice does not fit: %v", err)
		}
		flags["memory-limit"] = fmt.Sprint(needed - bytesize.MiB)
		if build(t, flags).Plan().Fits {
			t.Errorf("%v fits, too", flags)
		}
	}
}

func TestAServerThatDoesNotFitSaysWhatWouldBeEnough(t *testing.T) {
	a := build(t, map[string]string{"memory-limit": "100MiB", "store-path": t.TempDir() + "/store"})
	err := a.Run(t.Context())
	if want := a.Plan().Needed; err == nil || !strings.Contains(err.Error(), bytesize.Format(want)) {
		t.Errorf("%v, and %s would be enough", err, bytesize.Format(want))
	}
}

// The processors may be a host's, and the memory a container's.
func TestTheDefaultsFitWhateverTheProcessors(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, processors := range []int{1, 16, 64, 256} {
		runtime.GOMAXPROCS(processors)
		for _, limit := range []string{"256MiB", "512MiB", "1GiB", "2GiB", "8GiB"} {
			for _, host := range []string{"", "github.com"} {
				if host != "" && limit == "256MiB" {
					continue // both services need 512 MiB
				}
				flags := map[string]string{"memory-limit": limit}
				if host != "" {
					flags["git-host"] = host
				}
				if err := build(t, flags).Plan().Check(); err != nil {
					t.Errorf("%d processors, %v: %v", processors, flags, err)
				}
			}
		}
	}
}
