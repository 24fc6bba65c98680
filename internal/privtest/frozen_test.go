package privtest

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/leveehq/levee/internal/e2e/rig"
	"github.com/leveehq/levee/internal/storm"
)

// Every admitted upload has its window open and full, and the disk takes nothing: that is what a permit is priced for.
func TestUploadsOntoAFrozenDiskTakeWhatTheirPermitsSay(t *testing.T) {
	disk := newDisk(t, 6<<30)
	s := rig.Start(t, filepath.Join(disk.dir, "data"), "--memory-limit", "512MiB")
	type result struct {
		report *storm.Report
		err    error
	}
	ended := make(chan result, 1)
	go func() {
		r, err := rig.TryStorm(s, s.GRPC, "--scenario", "fill", "--only", "uploads with open windows", "--http", s.HTTP, "--duration", "5m")
		ended <- result{r, err}
	}()
	eventually(t, time.Minute, "the uploads run at full speed", func() bool {
		var st struct {
			Services struct{ Store struct{ Reserved int64 } }
		}
		return s.Status(&st) == nil && st.Services.Store.Reserved > 64*mib
	})
	thaw := disk.freeze()
	eventually(t, time.Minute, "the clients have gone", func() bool {
		var st struct {
			Gates []struct {
				Name  string
				InUse int `json:"in_use"`
			}
		}
		if s.Status(&st) != nil {
			return false
		}
		for _, g := range st.Gates {
			if g.Name == "connections" {
				return g.InUse == 0
			}
		}
		return false
	})
	thaw()
	r := <-ended
	if r.err != nil {
		t.Fatal(r.err)
	}
	for _, p := range r.report.Problems() {
		t.Error(p)
	}
	for _, a := range r.report.Accounts {
		if a.Name == "write" {
			t.Logf("write: planned %d KiB, charged %d, real %d", a.Plan>>10, a.Charged>>10, a.Real>>10)
			if a.Charged < a.Plan*9/10 || a.Ratio() > 1.5 {
				t.Errorf("the gate was not full, or is priced %.2f times what it takes", a.Ratio())
			}
		}
	}
}
