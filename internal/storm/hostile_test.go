package storm

import (
	"testing"
	"time"
)

// The victim is a stock server, which survives a second of each: what is tested is that the load is offered, bounded
// and told of.
func TestHostileClientsOfferTheirLoadAndEnd(t *testing.T) {
	for _, s := range scenarios {
		if !s.hostile {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			o := small(startFake(t, &fakeCache{}), s.name)
			o.Duration, o.BlobsPerWriter, o.ReadSize = time.Second, 1, 1<<20
			began := time.Now()
			r := mustRun(t, o)
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("took %s", took)
			}
			section := r.Sections[0]
			if section.Offered == 0 {
				t.Error("nothing was offered")
			}
			t.Logf("offered %d, admitted %d, shed %v, failed %v, notes %q, broken %q", section.Offered, section.Admitted, section.Shed, section.Failed, section.Notes, r.Problems())
		})
	}
}

func TestAUselessBombWouldBeNoticed(t *testing.T) {
	bomb, err := makeBomb()
	if err != nil {
		t.Fatal(err)
	}
	if len(bomb) > 256<<10 {
		t.Errorf("1 GiB of zeros compress to %d bytes", len(bomb))
	}
}
