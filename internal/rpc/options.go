package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"time"

	"github.com/leveehq/levee/gate"
)

// Options of a Server. The zero value of every field is safe.
type Options struct {
	// DoorWindow is SETTINGS_INITIAL_WINDOW_SIZE: all that a stream may hold before its handler grows the window.
	// Too low and small calls need a round trip in their middle; too high and every waiting stream costs more.
	// Default 16 KiB, at least 1 KiB.
	DoorWindow int

	// MaxConcurrentStreams per connection; the surplus waits in the client, where it costs nothing. Default 200.
	MaxConcurrentStreams uint32

	// MaxHeaderList bounds a request's header list, encoded and decoded. Default 16 KiB.
	MaxHeaderList uint32

	// IdleTimeout ends a connection that has had no stream for so long. Default 5 min.
	IdleTimeout time.Duration

	// MaxAge ends a connection gracefully when it is older. Zero, the default, is no limit.
	MaxAge time.Duration

	// Keepalive is the silence after which the client is pinged; it is cut if 20 s later nothing has come. Default 60 s.
	Keepalive time.Duration

	// WriteStall cuts a connection on which no byte could be written for so long, and so frees what its streams hold.
	// Default 60 s.
	WriteStall time.Duration

	// SocketReceive is SO_RCVBUF of accepted sockets. It caps the throughput of one connection at SocketReceive per
	// round trip, so it should not be below the largest window granted. Default 256 KiB.
	SocketReceive int

	// SocketSend is SO_SNDBUF of accepted sockets. Default 128 KiB.
	SocketSend int

	// MaxMessage is the longest message that generated code (RegisterService) accepts; a longer one is
	// RESOURCE_EXHAUSTED before a byte of it is held. Default 4 MiB.
	MaxMessage int64

	// MessageTimeout bounds the time a message may take from its first byte to its last, and a unary call's request
	// from the start of the call. Time spent in AdmitMessage does not count. Default 10 s.
	MessageTimeout time.Duration

	// AdmitMessage is asked before ReadMessage holds a message of n bytes that does not fit the door window. It may
	// wait. While it reads, the stream holds n plus at most MessageWindow bytes. The release func is called when the
	// handler has returned. Nil admits all.
	AdmitMessage func(ctx context.Context, st *Stream, n int64) (release func(), err error)

	// Connections has one unit per connection, keyed by the peer's IP. Connections above it are closed at once.
	// Nil is no limit.
	Connections *gate.Gate

	// Shed is told of every connection that Connections had no room for, for the log; it must not block. Nil is nobody.
	Shed func(peer string, err error)

	// Door decides about a new stream in the connection's reader, before any stream state exists. It must not block.
	// It returns a release func, called once when the call's handler has returned, or an error that becomes the
	// call's status. Calls of unknown methods and malformed calls are answered without asking it. Nil is open.
	Door func(i StreamInfo) (release func(), err error)

	// Intercept wraps every registered handler (authentication, access log). Unknown methods have no handler: they
	// are answered in the reader and do not pass it. Panics, its own included, are handled inside rpc.
	Intercept func(st *Stream, next Handler) error

	// Logger gets panics of handlers and connection errors (at debug level). Nil discards.
	Logger *slog.Logger
}

// StreamInfo is what is known when HEADERS arrive.
type StreamInfo struct {
	Method string // "/google.bytestream.ByteStream/Write"
	Peer   string // IP without port
	// OpenOnConn is the number of streams open on this connection, OpenSameMethod those of the same method; the new
	// one is not among them. A stream is open until its handler has returned, even if the client has reset it.
	OpenOnConn, OpenSameMethod int
	MaxConcurrentStreams       int
}

// Handler runs in its own goroutine. Its error becomes the grpc-status (status.FromError; context errors mapped).
type Handler func(st *Stream) error

// MethodCode labels a count of calls.
type MethodCode struct{ Method, Code string }

// Stats is a snapshot for metrics.
type Stats struct {
	Connections, Streams int
	Handled              map[MethodCode]uint64 // by method and code, the door's sheds included; unknown methods are "other"
	Started              map[string]uint64     // by method; Started − Handled are in flight
	BufferedBytes        int64                 // received, not yet read by handlers
	Refused              uint64                // streams above MaxConcurrentStreams, answered REFUSED_STREAM
	Cut                  map[string]uint64     // connections that we ended, by reason
}

func (o Options) withDefaults() (Options, error) {
	def := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	defDur := func(p *time.Duration, v time.Duration) {
		if *p == 0 {
			*p = v
		}
	}
	def(&o.DoorWindow, 16<<10)
	def(&o.SocketReceive, 256<<10)
	def(&o.SocketSend, 128<<10)
	defDur(&o.IdleTimeout, 5*time.Minute)
	defDur(&o.Keepalive, time.Minute)
	defDur(&o.WriteStall, time.Minute)
	defDur(&o.MessageTimeout, 10*time.Second)
	if o.MaxConcurrentStreams == 0 {
		o.MaxConcurrentStreams = 200
	}
	if o.MaxHeaderList == 0 {
		o.MaxHeaderList = 16 << 10
	}
	if o.MaxMessage == 0 {
		o.MaxMessage = 4 << 20
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	return o, o.validate()
}

func (o *Options) validate() error {
	var errs []error
	bad := func(cond bool, format string, args ...any) {
		if cond {
			errs = append(errs, fmt.Errorf("rpc: "+format, args...))
		}
	}
	bad(o.DoorWindow < 1<<10 || o.DoorWindow > math.MaxInt32, "DoorWindow %d: must be 1 KiB to 2 GiB", o.DoorWindow)
	bad(o.MaxConcurrentStreams > 1<<20, "MaxConcurrentStreams %d: must be at most %d", o.MaxConcurrentStreams, 1<<20)
	bad(o.MaxHeaderList < 1<<10 || o.MaxHeaderList > 1<<20, "MaxHeaderList %d: must be 1 KiB to 1 MiB", o.MaxHeaderList)
	bad(o.MaxMessage < 0 || o.MaxMessage > math.MaxUint32, "MaxMessage %d: must be 0 to 4 GiB", o.MaxMessage)
	for _, d := range []struct {
		name string
		v    time.Duration
	}{
		{"IdleTimeout", o.IdleTimeout}, {"MaxAge", o.MaxAge}, {"Keepalive", o.Keepalive},
		{"WriteStall", o.WriteStall}, {"MessageTimeout", o.MessageTimeout},
	} {
		bad(d.v < 0, "%s %v: must not be negative", d.name, d.v)
	}
	bad(o.SocketReceive < 0, "SocketReceive %d: must not be negative", o.SocketReceive)
	bad(o.SocketSend < 0, "SocketSend %d: must not be negative", o.SocketSend)
	return errors.Join(errs...)
}
