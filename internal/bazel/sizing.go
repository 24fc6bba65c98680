package bazel

import (
	"math"
	"runtime"
	"time"

	"github.com/leveehq/levee"
	"github.com/leveehq/levee/gate"
	"github.com/leveehq/levee/internal/blobstore"
	"github.com/leveehq/levee/internal/rpc"
)

const (
	kib = 1 << 10
	mib = 1 << 20

	copyBuffer   = 64 * kib  // between a stream and the store
	maxReadChunk = mib       // larger buffers must not be pooled
	smallMemory  = 1 << 30   // below it, windows and chunks are halved
	tinyMemory   = 512 * mib // below it, floors sink and batches are halved

	// minProgress is what an upload must bring within the stall time (bazel.read_stall), over gRPC and over HTTP, if it is
	// not the last of it. One byte a minute is no progress: it would hold a permit for years.
	minProgress = 4 * kib
)

// Measured bytes of what is counted by number; tests hold them.
const (
	// perCall is what a call takes that waits, besides its stream: a name, parse buffers, its place in a queue, and the
	// stack that it takes to get there.
	perCall = 3 * kib

	// perHTTPConnection is net/http's: goroutines, buffers, the map of a hostile header, or else sendfile's copy buffer.
	perHTTPConnection = 76 * kib

	// perDecoder is what a streaming zstd decoder takes besides its frame's window: room for two blocks beyond it, one
	// block in and one out, tables. Measured: 487 KiB.
	perDecoder = 512 * kib

	// perEncoder is one pooled encoder with its tables, perBlockDecoder a decoder whose output is given to it.
	perEncoder      = 1088 * kib
	perBlockDecoder = 512 * kib
)

// Kernel buffers that are set on accepted sockets. The kernel doubles both.
const (
	socketReceive     = 256 * kib // at least a stream's window
	socketSend        = 64 * kib
	httpSocketReceive = 64 * kib
	httpSocketSend    = 64 * kib
)

// fill replaces what is zero. What one setting implies for another is taken from the one that was given, so that only
// two given settings can contradict each other.
//
// The shares are of the memory limit. Together with the store's index (15 % of what may be live) they stay below 0.55 of
// GOMEMLIMIT, which is about two thirds of the limit on the smallest machine and nine tenths on a large one. A floor is
// what makes a share useful on 512 MiB; a ceiling is where more would only lengthen queues on disk and processor. Below
// 512 MiB the floors sink with the limit, and the door faster, so that 256 MiB still serve, just less at once.
func (o *Options) fill(limit int64) {
	small, tiny := limit < smallMemory, limit < tinyMemory
	share := func(parts, floor, ceiling int64) int64 {
		if tiny {
			floor = floor * limit / tinyMemory
		}
		return clamp(limit/parts, floor, ceiling)
	}
	set(&o.DoorWindow, 16*kib)
	set(&o.Window, pick(small, 128*kib, 256*kib))
	set(&o.ReadChunk, pick(small, 128*kib, 256*kib))
	set(&o.MaxBatch, int64(pick(tiny, mib, 2*mib)))
	set(&o.MaxStreams, defaultStreams(limit))
	set(&o.MaxStreamsPerConnection, min(200, o.MaxStreams))
	// Larger windows are fewer connections. Over HTTP one Bazel opens up to 100.
	set(&o.MaxConnections, int(clamp(limit*int64(pick(tiny, 8, 12))/100/o.socketBytes(), 16, 1024)))
	set(&o.MaxHTTPConnections, int(clamp(limit/int64(pick(tiny, 8*mib, 5*mib)), 16, 1024))+o.OtherHTTPConnections)
	set(&o.MaxWrites, min(int(clamp(limit/25/o.identityCost(), 1, 1024)), o.MaxStreams))
	set(&o.WriteWait, 10*time.Second)
	set(&o.WriteQueue, o.MaxStreams)
	set(&o.ReadWait, 10*time.Second)
	set(&o.ReadStall, 60*time.Second)
	set(&o.MessageWait, 10*time.Second)
	set(&o.ReadMemory, share(51, 10*mib, 256*mib))
	set(&o.BatchMemory, share(51, 10*mib, 256*mib))
	set(&o.BatchReadMemory, share(64, 8*mib, 128*mib))
	set(&o.ACMemory, share(85, 6*mib, 128*mib))
	set(&o.FindMissingMemory, share(100, 5*mib, 64*mib))
	// The processors may be a host's, and the memory a container's.
	set(&o.Compressors, int(clamp(limit/16/o.perProcessor(), 1, int64(runtime.GOMAXPROCS(0)))))
	if o.FairBy == "" {
		o.FairBy = FairByPeer
	}
}

