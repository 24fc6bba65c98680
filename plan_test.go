package levee

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
)

const mib = 1 << 20

// aPlan is a plan with lines of every kind that fits into 512 MiB.
func aPlan() []Line {
	return append(baseLines(),
		Line{Account: "streams", Kind: KindGo, Units: 2560, Unit: "stream", PerUnit: 24 << 10, Setting: "bazel.max_streams", Note: "Windows."},
		Line{Account: "write", Kind: KindGo, Units: 32 * mib, Unit: "byte", PerUnit: 2, Setting: "bazel.write_memory", Note: "Admitted writes."},
		Line{Account: "sockets", Kind: KindKernel, Units: 96, Unit: "connection", PerUnit: mib, Setting: "bazel.max_connections", Note: "Buffers."},
		Line{Account: "packs", Kind: KindChildren, Units: 1, Unit: "process", PerUnit: 16 * mib, Setting: "git.packers", Note: "Pack generation."},
	)
}

func TestThePlanAddsUpToTheLimit(t *testing.T) {
	p := newPlan(512*mib, aPlan())
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	var sum, live int64
	for _, l := range p.Lines {
		sum += l.Bytes
		if l.Kind == KindGo && l.Account != collectorAccount {
			live += l.Bytes
		}
	}
	if sum != p.Limit {
		t.Errorf("lines add up to %d, limit %d", sum, p.Limit)
	}
	margin := int64(512*mib) / marginParts
	if want := int64(512*mib) - 96*mib - 16*mib - processBytes - margin; p.GoMemLimit != want {
		t.Errorf("GOMEMLIMIT %d, want %d", p.GoMemLimit, want)
	}
	if p.GoLive != live || p.GoLiveMost != int64(0.55*float64(p.GoMemLimit)) {
		t.Errorf("live %d of at most %d", p.GoLive, p.GoLiveMost)
	}
}

func TestThePlanIsATableForPeople(t *testing.T) {
	const want = `memory limit 512MiB (configured), GOMEMLIMIT 350.4MiB, live Go memory 132MiB of at most 192.7MiB

account    kind         units                per unit     bytes  setting                note
runtime    go               1  process ×         8MiB      8MiB                         What packages allocate when they are initialised, stacks, and the runtime's own tables.
streams    go            2560  stream ×         24KiB     60MiB  bazel.max_streams      Windows.
write      go           32MiB  ×                   2B     64MiB  bazel.write_memory     Admitted writes.
collector  go        218.4MiB  ×                   1B  218.4MiB                         Garbage, and the room that lets the collector find it without haste.
sockets    kernel          96  connection ×      1MiB     96MiB  bazel.max_connections  Buffers.
packs      children         1  process ×        16MiB     16MiB  git.packers            Pack generation.
process    offheap          1  process ×        24MiB     24MiB                         The binary's pages, threads and page tables.
margin     offheap    25.6MiB  ×                   1B   25.6MiB                         What has no account: the kernel's tables and stacks, slab, errors of measurement.
`
	p := newPlan(512*mib, aPlan())
	p.Source = Configured
	if got := p.String(); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestAPlanThatDoesNotFitSaysWhatToLowerAndByHowMuch(t *testing.T) {
	p := newPlan(256*mib, aPlan())
	p.Source = FromGroup
	const want = `the memory plan does not fit into 256MiB (cgroup): live Go memory is 132MiB and may be 59MiB at most, 0.55 of GOMEMLIMIT (107.2MiB); lower one of these, or several in part:
  sockets  96MiB  bazel.max_connections = 96, not enough alone
  write    64MiB  bazel.write_memory = 32MiB, not enough alone
  streams  60MiB  bazel.max_streams = 2560, not enough alone
  packs    16MiB  git.packers = 1, not enough alone
or raise the memory limit to 397MiB`
	err := p.Check()
	var planErr *PlanError
	if !errors.As(err, &planErr) || err.Error() != want {
		t.Errorf("got:\n%v\nwant:\n%s", err, want)
	}
}

func TestLoweringWhatTheErrorSaysMakesThePlanFit(t *testing.T) {
	lines := aPlan()
	const limit = 352 * mib
	p := newPlan(limit, lines)
	if p.Check() == nil {
		t.Fatal("the plan fits already")
	}
	for i, l := range lines {
		if l.Setting == "" {
			continue
		}
		advice := p.remedy(PlannedLine{Line: l})
		if strings.Contains(advice, "not enough alone") {
			continue
		}
		lowered := append([]Line(nil), lines...)
		lowered[i].Units = l.Units - p.surplus(l)
		if err := newPlan(limit, lowered).Check(); err != nil {
			t.Errorf("%s: %v", advice, err)
		}
		lowered[i].Units += 2
		if l.PerUnit > 4 && newPlan(limit, lowered).Check() == nil {
			t.Errorf("%s, but less would do", advice)
		}
	}
	if err := newPlan(p.needed(), lines).Check(); err != nil {
		t.Errorf("at the limit that the error names: %v", err)
	}
	if newPlan(p.needed()-2*mib, lines).Check() == nil {
		t.Errorf("2 MiB less than the limit that the error names would do")
	}
}

func TestALimitBelowWhatIsNotGoIsRefusedWithThatReason(t *testing.T) {
	err := newPlan(64*mib, aPlan()).Check()
	if err == nil || !strings.Contains(err.Error(), "what is not Go takes 139.2MiB, which leaves nothing for Go") {
		t.Errorf("%v", err)
	}
}

func TestASettingWithTooManyNoughtsDoesNotFitByOverflowing(t *testing.T) {
	for _, kind := range []Kind{KindGo, KindKernel} {
		lines := append(aPlan(), Line{Account: "index", Kind: kind, Units: math.MaxInt64 / 50, Unit: "blob", PerUnit: 100, Setting: "store.max_blobs"})
		p := newPlan(512*mib, lines)
		err := p.Check()
		if err == nil || !strings.Contains(err.Error(), "store.max_blobs") {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

func TestPlanJSONHasBytesAsIntegers(t *testing.T) {
	text, err := json.Marshal(newPlan(512*mib, aPlan()))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		`"limit_bytes":536870912`, `"fits":true`, `"go_live_bytes":138412032`,
		`{"account":"sockets","kind":"kernel","units":96,"unit":"connection","per_unit_bytes":1048576,` +
			`"setting":"bazel.max_connections","note":"Buffers.","bytes":100663296}`,
	} {
		if !strings.Contains(string(text), part) {
			t.Errorf("no %s in %s", part, text)
		}
	}
	if strings.Contains(string(text), ".5") || strings.Contains(string(text), "e+") {
		t.Errorf("a fraction or an exponent in %s", text)
	}
}
