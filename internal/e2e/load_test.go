package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/leveehq/levee/internal/e2e/rig"
	"github.com/leveehq/levee/internal/storm"
)

const mib = 1 << 20

// kept fails the test for each promise that a storm found broken.
func kept(t *testing.T, r *storm.Report) {
	t.Helper()
	for _, p := range r.Problems() {
		t.Error(p)
	}
}

func rssAtMost(t *testing.T, r *storm.Report, most int64) {
	t.Helper()
	if r.Server.RSSPeak == 0 || r.Server.RSSPeak > most {
		t.Errorf("the server's peak RSS was %d MiB, want at most %d MiB", r.Server.RSSPeak/mib, most/mib)
	}
}

// Two thousand writes at once, in 512 MiB, with a queue that holds them all: none may be shed, and memory stays far
// below the limit. The blobs are half as large as in the nightly run, so that a busy machine stores them within the wait.
func TestTwoThousandConcurrentWritesAreAllStoredInAQuarterOfAGibibyte(t *testing.T) {
	for _, message := range []string{"16KiB", "64KiB"} {
		t.Run("messages of "+message, func(t *testing.T) {
			s := rig.Start(t, t.TempDir(), "--memory-limit", "512MiB", "--bazel-write-wait", "50s", "--bazel-write-queue", "2000")
			r := rig.Storm(t, s, "--writers", "2000", "--connections", "20", "--blob-size", "1MiB", "--message-size", message,
				"--blobs-per-writer", "1", "--duration", "2m")
			kept(t, r)
			rssAtMost(t, r, 250*mib)
			if w := r.Sections[0]; w.Offered != 2000 || w.Admitted != 2000 || len(w.Shed) != 0 {
				t.Errorf("offered %d, admitted %d, shed %v", w.Offered, w.Admitted, w.Shed)
			}
		})
	}
}

// With the default wait some may be shed, with the right code only, and what was acknowledged is there.
func TestWritesBeyondCapacityAreShedWithTheRightCodeAndNothingIsLost(t *testing.T) {
	s := rig.Start(t, t.TempDir(), "--memory-limit", "512MiB", "--bazel-write-wait", "200ms", "--bazel-max-writes", "8")
	r := rig.Storm(t, s, "--writers", "1000", "--blob-size", "1MiB", "--blobs-per-writer", "1", "--verify", "--duration", "1m")
	kept(t, r)
	rssAtMost(t, r, 250*mib)
	w := r.Sections[0]
	if len(w.Shed) == 0 || w.Retries != 0 {
		t.Errorf("nothing was shed, or it was retried: %v, %d retries", w.Shed, w.Retries)
	}
	if w.Verified != w.Admitted {
		t.Errorf("%d acknowledged, %d read back", w.Admitted, w.Verified)
	}
}

// A tenant that offers far more than there is room for must not be noticed by one that writes a little.
func TestAQuietTenantDoesNotNoticeABurstingOne(t *testing.T) {
	s := rig.Start(t, t.TempDir(), "--memory-limit", "512MiB")
	burst := make(chan error, 1)
	go func() {
		_, err := rig.TryStorm(s, s.GRPC, "--scenario", "burst", "--writers", "4000", "--connections", "40", "--blob-size", "256KiB",
			"--blobs-per-writer", "100000", "--duration", "20s")
		burst <- err
	}()
	r := rig.StormAtEase(t, s, "--scenario", "quiet", "--duration", "20s")
	if err := <-burst; err != nil {
		t.Error(err)
	}
	kept(t, r)
	if quiet := r.Sections[0]; quiet.Admitted < 10 || len(quiet.Shed) != 0 {
		t.Errorf("the quiet tenant: admitted %d, shed %v", quiet.Admitted, quiet.Shed)
	}
}

