package nightly

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leveehq/levee/internal/e2e/rig"
	"github.com/leveehq/levee/internal/storm"
)

const (
	mib = 1 << 20
	gib = 1 << 30
)

func kept(t *testing.T, r *storm.Report) {
	t.Helper()
	for _, p := range r.Problems() {
		t.Error(p)
	}
}

// Two thousand writes of 2 MiB at once in 512 MiB: none is shed, and memory stays below 250 MiB.
func TestTwoThousandConcurrentWritesOf2MiBAreAllStoredInAQuarterOfAGibibyte(t *testing.T) {
	for _, message := range []string{"16KiB", "64KiB"} {
		t.Run("messages of "+message, func(t *testing.T) {
			s := rig.Start(t, t.TempDir(), "--memory-limit", "512MiB", "--bazel-write-wait", "50s", "--bazel-write-queue", "2000")
			r := rig.Storm(t, s, "--writers", "2000", "--connections", "20", "--blob-size", "2MiB", "--message-size", message,
				"--blobs-per-writer", "1", "--duration", "2m", "--verify")
			kept(t, r)
			if w := r.Sections[0]; w.Admitted != 2000 || w.Verified != 2000 || len(w.Shed) != 0 {
				t.Errorf("admitted %d, read back %d, shed %v", w.Admitted, w.Verified, w.Shed)
			}
			if r.Server.RSSPeak > 250*mib {
				t.Errorf("the peak RSS was %d MiB", r.Server.RSSPeak/mib)
			}
		})
	}
}

// O10: at five times the load that there is room for, each probe of /livez is answered within 100 ms. The machine has to
// be otherwise idle.
func TestCaseO10EachProbeIsAnsweredWithin100Milliseconds(t *testing.T) {
	s := rig.Start(t, t.TempDir(), "--memory-limit", "512MiB")
	ended := make(chan error, 1)
	go func() {
		_, err := rig.TryStorm(s, s.GRPC, "--writers", "2000", "--connections", "20", "--blob-size", "256KiB",
			"--blobs-per-writer", "100000", "--duration", "60s")
		ended <- err
	}()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
			return
		case <-tick.C:
		}
		began := time.Now()
		resp, err := http.Get("http://" + s.Admin + "/livez")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if took := time.Since(began); resp.StatusCode != http.StatusOK || took > 100*time.Millisecond {
			t.Errorf("/livez: %s after %s", resp.Status, took)
		}
	}
}

// sample is one look at the server under load.
type sample struct {
	rss  int64
	held int // permits of the write gate
}

// watch samples s each second until the func returned is called.
func watch(t *testing.T, s *rig.Server) (stop func() []sample) {
	t.Helper()
	quit, done := make(chan struct{}), make(chan struct{})
	var samples []sample
	go func() {
		defer close(done)
		for tick := time.NewTicker(time.Second); ; {
			select {
			case <-quit:
				return
			case <-tick.C:
			}
			var st struct {
				Gates []struct {
					Name string `json:"name"`
					Held int    `json:"held"`
				} `json:"gates"`
			}
			if err := s.Status(&st); err != nil {
				t.Error(err)
				return
			}
			now := sample{rss: s.RSS()}
			for _, g := range st.Gates {
				if g.Name == "write" {
					now.held = g.Held
				}
			}
			samples = append(samples, now)
		}
	}()
	return func() []sample {
		close(quit)
		<-done
		return samples
	}
}

// Five minutes of 4000 streams against a gate of 2500, and then of 8000, which the door holds.
func TestFourThousandStreamsForFiveMinutesStayUnderAGibibyte(t *testing.T) {
	s := rig.Start(t, t.TempDir(), "--memory-limit", "8GiB", "--store-max-size", "10GiB", "--bazel-window", "256KiB",
		"--bazel-max-writes", "2500", "--bazel-max-streams", "6000", "--bazel-write-queue", "1000") // a short queue: a fast disk would serve 1500 waiters in time
	var flat int64
	for _, offered := range []int{4000, 8000} {
		stop, probes := watch(t, s), probe(t, s)
		// From one address the gate would not be full: part of it is kept for others.
		r := rig.Storm(t, s, "--writers", strconv.Itoa(offered), "--connections", "100", "--addresses", "4", "--blob-size", "256KiB",
			"--blobs-per-writer", "1000000", "--duration", "5m", "--call-timeout", "60s")
		samples := stop()
		kept(t, r)
		pinned, sheds := 0, len(r.Sections[0].Shed)
		for _, sm := range samples {
			if sm.held == 2500 {
				pinned++
			}
		}
		if sheds == 0 || pinned < len(samples)/2 {
			t.Errorf("void: with %d streams nothing was shed, or the gate was full in only %d of %d seconds", offered, pinned, len(samples))
		}
		peak := r.Server.RSSPeak
		if peak > gib {
			t.Errorf("with %d streams the peak RSS was %d MiB", offered, peak/mib)
		}
		if flat > 0 && peak > flat+flat/10 {
			t.Errorf("the peak RSS grew from %d to %d MiB when the offered load doubled", flat/mib, peak/mib)
		}
		flat = peak
		if early, late := meanRSS(samples[len(samples)/5:2*len(samples)/5]), meanRSS(samples[4*len(samples)/5:]); late > early+early/10 {
			t.Errorf("RSS is not flat in time: %d MiB after a minute, %d MiB at the end", early/mib, late/mib)
		}
		if p99 := probes(); p99 > 250*time.Millisecond {
			t.Errorf("/readyz p99 was %s", p99)
		}
	}
	if n := closeWait(t, s.PID()); n > 0 {
		t.Errorf("%d sockets are left in CLOSE-WAIT", n)
	}
}

