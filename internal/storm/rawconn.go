package storm

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
)

// rawConn is an HTTP/2 client without manners: what a frame library of a decent client would not do, it does. It
// keeps to flow control, because a server that is overrun there just closes the connection, which tests nothing.
//
// One goroutine writes (the owner); a second one reads, unless the client is one that never reads.
type rawConn struct {
	nc      net.Conn
	out     *bufio.Writer
	fr      *http2.Framer
	enc     *hpack.Encoder
	encBuf  bytes.Buffer
	nextID  uint32
	tally   *tally
	discard bool // data received is given back to the windows at once

	wmu sync.Mutex // fr and out: the reader answers SETTINGS and PING

	mu struct {
		sync.Mutex
		window     int64 // of the connection, to send
		initial    int64 // of a new stream
		streams    map[uint32]*rawStream
		maxStreams uint32
		dead       error
	}
	changed chan struct{} // capacity 1: windows grew, or a stream or the connection ended
	done    chan struct{} // closed when the reader has ended
}

type rawStream struct {
	id     uint32
	window int64
	ended  bool
}

const rawDialTimeout = 10 * time.Second

// rawDial says how a rawConn presents itself.
type rawDial struct {
	receive uint32 // window of each stream that the server sends on
	from    string // address to connect from, so that the server sees another peer; empty for any
	thrifty bool   // socket buffers as small as they go, so that what is in flight is held by the server
}

// dialRaw connects and sends the preface and SETTINGS. receive is the window of each stream that the server sends on.
func dialRaw(ctx context.Context, o *BazelOptions, t *tally, receive uint32) (*rawConn, error) {
	return dialRawAs(ctx, o, t, rawDial{receive: receive})
}

func dialRawAs(ctx context.Context, o *BazelOptions, t *tally, as rawDial) (*rawConn, error) {
	nc, err := dialFrom(ctx, o.Target, as.from, as.thrifty)
	if err != nil {
		return nil, err
	}
	c := &rawConn{nc: nc, out: bufio.NewWriterSize(nc, 16<<10), nextID: 1, tally: t,
		changed: make(chan struct{}, 1), done: make(chan struct{})}
	c.fr = http2.NewFramer(c.out, bufio.NewReaderSize(nc, 4<<10))
	c.fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.enc = hpack.NewEncoder(&c.encBuf)
	c.mu.window, c.mu.initial, c.mu.maxStreams = 65535, 65535, 1<<31-1
	c.mu.streams = map[uint32]*rawStream{}
	c.out.WriteString(http2.ClientPreface)
	c.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: as.receive})
	c.fr.WriteWindowUpdate(0, 1<<30)
	if err := c.out.Flush(); err != nil {
		nc.Close()
		return nil, err
	}
	return c, nil
}

// dialFrom connects from an address, with small socket buffers if thrifty.
func dialFrom(ctx context.Context, target, from string, thrifty bool) (net.Conn, error) {
	d := net.Dialer{Timeout: rawDialTimeout}
	if from != "" {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
	}
	if thrifty { // before the connection is made: its window is announced from the buffer's size
		d.Control = func(_, _ string, c syscall.RawConn) error {
			return c.Control(func(fd uintptr) {
				syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 2<<10)
				syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_SNDBUF, 4<<10)
			})
		}
	}
	return d.DialContext(ctx, "tcp", target)
}

// read starts the reader and waits for the server's SETTINGS.
func (c *rawConn) read(ctx context.Context) error {
	settled := make(chan struct{})
	go c.readLoop(settled)
	select {
	case <-settled:
		return nil
	case <-c.done:
		return fmt.Errorf("the server closed the connection before its settings: %w", c.failure())
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *rawConn) readLoop(settled chan struct{}) {
	defer close(c.done)
	for {
		f, err := c.fr.ReadFrame()
		if err != nil {
			c.fail(err)
			return
		}
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				c.settings(f)
				c.reply(func() { c.fr.WriteSettingsAck() })
				if settled != nil {
					close(settled)
					settled = nil
				}
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				c.reply(func() { c.fr.WritePing(true, f.Data) })
			}
		case *http2.WindowUpdateFrame:
			c.grow(f.StreamID, int64(f.Increment))
		case *http2.DataFrame:
			c.tally.bytes.Add(int64(len(f.Data())))
			c.giveBack(f)
		case *http2.MetaHeadersFrame:
			if f.StreamEnded() {
				c.trailers(f)
			}
		case *http2.RSTStreamFrame:
			c.end(f.StreamID, "RST_STREAM", f.ErrCode.String())
		case *http2.GoAwayFrame:
			c.fail(fmt.Errorf("GOAWAY %s %s", f.ErrCode, f.DebugData()))
		}
	}
}

