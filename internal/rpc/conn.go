package rpc

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	// connWindow is what a client may have in flight on a connection, and is credited on receipt. It bounds no memory:
	// that is what the streams' windows are for. GrowWindow raises it where 16 streams' windows would not fit.
	connWindow = 64 << 20

	// ctrlLimit is how many bytes of control frames may wait for the socket before the reader stops reading.
	ctrlLimit = 10 << 10

	// answerLimit is up to where small answers may wait with them. Above it their handlers wait for their turn.
	answerLimit = 8 << 10

	// calmBurst and calmRate (per second) bound the frames that cost us work and a client nothing: PING, SETTINGS,
	// RST_STREAM, PRIORITY, empty DATA, surplus streams.
	calmBurst = 4096
	calmRate  = 512

	// earlyLimit bounds the streams remembered as ended by us, 4 bytes each.
	earlyLimit = 512
)

// The phases of a connection, in order.
const (
	phasePreface  = iota // nothing, or part of the preface, has come
	phaseSettings        // the preface has come
	phaseOpen            // the client's SETTINGS have come
	phaseClosing         // our last frame is out; what still comes is read and discarded, so that it arrives
)

// conn is one connection. Its reader goroutine parses and dispatches; handlers write.
type conn struct {
	s       *Server
	nc      net.Conn
	raw     syscall.RawConn // nil: nc is not a socket
	peer    string
	opened  int64 // all times are of Server.clock
	release func()

	phase      atomic.Int32
	acked      atomic.Bool  // our SETTINGS are in force
	leaving    atomic.Bool  // no more streams: end when the last one has
	maxFrame   atomic.Int32 // the client's MAX_FRAME_SIZE
	lastRead   atomic.Int64 // when bytes last came
	idleSince  atomic.Int64 // 0: has streams
	blockSince atomic.Int64 // 0: no header block in flight
	closeSince atomic.Int64
	moreWindow atomic.Int64 // growConnWindow's, not yet in window
	pingSince  atomic.Int64 // 0: no keepalive ping out

	// Of the reader alone.
	in       parser
	hdec     *hpack.Decoder
	req      request
	wakes    []*Stream
	window   int // what the client may still send, connection-wide
	received int // bytes received since the last credit
	calm     int
	calmAt   int64

	// mu is taken before Stream.recv.mu.
	mu struct {
		sync.Mutex
		streams    []*Stream // open, by id; a stream leaves when its handler has returned
		byMethod   []uint16  // how many of them, by method.index
		maxID      uint32    // highest id opened by the client
		opening    bool      // the stream maxID is on its way into streams
		early      []uint32  // ring of the streams that we ended before the client did; see rememberLocked
		earlyNext  int
		window     int // the connection's window as announced, see growConnWindow
		sendWindow int64
		initWindow int64 // the client's INITIAL_WINDOW_SIZE
		waiters    sendQueue
		maxList    int64 // the client's MAX_HEADER_LIST_SIZE
		goAway     goAwayState
		dead       bool
	}

	// out is the output turn: who has sent into it may write to the socket. Waiters are served in order, so the
	// streams of a connection alternate.
	out   chan struct{}
	try   tryWrite
	ready chan struct{} // turns of SendReady

	ctrl struct {
		sync.Mutex
		o        *outBuf // nil when nothing waits
		reserved int     // room for answers that are about to be queued
	}
	ctrlSize  atomic.Int32
	writeFrom atomic.Int64 // 0: nobody writes; else since when no byte could be written
	lastWrite atomic.Int64 // when a write was last done
	answered  atomic.Bool  // part of a response has gone out since the client's last PING

	goAwaySince int64 // under mu

	gone chan struct{} // closed when the connection is dead
}

func newConn(s *Server, nc net.Conn, peer string, release func()) *conn {
	c := &conn{
		s: s, nc: nc, peer: peer, release: release,
		out:   make(chan struct{}, 1),
		ready: make(chan struct{}, readyTurns),
		gone:  make(chan struct{}),
		calm:  calmBurst,
	}
	now := s.clock.Load()
	c.opened, c.calmAt = now, now
	c.idleSince.Store(now)
	c.lastRead.Store(now)
	c.window = connWindow
	c.mu.window = connWindow
	c.mu.sendWindow, c.mu.initWindow = defaultWindow, defaultWindow
	c.maxFrame.Store(maxFrameLen)
	c.mu.byMethod = make([]uint16, len(s.methods))
	c.try.init()
	c.mu.maxList = 1 << 62
	c.hdec = hpack.NewDecoder(4096, c.headerField)
	c.hdec.SetMaxStringLength(int(s.o.MaxHeaderList))
	c.in.want = len(preface)
	if sc, ok := nc.(syscall.Conn); ok {
		if raw, err := sc.SyscallConn(); err == nil {
			c.raw = raw
		}
	}
	return c
}