// defaultStreams is an eighth of the limit down to 512 MiB, and falls to a few hundred at 256 MiB.
func defaultStreams(limit int64) int {
	if limit < tinyMemory {
		return int(max(64, (limit-tinyMemory*3/8)*2560/(tinyMemory*5/8)))
	}
	return int(clamp(limit/(210*kib), 2560, 6144))
}

// Costs in bytes of one call of each kind, and of the largest one.

func (o *Options) identityCost() int64 { return int64(o.Window) + copyBuffer }

func (o *Options) compressedCost(frameWindow int64) int64 {
	return o.identityCost() + perDecoder + frameWindow
}

// smallCompressedCost is for a blob that is decoded whole, by a decoder of the pool: its compressed form is in memory.
func (o *Options) smallCompressedCost(size int64) int64 {
	return o.identityCost() + smallCompressed(size)
}

func (o *Options) httpWriteCost() int64 { return copyBuffer + blobstore.ActiveUploadBytes }

// readCost of a chunk: its buffer, and for a compressed one that of the frame.
func (o *Options) readCost(chunk int64, compressed bool) int64 {
	if compressed {
		return bufferSize(chunk) + bufferSize(frameBound(chunk))
	}
	return bufferSize(chunk)
}

// maxBatchMessage is the largest BatchUpdateBlobs message: a payload of MaxBatch in blobs of 100 bytes comes with as much
// again in digests and tags, three quarters of it.
func (o *Options) maxBatchMessage() int64 { return 2*o.MaxBatch + 64*kib }

// batchCost of a message of n bytes: one blob of it at a time is in memory, and the response, which for blobs of a few
// bytes is as long as the message and a quarter of it more.
func (o *Options) batchCost(n int64) int64 { return n + n/4 + o.messageWindow(n) + 16*kib }

// messageWindow is how far the window of a stream with a message of n bytes is opened.
func (o *Options) messageWindow(n int64) int64 { return min(n, int64(o.Window)) }

// maxBatchCost is the largest use of the gate of messages that carry data in.
func (o *Options) maxBatchCost() int64 {
	return max(o.batchCost(o.maxBatchMessage()), o.acUpdateCost(o.maxACBody()+maxACRequest))
}

// acCost of an action result of n bytes: the bytes, what they refer to (a digest is at least 70 bytes there and 40 here),
// the digests being looked up, up to maxRefs at once, and a buffer to read trees through.
func (o *Options) acCost(n int64) int64 { return n + n*2/3 + maxRefs*perRef + 32*kib }

// acUpdateCost is for one that is sent in a message of n bytes.
func (o *Options) acUpdateCost(n int64) int64 { return o.acCost(n) + o.messageWindow(n) }

// maxACCost is the largest, asked for by the longest request. What is inlined fills up a message that a body of that size
// fills alone, and costs less than it does.
func (o *Options) maxACCost() int64 { return o.acCost(o.maxACBody()) + 4*maxACRequest }

// maxACBody is the largest action result that gRPC takes and gives.
func (o *Options) maxACBody() int64 { return o.MaxBatch }

func (o *Options) findMissingCost(n int64) int64 { return n + o.messageWindow(n) + perFindMissing }

// exemptStreams is the door's reserve for calls that are never shed.
func (o *Options) exemptStreams() int { return max(16, o.MaxStreams/16) }

