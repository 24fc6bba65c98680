package rpc

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// open decides about a new stream. Whatever is wrong with it is answered here, in the reader: no goroutine is started
// and nothing is kept.
func (c *conn) open(id uint32, end bool) error {
	r := &c.req
	if r.malformed != "" {
		c.queueReset(id, http2.ErrCodeProtocol)
		return c.spend(1)
	}
	if r.tooLong {
		c.reject(id, end, "431", status.Newf(codes.ResourceExhausted, "header list above %d bytes", c.s.o.MaxHeaderList))
		return nil
	}
	if !r.hasPseudo[pseudoMethod] || !r.hasPseudo[pseudoScheme] || r.pseudo[pseudoPath] == "" || r.length > 0 && end {
		c.queueReset(id, http2.ErrCodeProtocol)
		return c.spend(1)
	}
	c.mu.Lock()
	full := len(c.mu.streams) >= int(c.s.o.MaxConcurrentStreams)
	leaving := c.mu.goAway == goAwayLast || c.mu.dead
	c.mu.Unlock()
	if full || leaving {
		// Not processed, so a client may retry it at once: RFC 9113 8.7. A stream that the client has reset counts
		// until its handler has returned, else opening and resetting would be a way round every limit.
		c.s.refused.Add(1)
		c.early(id, end)
		c.queueReset(id, http2.ErrCodeRefusedStream)
		return c.spend(1)
	}
	if http, st := c.unfit(); st != nil {
		c.reject(id, end, http, st)
		return nil
	}
	m := c.s.methods[r.pseudo[pseudoPath]]
	if m == nil {
		c.s.other.started.Add(1)
		st := status.Newf(codes.Unimplemented, "unknown method %s", shorten(r.pseudo[pseudoPath], 200))
		c.s.other.count(st.Code())
		c.reject(id, end, "200", st)
		return nil
	}
	m.started.Add(1)
	if r.encoding != "" && r.encoding != "identity" {
		return c.turnAway(id, end, m, compressionUnsupported(r.encoding))
	}
	timeout, ok := parseTimeout(r.timeout)
	if !ok {
		return c.turnAway(id, end, m, status.Newf(codes.Internal, "malformed grpc-timeout %q", shorten(r.timeout, 20)))
	}
	return c.start(id, end, m, timeout)
}

// start asks the door and starts the handler.
func (c *conn) start(id uint32, end bool, m *method, timeout time.Duration) error {
	var release func()
	if c.s.o.Door != nil {
		c.mu.Lock()
		info := StreamInfo{
			Method: m.name, Peer: c.peer, OpenOnConn: len(c.mu.streams), OpenSameMethod: int(c.mu.byMethod[m.index]),
			MaxConcurrentStreams: int(c.s.o.MaxConcurrentStreams),
		}
		c.mu.Unlock()
		var err error
		if release, err = c.s.o.Door(info); err != nil {
			return c.turnAway(id, end, m, toStatus(err))
		}
	}
	st := &Stream{c: c, id: id, method: m, release: release, fields: slices.Clone(c.req.fields)}
	st.ctx.st = st
	st.recv.granted, st.recv.window, st.recv.ended = c.s.o.DoorWindow, c.s.o.DoorWindow, end
	st.recv.hasLength, st.recv.length = c.req.length >= 0, c.req.length
	if c.req.timeout != "" {
		st.ctx.startTimer(timeout)
	}
	c.mu.Lock()
	st.sendWindow = c.mu.initWindow
	c.addLocked(st)
	dead := c.mu.dead
	c.mu.Unlock()
	if dead {
		st.abort(http2.ErrCodeNo)
	}
	c.s.streams.Add(1)
	c.s.handlers.Add(1)
	go st.run()
	return nil
}

// unfit tells what keeps a well-formed request from being gRPC.
func (c *conn) unfit() (httpStatus string, _ *status.Status) {
	r := &c.req
	if r.pseudo[pseudoMethod] != "POST" {
		return "405", status.Newf(codes.Internal, "method %s: gRPC is POST", shorten(r.pseudo[pseudoMethod], 20))
	}
	ct, ok := strings.CutPrefix(r.contentType, "application/grpc")
	if ok && (ct == "" || ct[0] == '+' || ct[0] == ';') {
		return "", nil
	}
	return "415", status.Newf(codes.Internal, "content-type %q: this port speaks application/grpc", shorten(r.contentType, 60))
}

// turnAway answers a call of a known method without starting it.
func (c *conn) turnAway(id uint32, end bool, m *method, st *status.Status) error {
	m.count(st.Code())
	c.reject(id, end, "200", st)
	return nil
}

// reject queues a trailers-only response.
func (c *conn) reject(id uint32, end bool, httpStatus string, st *status.Status) {
	c.early(id, end)
	c.mu.Lock()
	maxList := c.mu.maxList
	c.mu.Unlock()
	c.queueCtrl(func(b []byte) []byte {
		b, at := beginHeaders(b, id, true)
		b = appendResponse(b, httpStatus)
		b = appendStatus(b, st, maxList)
		if st.Code() == codes.Unimplemented {
			b = appendField(b, "grpc-accept-encoding", "identity")
		}
		b = endHeaders(b, at, int(c.maxFrame.Load()))
		if !end {
			b = appendReset(b, id, http2.ErrCodeNo)
		}
		return b
	})
}

func (c *conn) early(id uint32, end bool) {
	if end {
		return
	}
	c.mu.Lock()
	c.rememberLocked(id)
	c.mu.Unlock()
}

func compressionUnsupported(encoding string) *status.Status {
	return status.New(codes.Unimplemented, fmt.Sprintf("grpc-encoding %q is not supported: send messages uncompressed", shorten(encoding, 60)))
}

func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n] + "…"
}