// serve is the reader's goroutine.
func (c *conn) serve() {
	defer c.release()
	err := c.read()
	var ce *connError
	if err == errPreface {
		c.s.countCut("preface")
		c.answerHTTP1()
	} else if errors.As(err, &ce) {
		c.s.countCut(ce.code.String())
		c.s.o.Logger.Debug("connection ended", "peer", c.peer, "error", ce.text)
		c.endWith(ce)
	}
	c.shut()
}

// greet sends our SETTINGS, once the client has proved to speak HTTP/2.
func (c *conn) greet() {
	c.queueCtrl(func(b []byte) []byte {
		b = appendSettings(b,
			http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: c.s.o.MaxConcurrentStreams},
			http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(c.s.o.DoorWindow)},
			http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: c.s.o.MaxHeaderList},
		)
		return appendWindowUpdate(b, 0, connWindow-defaultWindow)
	})
}

// endWith sends GOAWAY and lets it arrive: closing a socket with unread input would destroy it on the way.
func (c *conn) endWith(ce *connError) {
	c.abortStreams()
	c.mu.Lock()
	last := c.mu.maxID
	c.mu.Unlock()
	c.queueCtrl(func(b []byte) []byte { return appendGoAway(b, last, ce.code, ce.text) })
	if c.flushBlocking() != nil {
		return
	}
	c.closeWrite()
	_ = c.read()
}

// closeWrite ends our side. The reader goes on, discarding, until the client ends its side or the janitor loses
// patience.
func (c *conn) closeWrite() {
	c.closeSince.Store(c.s.clock.Load())
	c.phase.Store(phaseClosing)
	if cw, ok := c.nc.(interface{ CloseWrite() error }); ok {
		_ = cw.CloseWrite()
		return
	}
	c.shut()
}

// shut ends the connection at once: the socket is closed, every stream's context cancelled, every waiter woken.
func (c *conn) shut() {
	c.mu.Lock()
	if c.mu.dead {
		c.mu.Unlock()
		return
	}
	c.mu.dead = true
	c.mu.Unlock()
	close(c.gone)
	_ = c.nc.Close()
	c.abortStreams()
}

func (c *conn) isDead() bool {
	select {
	case <-c.gone:
		return true
	default:
		return false
	}
}

func (c *conn) abortStreams() {
	c.mu.Lock()
	open := slices.Clone(c.mu.streams)
	c.mu.Unlock()
	for _, st := range open {
		st.reset.Store(true)
		st.ctx.cancel(context.Canceled)
	}
}

// cut ends the connection for a reason of ours that the client is not told.
func (c *conn) cut(reason string) {
	c.s.countCut(reason)
	c.s.o.Logger.Debug("connection cut", "peer", c.peer, "reason", reason)
	c.shut()
}

// findLocked returns the open stream with this id.
func (c *conn) findLocked(id uint32) *Stream {
	s := c.mu.streams
	if n := len(s); n > 0 && s[n-1].id == id {
		return s[n-1]
	}
	i, ok := slices.BinarySearchFunc(s, id, func(st *Stream, id uint32) int { return int(st.id) - int(id) })
	if !ok {
		return nil
	}
	return s[i]
}

// addLocked enters a stream; removeLocked takes it out when its handler has returned, which frees its slot.
func (c *conn) addLocked(st *Stream) {
	c.mu.streams = append(c.mu.streams, st)
	c.mu.byMethod[st.method.index]++
	c.idleSince.Store(0)
}

func (c *conn) removeLocked(st *Stream) {
	i := slices.Index(c.mu.streams, st)
	if i < 0 {
		return
	}
	c.mu.streams = slices.Delete(c.mu.streams, i, i+1)
	c.mu.byMethod[st.method.index]--
	if !st.peerEnded() {
		c.rememberLocked(st.id)
	}
	if len(c.mu.streams) == 0 {
		if cap(c.mu.streams) > 16 {
			c.mu.streams = nil // a burst must not be paid for ever after
		}
		c.idleSince.Store(c.s.clock.Load())
	}
}

// rememberLocked notes a stream that we ended before the client did: what it still sends is discarded without a word, and
// costs it none of its calm, or the client of a server that sheds would be cut for the frames it had under way. Within a
// round trip no more streams can be ended than may be open, so as many are remembered; for one that has been
// forgotten since, the client gets a RST_STREAM that it ignores.
func (c *conn) rememberLocked(id uint32) {
	if c.mu.early == nil {
		c.mu.early = make([]uint32, min(c.s.o.MaxConcurrentStreams, earlyLimit))
	}
	c.mu.early[c.mu.earlyNext%len(c.mu.early)] = id
	c.mu.earlyNext++
}

// spend takes from the budget of frames that cost a client nothing.
func (c *conn) spend(n int) error {
	now := c.s.clock.Load()
	if back := (now - c.calmAt) / (1e9 / calmRate); back > 0 {
		c.calm = min(calmBurst, c.calm+int(min(back, calmBurst)))
		c.calmAt = now
	}
	if c.calm -= n; c.calm < 0 {
		return &connError{http2.ErrCodeEnhanceYourCalm, "too many control frames"}
	}
	return nil
}
