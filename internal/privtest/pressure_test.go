package privtest

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/leveehq/levee"
	"github.com/leveehq/levee/governor"
)

const groupLimit = 256 * mib

// Case O1 in a real group. The process sits in a group without a limit of its own, below one that has it.
func TestARealGroupFullOfPageCacheIsNormalAndRealLoadIsNot(t *testing.T) {
	g := newGroup(t, groupLimit)
	p := g.inner("server").start(0)
	first := p.do(order{Do: "status"})
	if first.Source != levee.FromGroup || first.Limit != groupLimit {
		t.Fatalf("limit %d (%s), want the group's %d", first.Limit, first.Source, groupLimit)
	}

	file := filepath.Join(t.TempDir(), "blob")
	p.do(order{Do: "write", Path: file, N: 4 * groupLimit})
	p.do(order{Do: "read", Path: file})
	if used := g.usage(); used < groupLimit*8/10 {
		t.Fatalf("the group shows %d bytes in use of %d: page cache does not fill it here, so nothing is tested", used, groupLimit)
	}
	p.stays("normal", 2*time.Second)

	p.do(order{Do: "files", Path: t.TempDir(), N: 200_000})
	p.stays("normal", 2*time.Second)

	p.do(order{Do: "map", N: groupLimit * 88 / 100})
	p.waitFor("shed", 5*time.Second)
	p.stays("shed", 3*time.Second)
	p.do(order{Do: "unmap"})
	p.waitFor("normal", 10*time.Second)
}

func TestARealHeapNearItsLimitShedsAndRecovers(t *testing.T) {
	p := newGroup(t, groupLimit).inner("server").start(0)
	goMem := p.do(order{Do: "status"}).GoMem
	p.do(order{Do: "heap", N: goMem * 65 / 100})
	p.waitFor("evict", 5*time.Second)
	p.do(order{Do: "heap", N: goMem * 13 / 100})
	p.waitFor("shed", 5*time.Second)
	p.do(order{Do: "free"})
	p.waitFor("normal", 10*time.Second)
}

// A configured limit is about us alone. What a neighbour in the same group uses is not ours to answer for.
func TestANeighbourInTheGroupIsNoPressureOnAConfiguredLimit(t *testing.T) {
	const limit = 2 * groupLimit // there is to be room for the server's own limit beside the neighbour
	g := newGroup(t, limit)
	neighbour := g.inner("neighbour").start(0)
	p := g.inner("server").start(128 * mib)
	neighbour.do(order{Do: "map", N: limit * 64 / 100})
	neighbour.waitFor("evict", 5*time.Second)
	p.stays("normal", 2*time.Second)
	p.do(order{Do: "heap", N: p.do(order{Do: "status"}).GoMem * 65 / 100})
	p.waitFor("evict", 5*time.Second)
	if a := p.do(order{Do: "status"}); a.Source != levee.Configured || a.Cause != governor.CauseHeap {
		t.Errorf("limit from %s, level for %q: %s", a.Source, a.Cause, a.Text)
	}
}
