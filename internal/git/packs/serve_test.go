package packs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leveehq/levee/internal/git/child"
	"github.com/leveehq/levee/internal/git/pkt"
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

func TestStockGitClonesAndFetchesWithEveryLimitAtOne(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.o.Heavy, r.o.Quick, r.o.Rounds = r.gate("git_packs", r.o.Slot), r.gate("git_quick", r.o.QuickSlot), r.gate("git_rounds", r.o.RoundSlot)
	})
	url := r.serve()
	var all sync.WaitGroup
	for _, version := range []string{"0", "1", "2"} {
		dir := t.TempDir()
		all.Go(func() { r.stock(dir, url, version) })
	}
	all.Wait()
	if s := r.c.Stats(); s.Hits+s.Coalesced == 0 {
		t.Errorf("nothing was shared: %+v", s)
	}
}

// stock does with git what people do.
func (r *rig) stock(dir, url, version string) {
	out, err := r.try(nil, `cd "$1"; g="git -c protocol.version=$3"
		$g clone -q "$2" full; $g -C full fsck --full --strict
		$g clone -q --depth 1 "$2" shallow; test $(git -C shallow rev-list --count HEAD) = 1
		$g -C shallow fetch -q --deepen 3; test $(git -C shallow rev-list --count HEAD) = 4
		$g -C shallow fetch -q --unshallow; git -C shallow fsck
		$g clone -q --filter=blob:none "$2" partial; test $(git -C partial rev-list --count HEAD) = 100
		$g clone -q --mirror "$2" mirror; git -C mirror rev-parse v1
		$g init -q --bare one; $g -C one fetch -q "$2" $4
		$g clone -q -b v1 --single-branch --no-tags "$2" old; $g -C old fetch -q origin main; git -C old fsck`,
		dir, url, version, r.commit)
	if err != nil {
		r.Errorf("protocol version %s: %v\n%s", version, err, out)
	}
}

// The two have the same wants, and differ in what does not change a pack.
func TestClientsWithOtherAgentsAndProgressShareAGeneration(t *testing.T) {
	r := newRig(t, nil)
	r.hold()
	first := r.start(r.clone(), new(out))
	until(t, "the first sits", func() bool { return r.seats() == 1 })
	second := r.start(r.clone("no-progress"), new(out))
	until(t, "both sit in the flight", func() bool { return r.seats() == 2 })
	r.release()
	r.want(first, Generated)
	r.want(second, Coalesced)
	if r.wantPack(first) != r.wantPack(second) || r.generations() != 1 {
		t.Errorf("%d generations", r.generations())
	}
	if p := first.out.bands(t).progress; !strings.Contains(p, "Enumerating objects") {
		t.Errorf("progress %q", p)
	}
	if p := second.out.bands(t).progress; p != "" {
		t.Errorf("it wanted no progress: %q", p)
	}
}

// A pack may be made before its client has looked once: git shows the last line of what it is told, the sum.
func TestAClientThatLooksLateSeesWhatWasPacked(t *testing.T) {
	r := newRig(t, nil)
	r.hold()
	slow := r.start(r.clone(), &out{gate: make(chan struct{}), takes: 1})
	until(t, "it sits", func() bool { return r.seats() == 1 })
	r.release()
	until(t, "it is stuck", slow.out.isStuck)
	until(t, "the pack is made", func() bool {
		r.c.mu.Lock()
		defer r.c.mu.Unlock()
		return r.c.mu.stats.Generations == 1 && r.c.mu.generating == 0
	})
	later := r.ask(r.clone())
	close(slow.out.gate)
	r.want(slow, Generated)
	r.want(later, Hit)
	if p := slow.out.bands(t).progress; !strings.Contains(p, "Total ") {
		t.Errorf("progress %q", p)
	}
	if p := later.out.bands(t).progress; p != "" {
		t.Errorf("it found the pack, and is told how it was made: %q", p)
	}
	for _, s := range r.c.mu.spools.oldest {
		if len(s.mu.progress) > 0 {
			t.Errorf("all have left, and %d bytes of progress are kept", len(s.mu.progress))
		}
	}
}

func TestDistinctRequestsNeverShare(t *testing.T) {
	r := newRig(t, nil)
	older := strings.TrimSpace(r.sh(nil, `git -C "$1" rev-parse main~10`, r.lease.Dir))
	var packs []string
	for _, req := range []*pkt.Request{
		r.clone(), r.clone("filter blob:none"), r.clone("deepen 1"), r.fetch("want "+older, "done"),
		r.fetch("want "+r.commit, "have "+older, "done"), r.clone("include-tag"),
	} {
		c := r.ask(req)
		r.want(c, Generated)
		r.wantPack(c)
		b := c.out.bands(t)
		packs = append(packs, strings.Join(b.lines, "")+string(b.pack))
	}
	for i := range packs {
		for j := range i {
			if packs[i] == packs[j] {
				t.Errorf("requests %d and %d got the same answer", i, j)
			}
		}
	}
	if n := r.generations(); n != len(packs) {
		t.Errorf("%d generations", n)
	}
}

