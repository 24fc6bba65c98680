package bazel

import (
	"errors"
	"fmt"
	"time"

	"github.com/leveehq/levee"
	"github.com/leveehq/levee/gate"
	"github.com/leveehq/levee/internal/accesslog"
	"github.com/leveehq/levee/internal/blobstore"
	"github.com/leveehq/levee/internal/shedcode"
)

// What fairness is between.
const (
	FairByPeer     = "peer"
	FairByInstance = "instance"
)

// Options of a Service. Zero means the default, which follows from the memory limit where memory is concerned; Kernel and
// Store are required.
type Options struct {
	// Kernel owns the plan and makes the gates. New registers every line of the front ends with it.
	Kernel *levee.Kernel

	// Memory is what the defaults below are made for: the limit less what other services are given. 0 is the kernel's limit.
	Memory int64

	// Store keeps the bytes. Its own lines (index, dirty pages) are registered by whoever opened it.
	Store blobstore.Store

	// Codes says how a shed is answered. Its zero value is the table of the design.
	Codes shedcode.Codes

	// Log receives one record per call; nil writes none.
	Log *accesslog.Log

	// CPU is the gate that the services of one process share for computing. nil: New makes it, with GOMAXPROCS units.
	CPU *gate.Gate

	// Compressors is the number of pooled zstd encoders, and of decoders of small blobs: one for each processor, while they
	// take no more than a sixteenth of the memory. More have no use; with fewer, calls wait for one another's chunk.
	Compressors int

	// MaxStreams is the door (bazel.max_streams): gRPC calls open at once, all connections together. Each may hold
	// DoorWindow. Too low sheds whole bursts before a gate could queue them; too high takes memory from all else.
	MaxStreams int

	// MaxStreamsPerConnection is announced to clients (bazel.max_streams_per_connection), whose surplus then waits on
	// their side at no cost to us. Half of them may be writes while the write gate is full. The default is 200, or
	// MaxStreams if that is lower.
	MaxStreamsPerConnection int

	// MaxConnections bounds the gRPC connections, and MaxHTTPConnections those of the HTTP cache (bazel.max_connections
	// is both). One above is closed at once. Each has kernel buffers, which is most of what it costs.
	MaxConnections, MaxHTTPConnections int

	// OtherHTTPConnections is what the default of MaxHTTPConnections is raised by, for a service behind the same listener.
	OtherHTTPConnections int

	// DoorWindow is the memory that a call may fill before it is admitted (bazel.door_window; 16 KiB). The window announced
	// to clients is a quarter less, which is what always fits. Too low and small calls need a second round trip; too high
	// multiplies with MaxStreams.
	DoorWindow int

	// Window is what an admitted write may have in flight (bazel.window). One upload's speed is window ÷ round trip, so
	// too low makes long lines slow; too high admits fewer writes. The default is 256 KiB, and 128 KiB below 1 GiB.
	Window int

	// MaxWrites is the number of identity writes admitted at once, of all keys together (bazel.max_writes). A sixteenth of
	// it, and one write at least, is not for a single key. The gate counts bytes: a compressed write costs as much as
	// several, by its frame's window.
	MaxWrites int

	// WriteWait is the longest time in the write queue (bazel.write_wait; 10 s). Bazel gives a call 60 s in all: near
	// that every queued write becomes a retry.
	WriteWait time.Duration

	// WriteQueue is the number of writes that may wait (bazel.write_queue). A waiter is an open stream that the door
	// has counted, so the default is MaxStreams.
	WriteQueue int

	// ReadWait is the longest time that a read waits for its chunk's permit (bazel.read_wait; 10 s).
	ReadWait time.Duration

	// MaxBatch is the payload of one batch call, announced to clients (bazel.max_batch; 2 MiB). A client of gRPC's default
	// settings takes messages up to 4 MiB, and a batch of small blobs is 1.75 times its payload: above 2 MiB a response
	// that the announced limit allows may be one that such a client cannot receive.
	MaxBatch int64

	// MaxBlob is the largest blob accepted (bazel.max_blob); 0 leaves it to the store.
	MaxBlob int64

	// ReadChunk is what one read holds at a time (bazel.read_chunk; 256 KiB, and 128 KiB below 1 GiB). At most 1 MiB:
	// larger buffers are not pooled, and larger messages break clients of gRPC's default settings.
	ReadChunk int

	// FairBy is what fairness is between (bazel.fair_by): "peer", the principal or else the client's address (a proxy in
	// front makes all clients one), or "instance". The door knows no instances: it always goes by peer.
	FairBy string

	// ReadStall cuts a write or read that makes no progress for so long (60 s): for a write that is 4 KiB, or its rest.
	// MessageWait cuts a unary call whose message is not complete after so long (10 s).
	ReadStall, MessageWait time.Duration

	// ReadMemory, BatchMemory, BatchReadMemory, ACMemory and FindMissingMemory are the limits of the gates of these names
	// in bytes; defaults are shares of the memory limit. A call that costs more is served alone, and the plan's line is
	// then as large as the largest such call.
	ReadMemory, BatchMemory, BatchReadMemory, ACMemory, FindMissingMemory int64
}

