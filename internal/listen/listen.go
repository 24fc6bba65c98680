// Package listen bounds what a listener's connections cost before any protocol has seen them.
//
// It refuses to wait and to read: a connection that the gate does not take is closed at once, because a connection that
// waits already costs a descriptor and two socket buffers, and a peer that is told nothing keeps to its own back-off.
package listen

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/leveehq/levee/gate"
)

// Options of a wrapped listener. The zero value changes nothing.
type Options struct {
	// Connections is charged one unit per open connection, with the peer's address as key; nil is no bound. Its limit
	// times PerConn, and times what the protocol on top holds per connection, are lines of the plan.
	Connections *gate.Gate

	// Receive and Send are SO_RCVBUF and SO_SNDBUF of every accepted connection in bytes; 0 leaves the system's sizing,
	// which grows to tens of MiB per connection. The kernel accounts for twice the value set. Too low and one stream is
	// held to the value divided by its round-trip time; too high and the plan holds fewer connections.
	Receive, Send int

	// SmallRead bounds what one Read into a buffer of up to 4 KiB returns; 0 is no bound. net/http sizes the map of a
	// request's header by the lines that it finds in its buffer of 4 KiB, so a client that sends a thousand empty fields in
	// one packet makes it set 80 KiB aside before the first is parsed. Too low and small bodies take many reads.
	SmallRead int

	// Header bounds the headers of HTTP/1.1 requests; nil leaves that to the server.
	Header *HeaderOptions

	// Shed is told about every connection that was closed at once, and its peer, for the log; it must not block. nil is nobody.
	Shed func(peer string, err error)
}

// KernelPerConn is what the kernel may hold for one connection with these options, in bytes: it charges a socket with
// up to twice the size set, for each direction. It is 0 if the system does the sizing.
func (o Options) KernelPerConn() int64 {
	return 2 * (int64(o.Receive) + int64(o.Send))
}

// Wrap returns l with the bounds of o. Connections of a TCP listener keep *net.TCPConn's methods, sendfile among them.
func Wrap(l net.Listener, o Options) net.Listener {
	return &listener{Listener: l, o: o}
}

type listener struct {
	net.Listener
	o Options
}

// Accept returns the next connection that the gate takes.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err // unwrapped: servers look for net.Error in it and back off
		}
		var p *gate.Permit
		if g := l.o.Connections; g != nil {
			peer := Peer(c.RemoteAddr())
			if p, err = g.TryAdmit(peer, 1); err != nil {
				_ = c.Close() // nothing was read or written that could be lost
				if l.o.Shed != nil {
					l.o.Shed(peer, err)
				}
				continue
			}
		}
		wrapped, err := l.o.wrap(c, p)
		if err != nil {
			p.Release()
			_ = c.Close() // the peer hung up before its socket could be set up; there is nobody to tell
			continue
		}
		return wrapped, nil
	}
}

func (o Options) wrap(c net.Conn, p *gate.Permit) (net.Conn, error) {
	t, ok := c.(*net.TCPConn)
	if !ok {
		return &plainConn{Conn: c, permit: p}, nil
	}
	if o.Receive > 0 {
		if err := t.SetReadBuffer(o.Receive); err != nil {
			return nil, fmt.Errorf("set receive buffer: %w", err)
		}
	}
	if o.Send > 0 {
		if err := t.SetWriteBuffer(o.Send); err != nil {
			return nil, fmt.Errorf("set send buffer: %w", err)
		}
	}
	wrapped := &tcpConn{TCPConn: t, permit: p, smallRead: o.SmallRead}
	if o.Header != nil {
		wrapped.head = &head{o: o.Header}
	}
	return wrapped, nil
}

// Peer is the fairness key of an address: the IP without port and zone, an IPv4 address written as one. What is no IP
// address is its own key.
func Peer(a net.Addr) string {
	if a == nil {
		return ""
	}
	if t, ok := a.(*net.TCPAddr); ok {
		if ip, ok := netip.AddrFromSlice(t.IP); ok {
			return ip.Unmap().String()
		}
	}
	if ap, err := netip.ParseAddrPort(a.String()); err == nil {
		return ap.Addr().Unmap().WithZone("").String()
	}
	return a.String()
}

type tcpConn struct {
	*net.TCPConn
	permit    *gate.Permit // nil if nothing bounds connections
	smallRead int
	head      *head // nil if nothing bounds headers
}

func (c *tcpConn) Read(p []byte) (int, error) {
	if c.smallRead > 0 && len(p) <= 4096 {
		p = p[:min(len(p), c.smallRead)]
	}
	if c.head != nil {
		return c.head.read(c.TCPConn, p)
	}
	return c.TCPConn.Read(p)
}

// Close closes the connection, and then makes room for the next one. Servers close twice; a permit counts once.
func (c *tcpConn) Close() error {
	defer c.permit.Release()
	return c.TCPConn.Close()
}

type plainConn struct {
	net.Conn
	permit *gate.Permit
}

func (c *plainConn) Close() error {
	defer c.permit.Release()
	return c.Conn.Close()
}
