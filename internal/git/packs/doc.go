// Package packs answers requests that may end in a pack: once per pack, under a permit, from disk.
//
// It refuses to authorise, to ask upstream and to speak HTTP. git upload-pack plans an answer and never makes one: it runs
// until it would start pack-objects, whose arguments and input are taken from it, and is then ended. Those are the pack key.
// The pack is made once per key by a pack-objects of ours, spooled to disk, and framed here for everyone who wants it.
//
//	canonical request + generation ──hit──▶ (sections before the pack, pack key) ──hit──▶ spool ──▶ side-band ──▶ clients
//	        │ miss: permit, then plan                                  │ miss: the same permit
//	        └──▶ git upload-pack (plans) ──▶ sections, pack key ───────┴──▶ git pack-objects ──▶ spool
package packs

import (
	"context"
	"io"
	"time"

	"github.com/leveehq/levee/gate"
	"github.com/leveehq/levee/internal/git/child"
	"github.com/leveehq/levee/internal/git/mirror"
	"github.com/leveehq/levee/internal/git/pkt"
)

// Options of a Cache.
type Options struct {
	Dir      string
	MaxBytes int64 // of spooled packs, those in the making included
	MaxPack  int64 // a larger one streams through a bounded spool; 0 is half of MaxBytes
	Runner   *child.Runner

	// Heavy, Quick and Rounds are in bytes of children. Heavy's key is the repository. Quick is for what is predicted to be
	// cheap, Rounds for upload-pack of negotiation rounds and for planning.
	Heavy, Quick, Rounds *gate.Gate
	Slot                 int64 // what a heavy generation costs at least
	QuickSlot, RoundSlot int64

	NoticeAfter time.Duration // a waiter is silent for so long; 0 is 5 s
	NoticeEvery time.Duration // 0 is 10 s
	SilentWait  time.Duration // of those that cannot be told; 0 is 50 s
	Wait        time.Duration // of those that can; 0 is 10 min
}

// Job is one authorised request on a ready mirror.
type Job struct {
	Lease   *mirror.Lease // the job's to keep until Serve returns; Serve takes its own if work outlives it
	Request *pkt.Request
	Caller  string
}

// Out is where an answer goes. What is written is the body of application/x-git-upload-pack-result.
type Out interface {
	io.Writer
	Flush() error
	// Progress moves the write deadline on: it begins at admission, not before.
	Progress()
}

// Result of a Serve, for the log and for metrics.
type Result struct {
	Outcome   string // "hit", "coalesced", "generated", "round", "shed", "refused"
	Began     bool   // something was written: the error was told in the answer, and the caller must add nothing
	Waited    time.Duration
	PackBytes int64
	Predicted int64 // bytes of a child
	Measured  int64
}

// Cache is safe for concurrent use.
type Cache struct{}

// Open empties o.Dir: a spool does not outlive its process.
func Open(o Options) (*Cache, error) { panic("contract") }

// Run evicts until ctx ends, and then waits for generations under way.
func (c *Cache) Run(ctx context.Context) error { panic("contract") }

// Serve answers. An error before Began is the caller's to answer: a *gate.Shed, a *child.ExitError, or context.Cause(ctx).
func (c *Cache) Serve(ctx context.Context, j Job, out Out) (Result, error) { panic("contract") }

// Stats is a snapshot, for metrics.
type Stats struct {
	Generations, Hits, Coalesced, Rounds uint64
	Generating                           int
	SpoolBytes, MaxBytes                 int64
	Detached                             uint64 // followers too slow for a bounded spool
}

// Stats returns one.
func (c *Cache) Stats() Stats { panic("contract") }
