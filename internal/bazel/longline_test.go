package bazel

import (
	"bytes"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/bytestream"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// longLine is a proxy to addr through which bytes take as long as over a line of the given delay, each way. It holds as
// many as the server lets be in flight, and no more than most: what it has read it must be able to deliver.
func longLine(t testing.TB, addr string, delay time.Duration, most int) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		wg.Wait()
	})
	wg.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", addr)
			if err != nil {
				_ = near.Close()
				return
			}
			wg.Go(func() { carry(far, near, delay, most) })
			wg.Go(func() { carry(near, far, delay, most) })
		}
	})
	return l.Addr().String()
}

type packet struct {
	due  time.Time
	data []byte
}

func carry(to, from net.Conn, delay time.Duration, most int) {
	const size = 16 * kib
	line := make(chan packet, max(1, most/size))
	go func() {
		defer close(line)
		for {
			b := make([]byte, size)
			n, err := from.Read(b)
			if n > 0 {
				line <- packet{time.Now().Add(delay), b[:n]}
			}
			if err != nil {
				return
			}
		}
	}()
	for p := range line {
		<-time.After(time.Until(p.due))
		if _, err := to.Write(p.data); err != nil {
			_ = from.Close()
			for range line {
			}
		}
	}
	_ = to.Close()
}

func TestOneUploadFillsALongLine(t *testing.T) { // O8
	r := newGRPCRig(t, func(o *Options) {
		o.Kernel = newTestKernel(t, 1<<30)
		o.Window, o.MaxWrites, o.Store = 2*mib, 16, newMemStore()
	})
	conn, err := grpc.NewClient("passthrough:///"+longLine(t, r.addr, 100*time.Millisecond, 64*mib), grpc.WithTransportCredentials(insecure.NewCredentials()))
	r.must(err)
	defer conn.Close()
	b := bytes.Repeat([]byte("0123456789abcdef"), 32*mib/16)
	start := time.Now()
	_, err = writeTo(r.ctx, bytestream.NewByteStreamClient(conn), r.writeName(b), 0, b, 64*kib)
	r.must(err)
	rate := float64(len(b)) / time.Since(start).Seconds() / 1e6
	t.Logf("32 MiB at 200 ms round trip: %.1f MB/s", rate)
	if rate < 5 {
		t.Errorf("a 32 MiB upload with a window of 2 MiB goes at %.1f MB/s, want 5", rate)
	}
}
