package packs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leveehq/levee/gate"
	"github.com/leveehq/levee/internal/git/child"
	"github.com/leveehq/levee/internal/git/pkt"
)

// Which lane a request takes follows from what it wants, not from its shape: the other one is full, and it does not notice.
func TestTheLaneFollowsFromTypesAndReachableSize(t *testing.T) {
	r := newRig(t, func(r *rig) { r.o.NoticeAfter = time.Hour })
	rev := func(s string) string {
		return strings.TrimSpace(r.sh(nil, `git -C "$1" rev-parse "$2"`, r.lease.Dir, s))
	}
	none := strings.Repeat("1", 40)
	many := []string{"have " + none, "done"}
	for _, b := range r.blobs {
		many = append(many, "want "+b)
	}
	for _, c := range []struct {
		name  string
		req   *pkt.Request
		quick bool
	}{
		{"a clone", r.clone(), false},
		{"a clone with a bogus have", r.clone("have " + none), false},
		{"a partial clone", r.clone("filter blob:none"), false},
		{"a tag", r.fetch("want "+rev("v1"), "done"), false},
		{"a mirror's fetch by name", r.fetch("want-ref refs/heads/main", "done"), false},
		{"an incremental fetch", r.fetch("want "+r.commit, "have "+rev("main~3"), "done"), true},
		{"a lazy fetch of two blobs", r.fetch("want "+r.blobs[0], "want "+r.blobs[1], "filter blob:none", "done"), true},
		{"many blobs and a have", r.fetch(many...), true},
		{"a tree", r.fetch("want "+rev("main:d3"), "done"), true},
		{"one commit of depth 1", r.clone("deepen 1"), true},
		{"deeper", r.clone("deepen 5"), true},
		{"very deep", r.clone("deepen 90"), false},
		{"since a day", r.clone("deepen-since 1000000050"), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			full := r.o.Heavy
			if !c.quick {
				full = r.o.Quick
			}
			defer r.fill(full)()
			if got := r.ask(c.req); got.err != nil || got.res.Predicted < r.o.QuickSlot || (got.res.Predicted < r.o.Slot) != c.quick {
				t.Errorf("%+v, %v", got.res, got.err)
			}
		})
	}
}

// What a clone takes is foretold from the number of objects, before one was made.
func TestACloneTakesNoMoreThanWasPredicted(t *testing.T) {
	for _, bitmap := range []bool{true, false} {
		t.Run(fmt.Sprintf("bitmap=%v", bitmap), func(t *testing.T) {
			r := newRig(t, func(r *rig) {
				r.o.Slot, r.o.Heavy = 8*mib, r.gate("git_packs", 256*mib)
				r.o.QuickSlot, r.o.Quick = 2*mib, r.gate("git_quick", 4*mib)
				r.makeRepository(5000, 10)
				r.lease.Objects = 20_000
			})
			if !bitmap {
				r.sh(nil, `rm "$1"/objects/pack/*.bitmap`, r.lease.Dir)
			}
			c := r.ask(r.clone())
			r.want(c, Generated)
			if n := r.wantPack(c); n < 15_000 {
				t.Fatalf("%d objects", n)
			}
			t.Logf("predicted %d KiB, measured %d KiB", c.res.Predicted>>10, c.res.Measured>>10)
			if c.res.Measured > c.res.Predicted {
				t.Error("it took more")
			}
		})
	}
}

// A have that exists but shares little makes nothing quick.
func TestAnOldHaveDoesNotMakeACloneQuick(t *testing.T) {
	r := newRig(t, func(r *rig) { r.o.QuickSlot = 200 * quickPerObject })
	old := strings.TrimSpace(r.sh(nil, `git -C "$1" rev-parse main~90`, r.lease.Dir))
	defer r.fill(r.o.Quick)()
	r.want(r.ask(r.fetch("want "+r.commit, "have "+old, "done")), Generated)
}

func TestARepositoryThatIsSmallIsQuickToClone(t *testing.T) {
	r := newRig(t, func(r *rig) { r.lease.Objects = 500 })
	defer r.fill(r.o.Heavy)()
	r.want(r.ask(r.clone()), Generated)
}