// A pack is found by what it is of, not by who asked how: the mirror's refs have changed, what is wanted has not.
func TestUnequalRequestsThatNeedTheSamePackShareIt(t *testing.T) {
	r := newRig(t, nil)
	r.want(r.ask(r.clone()), Generated)
	r.lease.Generation++
	again := r.ask(r.clone())
	r.want(again, Hit)
	r.wantPack(again)
	none := strings.Repeat("1", 40)
	bogus := r.ask(r.clone("have " + none))
	r.wantPack(bogus)
	if n := r.generations(); n > 2 { // git tells pack-objects of haves even if it has not got them
		t.Errorf("%d generations", n)
	}
}

func TestARefreshedMirrorServesNewTagsAtOnce(t *testing.T) {
	r := newRig(t, nil)
	first := r.ask(r.clone("include-tag"))
	r.want(first, Generated)
	r.sh(nil, `git -C "$1" tag -a -m t v2 main`, r.lease.Dir)
	r.lease.Generation++
	second := r.ask(r.clone("include-tag"))
	r.want(second, Generated)
	if before, after := r.wantPack(first), r.wantPack(second); after != before+1 {
		t.Errorf("%d objects, then %d", before, after)
	}
}

func TestARoundOfNegotiationIsAnsweredUnderASmallPermit(t *testing.T) {
	r := newRig(t, nil)
	full := r.fill(r.o.Heavy, r.o.Quick)
	none := strings.Repeat("1", 40)
	c := r.ask(r.fetch("want "+r.commit, "have "+none))
	r.want(c, Round)
	if b := c.out.bands(t); strings.Join(b.lines, "") != "acknowledgments\nNAK\n" || !b.whole {
		t.Errorf("got %+v", b)
	}
	r.want(r.ask(r.fetch("want "+r.commit, "have "+none)), Round)
	full()
	older := strings.TrimSpace(r.sh(nil, `git -C "$1" rev-parse main~1`, r.lease.Dir))
	ready := r.ask(r.fetch("want "+r.commit, "have "+older))
	r.want(ready, Generated)
	if b := ready.out.bands(t); !strings.Contains(strings.Join(b.lines, ""), "ready\n") || r.wantPack(ready) > 5 {
		t.Errorf("got %q", b.lines)
	}
}

// What reaches pack generation in a round waits like everybody else, and holds no child meanwhile.
func TestARoundThatReachesAPackWaitsWithoutAChild(t *testing.T) {
	r := newRig(t, nil)
	full := r.fill(r.o.Heavy, r.o.Quick)
	older := strings.TrimSpace(r.sh(nil, `git -C "$1" rev-parse main~1`, r.lease.Dir))
	c := r.start(r.fetch("want "+r.commit, "have "+older), new(out))
	until(t, "it waits", func() bool { return r.o.Quick.Stats().Queued == 1 })
	if n, _ := r.o.Runner.Running(); n != 0 || r.o.Rounds.Stats().InUse != 0 {
		t.Errorf("%d children run, %d in use for rounds", n, r.o.Rounds.Stats().InUse)
	}
	full()
	r.want(c, Generated)
	r.wantPack(c)
}

func TestUploadPacksRefusalIsPassedOn(t *testing.T) {
	r := newRig(t, func(r *rig) { r.o.NoticeAfter = time.Hour })
	c := r.ask(r.fetch("want-ref refs/heads/none", "done"))
	if c.err != nil || c.res.Outcome != Refused || !strings.Contains(string(c.out.bytes()), "ERR unknown ref refs/heads/none") {
		t.Errorf("%+v, %v: %q", c.res, c.err, c.out.bytes())
	}
	// It is not remembered: the ref may come.
	r.want(r.ask(r.clone()), Generated)
}

func TestAWantThatCannotBeReadIsTheMirrorsFaultAndNotTheClients(t *testing.T) {
	r := newRig(t, func(r *rig) { r.o.NoticeAfter = time.Hour })
	c := r.ask(r.fetch("want "+strings.Repeat("1", 40), "done"))
	if c.res.Outcome != Failed || c.res.Began || !errors.As(c.err, new(*child.ExitError)) {
		t.Errorf("%+v, %v: %q", c.res, c.err, c.out.bytes())
	}
}

func TestUploadPacksFailureForWhoWasToldIsOnBand3(t *testing.T) {
	r := newRig(t, nil)
	none := strings.Repeat("1", 40)
	full := r.fill(r.o.Rounds)
	told := r.start(r.fetch("want "+none, "done"), new(out))
	until(t, "it is told of the queue", func() bool { return len(told.out.bytes()) > 30 })
	full()
	told.wait(t)
	b := told.out.bands(t)
	if told.res.Outcome != Failed || !told.res.Began || !strings.Contains(b.fatal, "the pack cannot be made") || b.whole {
		t.Errorf("%+v, %v: %+v", told.res, told.err, b)
	}
}

func TestOnlyFetchesAreServed(t *testing.T) {
	r := newRig(t, nil)
	if c := r.ask(&pkt.Request{Version: 2, Command: "ls-refs"}); c.err == nil || c.res.Began {
		t.Errorf("got %+v", c.res)
	}
}

func TestOpenEmptiesWhatAnotherProcessLeft(t *testing.T) {
	r := newRig(t, func(r *rig) {
		if err := os.MkdirAll(r.o.Dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(r.o.Dir, "1.pack"), []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
	})
	if names, _ := os.ReadDir(r.o.Dir); len(names) != 0 {
		t.Errorf("%v is left", names)
	}
	r.want(r.ask(r.clone()), Generated)
	info, err := os.Stat(filepath.Join(r.o.Dir, "1.pack"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}
