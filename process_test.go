package levee

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/metrics"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leveehq/levee/internal/raceless"
)

// Some promises are about a whole process, so these tests run their binary again with a part to play.
const partEnv = "LEVEE_TEST_PART"

var parts = map[string]func() any{
	"idle":        idlePart,
	"full":        fullPart,
	"descriptors": descriptorsPart,
}

func TestMain(m *testing.M) {
	name := os.Getenv(partEnv)
	if name == "" {
		os.Exit(m.Run())
	}
	if err := json.NewEncoder(os.Stdout).Encode(parts[name]()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// play runs one part, by way of a shell command that ends in exec, and decodes its answer.
func play(t *testing.T, name, before string, answer any) {
	t.Helper()
	cmd := exec.Command("sh", "-c", before+` exec "$0"`, raceless.Binary(t))
	cmd.Env = append(os.Environ(), partEnv+"="+name)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("part %s: %v", name, err)
	}
	if err := json.Unmarshal(out, answer); err != nil {
		t.Fatalf("part %s: %v in %s", name, err, out)
	}
}

// status reads the figures of /proc/self/status in bytes, or as they are if they have no unit.
func status(names ...string) map[string]int64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		panic(err)
	}
	got := make(map[string]int64)
	for line := range strings.Lines(string(text)) {
		name, rest, _ := strings.Cut(line, ":")
		var n int64
		if _, err := fmt.Sscan(rest, &n); err != nil {
			continue
		}
		if strings.HasSuffix(line, " kB\n") {
			n <<= 10
		}
		got[name] = n
	}
	for _, name := range names {
		if _, ok := got[name]; !ok {
			panic("no " + name + " in /proc/self/status")
		}
	}
	return got
}

type idleReport struct{ OffHeap, Go int64 }

func TestTheBaseLinesCoverAnIdleProcess(t *testing.T) {
	var r idleReport
	play(t, "idle", "", &r)
	t.Logf("off-heap %d KiB, Go %d KiB", r.OffHeap>>10, r.Go>>10)
	if r.OffHeap == 0 || r.OffHeap > processBytes {
		t.Errorf("an idle process takes %d bytes off the heap, the plan says %d", r.OffHeap, processBytes)
	}
	if r.Go == 0 || r.Go > runtimeBytes {
		t.Errorf("an idle process takes %d bytes of Go memory, the plan says %d", r.Go, runtimeBytes)
	}
}

func idlePart() any {
	s := status("RssFile", "VmPTE", "Threads")
	runtime.GC()
	samples := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
		{Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/heap/unused:bytes"},
	}
	metrics.Read(samples)
	held := samples[0].Value.Uint64()
	for _, s := range samples[1:] {
		held -= s.Value.Uint64()
	}
	return idleReport{OffHeap: s["RssFile"] + s["VmPTE"] + s["Threads"]*16<<10, Go: int64(held)}
}

type fullReport struct {
	Limit, PeakRSS int64
	Live           int64
	Error          string
}

// The worst that a plan allows: every Go line full, and garbage made as fast as one can. The sum of GOMEMLIMIT, margin
// and the rest must hold it.
func TestAFullPlanWithGarbageOnTopStaysBelowItsLimit(t *testing.T) {
	var r fullReport
	play(t, "full", "", &r)
	t.Logf("%+v: peak is %.0f %% of the limit", r, 100*float64(r.PeakRSS)/float64(r.Limit))
	if r.Error != "" {
		t.Fatal(r.Error)
	}
	if r.PeakRSS > r.Limit {
		t.Errorf("resident memory rose to %d bytes, limit %d", r.PeakRSS, r.Limit)
	}
}

func fullPart() any {
	const limit = 256 * mib
	k, err := New(Options{MemoryLimit: limit})
	if err != nil {
		return fullReport{Error: err.Error()}
	}
	room := k.Plan().GoLiveMost - k.Plan().GoLive
	k.AddLine(Line{Account: "everything", Kind: KindGo, Units: room, Unit: "byte", PerUnit: 1})
	if err := k.Start(); err != nil {
		return fullReport{Error: err.Error()}
	}
	const piece = 8 << 10
	live := make([][]byte, room/piece)
	deadline := time.Now().Add(3 * time.Second)
	for i := 0; time.Now().Before(deadline); i++ {
		live[i%len(live)] = make([]byte, piece) // replacing keeps the total and makes garbage
	}
	runtime.KeepAlive(live)
	return fullReport{Limit: limit, PeakRSS: status("VmHWM")["VmHWM"], Live: room}
}

func TestStartRaisesTheSoftDescriptorLimitToTheHardOne(t *testing.T) {
	var r descriptorsReport
	play(t, "descriptors", "ulimit -Sn 100; ulimit -Hn 300;", &r)
	if r.Error != "" || r.Soft != 300 {
		t.Errorf("%+v, want a soft limit of 300", r)
	}
	if !strings.Contains(r.Refusal, "364 file descriptors may be needed at once (process 64, connections 300)") {
		t.Errorf("%q", r.Refusal)
	}
}

type descriptorsReport struct {
	Soft           uint64
	Error, Refusal string
}

func descriptorsPart() any {
	var r descriptorsReport
	// The Go runtime has raised the soft limit at start-up: as an implementation's kindness, not as a promise.
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 100, Max: 300}); err != nil {
		return descriptorsReport{Error: err.Error()}
	}
	for _, n := range []int64{200, 300} {
		k, err := New(Options{MemoryLimit: 256 * mib})
		if err != nil {
			return descriptorsReport{Error: err.Error()}
		}
		k.AddDescriptors(n, "connections")
		err = k.Start()
		switch {
		case n == 300 && err != nil:
			r.Refusal = err.Error()
		case n == 200 && err != nil:
			r.Error = err.Error()
		}
	}
	var rl syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &rl); err != nil {
		r.Error = err.Error()
	}
	r.Soft = rl.Cur
	return r
}
