package packs

import (
	"testing"
)

func TestAPackIsMadeOnceAndServedFromDiskAfterwards(t *testing.T) {
	r := newRig(t, nil)
	first := r.ask(r.clone())
	r.want(first, Generated)
	objects := r.wantPack(first)
	if objects < 300 {
		t.Errorf("%d objects", objects)
	}
	second := r.ask(r.clone())
	r.want(second, Hit)
	if n := r.wantPack(second); n != objects {
		t.Errorf("%d objects, before %d", n, objects)
	}
	if n := r.generations(); n != 1 {
		t.Errorf("%d generations", n)
	}
	if first.res.Predicted < r.o.Slot || first.res.Measured <= 0 || first.res.PackBytes < 100_000 {
		t.Errorf("got %+v", first.res)
	}
}

func TestStockGitClonesFetchesAndRepairsThroughIt(t *testing.T) {
	r := newRig(t, nil)
	url := r.serve()
	for _, version := range []string{"0", "1", "2"} {
		dir := t.TempDir()
		r.sh(nil, `cd "$1"; g="git -c protocol.version=$3"
			$g clone -q "$2" full; $g -C full fsck --full --strict
			$g clone -q --depth 1 "$2" shallow; test $(git -C shallow rev-list --count HEAD) = 1
			$g -C shallow fetch -q --deepen 3; test $(git -C shallow rev-list --count HEAD) = 4
			$g -C shallow fetch -q --unshallow; git -C shallow fsck
			$g clone -q --filter=blob:none "$2" partial; test $(git -C partial rev-list --count HEAD) = 100
			$g clone -q --mirror "$2" mirror; git -C mirror rev-parse v1
			$g init -q --bare one; $g -C one fetch -q "$2" $4
			$g clone -q -b v1 --single-branch --no-tags "$2" old; $g -C old fetch -q origin main; git -C old fsck`,
			dir, url, version, r.commit)
	}
	if s := r.c.Stats(); s.Hits == 0 {
		t.Errorf("no hit: %+v", s)
	}
}
