package privtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leveehq/levee/internal/e2e/cases"
	"github.com/leveehq/levee/internal/e2e/rig"
	bspb "google.golang.org/genproto/googleapis/bytestream"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func store(t *testing.T, c *cases.Client, size int) []byte {
	t.Helper()
	b := c.Blob(size)
	if _, err := c.WriteOnce(t.Context(), c.UploadName(b), b); err != nil {
		t.Fatal(err)
	}
	return b
}

func readOf(b []byte) *bspb.ReadRequest {
	return &bspb.ReadRequest{ResourceName: "blobs/" + cases.Name(b)}
}

// put stores the blob made of parts over HTTP.
func put(s *rig.Server, parts ...[]byte) (int, error) {
	hash, size, body := sha256.New(), 0, []io.Reader{}
	for _, p := range parts {
		hash.Write(p)
		size += len(p)
		body = append(body, bytes.NewReader(p))
	}
	req, err := http.NewRequest(http.MethodPut, fmt.Sprintf("http://%s/cas/%x", s.HTTP, hash.Sum(nil)), io.MultiReader(body...))
	if err != nil {
		return 0, err
	}
	req.ContentLength = int64(size)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 2 * time.Minute}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, nil
}

// B2: three thousand writers meet a disk of 1 MB/s that is nearly full. What the disk cannot take is shed; threads stay
// few, reads hit and metrics answer throughout, and afterwards the cache is within its limit.
func TestCaseB2ASlowDiskShedsWritesAndKeepsThreadsAndReads(t *testing.T) {
	const writers, most = 3000, 128 * mib
	d := newDisk(t, 512*mib)
	s := rig.Start(t, filepath.Join(d.dir, "data"), "--memory-limit", "512MiB", "--store-max-size", "128MiB", "--store-min-free", "1MiB",
		"--store-durability", "fsync", "--bazel-max-writes", "16", "--bazel-write-wait", "2s")
	c := cases.Connect(t, s)
	for range 120 {
		store(t, c, mib)
	}
	wanted := store(t, c, 50_000)
	fast := d.throttle(1 << 20)

	over, threads := make(chan struct{}), 0
	var watching sync.WaitGroup
	watching.Go(func() {
		for tick := time.NewTicker(50 * time.Millisecond); ; {
			select {
			case <-over:
				return
			case <-tick.C:
			}
			if got, err := c.ReadOnce(t.Context(), readOf(wanted)); err != nil || !bytes.Equal(got, wanted) {
				t.Errorf("a read of a stored blob: %d bytes, %v", len(got), err)
			}
		}
	})
	watching.Go(func() {
		for tick := time.NewTicker(time.Second); ; {
			select {
			case <-over:
				return
			case <-tick.C:
			}
			threads = max(threads, s.Threads())
			if code, _, took, err := s.Get("/metrics"); err != nil || code != http.StatusOK {
				t.Errorf("/metrics: %d after %s, %v", code, took, err)
			}
		}
	})
	var answers map[int]int
	var writing sync.WaitGroup
	writing.Go(func() { answers = burst(t, s, c, writers) })
	<-time.After(40 * time.Second) // twice as long as writers try to connect: what is left then was admitted
	fast()
	writing.Wait()
	close(over)
	watching.Wait()
	t.Logf("%v, at most %d threads", answers, threads)
	if answers[http.StatusInsufficientStorage] == 0 || answers[http.StatusOK] == 0 {
		t.Error("want some stored and some shed")
	}
	if threads == 0 || threads >= 500 {
		t.Errorf("%d threads", threads)
	}
	eventually(t, time.Minute, "the cache is within its limit", func() bool {
		total := 0.0
		for _, part := range []string{"blobs", "uploads", "unlinking"} {
			n, err := s.Metric(`levee_store_bytes{part="` + part + `"}`)
			if err != nil {
				t.Fatal(err)
			}
			total += n
		}
		return total <= most
	})
}

// burst puts n distinct blobs at once and counts the answers; 0 counts connections that were one too many.
func burst(t *testing.T, s *rig.Server, c *cases.Client, n int) map[int]int {
	t.Helper()
	var mu sync.Mutex
	answers := map[int]int{}
	shared := c.Blob(mib - 8) // by all, after a number of their own
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			own := fmt.Appendf(nil, "%08d", i)
			code, err := put(s, own, shared)
			for deadline := time.Now().Add(20 * time.Second); err != nil && time.Now().Before(deadline); <-time.After(500 * time.Millisecond) {
				code, err = put(s, own, shared)
			}
			switch code {
			case 0, http.StatusOK, http.StatusInsufficientStorage, http.StatusServiceUnavailable:
			default:
				t.Errorf("a PUT was answered %d", code)
			}
			mu.Lock()
			answers[code]++
			mu.Unlock()
		})
	}
	wg.Wait()
	return answers
}

