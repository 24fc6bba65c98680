package nightly

import (
	"slices"
	"testing"

	"github.com/leveehq/levee/internal/e2e/rig"
)

// unfilled are the lines that no client fills: what is left, what is allowed for, and what bounds itself.
// Dirty pages are told of the whole machine only.
var unfilled = []string{"collector", "margin", "log", "profiles", "dirty_pages"}

// Each account of the plan has adversaries that fill it with real memory: what they make of it stays within its line, and
// its line is not much more than they need. All of them at once stay under the limit.
func TestEachAccountOfThePlanTakesWhatItSays(t *testing.T) {
	for _, limit := range []string{"512MiB", "1GiB", "4GiB"} {
		t.Run(limit, func(t *testing.T) {
			s := rig.Start(t, t.TempDir(), "--memory-limit", limit)
			r := rig.Storm(t, s, "--scenario", "fill", "--http", s.HTTP, "--duration", "30m")
			kept(t, r)
			if len(r.Accounts) == 0 {
				t.Fatal("nothing was measured")
			}
			for _, a := range r.Accounts {
				switch {
				case slices.Contains(unfilled, a.Name):
				case a.Name == "index" && a.Real == 0 && limit != "512MiB":
					// It takes the better part of an hour; blobstore measures what one blob costs.
				case a.Real == 0:
					t.Errorf("nothing has filled account %s", a.Name)
				case a.Loose():
					t.Errorf("the line of account %s is %.2f times the %d KiB that its adversary made of it", a.Name, a.Ratio(), a.Real/1024)
				}
			}
			if r.Server.RSSPeak > r.Server.Limit {
				t.Errorf("the peak RSS was %d MiB", r.Server.RSSPeak/mib)
			}
		})
	}
}
