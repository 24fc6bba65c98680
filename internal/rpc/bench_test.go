package rpc

import (
	"bytes"
	"io"
	"os"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// The benchmarks serve the same calls with rpc and with grpc-go, in a process of their own, to the same raw client.
// What counts is the server's CPU time: rates on a shared machine say little.

func benchBoth(b *testing.B, f func(b *testing.B, p *serverProcess), report func(b *testing.B, cpu time.Duration)) {
	for _, kind := range []string{"rpc", "grpc-go"} {
		b.Run(kind, func(b *testing.B) {
			p := startServer(b, os.Args[0], kind)
			b.ResetTimer()
			f(b, p)
			b.StopTimer()
			report(b, p.stop())
		})
	}
}

// BenchmarkUnary is 16 callers over 4 connections, 4 KiB each way.
func BenchmarkUnary(b *testing.B) {
	req := messageOf(b, wrapperspb.Bytes(make([]byte, 4<<10)))
	const conns = 4
	benchBoth(b, func(b *testing.B, p *serverProcess) {
		var wg sync.WaitGroup
		for range conns {
			c := newRawClient(b, p.addr)
			wg.Go(func() { c.unaryLoad(b, req, b.N/conns+1, 4) })
		}
		wg.Wait()
	}, func(b *testing.B, cpu time.Duration) {
		b.ReportMetric(float64(cpu.Microseconds())/float64(b.N), "server-µs/op")
	})
}

func perGB(b *testing.B, cpu time.Duration) {
	b.ReportMetric(cpu.Seconds()/(float64(b.N)*bulkSize/1e9), "server-s/GB")
}

const bulkSize = 64 << 20

// BenchmarkUpload is one 64 MiB stream of 64 KiB messages, read and thrown away.
func BenchmarkUpload(b *testing.B) {
	msg := messageOf(b, wrapperspb.Bytes(make([]byte, 64<<10)))
	b.SetBytes(bulkSize)
	benchBoth(b, func(b *testing.B, p *serverProcess) {
		c := newRawClient(b, p.addr)
		b.SetBytes(bulkSize)
		for range b.N {
			c.upload(uploadMethod, msg, bulkSize/(64<<10))
		}
	}, perGB)
}

// BenchmarkDownload is one 64 MiB stream of 64 KiB messages.
func BenchmarkDownload(b *testing.B) {
	benchBoth(b, func(b *testing.B, p *serverProcess) {
		c := newRawClient(b, p.addr)
		b.SetBytes(bulkSize)
		for range b.N {
			c.download(downloadMethod)
		}
	}, perGB)
}

const (
	uploadMethod   = "/test.Bulk/Upload"
	downloadMethod = "/test.Bulk/Download"
)

// registerBulk registers what bazel's ByteStream handlers do with a stream: parse as it comes, send in chunks.
func registerBulk(s *Server) {
	s.Handle(uploadMethod, func(st *Stream) error {
		st.GrowWindow(2 << 20)
		buf := make([]byte, 64<<10)
		for {
			_, err := st.NextMessage()
			if err == io.EOF {
				return st.Reply([]byte{})
			}
			for err == nil {
				_, err = st.Read(buf)
			}
			if err != io.EOF {
				return err
			}
		}
	})
	s.Handle(downloadMethod, func(st *Stream) error {
		chunk := bytes.Repeat([]byte{1}, 64<<10)
		for left := bulkSize; left > 0; {
			n, err := st.SendReady(min(left, len(chunk)))
			if err != nil {
				return err
			}
			if err := st.SendMessage(chunk[:n]); err != nil {
				return err
			}
			left -= n
		}
		return nil
	})
}

func TestAStreamingUploadAndDownloadOfManyMessages(t *testing.T) {
	s := serveEcho(t, Options{}, &echo{}, registerBulk)
	cc := dial(t, s.addr, grpc.WithDefaultCallOptions(grpc.ForceCodec(rawCodec{})))
	up := openStream(t, ctxFor(t, time.Minute), cc, uploadMethod)
	for range 500 {
		if err := up.SendMsg(&rawFrame{make([]byte, 64<<10)}); err != nil {
			t.Fatal(err)
		}
	}
	_ = up.CloseSend()
	if err := up.RecvMsg(new(rawFrame)); err != nil {
		t.Fatal(err)
	}
	down := openStream(t, ctxFor(t, time.Minute), cc, downloadMethod)
	_ = down.CloseSend()
	for n := 0; ; {
		var f rawFrame
		err := down.RecvMsg(&f)
		if err == io.EOF && n == bulkSize {
			return
		}
		if err != nil {
			t.Fatal(n, err)
		}
		n += len(f.b)
	}
}
