package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leveehq/levee/internal/e2e/cases"
	"github.com/leveehq/levee/internal/e2e/rig"
	bspb "google.golang.org/genproto/googleapis/bytestream"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestEveryCaseHolds(t *testing.T) {
	dir := t.TempDir()
	s := rig.Start(t, dir, "--memory-limit", "512MiB")
	c := cases.Connect(t, s)
	for i, check := range cases.All() {
		t.Run(check.Name, func(t *testing.T) {
			if err := check.Run(c.For(i + 1)); err != nil {
				t.Error(err)
			}
		})
	}
	for _, gate := range []string{"write", "read", "batch_update", "batch_read", "ac", "find_missing", "streams"} {
		waitFor(t, "gate "+gate+" to be empty", func() error {
			if n, err := s.InUse(gate); err != nil || n != 0 {
				return fmt.Errorf("%v in use, %v", n, err)
			}
			return nil
		})
	}
}

// ones has every limit at one. Limits in bytes are then what a single call needs.
var ones = []string{"--memory-limit", "512MiB", "--bazel-max-streams", "1", "--bazel-max-connections", "1", "--bazel-max-writes", "1",
	"--bazel-write-queue", "1", "--bazel-read-memory", "1", "--bazel-batch-memory", "1", "--bazel-batch-read-memory", "1",
	"--bazel-ac-memory", "1", "--bazel-find-missing-memory", "1"}

// O5: with every limit at one nobody waits for what he holds himself: all cases hold, for one client and for twenty.
func TestCaseO5EveryCaseHoldsWithEveryLimitAtOne(t *testing.T) {
	for _, clients := range []int{1, 2, 20} {
		t.Run(fmt.Sprint(clients), func(t *testing.T) {
			s := rig.Start(t, t.TempDir(), ones...)
			shared := cases.Connect(t, s)
			dog := newWatchdog(t, s)
			var wg sync.WaitGroup
			for i := range clients {
				c := shared.For(i + 1)
				wg.Go(func() {
					for _, check := range cases.All() {
						if check.Together || check.Heavy && clients > 1 {
							continue
						}
						if err := check.Run(c); err != nil {
							t.Errorf("client %d: %s: %v", i, check.Name, err)
						}
						dog.progress()
					}
				})
			}
			wg.Wait()
		})
	}
}

// watchdog tells where everybody stands when nobody has made progress for half a minute.
type watchdog struct{ timer *time.Timer }

const dogWait = 30 * time.Second

func newWatchdog(t *testing.T, s *rig.Server) watchdog {
	var stacks strings.Builder
	bitten := make(chan struct{})
	w := watchdog{time.AfterFunc(dogWait, func() {
		pprof.Lookup("goroutine").WriteTo(&stacks, 1)
		_, text, _, err := s.Get("/debug/pprof/goroutine?debug=1")
		fmt.Fprintf(&stacks, "the server: %v\n%s", err, text)
		close(bitten)
		s.Kill()
	})}
	t.Cleanup(func() {
		if !w.timer.Stop() {
			<-bitten
			t.Errorf("no progress for %s:\n%s", dogWait, stacks.String())
		}
	})
	return w
}

func (w watchdog) progress() {
	if w.timer.Stop() {
		w.timer.Reset(dogWait)
	}
}

// B4: of uploads over HTTP that were cut off nothing is left on the disk either.
func TestCaseB4ACutOffUploadLeavesNoTemporaryFile(t *testing.T) {
	dir := t.TempDir()
	s := rig.Start(t, dir)
	c := cases.Connect(t, s)
	for _, check := range cases.All() {
		if strings.HasPrefix(check.Name, "B4 ") {
			if err := check.Run(c.For(1)); err != nil {
				t.Error(err)
			}
		}
	}
	waitFor(t, "unfinished uploads to be gone", func() error {
		if left := files(t, filepath.Join(dir, "tmp")); len(left) > 0 {
			return fmt.Errorf("left: %v", left)
		}
		return nil
	})
}