func (o *Options) makeGates(k *levee.Kernel) (g gates, err error) {
	// One key alone may have seven eighths, so that another finds room whatever the first one's clients are stuck in.
	most := func(n int64) int64 { return max(1, n-n/8) }
	mk := func(dst **gate.Gate, shedOnPressure bool, opt gate.Options) {
		if err == nil {
			*dst, err = k.NewGate(opt, shedOnPressure)
		}
	}
	streams := int64(o.MaxStreams)
	mk(&g.streams, false, gate.Options{Name: "streams", Limit: streams,
		PerKey: most(streams), PerKeyContended: half(streams)})
	exempt := int64(o.exemptStreams())
	mk(&g.exempt, false, gate.Options{Name: "streams_reserved", Limit: exempt, PerKeyContended: half(exempt)})
	conns := func(name string, n int64) gate.Options { // idle ones, too: nobody locks the others out
		return gate.Options{Name: name, Limit: n, PerKey: most(n), PerKeyContended: half(n)}
	}
	mk(&g.connections, false, conns("connections", int64(o.MaxConnections)))
	mk(&g.httpConnections, false, conns("http_connections", int64(o.MaxHTTPConnections)))

	bytes := func(name string, limit, largest int64, queue int, wait time.Duration) gate.Options {
		return gate.Options{Name: name, Limit: limit, PerKey: most(limit), PerKeyContended: half(limit), MaxCost: max(limit, largest), Queue: queue, Wait: wait}
	}
	all := o.MaxStreams + o.MaxHTTPConnections // nobody else can wait
	write := bytes("write", int64(o.MaxWrites)*o.identityCost(), o.compressedCost(maxFrameWindow), o.WriteQueue, o.WriteWait)
	write.PerKey = o.writesPerKey(write.Limit)
	mk(&g.write, true, write)
	mk(&g.batchUpdate, true, bytes("batch_update", o.BatchMemory, o.maxBatchCost(), all, o.WriteWait))
	mk(&g.read, false, bytes("read", o.ReadMemory, o.readCost(int64(o.ReadChunk)-frameSlack, true), all, o.ReadWait))
	mk(&g.batchRead, false, bytes("batch_read", o.BatchReadMemory, o.maxBatchReadCost(), all, o.ReadWait))
	mk(&g.ac, false, bytes("ac", o.ACMemory, o.maxACCost(), o.MaxStreams, acWait))
	mk(&g.findMissing, false, bytes("find_missing", o.FindMissingMemory, o.findMissingCost(maxFindMissing), all, o.ReadWait))
	g.cpu = o.CPU
	if g.cpu == nil {
		mk(&g.cpu, false, gate.Options{Name: "cpu", Limit: int64(runtime.GOMAXPROCS(0)), Queue: math.MaxInt32, Wait: o.ReadStall})
	}
	return g, err
}

// writesPerKey is what of the write gate one key may have: max_writes is for all keys together. The rest is small, since one
// build is most often alone, but there is room for another's write in it whatever the first one's clients are stuck in.
func (o *Options) writesPerKey(limit int64) int64 {
	if rest := max(limit/16, o.identityCost()); rest < limit {
		return limit - rest
	}
	return limit // of a single write nothing can be kept
}

// half is what one key may have of a gate while there is another.
func half(n int64) int64 { return max(1, n/2) }