// probe asks /readyz ten times a second, from a process that does not offer the load: the generator's own probes wait for
// the generator. The func returned ends it and tells the p99.
func probe(t *testing.T, s *rig.Server) (stop func() time.Duration) {
	t.Helper()
	quit, done := make(chan struct{}), make(chan struct{})
	var took []time.Duration
	go func() {
		defer close(done)
		for tick := time.NewTicker(100 * time.Millisecond); ; {
			select {
			case <-quit:
				return
			case <-tick.C:
			}
			began := time.Now()
			resp, err := http.Get("http://" + s.Admin + "/readyz")
			if err != nil {
				t.Error(err)
				continue
			}
			resp.Body.Close()
			took = append(took, time.Since(began))
		}
	}()
	return func() time.Duration {
		close(quit)
		<-done
		slices.Sort(took)
		return took[len(took)*99/100]
	}
}

func meanRSS(samples []sample) int64 {
	var sum int64
	for _, s := range samples {
		sum += s.rss
	}
	return sum / int64(max(len(samples), 1))
}

// closeWait counts the sockets of the process's network name space in state CLOSE-WAIT (08) that belong to pid.
func closeWait(t *testing.T, pid int) (n int) {
	t.Helper()
	inodes := map[string]bool{}
	for _, table := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) > 9 && f[3] == "08" {
				inodes["socket:["+f[9]+"]"] = true
			}
		}
	}
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if target, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, fd.Name())); err == nil && inodes[target] {
			n++
		}
	}
	return n
}

// All hostile clients at once stay under the limit. Whether each account is what its own adversary needs is
// TestEachAccountOfThePlanTakesWhatItSays's.
func TestAllHostileClientsAtOnceStayUnderTheLimit(t *testing.T) {
	for _, limit := range []string{"512MiB", "1GiB", "4GiB"} {
		t.Run(limit, func(t *testing.T) { together(t, rig.Start(t, t.TempDir(), "--memory-limit", limit)) })
	}
}

// hostile is the size of each hostile scenario: the figures of the acceptance.
var hostile = []string{"--duration", "60s", "--connections", "40", "--writers", "4000", "--stalled", "4000", "--stall-after", "1MiB",
	"--readers", "1000", "--read-size", "64MiB", "--idle", "5000"}

// together runs all hostile clients at once. They keep each other out: one that finds every connection or permit taken by
// the others, and so has nothing to report, is as it should be, unless that happens to most.
func together(t *testing.T, s *rig.Server) {
	t.Helper()
	var wg sync.WaitGroup
	names := []string{"tiny-frames", "endless", "batches", "bombs", "idle", "stalled-uploads", "slow-readers", "rapid-reset", "ping-flood", "header-flood"}
	errs := make([]error, len(names))
	for i, name := range names {
		wg.Go(func() { _, errs[i] = rig.TryStorm(s, s.GRPC, append([]string{"--scenario", name}, hostile...)...) })
	}
	wg.Wait()
	in := 0
	for i, err := range errs {
		if err == nil {
			in++
		} else {
			t.Logf("%s: %v", names[i], err)
		}
	}
	if in <= len(names)/2 {
		t.Errorf("only %d of %d hostile clients got in", in, len(names))
	}
	var st struct {
		Plan struct {
			Limit int64 `json:"limit_bytes"`
		}
	}
	if err := s.Status(&st); err != nil {
		t.Fatal(err)
	}
	if peak := s.PeakRSS(); peak == 0 || peak > st.Plan.Limit {
		t.Errorf("peak RSS %d MiB of a limit of %d MiB", peak/mib, st.Plan.Limit/mib)
	}
	if code, _, _, err := s.Get("/readyz"); err != nil || code != 200 {
		t.Errorf("/readyz after the attack: %d, %v", code, err)
	}
}
