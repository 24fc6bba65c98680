package rig

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/semaphore"
)

// Line describes a long line between client and server.
type Line struct {
	RTT time.Duration // half of it in each direction

	// InFlight caps the bytes under way to the server, as its kernel's receive buffer would on a real long line:
	// across loopback the proxy's own reading hides it. 0 = no cap.
	InFlight int
}

// LongLine is a proxy of TCP connections in front of target that behaves like l.
func LongLine(t testing.TB, target string, l Line) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &longLine{target: target, line: l}
	p.mu.open = map[net.Conn]bool{}
	var wg sync.WaitGroup
	wg.Go(func() { p.serve(listener, &wg) })
	t.Cleanup(func() {
		listener.Close()
		p.closeAll()
		wg.Wait()
	})
	return listener.Addr().String()
}

type longLine struct {
	target string
	line   Line
	mu     struct {
		sync.Mutex
		closed bool
		open   map[net.Conn]bool
	}
}

func (p *longLine) serve(l net.Listener, wg *sync.WaitGroup) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			client.Close()
			continue
		}
		if !p.keep(client, server) {
			return
		}
		wg.Go(func() { p.carry(client, server, p.line.InFlight) })
		wg.Go(func() { p.carry(server, client, 0) })
	}
}

// keep registers both ends for closeAll; false if that was called already.
func (p *longLine) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		if p.mu.closed {
			c.Close()
		}
		p.mu.open[c] = true
	}
	return !p.mu.closed
}

func (p *longLine) closeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.closed = true
	for c := range p.mu.open {
		c.Close()
	}
}

// flight is a piece of data and the moment at which it arrives.
type flight struct {
	data    []byte
	arrives time.Time
}

const (
	linePiece  = 16 << 10
	linePieces = 4096     // under way at most, whatever their size
	lineMost   = 64 << 20 // bytes under way when there is no cap: 320 MB/s at 200 ms
)

// carry moves data one way with its delay. The room that a piece takes is free again when it has been written.
func (p *longLine) carry(from, to net.Conn, inFlight int) {
	if inFlight <= 0 {
		inFlight = lineMost
	}
	room := semaphore.NewWeighted(int64(inFlight))
	line := make(chan flight, linePieces)
	piece := min(linePiece, inFlight)
	go func() {
		defer close(line)
		for {
			buf := make([]byte, piece)
			n, err := from.Read(buf)
			if n > 0 {
				room.Acquire(context.Background(), int64(n)) // ends: what is under way is written or dropped
				line <- flight{data: buf[:n], arrives: time.Now().Add(p.line.RTT / 2)}
			}
			if err != nil {
				return
			}
		}
	}()
	failed := false
	for f := range line {
		<-time.After(time.Until(f.arrives))
		if !failed {
			if _, err := to.Write(f.data); err != nil {
				failed = true
				from.Close()
			}
		}
		room.Release(int64(len(f.data)))
	}
	if half, ok := to.(*net.TCPConn); ok {
		half.CloseWrite()
	}
}