// B11: a disk that is really full.
func TestCaseB11AFullDiskShedsWritesKeepsReadsAndNothingPartial(t *testing.T) {
	d := newDisk(t, 64*mib)
	flags := []string{"--store-max-size", "1GiB", "--store-min-free", "1", "--store-max-blobs", "10000"}
	dir := filepath.Join(d.dir, "data")
	s := rig.Start(t, dir, flags...)
	c := cases.Connect(t, s)
	var kept [][]byte
	var full error
	for range 200 {
		b := c.Blob(mib)
		if _, full = c.WriteOnce(t.Context(), c.UploadName(b), b); full != nil {
			break
		}
		kept = append(kept, b)
	}
	if status.Code(full) != codes.FailedPrecondition || !strings.Contains(full.Error(), "disk_full") {
		t.Fatalf("after %d MiB: %v", len(kept), full)
	}
	t.Logf("after %d MiB: %v", len(kept), full)
	if code, err := put(s, c.Blob(8*mib)); err != nil || code != http.StatusInsufficientStorage {
		t.Errorf("a PUT: %d, %v", code, err)
	}
	eventually(t, 20*time.Second, "nothing unfinished is on the disk", func() bool {
		left, err := os.ReadDir(filepath.Join(dir, "tmp"))
		return err == nil && len(left) == 0
	})
	readAll := func(when string) {
		for _, b := range kept {
			if got, err := c.ReadOnce(t.Context(), readOf(b)); err != nil || !bytes.Equal(got, b) {
				t.Fatalf("%s: %d bytes, %v", when, len(got), err)
			}
		}
	}
	readAll("on the full disk")
	s.Kill()
	s = rig.Start(t, dir, flags...)
	c = cases.Connect(t, s)
	readAll("after kill -9 and a restart")
	if n, err := s.Metric("levee_store_blobs"); err != nil || int(n) != len(kept) {
		t.Errorf("after the restart there are %v blobs, %v; want %d", n, err, len(kept))
	}
}

// B17 c: a directory that cannot be read is trouble, and not a cache without blobs. Root reads everything, so the server
// is somebody else.
func TestCaseB17ADirectoryThatCannotBeReadIsAnErrorAndNotAMiss(t *testing.T) {
	d := newDisk(t, 128*mib)
	const nobody = 65534
	dir := filepath.Join(d.dir, "data")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	reachable(t, d.dir)
	s := rig.StartUnder(t, []string{"setpriv", "--reuid", fmt.Sprint(nobody), "--regid", fmt.Sprint(nobody), "--clear-groups", "--pdeathsig", "KILL"}, dir)
	c := cases.Connect(t, s)
	b := store(t, c, 50_000)
	shards, err := filepath.Glob(filepath.Join(dir, "cas", "*"))
	if err != nil || len(shards) == 0 {
		t.Fatalf("%v, %v", shards, err)
	}
	for _, shard := range shards {
		if err := os.Chmod(shard, 0); err != nil {
			t.Fatal(err)
		}
	}
	resp, err := http.Get("http://" + s.HTTP + "/cas/" + cases.Hash(b))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode < 500 {
		t.Errorf("GET: %s", resp.Status)
	}
	if _, err := c.ReadOnce(t.Context(), readOf(b)); err == nil || status.Code(err) == codes.NotFound {
		t.Errorf("Read: %v", err)
	}
	for _, shard := range shards {
		if err := os.Chmod(shard, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := c.ReadOnce(t.Context(), readOf(b)); err != nil || !bytes.Equal(got, b) {
		t.Errorf("readable again: %d bytes, %v", len(got), err)
	}
}

// reachable lets everybody through the test's own directories down to dir.
func reachable(t *testing.T, dir string) {
	t.Helper()
	for ; dir != filepath.Clean(os.TempDir()) && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// O8, O10: while the disk stands still, ten thousand uploads over ten connections stay within the memory of a real group,
// the process lives and says after a while that it is not ready; when the disk moves again it is.
func TestCaseO8AStalledDiskUnderTenThousandUploadsKeepsTheMemoryBound(t *testing.T) {
	const limit = 512 * mib
	d := newDisk(t, 2<<30)
	g := newGroup(t, limit)
	s := rig.StartUnder(t, g.by(), filepath.Join(d.dir, "data"), "--store-max-size", "1GiB", "--store-min-free", "1MiB")
	thaw := d.freeze()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		r, err := rig.TryStorm(s, s.GRPC, "--scenario", "stalled", "--stalled", "10000", "--connections", "10", "--stall-after", "1MiB",
			"--stall-for", "10s", "--blob-size", "2MiB", "--duration", "60s", "--call-timeout", "60s")
		if err == nil {
			t.Logf("shed %v, failed %v, admitted %d", r.Sections[0].Shed, r.Sections[0].Failed, r.Sections[0].Admitted)
			if r.Server.RSSPeak > limit {
				err = fmt.Errorf("peak RSS %d MiB", r.Server.RSSPeak/mib)
			}
		}
		ended <- err
		cancel()
	}()
	var notReady, slow, probes atomic.Int64
	var watching sync.WaitGroup
	watching.Go(func() {
		for tick := time.NewTicker(100 * time.Millisecond); ; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			code, _, took, err := s.Get("/livez")
			if err != nil || code != http.StatusOK {
				t.Errorf("/livez: %d, %v", code, err)
			}
			if probes.Add(1); took > 100*time.Millisecond {
				slow.Add(1)
			}
			if code, _, _, err := s.Get("/readyz"); err == nil && code == http.StatusServiceUnavailable {
				notReady.Add(1)
			}
		}
	})
	eventually(t, 90*time.Second, "the server says that it is not ready", func() bool { return notReady.Load() > 0 })
	thaw()
	eventually(t, 30*time.Second, "the server is ready again", func() bool {
		code, _, _, err := s.Get("/readyz")
		return err == nil && code == http.StatusOK
	})
	if err := <-ended; err != nil {
		t.Error(err)
	}
	watching.Wait()
	t.Logf("peak RSS %d MiB, %d threads now; %d of %d probes took over 100 ms", s.PeakRSS()/mib, s.Threads(), slow.Load(), probes.Load())
	if slow.Load() > probes.Load()/20 {
		t.Errorf("%d of %d probes of /livez took over 100 ms", slow.Load(), probes.Load())
	}
	b := store(t, cases.Connect(t, s), mib)
	if code, _, _, err := s.Get("/livez"); err != nil || code != http.StatusOK || len(b) != mib {
		t.Errorf("/livez: %d, %v", code, err)
	}
}
