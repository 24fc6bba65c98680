package storm

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// small is a run that a test has time for.
func small(target, scenario string) BazelOptions {
	o := DefaultBazelOptions()
	o.Target, o.Scenario = target, scenario
	o.Writers, o.Connections, o.BlobsPerWriter, o.BlobSize = 8, 2, 2, 40_000
	o.Duration, o.CallTimeout = 10*time.Second, 10*time.Second
	o.Stalled, o.StallAfter, o.StallFor = 4, 16<<10, 50*time.Millisecond
	o.Readers, o.ReadSize, o.ReadRate = 4, 100_000, 10<<20
	o.Actions, o.Jobs, o.ActionTime = 20, 4, 5*time.Millisecond
	o.Idle = 20
	o.Verify = true
	return o
}

func mustRun(t *testing.T, o BazelOptions) *Report {
	t.Helper()
	r, err := Bazel(t.Context(), o, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestEveryBlobIsUniqueAndHashesToItsName(t *testing.T) {
	s := newSource(1)
	seen := map[string]bool{}
	for _, size := range []int64{8, 31, 32, 33, 4096, 100_001} {
		for range 3 {
			b := s.next(size)
			whole := b.bytes()
			if sum := sha256.Sum256(whole); sum != b.hash {
				t.Fatalf("a blob of %d bytes does not hash to its name", size)
			}
			if seen[b.hex()] {
				t.Fatalf("a blob of %d bytes came twice", size)
			}
			seen[b.hex()] = true
			part := make([]byte, size-3)
			b.readAt(part, 3)
			if !bytes.Equal(part, whole[3:]) {
				t.Fatalf("bytes from 3 on of a blob of %d bytes differ from the whole", size)
			}
		}
	}
}

func TestTheHistogramIsRightToWithinOnePartIn32(t *testing.T) {
	var h histogram
	for i := 1; i <= 10_000; i++ {
		h.add(time.Duration(i) * 100 * time.Microsecond)
	}
	for q, want := range map[float64]time.Duration{0.5: 500 * time.Millisecond, 0.9: 900 * time.Millisecond, 0.99: 990 * time.Millisecond} {
		if got := h.quantile(q); got < want || got > want+want/32 {
			t.Errorf("quantile %g is %s, want %s to within 1/32", q, got, want)
		}
	}
	if l := h.latency(); l.Max != time.Second || l.N != 10_000 {
		t.Errorf("max %s of %d", l.Max, l.N)
	}
}

func TestTheLadderIsBazels(t *testing.T) {
	l := newLadder(7)
	want := []time.Duration{100, 200, 400, 800, 1600, 3200, 5000}
	for i, w := range want {
		got, again := l.next(codes.Unavailable)
		if mid := w * time.Millisecond; !again || got < mid*9/10 || got > mid*11/10 {
			t.Errorf("pause %d is %s, want %s ± 10 %%", i, got, mid)
		}
	}
	if _, again := l.next(codes.Unavailable); again {
		t.Error("an eighth retry of seven")
	}
	if _, again := newLadder(5).next(codes.FailedPrecondition); again {
		t.Error("FAILED_PRECONDITION is permanent to Bazel")
	}
}

func TestOnlyLoopbackIsEverLoaded(t *testing.T) {
	for _, target := range []string{"10.0.0.1:9092", "cache.example.com:9092", "0.0.0.0:9092", "[2001:db8::1]:9092", "127.0.0.1", "127.0.0.1:0"} {
		o := small(target, "writers")
		_, err := Bazel(t.Context(), o, nil)
		var usage *UsageError
		if !errors.As(err, &usage) {
			t.Errorf("target %s: %v, want a usage error", target, err)
		}
	}
	for _, target := range []string{"127.0.0.1:9092", "127.9.9.9:1", "[::1]:9092", "localhost:9092"} {
		if err := loopback("target", target); err != nil {
			t.Error(err)
		}
	}
}

func TestWritersComeFromAsManyAddressesAsAreAskedFor(t *testing.T) {
	f := &fakeCache{}
	o := small(startFake(t, f), "writers")
	o.Addresses, o.Connections, o.Writers = 3, 6, 12
	if r := mustRun(t, o); r.ExitStatus() != ExitOK {
		t.Fatalf("broken: %q", r.Problems())
	}
	for _, from := range []string{"127.0.0.2", "127.0.0.3", "127.0.0.4"} {
		if !f.mu.peers[from] {
			t.Errorf("nothing came from %s: %v", from, f.mu.peers)
		}
	}
	o.Target = "[::1]:9092"
	var usage *UsageError
	if _, err := Bazel(t.Context(), o, nil); !errors.As(err, &usage) {
		t.Errorf("an IPv6 target with IPv4 sources: %v, want a usage error", err)
	}
}

func TestAHealthyCacheKeepsEveryPromise(t *testing.T) {
	for _, scenario := range []string{"writers", "stalled", "readers", "tenants", "burst", "quiet", "tail"} {
		t.Run(scenario, func(t *testing.T) {
			f := &fakeCache{}
			o := small(startFake(t, f), scenario)
			o.Admin = fakeAdmin(t, 500_000, 4096)
			if scenario == "quiet" {
				o.Duration = time.Second / 2 // it ends with the time only
			}
			r := mustRun(t, o)
			if r.ExitStatus() != ExitOK {
				t.Fatalf("broken: %q", r.Problems())
			}
			s := r.Sections[0]
			if s.Offered == 0 || s.Admitted != s.Offered || s.Verified != s.Offered {
				t.Errorf("offered %d, admitted %d, verified %d", s.Offered, s.Admitted, s.Verified)
			}
			if s.Memory == nil || s.Memory.RSSPeak != 500_000 || s.Memory.Accounts["write"] != 4096 {
				t.Errorf("memory %+v", s.Memory)
			}
			switch scenario {
			case "tenants":
				if !f.mu.peers[burstAddress] || !f.mu.peers[quietAddress] {
					t.Errorf("the tenants came from %v", f.mu.peers)
				}
			case "tail":
				if f.results.Load() != uint64(o.Actions) {
					t.Errorf("%d results of %d actions", f.results.Load(), o.Actions)
				}
			}
		})
	}
}

func TestShedsAreCountedByCodeAndReasonAndRetriedOnlyAsBazelDoes(t *testing.T) {
	everySecond := func(code codes.Code) func(uint64) error {
		return func(n uint64) error {
			if n%2 == 0 {
				return shedError(code, "timeout")
			}
			return nil
		}
	}
	f := &fakeCache{onWrite: everySecond(codes.FailedPrecondition)}
	r := mustRun(t, small(startFake(t, f), "writers"))
	s := r.Sections[0]
	if r.ExitStatus() != ExitOK || s.Offered != 16 || s.Admitted != 8 || s.Retries != 0 {
		t.Fatalf("%+v, broken %q", s, r.Problems())
	}
	if len(s.Shed) != 1 || s.Shed[0] != (Outcome{Code: "FAILED_PRECONDITION", Gate: "write", Reason: "timeout", Count: 8}) {
		t.Errorf("shed %+v", s.Shed)
	}

	f = &fakeCache{onWrite: everySecond(codes.Unavailable)}
	o := small(startFake(t, f), "writers")
	o.WriteShed = "UNAVAILABLE"
	r = mustRun(t, o)
	if s := r.Sections[0]; s.Retries == 0 || r.ExitStatus() != ExitOK {
		t.Errorf("retries %d, broken %q", s.Retries, r.Problems())
	}
}

func TestBrokenPromisesAreFoundAndDecideTheExitStatus(t *testing.T) {
	for _, c := range []struct {
		name, want string
		fake       *fakeCache
		rss, inUse int64
	}{
		{name: "wrong code", want: "answered UNAVAILABLE instead of FAILED_PRECONDITION", fake: &fakeCache{onWrite: func(uint64) error { return shedError(codes.Unavailable, "timeout") }}},
		{name: "lost blob", want: "an acknowledged blob is not served", fake: &fakeCache{forget: true}},
		{name: "wrong bytes", want: "wrong bytes were served", fake: &fakeCache{corrupt: true}},
		{name: "failure", want: "without being shed: INTERNAL", fake: &fakeCache{onWrite: func(uint64) error { return status.Error(codes.Internal, "disk") }}},
		{name: "resident set", want: "resident set reached", fake: &fakeCache{}, rss: 2_000_000},
		{name: "account", want: "account write held", fake: &fakeCache{}, inUse: 5000},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := small(startFake(t, c.fake), "writers")
			o.Admin = fakeAdmin(t, c.rss, c.inUse)
			o.Retries = 1
			r := mustRun(t, o)
			if r.ExitStatus() != ExitBroken || !strings.Contains(strings.Join(r.Problems(), "\n"), c.want) {
				t.Errorf("broken promises %q, want one with %q", r.Problems(), c.want)
			}
		})
	}
}

