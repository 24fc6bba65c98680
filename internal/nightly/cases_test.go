package nightly

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leveehq/levee/internal/e2e/cases"
	"github.com/leveehq/levee/internal/e2e/rig"
	"github.com/leveehq/levee/internal/storm"
	bspb "google.golang.org/genproto/googleapis/bytestream"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// until polls for a condition.
func until(t *testing.T, within time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !ok(); <-time.After(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", within, what)
		}
	}
}

func dial(t *testing.T, s *rig.Server) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+s.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithInitialWindowSize(64<<10), grpc.WithInitialConnWindowSize(64<<10))
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// B8: ten thousand compressed uploads end after their first 64 KiB, by cancel, by a closed connection, by garbage.
func TestCaseB8TenThousandAbortedCompressedUploadsLeaveNothing(t *testing.T) {
	const uploads, workers = 10_000, 16
	dir := t.TempDir()
	s := rig.Start(t, dir, "--memory-limit", "512MiB")
	c, err := cases.New(s)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	b := c.Blob(64 * mib)
	frame := cases.Compress(b)
	blob := "/compressed-blobs/zstd/" + cases.Name(b) // hashed once
	compressed := func() string { return "uploads/" + cases.Hash(c.For(0).Blob(8))[:32] + blob }
	small := c.Blob(100_000)
	if _, err := c.WriteOnce(t.Context(), c.UploadName(small), small); err != nil { // everything is warm
		t.Fatal(err)
	}
	goroutines := func() float64 {
		n, err := s.Metric("go_goroutines")
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before, open := goroutines(), s.OpenFiles()
	var next atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		conn := dial(t, s)
		defer conn.Close()
		wg.Go(func() {
			for i := next.Add(1); i <= uploads; i = next.Add(1) {
				if err := abort(t, s, conn, compressed(), frame, int(i)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	until(t, 30*time.Second, "goroutines and files are as before", func() bool {
		return goroutines() <= before*1.1+workers*4 && s.OpenFiles() <= open+open/10+workers
	})
	until(t, 30*time.Second, "no temporary file is left", func() bool {
		left, err := os.ReadDir(filepath.Join(dir, "tmp"))
		return err == nil && len(left) == 0
	})
	if at, err := c.WriteOnce(t.Context(), compressed(), frame); err != nil || at != -1 && at != int64(len(frame)) {
		t.Errorf("the next one: committed %d, %v", at, err)
	}
}

// abort begins an upload and ends it in one of three ways.
func abort(t *testing.T, s *rig.Server, conn *grpc.ClientConn, name string, frame []byte, i int) error {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if i%3 == 1 {
		conn = dial(t, s)
		defer conn.Close()
	}
	data := frame[:64<<10]
	if i%3 == 2 {
		data = append(bytes.Clone(frame[:1<<10]), bytes.Repeat([]byte("garbage!"), 8<<10)...)
	}
	w, err := bspb.NewByteStreamClient(conn).Write(ctx)
	if err == nil {
		err = w.Send(&bspb.WriteRequest{ResourceName: name, Data: data})
	}
	if err != nil || i%3 != 2 {
		return err // and cancel, or close
	}
	w.Send(&bspb.WriteRequest{WriteOffset: int64(len(data)), Data: data}) // or it has its answer
	if err := w.RecvMsg(new(bspb.WriteResponse)); status.Code(err) != codes.InvalidArgument {
		return fmt.Errorf("garbage was answered %w", err)
	}
	return nil
}

// O8: with the default settings a reader that stops reading is cut after a minute, and not long before.
func TestCaseO8AReaderThatStopsForAMinuteIsCut(t *testing.T) {
	s := rig.Start(t, t.TempDir(), "--memory-limit", "512MiB")
	c, err := cases.New(s)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	b := c.Blob(64 * mib)
	if _, err := c.WriteOnce(t.Context(), c.UploadName(b), b); err != nil {
		t.Fatal(err)
	}
	conn := dial(t, s)
	defer conn.Close()
	st, err := bspb.NewByteStreamClient(conn).Read(t.Context(), &bspb.ReadRequest{ResourceName: "blobs/" + cases.Name(b)})
	if err == nil {
		_, err = st.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	stopped := time.Now()
	inUse := func(gate string) float64 {
		n, err := s.InUse(gate)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	until(t, 30*time.Second, "it holds its place and no permit", func() bool { return inUse("streams") == 1 && inUse("read") == 0 })
	until(t, 90*time.Second, "its place is free", func() bool { return inUse("streams") == 0 })
	if took := time.Since(stopped); took < 50*time.Second || took > 75*time.Second {
		t.Errorf("it was cut after %s", took)
	}
	for err == nil {
		_, err = st.Recv()
	}
	if err == io.EOF {
		t.Error("the reader was told that it has all")
	}
}

// O6: at five times the load that fills the server, from clients that come back when they are shed, it stores at least four
// fifths of what it can. Rounds take turns and the best of each counts: what else the machine does hits any of them.
func TestCaseO6GoodputHoldsAtFiveTimesTheLoad(t *testing.T) {
	const code = "RESOURCE_EXHAUSTED"
	s := rig.Start(t, t.TempDir(), "--memory-limit", "512MiB", "--bazel-max-writes", "40", "--bazel-write-queue", "40",
		"--bazel-write-wait", "500ms", "--bazel-shed-write-code", code)
	best, shed := map[int]float64{}, false
	for range 3 {
		for _, writers := range []int{40, 200} {
			r := rig.Storm(t, s, "--writers", strconv.Itoa(writers), "--connections", "20", "--blob-size", "256KiB", "--write-shed", code,
				"--blobs-per-writer", "1000000", "--duration", "10s")
			kept(t, r)
			best[writers] = max(best[writers], r.Sections[0].BytesPerSecond)
			shed = shed || writers == 200 && len(r.Sections[0].Shed) > 0
		}
	}
	t.Logf("%.1f MB/s at five times the load that gives %.1f MB/s", best[200]/1e6, best[40]/1e6)
	if !shed {
		t.Error("void: nothing was shed")
	}
	if best[200] < best[40]*8/10 {
		t.Error("that is less than four fifths")
	}
}

// sizes are the two servers whose defaults are held to a ramp. The second believes in more processors than there are.
var sizes = []struct{ limit, processors string }{{"512MiB", "2"}, {"4GiB", "16"}}

// rampStore spares the disk; what memory is planned for does not depend on it.
const rampStore = "1GiB"

// O7: with the defaults, ramps of small and of the largest requests end within the memory limit; then the server is killed
// under full load, and the next one serves under it within a minute and stays.
func TestCaseO7DefaultsHoldARampAndAKillUnderLoad(t *testing.T) {
	for _, size := range sizes {
		t.Run(size.limit, func(t *testing.T) {
			dir, by := t.TempDir(), []string{"env", "GOMAXPROCS=" + size.processors}
			s := rig.StartUnder(t, by, dir, "--memory-limit", size.limit, "--store-max-size", rampStore)
			for _, load := range [][]string{{"--blob-size", "4KiB"}, {"--blob-size", "64MiB"}, {"--scenario", "batches"}} {
				for _, writers := range []string{"40", "400", "8000"} {
					r := rig.Storm(t, s, append([]string{"--writers", writers, "--connections", "40", "--blobs-per-writer", "1000000",
						"--duration", "10s"}, load...)...)
					kept(t, r)                                                                         // the memory limit among them
					if writers == "8000" && len(r.Sections[0].Shed) == 0 && load[0] == "--blob-size" { // more than any door has room for
						t.Errorf("%v: nothing was shed", load)
					}
				}
			}
			killedUnderLoad(t, s, by, dir, size.limit)
		})
	}
}

// killedUnderLoad kills s and starts it again at its addresses while writers keep coming.
func killedUnderLoad(t *testing.T, s *rig.Server, by []string, dir, limit string) {
	t.Helper()
	type result struct {
		report *storm.Report
		err    error
	}
	ended := make(chan result, 1)
	go func() {
		r, err := rig.TryStorm(s, s.GRPC, "--writers", "1000", "--connections", "40", "--blob-size", "256KiB", "--blobs-per-writer", "1000000", "--duration", "60s")
		ended <- result{r, err}
	}()
	until(t, 20*time.Second, "the load has begun", func() bool { n, err := s.InUse("write"); return err == nil && n > 0 })
	s.Kill()
	began := time.Now()
	again := rig.StartUnder(t, by, dir, "--memory-limit", limit, "--store-max-size", rampStore, "--listen-grpc", s.GRPC, "--listen-http", s.HTTP, "--listen-admin", s.Admin)
	until(t, time.Minute, "writes are taken again", func() bool { n, err := again.InUse("write"); return err == nil && n > 0 })
	t.Logf("serving again under load after %s", time.Since(began))
	if r := <-ended; r.err != nil { // the calls that the kill has cut are broken promises here, and not errors
		t.Error(r.err)
	} else if r.report.Sections[0].Admitted == 0 {
		t.Error("nothing was stored")
	}
	if code, _, _, err := again.Get("/readyz"); err != nil || code != 200 {
		t.Errorf("/readyz after the load: %d, %v", code, err)
	}
}