func (c *rawConn) settings(f *http2.SettingsFrame) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v, ok := f.Value(http2.SettingInitialWindowSize); ok {
		for _, s := range c.mu.streams {
			s.window += int64(v) - c.mu.initial
		}
		c.mu.initial = int64(v)
	}
	if v, ok := f.Value(http2.SettingMaxConcurrentStreams); ok {
		c.mu.maxStreams = v
	}
}

func (c *rawConn) grow(id uint32, n int64) {
	c.mu.Lock()
	if id == 0 {
		c.mu.window += n
	} else if s := c.mu.streams[id]; s != nil {
		s.window += n
	}
	c.mu.Unlock()
	c.signal()
}

func (c *rawConn) giveBack(f *http2.DataFrame) {
	n := uint32(len(f.Data()))
	if n == 0 || !c.discard {
		return
	}
	c.reply(func() {
		c.fr.WriteWindowUpdate(0, n)
		if !f.StreamEnded() {
			c.fr.WriteWindowUpdate(f.StreamID, n)
		}
	})
}

// reply writes from the reader. A write error shows up in the next read.
func (c *rawConn) reply(write func()) {
	c.wmu.Lock()
	defer c.wmu.Unlock()
	write()
	c.out.Flush()
}

// trailers books the status of a call.
func (c *rawConn) trailers(f *http2.MetaHeadersFrame) {
	code, message := "no grpc-status", ""
	for _, h := range f.Fields {
		switch h.Name {
		case "grpc-status":
			if n, err := strconv.Atoi(h.Value); err == nil {
				code = codeName(codes.Code(n))
			}
		case "grpc-message":
			message = h.Value
		}
	}
	c.end(f.StreamID, code, message)
}

func (c *rawConn) end(id uint32, code, message string) {
	c.mu.Lock()
	s := c.mu.streams[id]
	delete(c.mu.streams, id)
	if s != nil {
		s.ended = true
	}
	c.mu.Unlock()
	if s == nil {
		return
	}
	c.tally.open.Add(-1)
	if code == "OK" {
		c.tally.ok.Add(1)
	} else {
		c.tally.turnedAway(code, message)
	}
	c.signal()
}

func (c *rawConn) fail(err error) {
	c.mu.Lock()
	if c.mu.dead == nil {
		c.mu.dead = err
	}
	c.mu.Unlock()
	c.signal()
}

func (c *rawConn) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.dead
}

func (c *rawConn) signal() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// open begins a gRPC call.
func (c *rawConn) open(method string) (*rawStream, error) {
	c.wmu.Lock()
	defer c.wmu.Unlock()
	c.encBuf.Reset()
	for _, h := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", method}, {":authority", "storm"},
		{"content-type", "application/grpc"}, {"te", "trailers"},
	} {
		c.enc.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]})
	}
	s := &rawStream{id: c.nextID}
	c.nextID += 2
	c.mu.Lock()
	s.window = c.mu.initial
	c.mu.streams[s.id] = s
	c.mu.Unlock()
	c.tally.offered.Add(1)
	c.tally.open.Add(1)
	return s, c.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: s.id, BlockFragment: c.encBuf.Bytes(), EndHeaders: true})
}

// take claims up to want bytes of the windows; 0 if there is no room now.
func (c *rawConn) take(s *rawStream, want int64) (int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.dead != nil {
		return 0, c.mu.dead
	}
	if s.ended {
		return 0, errStreamEnded
	}
	n := max(min(want, s.window, c.mu.window), 0)
	s.window -= n
	c.mu.window -= n
	return n, nil
}

var errStreamEnded = errors.New("the server ended the stream")

// data writes p in frames of at most frame bytes; the room for it was taken.
func (c *rawConn) data(s *rawStream, p []byte, frame int, end bool) error {
	c.wmu.Lock()
	defer c.wmu.Unlock()
	for len(p) > 0 {
		part := p[:min(frame, len(p))]
		p = p[len(part):]
		if err := c.fr.WriteData(s.id, end && len(p) == 0, part); err != nil {
			return err
		}
	}
	return nil
}

func (c *rawConn) flush() error {
	c.wmu.Lock()
	defer c.wmu.Unlock()
	return c.out.Flush()
}

// streamLimit is what the server announced, or n if that is less.
func (c *rawConn) streamLimit(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int(min(uint32(n), c.mu.maxStreams))
}

// close ends the connection and, if there was a reader, waits for it.
func (c *rawConn) close(reader bool) {
	c.nc.Close()
	if reader {
		<-c.done
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tally.open.Add(-int64(len(c.mu.streams)))
}