func TestAQuietTenantThatIsShedIsABrokenPromise(t *testing.T) {
	f := &fakeCache{onWrite: func(n uint64) error { return shedError(codes.FailedPrecondition, "queue_full") }}
	r := mustRun(t, small(startFake(t, f), "tenants"))
	if !strings.Contains(strings.Join(r.Problems(), "\n"), "quiet tenant were shed") {
		t.Errorf("broken promises %q", r.Problems())
	}
}

func TestARunEndsInTime(t *testing.T) {
	f := &fakeCache{}
	o := small(startFake(t, f), "writers")
	o.BlobsPerWriter, o.Duration, o.Verify = 1_000_000, 200*time.Millisecond, false
	began := time.Now()
	mustRun(t, o)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("a run of 200 ms took %s", took)
	}
}

func TestARunThatIsCancelledSaysSo(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f := &fakeCache{onWrite: func(uint64) error { cancel(); <-ctx.Done(); return status.Error(codes.Canceled, "") }}
	if _, err := Bazel(ctx, small(startFake(t, f), "writers"), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestTheReportIsJSONAndText(t *testing.T) {
	f := &fakeCache{}
	o := small(startFake(t, f), "writers")
	o.Admin = fakeAdmin(t, 1, 1)
	var progress, text, doc bytes.Buffer
	r, err := Bazel(t.Context(), o, &progress)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.WriteText(&text), r.WriteJSON(&doc)); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), "ok: every promise was kept") || !strings.Contains(text.String(), "write timeout: ") || strings.Contains(text.String(), "write closed") {
		t.Errorf("text:\n%s", text.String())
	}
	var back Report
	if err := json.Unmarshal(doc.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	if s := back.Sections[0]; s.Offered != 16 || s.Latency.N != 16 || s.Latency.P99 <= 0 {
		t.Errorf("JSON:\n%s", doc.String())
	}
}

func TestTheOptionsAreAKongCommand(t *testing.T) {
	var cli struct {
		Bazel BazelOptions `cmd:""`
	}
	p, err := kong.New(&cli, Vars(), kong.Exit(func(int) {}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Parse([]string{"bazel", "--scenario=hostile", "--blob-size=1MiB", "--no-retry"}); err != nil {
		t.Fatal(err)
	}
	if cli.Bazel.Retry || cli.Bazel.BlobSize != 1<<20 || cli.Bazel.Scenario != "hostile" || cli.Bazel.Writers != 200 {
		t.Errorf("%+v", cli.Bazel)
	}
	if _, err := p.Parse([]string{"bazel", "--scenario=nonsense"}); err == nil {
		t.Error("a scenario that does not exist was accepted")
	}
}