// validate finds settings that contradict each other. Those that only the defaults make contradict do not reach it: sizing
// has made them agree.
func (o *Options) validate() error {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if o.Kernel == nil || o.Store == nil {
		bad("bazel: Options.Kernel and Options.Store are required")
	}
	for _, n := range []struct {
		name string
		v    int64
	}{
		{"max_streams", int64(o.MaxStreams)}, {"max_streams_per_connection", int64(o.MaxStreamsPerConnection)},
		{"max_connections", int64(o.MaxConnections)}, {"max_http_connections", int64(o.MaxHTTPConnections)},
		{"door_window", int64(o.DoorWindow)}, {"window", int64(o.Window)}, {"max_writes", int64(o.MaxWrites)},
		{"write_wait", int64(o.WriteWait)}, {"write_queue", int64(o.WriteQueue)}, {"read_wait", int64(o.ReadWait)},
		{"max_batch", o.MaxBatch}, {"max_blob", o.MaxBlob}, {"read_chunk", int64(o.ReadChunk)},
		{"read_stall", int64(o.ReadStall)}, {"message_wait", int64(o.MessageWait)}, {"read_memory", o.ReadMemory},
		{"batch_memory", o.BatchMemory}, {"batch_read_memory", o.BatchReadMemory}, {"ac_memory", o.ACMemory},
		{"find_missing_memory", o.FindMissingMemory},
	} {
		if n.v < 0 {
			bad("bazel.%s (%d) is negative: leave it out for the default", n.name, n.v)
		}
	}
	if o.DoorWindow > 0 && o.DoorWindow < 1024 {
		bad("bazel.door_window (%d) is below 1024 bytes: a resource name would not fit", o.DoorWindow)
	}
	if o.ReadChunk > maxReadChunk {
		bad("bazel.read_chunk (%d) is above %d bytes, the largest buffer that is pooled: lower it", o.ReadChunk, maxReadChunk)
	}
	switch o.FairBy {
	case "", FairByPeer, FairByInstance:
	default:
		bad("bazel.fair_by is %q: it is %q or %q", o.FairBy, FairByPeer, FairByInstance)
	}
	if err := o.Codes.Validate(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// contradictions are between settings, each given or derived; the error names both.
func (o *Options) contradictions() error {
	var errs []error
	above := func(a string, av int64, b string, bv int64, why string) {
		if av > bv {
			errs = append(errs, fmt.Errorf("bazel.%s (%d) is above bazel.%s (%d): %s", a, av, b, bv, why))
		}
	}
	above("max_streams_per_connection", int64(o.MaxStreamsPerConnection), "max_streams", int64(o.MaxStreams),
		"one connection cannot have more streams than all together; lower the first or raise the second")
	above("max_writes", int64(o.MaxWrites), "max_streams", int64(o.MaxStreams),
		"a write is a stream; lower the first or raise the second")
	above("write_queue", int64(o.WriteQueue), "max_streams", int64(o.MaxStreams),
		"a write that waits is an open stream; lower the first or raise the second")
	above("door_window", int64(o.DoorWindow), "window", int64(o.Window),
		"admission never takes window away; lower the first or raise the second")
	if o.WriteWait >= o.ReadStall {
		errs = append(errs, fmt.Errorf("bazel.write_wait (%v) is not below bazel.read_stall (%v), the time after which a write without progress is cut: lower the first", o.WriteWait, o.ReadStall))
	}
	return errors.Join(errs...)
}
