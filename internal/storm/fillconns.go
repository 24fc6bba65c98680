package storm

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"
)

// fillHalfHeaders: connections in the middle of a header block, with the header table full of empty fields.
func fillHalfHeaders(ctx context.Context, f *filling, t *tally) error {
	return f.fillConnections(ctx, t, map[string]measure{"connections": goBytes}, func(c *rawConn) {
		emptyFields(c)
		c.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: make([]byte, 15<<10)})
		c.flush()
	})
}

// fillSockets: connections that ask and never read: the server's send buffer fills, then what it keeps of answers, and,
// when it reads no more, its receive buffer.
func fillSockets(ctx context.Context, f *filling, t *tally) error {
	of := map[string]measure{"connections": goBytes, "sockets": socketsOf("sockets")}
	return f.fillConnections(ctx, t, of, func(c *rawConn) {
		emptyFields(c)
		for c.nextID = 3; ; c.nextID += 2 {
			c.nc.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
			if c.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: c.nextID, BlockFragment: unknownCall, EndHeaders: true, EndStream: true}) != nil {
				return
			}
		}
	})
}

// unknownCall is a header block of a call of no method, without the header table.
var unknownCall = func() []byte {
	b := []byte{0x83, 0x86} // :method POST, :scheme http (RFC 7541, appendix A)
	for _, h := range [][2]string{{":path", "/" + strings.Repeat("x", 150)}, {"content-type", "application/grpc"}, {"te", "trailers"}} {
		b = append(b, 0) // literal, never indexed
		for _, s := range h {
			if len(s) < 127 {
				b = append(b, byte(len(s)))
			} else {
				b = append(b, 127, byte(len(s)-127))
			}
			b = append(b, s...)
		}
	}
	return b
}()

// emptyFields makes a call with 128 fields without name or value: each takes 32 bytes of the table that RFC 7541 counts,
// and what the server really keeps of an entry.
func emptyFields(c *rawConn) {
	c.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: bytes.Repeat([]byte{0x40, 0, 0}, 128), EndHeaders: true, EndStream: true})
}

func (f *filling) fillConnections(ctx context.Context, t *tally, of map[string]measure, act func(*rawConn)) error {
	before, err := f.look(ctx)
	if err != nil {
		return err
	}
	w, err := f.r.crowd(ctx, t, crowdOptions{n: int(f.plan["connections"].units), as: rawDial{receive: 65535, thrifty: true}})
	if err != nil {
		return err
	}
	defer w.close()
	var wg sync.WaitGroup
	for _, c := range w.conns {
		wg.Go(func() { act(c) })
	}
	wg.Wait()
	return f.hold(ctx, t, before, of, nil)
}

// fillStreams: uploads that wait for a permit with their door window full of tiny frames.
func fillStreams(ctx context.Context, f *filling, t *tally) error {
	const frame = 64
	units := int(f.plan["streams"].units)
	perConn := f.limits.perConn/2 - 1 // a connection's further writes are shed at the door
	w, err := f.r.crowd(ctx, t, crowdOptions{n: (units + perConn - 1) / perConn, as: rawDial{receive: 65535}, reads: true})
	if err != nil {
		return err
	}
	defer w.close()
	upload := func() ([]byte, *blob) {
		b := f.r.src.unhashed(1 << 30)
		return writeHead(b.uploadName(f.r.o.Instance, newUUID()), b.size, false), b
	}
	opened := 0
	for queued := 0; queued == 0 && opened < units; { // what holds the permits is not what is measured
		for range 16 {
			s, err := w.open(methodWrite)
			if err != nil {
				return err
			}
			s.head, _ = upload()
			opened++
		}
		w.pump(ctx, 50*time.Millisecond, wholeFrame)
		if _, _, queued, err = f.gate(ctx, "write"); err != nil {
			return err
		}
	}
	before, err := f.look(ctx)
	if err != nil {
		return err
	}
	for ; opened < units; opened++ {
		s, err := w.open(methodWrite)
		if err != nil {
			return err
		}
		s.head, s.b = upload()
		s.stop = s.b.size - 1
	}
	w.fill(ctx, frame, 6*time.Second)
	return f.hold(ctx, t, before, map[string]measure{"streams": goBytes}, nil)
}

// fillReserve: calls that are never shed, made when the door is full, whose answers are not taken and whose windows are.
func fillReserve(ctx context.Context, f *filling, t *tally) error {
	units, perConn := int(f.plan["streams"].units), f.limits.perConn
	door, err := f.r.crowd(ctx, t, crowdOptions{n: (units + perConn - 1) / perConn, reads: true})
	if err != nil {
		return err
	}
	defer door.close()
	w, err := f.r.crowd(ctx, t, crowdOptions{n: 8, reads: true})
	if err != nil {
		return err
	}
	defer w.close()
	if err := f.exempt(door, units, 0); err != nil { // the reserve is not touched while there is room
		return err
	}
	door.fill(ctx, wholeFrame, 4*time.Second)
	before, err := f.look(ctx)
	if err != nil {
		return err
	}
	if err := f.exempt(w, int(f.plan["streams_reserved"].units), math.MaxInt32); err != nil {
		return err
	}
	w.fill(ctx, 64, 4*time.Second)
	// What fills the windows came out of the free lists first.
	return f.hold(ctx, t, before, map[string]measure{"streams_reserved": func(b, n *look) int64 { return goBytes(b, n) + f.lists }}, nil)
}