// addLines registers what the front ends may hold. Each gate's line is its largest use: its limit, or one larger call that
// is served alone.
func (o *Options) addLines(k *levee.Kernel, g gates) {
	counted := func(account string, kind levee.Kind, gt *gate.Gate, unit string, n, per int64, setting, note string) {
		k.AddLine(levee.Line{Account: account, Kind: kind, Units: n, Unit: unit, PerUnit: per, Setting: setting, Note: note,
			InUse: func() int64 { return gt.Stats().InUse * per }})
	}
	inBytes := func(gt *gate.Gate, n int64, setting, note string) {
		counted(gt.Name(), levee.KindGo, gt, "byte", n, 1, setting, note)
	}
	counted("streams", levee.KindGo, g.streams, "stream", int64(o.MaxStreams), o.streamBytes(), "bazel.max_streams",
		"A stream that waits: its door window and its state.")
	counted("streams_reserved", levee.KindGo, g.exempt, "stream", int64(o.exemptStreams()), o.streamBytes(), "bazel.max_streams",
		"Streams for calls that are never shed: capabilities, health, write status.")
	counted("connections", levee.KindGo, g.connections, "connection", int64(o.MaxConnections), rpc.ConnBytes, "bazel.max_connections",
		"Frame buffers, header tables and goroutines of a gRPC connection.")
	// A quarter more, because what comes early lies in chunks that are not full: 3.5 MiB were measured.
	k.AddLine(levee.Line{Account: "transport", Kind: levee.KindGo, Units: rpc.EarlyBytes*5/4 + rpc.FreeBytes, Unit: "byte", PerUnit: 1,
		Note: "Free lists of the gRPC transport, and what clients send before they know its windows."})
	counted("http_connections", levee.KindGo, g.httpConnections, "connection", int64(o.MaxHTTPConnections), perHTTPConnection, "bazel.max_connections",
		"Buffers and goroutine of a connection of the HTTP cache.")
	counted("sockets", levee.KindKernel, g.connections, "connection", int64(o.MaxConnections), o.socketBytes(), "bazel.max_connections",
		"Kernel buffers of a gRPC connection; the kernel doubles what is set.")
	counted("http_sockets", levee.KindKernel, g.httpConnections, "connection", int64(o.MaxHTTPConnections), 2*(httpSocketReceive+httpSocketSend), "bazel.max_connections",
		"Kernel buffers of an HTTP connection.")

	k.AddLine(o.writeLine(g.write))
	inBytes(g.batchUpdate, max(o.BatchMemory, o.maxBatchCost()), "bazel.batch_memory",
		"Messages of BatchUpdateBlobs and UpdateActionResult.")
	inBytes(g.read, max(o.ReadMemory, o.readCost(int64(o.ReadChunk)-frameSlack, true)), "bazel.read_memory",
		"Chunks of blobs on their way out.")
	inBytes(g.batchRead, max(o.BatchReadMemory, o.maxBatchReadCost()), "bazel.batch_read_memory",
		"Responses of BatchReadBlobs and GetTree.")
	inBytes(g.ac, max(o.ACMemory, o.maxACCost()), "bazel.ac_memory", "Action results being checked and sent.")
	inBytes(g.findMissing, max(o.FindMissingMemory, o.findMissingCost(maxFindMissing)), "bazel.find_missing_memory", "Responses of FindMissingBlobs.")
	k.AddLine(levee.Line{Account: "zstd", Kind: levee.KindGo, Units: int64(o.Compressors), Unit: "processor", PerUnit: o.perProcessor(),
		Setting: "GOMAXPROCS", Note: "Pooled encoders, and decoders of small compressed blobs."})
}

// HTTPConnection is what one connection of the HTTP listener takes: of live Go memory, and of the kernel's.
func HTTPConnection() (live, kernel int64) {
	return perHTTPConnection, 2 * (httpSocketReceive + httpSocketSend)
}

// socketBytes are the kernel's: it doubles what is set.
func (o *Options) socketBytes() int64 { return 2 * (int64(max(socketReceive, o.Window)) + socketSend) }

// doorWindow is what a stream may send before it is admitted, such that it takes DoorWindow bytes of memory.
func (o *Options) doorWindow() int { return rpc.WindowIn(o.DoorWindow) }

// writeWindow is how far an admitted write's window is opened, such that it takes Window bytes of memory, the store's upload
// included.
func (o *Options) writeWindow() int { return rpc.GrownWindowIn(o.Window - blobstore.ActiveUploadBytes) }

// writeLine counts plain writes, which is what its setting counts, unless one compressed write alone costs more than all.
func (o *Options) writeLine(g *gate.Gate) levee.Line {
	l := levee.Line{Account: g.Name(), Kind: levee.KindGo, Units: int64(o.MaxWrites), Unit: "write", PerUnit: o.identityCost(),
		Setting: "bazel.max_writes", Note: "Windows, copy buffers and decoders of admitted writes.",
		InUse: func() int64 { return g.Stats().InUse }}
	if largest := o.compressedCost(maxFrameWindow); l.Bytes() < largest {
		l.Units, l.PerUnit, l.Setting = 1, largest, ""
		l.Note = "One compressed write with the largest window, which is served alone."
	}
	return l
}

func (o *Options) streamBytes() int64 { return rpc.StreamBytes(o.doorWindow()) + perCall }

func set[T int | int64 | time.Duration](p *T, v T) {
	if *p == 0 {
		*p = v
	}
}

func pick(cond bool, a, b int) int {
	if cond {
		return a
	}
	return b
}

func clamp(n, lo, hi int64) int64 { return max(lo, min(n, hi)) }
