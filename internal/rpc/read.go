package rpc

import (
	"errors"
	"fmt"
	"io"
	"syscall"
)

// read feeds the parser until the connection ends. Once closing, it discards instead.
func (c *conn) read() error {
	if c.raw == nil {
		return c.readPlain()
	}
	var buf *[readBufSize]byte
	var n int
	var rerr error
	defer func() {
		if buf != nil {
			c.s.bufs.put(buf)
		}
	}()
	// The buffer is taken when the socket is readable and given back when it runs dry: waiting costs no buffer.
	once := func(fd uintptr) bool {
		if buf == nil {
			buf = c.s.bufs.get()
		}
		for {
			n, rerr = syscall.Read(int(fd), buf[:])
			if rerr != syscall.EINTR {
				break
			}
		}
		if rerr == syscall.EAGAIN {
			c.s.bufs.put(buf)
			buf = nil
			return false
		}
		return true
	}
	for {
		if err := c.raw.Read(once); err != nil {
			return err
		}
		if rerr != nil {
			return rerr
		}
		if n <= 0 {
			return io.EOF
		}
		if err := c.got(buf[:n]); err != nil {
			return err
		}
	}
}

// readPlain serves a net.Conn that is no socket, which can only be waited for with a buffer in hand.
func (c *conn) readPlain() error {
	buf := make([]byte, 4<<10)
	for {
		n, err := c.nc.Read(buf)
		if n > 0 {
			if err := c.got(buf[:n]); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
	}
}

// got handles what one read brought. Handlers are woken, and control frames flushed, once per read.
func (c *conn) got(b []byte) error {
	c.lastRead.Store(c.s.clock.Load())
	c.pingSince.Store(0)
	if c.phase.Load() == phaseClosing {
		return nil
	}
	err := c.feed(b)
	c.wakeReaders()
	if err != nil {
		return err
	}
	c.flushFromReader()
	return nil
}

var errPreface = errors.New("not an HTTP/2 preface")

// answerHTTP1 tells a client of HTTP/1.1 in its own language what it has met.
func (c *conn) answerHTTP1() {
	switch string(c.in.small[:4]) {
	case "GET ", "PUT ", "POST", "HEAD":
	default:
		return
	}
	const text = "this port speaks gRPC over cleartext HTTP/2 with prior knowledge: use a grpc:// address\n"
	_, err := fmt.Fprintf(c.nc, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain\r\n"+
		"Content-Length: %d\r\n\r\n%s", len(text), text)
	if err != nil {
		return
	}
	c.closeWrite()
	_ = c.read()
}