// exempt opens calls whose answer will not be taken, with n bytes behind the request.
func (f *filling) exempt(w *crowd, calls int, n int64) error {
	sends, err := w.openMany(calls, methodCapabilities, make([]byte, prefixSize))
	for _, s := range sends {
		s.b, s.stop = f.r.src.unhashed(math.MaxInt32), n
	}
	return err
}

// fillLists fills the transport's free lists, as whoever leaves with full windows does, and notes what they keep. Those who
// leave with empty ones come before them, so that nothing else that stays is counted.
func (f *filling) fillLists(ctx context.Context, t *tally) error {
	var left [2]int64
	for i, window := range []int64{0, math.MaxInt32} {
		if err := f.visit(ctx, t, window); err != nil {
			return err
		}
		now, err := f.look(ctx)
		if err != nil {
			return err
		}
		left[i] = now.goBytes()
	}
	f.lists = max(0, left[1]-left[0])
	t.note(fmt.Sprintf("free lists: %d KiB", f.lists/kib))
	return nil
}

// visit makes calls with n bytes behind each request, or as many as the window takes, and leaves.
func (f *filling) visit(ctx context.Context, t *tally, n int64) error {
	const conns, calls = 32, 160
	w, err := f.r.crowd(ctx, t, crowdOptions{n: min(conns, int(f.plan["connections"].units)-2), reads: true})
	if err != nil {
		return err
	}
	err = f.exempt(w, calls, n)
	w.fill(ctx, 64, 4*time.Second)
	w.close()
	return errors.Join(err, f.calm(ctx))
}

// fillEarly: clients that have not seen the server's SETTINGS, and may send what RFC 9113 allows without them. The free
// lists, which were filled before, are booked here, too.
func fillEarly(ctx context.Context, f *filling, t *tally) error {
	calls := min(48, int(f.plan["connections"].units)-2)
	w, err := f.r.crowd(ctx, t, crowdOptions{n: calls})
	if err != nil {
		return err
	}
	defer w.close()
	if err := f.exempt(w, calls, 8<<10); err != nil {
		return err
	}
	w.fill(ctx, 64, 2*time.Second)
	before, err := f.look(ctx)
	if err != nil {
		return err
	}
	for _, sends := range w.sends {
		sends[0].stop = 65000
	}
	w.fill(ctx, 64, 2*time.Second)
	return f.hold(ctx, t, before, map[string]measure{"transport": func(b, n *look) int64 { return goBytes(b, n) + f.lists }}, nil)
}

// plain are connections without HTTP/2, each of which sends what it is given.
func (f *filling) plain(ctx context.Context, t *tally, target string, n int, of map[string]measure, act func(i int, nc net.Conn)) error {
	before, err := f.look(ctx)
	if err != nil {
		return err
	}
	conns := make([]net.Conn, n)
	defer func() {
		for _, nc := range conns {
			if nc != nil {
				nc.Close()
			}
		}
	}()
	var wg sync.WaitGroup
	for i := range conns {
		nc, err := dialFrom(ctx, target, crowdFrom[i%len(crowdFrom)], true)
		if err != nil {
			return err
		}
		t.offered.Add(1)
		conns[i] = nc
		wg.Go(func() { act(i, nc) })
	}
	wg.Wait()
	return f.hold(ctx, t, before, of, nil)
}

// manyFields is a request's header, not ended, of as many fields as fit into n bytes.
func manyFields(request string, n int) string {
	var b strings.Builder
	b.WriteString(request + " HTTP/1.1\r\nHost: localhost\r\n")
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "%X:\r\n", i)
	}
	return b.String()
}

func fillHTTPHeaders(ctx context.Context, f *filling, t *tally) error {
	header := manyFields("GET /cas/"+strings.Repeat("0", 64), 3900)
	return f.plain(ctx, t, f.r.o.HTTP, int(f.plan["http_connections"].units), map[string]measure{"http_connections": goBytes},
		func(_ int, nc net.Conn) { io.WriteString(nc, header) })
}

func fillHTTPSockets(ctx context.Context, f *filling, t *tally) error {
	b, err := f.stored(ctx, 16<<20)
	if err != nil {
		return err
	}
	request := "GET /cas/" + b.hex() + " HTTP/1.1\r\nHost: localhost\r\n\r\n"
	of := map[string]measure{"http_connections": goBytes, "http_sockets": socketsOf("http_sockets")}
	return f.plain(ctx, t, f.r.o.HTTP, int(f.plan["http_connections"].units), of, func(_ int, nc net.Conn) {
		io.WriteString(nc, request)
		sleep(ctx, time.Second) // it is being answered
		stuff(nc)
	})
}

// stuff writes until nobody reads any more.
func stuff(nc net.Conn) {
	var junk [512]byte
	binary.BigEndian.PutUint64(junk[:], 1)
	for {
		nc.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
		if _, err := nc.Write(junk[:]); err != nil {
			return
		}
	}
}

// fillAdmin leaves some connections for those who look.
func fillAdmin(ctx context.Context, f *filling, t *tally) error {
	const spare = 4
	header := manyFields("GET /status", 3900)
	n := int(f.plan["admin"].units) - spare
	of := map[string]measure{"admin": goBytes, "admin_sockets": socketsOf("admin_sockets")}
	if err := f.plain(ctx, t, f.r.o.Admin, n, of, func(_ int, nc net.Conn) { io.WriteString(nc, header) }); err != nil {
		return err
	}
	return f.plain(ctx, t, f.r.o.Admin, n, of, func(_ int, nc net.Conn) { // a long answer that is not read, and a body that nobody wants
		io.WriteString(nc, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1048576\r\n\r\n")
		stuff(nc)
	})
}
