package rig

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// SlowLine is a proxy in front of target for clients with a slow line: each connection gets so many bytes a second. It
// takes no more from the server than it passes on.
func SlowLine(t testing.TB, target string, bytesPerSecond int) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { slowly(ctx, client, target, bytesPerSecond) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		cancel()
		wg.Wait()
	})
	return l.Addr().String()
}

func slowly(ctx context.Context, client net.Conn, target string, bytesPerSecond int) {
	defer client.Close()
	server, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer server.Close()
	defer context.AfterFunc(ctx, func() { client.Close(); server.Close() })()
	server.(*net.TCPConn).SetReadBuffer(64 << 10) // what the kernel holds has left the server; less makes it stutter
	go func() {
		io.Copy(server, client)
		server.Close() // the client has left
	}()
	piece := make([]byte, 16<<10)
	for free := time.Now(); ctx.Err() == nil; {
		n, err := server.Read(piece)
		if n > 0 {
			if _, err := client.Write(piece[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
		free = later(free, time.Now()).Add(time.Duration(n) * time.Second / time.Duration(bytesPerSecond))
		pause(ctx, time.Until(free))
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
