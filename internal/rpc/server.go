package rpc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
)

// Server serves gRPC. Handle and RegisterService come before Serve.
type Server struct {
	o        Options
	methods  map[string]*method
	services map[string]grpc.ServiceInfo
	other    method // unknown ones, for the counts

	chunks   chunkPool
	bufs     readBufs
	buffered atomic.Int64
	early    atomic.Int64 // see Stream.receive
	streams  atomic.Int64
	refused  atomic.Uint64
	epoch    time.Time
	clock    atomic.Int64 // nanoseconds since epoch, plus one, as of the janitor's last tick

	handlers    sync.WaitGroup // handlers and the flushes that outlive their cause
	readers     sync.WaitGroup
	stop        chan struct{}
	janitorDone chan struct{}

	mu struct {
		sync.Mutex
		started   bool
		shutdown  bool
		listeners map[net.Listener]struct{}
		conns     map[*conn]struct{}
		cut       map[string]uint64
	}
}

// New checks the options. It starts nothing.
func New(o Options) (*Server, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{
		o:           o,
		methods:     make(map[string]*method),
		services:    make(map[string]grpc.ServiceInfo),
		epoch:       time.Now(),
		stop:        make(chan struct{}),
		janitorDone: make(chan struct{}),
	}
	s.other.name = "other"
	s.clock.Store(1)
	s.mu.listeners = make(map[net.Listener]struct{})
	s.mu.conns = make(map[*conn]struct{})
	s.mu.cut = make(map[string]uint64)
	return s, nil
}

func (s *Server) now() int64 { return int64(time.Since(s.epoch)) + 1 }

// Handle registers a handler for a full method name: "/pkg.Service/Method".
func (s *Server) Handle(name string, h Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.started {
		panic("rpc: Handle after Serve: " + name)
	}
	if s.methods[name] != nil {
		panic("rpc: method registered twice: " + name)
	}
	s.methods[name] = &method{name: name, index: len(s.methods), handler: h}
}

// Serve accepts connections until Shutdown, then returns nil, or until l fails. Shutdown must be called in any case; if it was called
// before, because a process is told to end while it starts, Serve closes l and returns nil at once.
func (s *Server) Serve(l net.Listener) error {
	s.mu.Lock()
	if s.mu.shutdown {
		s.mu.Unlock()
		_ = l.Close()
		return nil
	}
	if !s.mu.started {
		s.mu.started = true
		s.clock.Store(s.now())
		go s.janitor()
	}
	s.mu.listeners[l] = struct{}{}
	s.mu.Unlock()
	for pause := time.Duration(0); ; {
		nc, err := l.Accept()
		if err == nil {
			pause = 0
			s.accept(nc)
			continue
		}
		select {
		case <-s.stop:
			return nil
		default:
		}
		if s.shutting() {
			return nil
		}
		if errors.Is(err, net.ErrClosed) {
			return err
		}
		// Out of descriptors, most likely: a connection's end cures it.
		s.o.Logger.Error("accept", "error", err)
		pause = min(max(2*pause, 5*time.Millisecond), time.Second)
		select {
		case <-time.After(pause):
		case <-s.stop:
			return nil
		}
	}
}

func (s *Server) shutting() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.shutdown
}

// accept starts the reader of a connection, or closes it: a connection too many must cost nothing.
func (s *Server) accept(nc net.Conn) {
	peer := peerIP(nc.RemoteAddr())
	release := func() {}
	if g := s.o.Connections; g != nil {
		p, err := g.TryAdmit(peer, 1)
		if err != nil {
			_ = nc.Close()
			if s.o.Shed != nil {
				s.o.Shed(peer, err)
			}
			return
		}
		release = p.Release
	}
	s.setBuffers(nc)
	c := newConn(s, nc, peer, release)
	s.mu.Lock()
	if s.mu.shutdown {
		s.mu.Unlock()
		_ = nc.Close()
		release()
		return
	}
	s.mu.conns[c] = struct{}{}
	s.readers.Add(1)
	s.mu.Unlock()
	go func() {
		defer s.readers.Done()
		c.serve()
		s.mu.Lock()
		delete(s.mu.conns, c)
		s.mu.Unlock()
	}()
}

func peerIP(a net.Addr) string {
	ap, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return a.String()
	}
	return ap.Addr().Unmap().WithZone("").String()
}

func (s *Server) snapshot() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.mu.conns))
}

// Shutdown stops accepting, tells every client to go elsewhere, and lets calls in flight finish until ctx ends; then
// their contexts are cancelled and connections closed. It returns when no handler runs any more, with an error if it
// had to cut any short. A handler that ignores its context is given five seconds.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	if s.mu.shutdown {
		s.mu.Unlock()
		return errors.New("rpc: Shutdown called twice")
	}
	s.mu.shutdown = true
	started := s.mu.started
	for l := range s.mu.listeners {
		_ = l.Close()
	}
	s.mu.Unlock()
	for _, c := range s.snapshot() {
		c.goAway()
	}
	drained := make(chan struct{})
	go func() { // ends when the readers have; those end when their connections are shut below
		s.readers.Wait()
		s.handlers.Wait()
		close(drained)
	}()
	var err error
	select {
	case <-drained:
	case <-ctx.Done():
		open := s.streams.Load()
		for _, c := range s.snapshot() {
			c.cut("shutdown")
		}
		if open > 0 {
			err = fmt.Errorf("rpc: shutdown cut %d calls short: %w", open, context.Cause(ctx))
		}
		select {
		case <-drained:
		case <-time.After(5 * time.Second):
			err = fmt.Errorf("rpc: shutdown left %d handlers running that ignore their context", s.streams.Load())
		}
	}
	close(s.stop)
	if started {
		<-s.janitorDone
	}
	return err
}
