package privtest

import (
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/leveehq/levee/internal/e2e/rig"
	"github.com/leveehq/levee/internal/storm"
)

// Every admitted upload has its window open and full, and the disk takes nothing: that is what a permit is priced for.
func TestUploadsOntoAFrozenDiskTakeWhatTheirPermitsSay(t *testing.T) {
	disk := newDisk(t)
	s := rig.Start(t, filepath.Join(disk, "data"), "--memory-limit", "512MiB")
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
	run(t, "fsfreeze", "--freeze", disk)
	thaw := func() { _ = exec.Command("fsfreeze", "--unfreeze", disk).Run() } // fails if it is thawed already
	defer thaw()                                                              // or nothing that has touched it would ever end
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

// newDisk is a file system of its own, mounted from a file.
func newDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	image, disk := filepath.Join(dir, "image"), filepath.Join(dir, "disk")
	run(t, "truncate", "--size", "6G", image)
	run(t, "mkfs.ext4", "-q", "-F", image)
	run(t, "mkdir", disk)
	run(t, "mount", "-o", "loop", image, disk)
	t.Cleanup(func() { run(t, "umount", disk) })
	return disk
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
}
