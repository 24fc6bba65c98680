package bazel

import (
	"bytes"
	"context"
	"os"
	"runtime"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/genproto/googleapis/bytestream"
	"google.golang.org/grpc/codes"
)

func decodeAll(b []byte) ([]byte, error) {
	d, err := zstd.NewReader(nil)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.DecodeAll(b, nil)
}

func TestCompressedBlobsGoBothWays(t *testing.T) {
	r := newGRPCRig(t, nil)
	for i, size := range []int{7, 100 * kib, mib + 77} {
		b := append(randomBytes(uint64(i), size/2), make([]byte, size-size/2)...)
		resp, err := r.write("uploads/u/compressed-blobs/zstd/"+blobName(b), compress(t, b), 16*kib)
		r.must(err)
		if resp.CommittedSize != -1 && resp.CommittedSize != int64(len(compress(t, b))) {
			t.Errorf("committed size %d", resp.CommittedSize)
		}
		plain, err := r.read("blobs/"+blobName(b), 0, 0)
		r.must(err)
		for off := range []int{0, size / 3} {
			frames, err := r.read("compressed-blobs/zstd/"+blobName(b), int64(off), 0)
			r.must(err)
			got, err := decodeAll(frames)
			r.must(err)
			if !bytes.Equal(plain, b) || !bytes.Equal(got, b[off:]) {
				t.Fatalf("%d bytes come back as %d plain and, from %d, %d compressed ones", size, len(plain), off, len(got))
			}
		}
	}
}

func TestBadCompressedUploadsAreTheClientsFault(t *testing.T) { // B8, O11
	r := newGRPCRig(t, nil)
	frame := unhexString(t, "28b52ffd0458390000616263646566672d820229")
	name := "uploads/u/compressed-blobs/zstd/" + blobName(blobP)
	bomb := compress(t, make([]byte, 32*mib))
	for _, c := range []struct {
		what string
		name string
		data []byte
		want string
	}{
		{"a bomb", name, bomb, "more bytes"},
		{"garbage", name, []byte("hello, world, this is no zstd"), "not a zstd frame"},
		{"garbage after the frame", name, append(frame[:20:20], "garbage"...), ""},
		{"a frame cut short", name, frame[:15], "cut short"},
		{"no data", name, nil, "not a zstd frame"},
		{"wrong content", "uploads/u/compressed-blobs/zstd/" + hashH + "/7", frame, ""},
		{"a 2 GiB window", "uploads/u/compressed-blobs/zstd/" + hashH + "/4000000000", []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 21 << 3, 0, 0, 0}, "8 MiB"},
	} {
		_, err := r.write(c.name, c.data, 16*kib)
		r.wantCode(err, codes.InvalidArgument, c.want)
	}
	resp, err := r.write(name, frame, 3)
	r.must(err)
	if resp.CommittedSize != -1 {
		t.Errorf("committed %d", resp.CommittedSize)
	}
}

func TestFiftyBombsAtOnceTakeNoMoreThanTheGate(t *testing.T) { // O11
	if !measuring(t) {
		return
	}
	r := newGRPCRig(t, nil)
	bomb := compress(t, make([]byte, 64*mib), zstd.WithWindowSize(8*mib))
	var peak uint64
	grew := peakHeap(t, func() {
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				b := randomBytes(uint64(i), 7+i%2*300*kib) // decoded whole, and as it streams
				_, err := r.write("uploads/u/compressed-blobs/zstd/"+blobName(b), bomb, 16*kib)
				if err == nil {
					t.Error("a bomb was stored")
				}
			})
		}
		wg.Wait()
	}, &peak)
	if grew > 64*mib {
		t.Errorf("50 bombs took %d MiB", grew/mib)
	}
}

// peakHeap is by how much the heap's peak, looked at often, was above what it was.
func peakHeap(t testing.TB, f func(), peak *uint64) uint64 {
	t.Helper()
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	start := m.HeapAlloc
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	for {
		runtime.ReadMemStats(&m)
		*peak = max(*peak, m.HeapAlloc)
		select {
		case <-done:
			return *peak - min(start, *peak)
		default:
			runtime.Gosched()
		}
	}
}

func TestAbortedCompressedUploadsLeaveNothing(t *testing.T) { // B8, a hundredth of it
	r := newGRPCRig(t, nil)
	r.put(blobP) // everything is warm
	b := randomBytes(1, 4*mib)
	data := compress(t, b)
	files := func() int {
		d, err := os.ReadDir("/proc/self/fd")
		r.must(err)
		return len(d)
	}
	goroutines, open := runtime.NumGoroutine(), files()
	for i := range 100 {
		name := "uploads/u/compressed-blobs/zstd/" + blobName(b)
		ctx, cancel := context.WithCancel(r.ctx)
		conn, bs := r.conn, r.bs
		if i%3 == 1 {
			conn = r.dial()
			bs = bytestream.NewByteStreamClient(conn)
		}
		w, err := bs.Write(ctx)
		r.must(err)
		r.must(w.Send(&bytestream.WriteRequest{ResourceName: name, Data: data[:64*kib]}))
		switch i % 3 {
		case 0:
			cancel()
		case 1:
			_ = conn.Close()
		case 2:
			_ = w.Send(&bytestream.WriteRequest{WriteOffset: 64 * kib, Data: bytes.Repeat([]byte("garbage!"), 20*kib)})
			err := w.RecvMsg(new(bytestream.WriteResponse))
			r.wantCode(err, codes.InvalidArgument)
		}
		cancel()
	}
	eventually(t, "goroutines and files are as before", func() bool {
		return runtime.NumGoroutine() <= goroutines+goroutines/10+2 && files() <= open+open/10+2
	})
	eventually(t, "no upload is left", func() bool {
		st := r.disk.Stats()
		return st.UploadsActive+st.UploadsParked == 0
	})
	resp, err := r.write("uploads/u/compressed-blobs/zstd/"+blobName(b), data, 64*kib)
	if err != nil || resp.CommittedSize != -1 {
		t.Errorf("the next one: %v, %v", resp, err)
	}
}
