package packs

import (
	"bytes"
	"crypto/sha1"
	"io"
	"sync"
	"testing"

	"github.com/leveehq/levee/internal/git/pkt"
)

// out is a client. With a gate it takes so many bytes and then waits until the gate is closed.
type out struct {
	mu       sync.Mutex
	b        bytes.Buffer
	flushes  int
	moved    int
	takes    int
	gate     chan struct{}
	stuck    bool
	panicsAt int
}

func (o *out) Write(p []byte) (int, error) {
	o.mu.Lock()
	o.b.Write(p)
	n := o.b.Len()
	o.stuck = o.gate != nil && n > o.takes
	stuck := o.stuck
	o.mu.Unlock()
	if o.panicsAt > 0 && n > o.panicsAt {
		panic("the writer breaks")
	}
	if stuck {
		<-o.gate
	}
	return len(p), nil
}

func (o *out) Flush() error { o.mu.Lock(); defer o.mu.Unlock(); o.flushes++; return nil }
func (o *out) Progress()    { o.mu.Lock(); defer o.mu.Unlock(); o.moved++ }

func (o *out) bytes() []byte { o.mu.Lock(); defer o.mu.Unlock(); return bytes.Clone(o.b.Bytes()) }
func (o *out) isStuck() bool { o.mu.Lock(); defer o.mu.Unlock(); return o.stuck }

// bands takes a v2 answer apart.
type bands struct {
	lines    []string // before the pack
	pack     []byte
	progress string
	fatal    string
	whole    bool
}

func (o *out) bands(t testing.TB) (b bands) {
	t.Helper()
	in := pkt.NewReader(bytes.NewReader(o.bytes()))
	inPack := false
	for {
		kind, p, err := in.Next()
		switch {
		case err == io.EOF:
			return b
		case err != nil:
			t.Fatalf("the answer is broken: %v", err)
		case kind == pkt.Flush:
			b.whole = true
		case !inPack:
			b.lines = append(b.lines, string(p))
			inPack = string(p) == "packfile\n"
		case p[0] == 1:
			b.pack = append(b.pack, p[1:]...)
		case p[0] == 2:
			b.progress += string(p[1:])
		case p[0] == 3:
			b.fatal += string(p[1:])
		}
	}
}

// wantPack checks that a pack is whole, and returns how many objects it has.
func (r *rig) wantPack(c *call) int {
	r.Helper()
	b := c.out.bands(r)
	if !b.whole || b.fatal != "" || len(b.pack) < 32 {
		r.Fatalf("no whole pack: %d bytes, lines %q, band 3 %q", len(b.pack), b.lines, b.fatal)
	}
	sum := sha1.Sum(b.pack[:len(b.pack)-20])
	if !bytes.Equal(sum[:], b.pack[len(b.pack)-20:]) {
		r.Fatal("the pack's checksum is wrong")
	}
	return int(b.pack[8])<<24 | int(b.pack[9])<<16 | int(b.pack[10])<<8 | int(b.pack[11])
}
