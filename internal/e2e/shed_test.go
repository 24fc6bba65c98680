package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leveehq/levee/internal/e2e/cases"
	"github.com/leveehq/levee/internal/e2e/rig"
	"golang.org/x/sys/unix"
	bspb "google.golang.org/genproto/googleapis/bytestream"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// B17 a: without a free descriptor a stored blob is there or the server is busy, and never missing.
func TestCaseB17WithoutDescriptorsABlobIsNotMissing(t *testing.T) {
	s := rig.Start(t, t.TempDir(), "--memory-limit", "512MiB")
	c := cases.Connect(t, s)
	b := c.Blob(200_000)
	if _, err := c.WriteOnce(t.Context(), c.UploadName(b), b); err != nil {
		t.Fatal(err)
	}
	var old unix.Rlimit
	few := unix.Rlimit{Cur: uint64(s.OpenFiles() + 48), Max: 1 << 10}
	if err := unix.Prlimit(s.PID(), unix.RLIMIT_NOFILE, nil, &old); err != nil {
		t.Fatal(err)
	}
	few.Max = old.Max
	if err := unix.Prlimit(s.PID(), unix.RLIMIT_NOFILE, &few, nil); err != nil {
		t.Fatal(err)
	}
	var found, busy, cut atomic.Int64
	var wg sync.WaitGroup
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	for range 500 {
		wg.Go(func() {
			resp, err := client.Get("http://" + s.HTTP + "/cas/" + cases.Hash(b))
			if err != nil {
				cut.Add(1) // no descriptor for its connection
				return
			}
			defer resp.Body.Close()
			switch n, err := io.Copy(io.Discard, resp.Body); {
			case resp.StatusCode == http.StatusOK && err == nil && n == int64(len(b)):
				found.Add(1)
			case resp.StatusCode == http.StatusServiceUnavailable:
				busy.Add(1)
			default:
				t.Errorf("%s, %d bytes, %v", resp.Status, n, err)
			}
		})
	}
	wg.Wait()
	t.Logf("%d found it, %d were told to come again, %d had no connection", found.Load(), busy.Load(), cut.Load())
	if found.Load() == 0 {
		t.Error("nobody found it")
	}
	if err := unix.Prlimit(s.PID(), unix.RLIMIT_NOFILE, &old, nil); err != nil {
		t.Fatal(err)
	}
	if code, got := get(t, s, b); code != http.StatusOK || len(got) != len(b) {
		t.Errorf("with descriptors again: %d, %d bytes", code, len(got))
	}
}

// O6: what a write that is shed costs, in time and on the wire, while every permit is taken and nobody may queue.
func TestCaseO6AShedIsCheap(t *testing.T) {
	s := rig.Start(t, t.TempDir(), "--memory-limit", "512MiB", "--bazel-max-writes", "1", "--bazel-write-queue", "1", "--bazel-write-wait", "1ms")
	holder := cases.Connect(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	b := holder.Blob(100_000)
	held, err := holder.BS.Write(ctx)
	if err == nil {
		err = held.Send(&bspb.WriteRequest{ResourceName: holder.UploadName(b), Data: b[:50_000]})
	}
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the permit to be taken", func() error {
		if n, err := s.InUse("write"); err != nil || n == 0 {
			return fmt.Errorf("%v in use, %v", n, err)
		}
		return nil
	})

	var wire atomic.Int64
	conn, err := grpc.NewClient("passthrough:///"+s.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			nc, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
			return counted{nc, &wire}, err
		}))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	bs := bspb.NewByteStreamClient(conn)
	const sheds = 200
	var took []time.Duration
	for range sheds {
		began := time.Now()
		w, err := bs.Write(ctx)
		if err == nil {
			err = w.Send(&bspb.WriteRequest{ResourceName: holder.UploadName(b), Data: b[:1000]})
		}
		if err == nil {
			err = w.RecvMsg(new(bspb.WriteResponse))
		}
		took = append(took, time.Since(began))
		if status.Code(err) != codes.FailedPrecondition || !cases.Shed(err) {
			t.Fatalf("%v, want a shed", err)
		}
	}
	slices.Sort(took)
	// The wait for the permit, 1 ms and what a timer adds, is in it.
	if p90 := took[sheds*9/10]; p90 > 10*time.Millisecond {
		t.Errorf("9 of 10 sheds took up to %s", p90)
	}
	if each := wire.Load() / sheds; each > 16<<10 {
		t.Errorf("a shed took %d bytes on the wire, both ways", each)
	}
}

// counted counts the bytes of a connection.
type counted struct {
	net.Conn
	n *atomic.Int64
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.n.Add(int64(n))
	return n, err
}

func (c counted) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.n.Add(int64(n))
	return n, err
}