// files below dir, whole paths.
func files(t *testing.T, dir string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed meanwhile
		}
		if err == nil && !e.IsDir() {
			all = append(all, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// B11: ten uploads are held before their last byte while others push as much as the store holds; each ends one way or
// the other, the disk holds no more than the limit, and a restart finds the same blobs.
func TestCaseB11HeldUploadsEndOneWayOrTheOtherAndTheBooksAgree(t *testing.T) {
	const limit, size = 64 * mib, 8 * mib
	dir := t.TempDir()
	s := rig.Start(t, dir, "--store-max-size", "64MiB")
	c := cases.Connect(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var held []bspb.ByteStream_WriteClient
	var blobs [][]byte
	for range 10 {
		b := c.Blob(size)
		w, err := c.BS.Write(ctx)
		if err != nil {
			t.Fatal(err)
		}
		name := c.UploadName(b)
		for off := 0; off < size-1; off += mib {
			q := &bspb.WriteRequest{ResourceName: name, WriteOffset: int64(off), Data: b[off:min(off+mib, size-1)]}
			if w.Send(q) != nil {
				break // turned away: its answer is read below
			}
		}
		held, blobs = append(held, w), append(blobs, b)
	}
	pushed := 0
	for range 8 {
		b := c.Blob(size)
		if _, err := c.WriteOnce(ctx, c.UploadName(b), b); err == nil {
			pushed++
		} else if !cases.Shed(err) {
			t.Errorf("another blob meanwhile: %v", err)
		}
	}
	stored := 0
	for i, w := range held {
		w.Send(&bspb.WriteRequest{WriteOffset: size - 1, Data: blobs[i][size-1:], FinishWrite: true}) // or it has its answer
		_, err := w.CloseAndRecv()
		if err != nil {
			if status.Code(err) != codes.FailedPrecondition {
				t.Errorf("a held upload ends with %v", err)
			}
			continue
		}
		stored++
		got, err := c.ReadOnce(ctx, &bspb.ReadRequest{ResourceName: "blobs/" + cases.Name(blobs[i])})
		if err != nil || !bytes.Equal(got, blobs[i]) {
			t.Errorf("stored, and then read as %d bytes, %v", len(got), err)
		}
	}
	t.Logf("of 10 held uploads %d were stored, of 8 others %d", stored, pushed)
	onDisk := int64(0)
	for _, path := range append(files(t, filepath.Join(dir, "cas")), files(t, filepath.Join(dir, "tmp"))...) {
		if i, err := os.Stat(path); err == nil {
			onDisk += i.Size()
		}
	}
	if onDisk > limit {
		t.Errorf("%d MiB are on disk, the limit is %d", onDisk/mib, limit/mib)
	}
	before := books(t, s)
	s.Kill()
	s = rig.Start(t, dir, "--store-max-size", "64MiB")
	if after := books(t, s); before != after || before[0] == 0 {
		t.Errorf("blobs and bytes were %v, and after kill -9 and a restart %v", before, after)
	}
}

// books are the number of blobs and their bytes, once nothing is under way.
func books(t *testing.T, s *rig.Server) (b [2]float64) {
	t.Helper()
	waitFor(t, "uploads to end", func() error {
		n, err := s.Metric(`levee_store_uploads{state="active"}`)
		if err != nil || n > 0 {
			return fmt.Errorf("%v are under way, %v", n, err)
		}
		return nil
	})
	for i, series := range []string{"levee_store_blobs", `levee_store_bytes{part="blobs"}`} {
		n, err := s.Metric(series)
		if err != nil {
			t.Fatal(err)
		}
		b[i] = n
	}
	return b
}

// B17 b: a file that somebody removed is a miss, and can be stored again.
func TestCaseB17AFileThatWasRemovedIsAMissAndNotAnError(t *testing.T) {
	dir := t.TempDir()
	s := rig.Start(t, dir)
	c := cases.Connect(t, s)
	b := c.Blob(50_000)
	if _, err := c.WriteOnce(t.Context(), c.UploadName(b), b); err != nil {
		t.Fatal(err)
	}
	for _, path := range files(t, filepath.Join(dir, "cas")) {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if code, _ := get(t, s, b); code != http.StatusNotFound {
		t.Errorf("GET: %d", code)
	}
	_, err := c.ReadOnce(t.Context(), &bspb.ReadRequest{ResourceName: "blobs/" + cases.Name(b)})
	if status.Code(err) != codes.NotFound {
		t.Errorf("Read: %v", err)
	}
	if _, err := c.WriteOnce(t.Context(), c.UploadName(b), b); err != nil {
		t.Error(err)
	}
	if code, got := get(t, s, b); code != http.StatusOK || !bytes.Equal(got, b) {
		t.Errorf("stored again: %d, %d bytes", code, len(got))
	}
}

func get(t *testing.T, s *rig.Server, b []byte) (code int, body []byte) {
	t.Helper()
	resp, err := http.Get("http://" + s.HTTP + "/cas/" + cases.Hash(b))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, body
}

// B19: what is too large is refused before its body, in words that have both sizes.
func TestCaseB19ATooLargeBlobIsRefusedBeforeItsBody(t *testing.T) {
	s := rig.Start(t, t.TempDir(), "--bazel-max-blob", "1MiB")
	c := cases.Connect(t, s)
	b := c.Blob(7)
	for _, expect := range []string{"Expect: 100-continue\r\n", ""} {
		conn, err := net.Dial("tcp", s.HTTP)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "PUT /cas/%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 67108864\r\n%s\r\n", cases.Hash(b), expect)
		if expect == "" {
			io.Copy(conn, io.LimitReader(zeros{}, 64*mib)) // as far as the server lets it
		}
		conn.SetReadDeadline(time.Now().Add(patience))
		text := make([]byte, 2048)
		n, err := io.ReadAtLeast(conn, text, 100)
		if answer := string(text[:n]); !strings.HasPrefix(answer, "HTTP/1.1 413 ") || !strings.Contains(answer, "67108864") || !strings.Contains(answer, "1048576") {
			t.Errorf("with %q: %q, %v", expect, answer, err)
		}
	}
	w, err := c.BS.Write(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"blobs", "compressed-blobs/zstd"} {
		name := fmt.Sprintf("uploads/11111111-1111-4111-8111-111111111111/%s/%s/67108864", kind, cases.Hash(b))
		if err := w.Send(&bspb.WriteRequest{ResourceName: name, Data: b}); err != nil {
			t.Fatal(err)
		}
		err := w.RecvMsg(new(bspb.WriteResponse)) // with the stream still open
		if text := status.Convert(err).Message(); status.Code(err) != codes.InvalidArgument || !strings.Contains(text, "67108864") || !strings.Contains(text, "1048576") {
			t.Errorf("%s: %v", kind, err)
		}
		if w, err = c.BS.Write(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// O11: fifty frames of 33 KB that hold a gibibyte each are refused for a few megabytes.
func TestCaseO11FiftyBombsAtOnceTakeLittleMemory(t *testing.T) {
	s := rig.Start(t, t.TempDir(), "--memory-limit", "512MiB")
	c := cases.Connect(t, s)
	frame := cases.Bomb()
	before := s.PeakRSS()
	var wg sync.WaitGroup
	for i := range 50 {
		own := c.For(i + 1)
		wg.Go(func() {
			b := own.Blob(7)
			name := strings.Replace(own.UploadName(b), "/blobs/", "/compressed-blobs/zstd/", 1)
			if _, err := own.WriteOnce(t.Context(), name, frame); status.Code(err) != codes.InvalidArgument {
				t.Errorf("%v", err)
			}
		})
	}
	wg.Wait()
	if more := s.PeakRSS() - before; more > 64*mib {
		t.Errorf("fifty bombs of %d bytes took %d MiB", len(frame), more/mib)
	}
}