func TestWhatIsLargerThanAllMayHaveIsNamed(t *testing.T) {
	r := newRig(t, func(r *rig) { r.lease.Objects = 1_000_000_000 * 10 })
	c := r.ask(r.clone())
	var large *TooLarge
	if !errors.As(c.err, &large) || !errors.Is(c.err, gate.ErrShed) || c.res.Outcome != Refused || c.res.Began {
		t.Fatalf("%+v, %v", c.res, c.err)
	}
	if large.Repo != "h.example/a" || !strings.Contains(c.err.Error(), "git.memory") {
		t.Errorf("got %v", c.err)
	}
}

func TestPredictionsFollowWhatWasMeasured(t *testing.T) {
	h := newHistory()
	k, other := peakKey{"a", "clone"}, peakKey{"b", "clone"}
	if n := h.predict(k, 100, 77); n != 77 {
		t.Errorf("without a run: %d", n)
	}
	h.note(k, 1000, 100)
	if n := h.predict(k, 100, 77); n != 1250 {
		t.Errorf("after one: %d", n)
	}
	if n := h.predict(k, 300, 77); n != 3750 {
		t.Errorf("for a repository three times as large: %d", n)
	}
	h.note(k, 200, 100)
	if n := h.predict(k, 100, 77); n != 1000 {
		t.Errorf("a lower peak must count by and by: %d", n)
	}
	if n := h.predict(other, 100, 77); n != 77 {
		t.Errorf("of another repository: %d", n)
	}
	for i := range maxPeaks + 10 {
		h.note(peakKey{"x", string(rune(i))}, 1, 1)
	}
	if n := h.mu.peaks.len(); n > maxPeaks {
		t.Errorf("%d are remembered", n)
	}
}

// G8: a generation that meets its limit is tried again with more, as long as nobody has a byte of it.
func TestG8AGenerationThatRunsOutOfMemoryIsTriedAgainWithMore(t *testing.T) {
	r := newRig(t, nil)
	r.mark("oom", "")
	text, err := os.ReadFile(filepath.Join(r.dir, "git"))
	if err != nil {
		t.Fatal(err)
	}
	broken := strings.Replace(string(text), "\techo", `	if [ -e `+r.dir+`/oom ]; then
		rm `+r.dir+`/oom
		echo "fatal: Out of memory, malloc failed (tried to allocate 9 bytes)" >&2
		exit 128
	fi
	echo`, 1)
	if err := os.WriteFile(filepath.Join(r.dir, "git"), []byte(broken), 0o755); err != nil {
		t.Fatal(err)
	}
	c := r.ask(r.clone())
	r.want(c, Generated)
	r.wantPack(c)
	if c.res.Predicted != 2*r.o.Slot {
		t.Errorf("planned with %d", c.res.Predicted)
	}
	var exit *child.ExitError
	if errors.As(c.err, &exit) {
		t.Error(exit)
	}
}

func TestWhatAPlanSaysIsReadWithDistrust(t *testing.T) {
	for text, ok := range map[string]bool{
		"2\x00git\x00pack-objects\x00--not\nabc\n\x00": true,
		"1\x00git\x00\x00":     true,
		"":                     false,
		"2\x00git\x00":         false,
		"2\x00git\x00pack":     false,
		"1\x00git\x00no end":   false,
		"x\x00":                false,
		"-1\x00":               false,
		"99999999\x00git\x00x": false,
	} {
		if _, _, err := hear(strings.NewReader(text), 1000); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, _, err := hear(strings.NewReader("1\x00"+strings.Repeat("x", 2000)), 1000); err == nil {
		t.Error("there is no bound")
	}
}

func FuzzHear(f *testing.F) {
	f.Add("2\x00git\x00pack-objects\x00--not\nabc\n\x00")
	f.Add("3\x00git\x00\x00a\x00b\x00")
	f.Fuzz(func(t *testing.T, text string) {
		args, input, err := hear(strings.NewReader(text), 100)
		if err == nil && (len(args) == 0 || len(text) > 101 || strings.ContainsRune(string(input), 0)) {
			t.Errorf("%q: %q, %q", text, args, input)
		}
	})
}