// What a user waits for after the last action: FAILED_PRECONDITION must not cost more than a fifth of UNAVAILABLE.
func TestTheUploadTailWithFailedPreconditionIsAFifthOfThatWithUnavailable(t *testing.T) {
	tail := map[string]float64{}
	for _, code := range []string{"FAILED_PRECONDITION", "UNAVAILABLE"} {
		s := rig.Start(t, t.TempDir(), "--memory-limit", "512MiB", "--bazel-shed-write-code", code,
			"--bazel-max-writes", "8", "--bazel-write-wait", "1s")
		r := rig.Storm(t, s, "--scenario", "tail", "--write-shed", code, "--stalled", "32", "--actions", "100", "--jobs", "16", "--blob-size", "1MiB")
		kept(t, r)
		tail[code] = r.Sections[0].TailSeconds
		if len(r.Sections[0].Shed) == 0 {
			t.Errorf("with %s nothing was shed", code)
		}
	}
	if tail["FAILED_PRECONDITION"] > tail["UNAVAILABLE"]/5 {
		t.Errorf("upload tails in seconds: %v", tail)
	}
}

// Each hostile client for a short while: memory stays within the plan, each account within its line, and the server
// answers. The nightly run gives them a minute each, at three memory limits.
func TestHostileClientsStayWithinTheirAccounts(t *testing.T) {
	s := rig.Start(t, t.TempDir(), "--memory-limit", "512MiB")
	r := rig.Storm(t, s, "--scenario", "hostile", "--duration", "4s", "--call-timeout", "30s", "--writers", "1000", "--stalled", "1000",
		"--readers", "1000", "--read-size", "64MiB", "--idle", "5000", "--blobs-per-writer", "2")
	kept(t, r)
	rssAtMost(t, r, 512*mib)
}

// O8: over 200 ms of round trip one upload of 64 MiB reaches 5 MB/s with a window of 2 MiB.
func TestCaseO8OneUploadOverALongLineReaches5MBPerSecond(t *testing.T) {
	s := rig.Start(t, t.TempDir(), "--memory-limit", "512MiB", "--bazel-window", "2MiB")
	line := rig.LongLine(t, s.GRPC, rig.Line{RTT: 200 * time.Millisecond})
	r := rig.StormAt(t, s, line, "--writers", "1", "--connections", "1", "--blobs-per-writer", "1", "--blob-size", "64MiB")
	kept(t, r)
	w := r.Sections[0]
	if speed := float64(w.Bytes) / w.Latency.Max.Seconds(); w.Admitted != 1 || speed < 5e6 {
		t.Errorf("admitted %d, at %.1f MB/s", w.Admitted, speed/1e6)
	}
}

// Behind a line of 20 ms that holds no more than the server's receive buffer, 500 stalled streams keep the bound.
func TestStalledStreamsOverALongLineKeepTheMemoryBound(t *testing.T) {
	s := rig.Start(t, t.TempDir(), "--memory-limit", "512MiB")
	line := rig.LongLine(t, s.GRPC, rig.Line{RTT: 20 * time.Millisecond, InFlight: 256 << 10})
	r := rig.StormAt(t, s, line, "--scenario", "stalled", "--stalled", "500", "--connections", "20", "--stall-for", "5s",
		"--stall-after", "1MiB", "--blob-size", "2MiB")
	kept(t, r)
	rssAtMost(t, r, 250*mib)
	if st := r.Sections[0]; st.Offered != 500 {
		t.Errorf("offered %d", st.Offered)
	}
}

// The command's exit status is the verdict, and wrong use is told from a broken promise.
func TestStormSaysWhatItIsThatItWillNotDo(t *testing.T) {
	for _, c := range []struct {
		name   string
		flags  []string
		status int
		text   string
	}{
		{"another machine", []string{"--target", "192.0.2.1:9092"}, 2, "not a loopback address"},
		{"nobody there", []string{"--target", "127.0.0.1:1", "--admin", ""}, 1, "no Bazel cache answers"},
		{"no such scenario", []string{"--scenario", "calm"}, 2, "--scenario must be one of"},
		{"no writers", []string{"--writers", "0"}, 2, "writers is 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, out := rig.Run(t, append([]string{"storm", "bazel"}, c.flags...)...)
			if status != c.status || !strings.Contains(out, c.text) {
				t.Errorf("exit status %d, want %d and %q in:\n%s", status, c.status, c.text, out)
			}
		})
	}
}
