// Package packs answers requests that may end in a pack: once per pack, under a permit, from disk.
//
// It refuses to authorise, to ask upstream and to speak HTTP. git upload-pack plans an answer and never makes one: it runs
// until it would start pack-objects, whose arguments and input are taken from it, and is then ended. Those are the pack key.
// The pack is made once per key by a pack-objects of ours, spooled to disk, and framed here for everyone who wants it.
//
//	canonical request + generation ──hit──▶ (sections before the pack, pack key) ──hit──▶ spool ──▶ side-band ──▶ clients
//	        │ miss: permit, then plan                                  │ miss: the same permit
//	        └──▶ git upload-pack (plans) ──▶ sections, pack key ───────┴──▶ git pack-objects ──▶ spool
//
// Who makes a pack is a flight: one goroutine that waits for the permit, plans, generates and releases. Those who ask are
// seats in it, none of them special: the first may leave as any other, and when all have left the flight is ended, unless it
// is nearly done. A client's pace is its own affair: it reads the spool, and holds neither permit nor child. Only a pack that
// is larger than its spool may be goes at its readers' pace, through a window, and keeps its permit for as long.
package packs

import (
	"io"
	"time"

	"github.com/leveehq/levee/gate"
	"github.com/leveehq/levee/internal/git/child"
	"github.com/leveehq/levee/internal/git/mirror"
	"github.com/leveehq/levee/internal/git/pkt"
)

// Options of a Cache.
type Options struct {
	// Dir is emptied by Open: a spool does not outlive its process.
	Dir string

	// MaxBytes of spooled packs, those in the making included. A quarter of it, at most, is set aside so that every
	// generation has a window to begin with. Too low: packs are made again, and large ones go at their readers' pace.
	MaxBytes int64

	// MaxPack is the largest pack that is kept; a larger one streams through a window of that size. 0 is half of MaxBytes.
	MaxPack int64

	// TableBytes is memory for what is known of answers: sections and pack keys by canonical request. 0 is 8 MiB.
	TableBytes int64

	Runner *child.Runner

	// Heavy, Quick and Rounds are in bytes of children. Heavy's key is the repository. Quick is for what is predicted to be
	// cheap, Rounds for upload-pack of negotiation rounds and for looking at what is wanted; their key is the caller.
	Heavy, Quick, Rounds *gate.Gate

	// Slot is what a heavy generation costs at least; QuickSlot and RoundSlot are what each of the others costs.
	Slot                 int64
	QuickSlot, RoundSlot int64

	Threads int // of a heavy generation's delta search; 0 is 1

	HideRefs []string // from those who want refs by name; as git's transfer.hideRefs. refs/levee/ always is

	NoticeAfter time.Duration // a waiter is silent for so long; 0 is 5 s
	NoticeEvery time.Duration // 0 is 10 s
	SilentWait  time.Duration // of those that cannot be told; 0 is 50 s
	Wait        time.Duration // of those that can; 0 is 10 min
}

// Job is one authorised request on a ready mirror.
type Job struct {
	Lease   *mirror.Lease // the caller's, to be kept until Serve returns; what outlives it holds another one
	Request *pkt.Request  // a fetch
	Caller  string        // whose turn it is in the quick lanes
	Clone   bool          // nothing is had, and what refs name is wanted: its cost is known without a look
}

// Out is where an answer goes. What is written is the body of application/x-git-upload-pack-result.
type Out interface {
	io.Writer
	Flush() error
	// Progress moves the write deadline on: it begins at admission, not before.
	Progress()
}

// Outcome of a Serve: one word of a closed set.
const (
	Hit       = "hit"       // from a spool that was whole
	Coalesced = "coalesced" // with somebody else's generation
	Generated = "generated"
	Round     = "round"   // of a negotiation, or any other answer without a pack
	Shed      = "shed"    // by a gate
	Refused   = "refused" // by upload-pack, in its own words, or as too large
	Failed    = "failed"
	Canceled  = "canceled" // by the client
)

// Result of a Serve, for the log and for metrics.
type Result struct {
	Outcome   string
	Began     bool          // something was written: the error was told in the answer, and the caller must add nothing
	Waited    time.Duration // for permits
	PackBytes int64
	Predicted int64 // bytes of a child; 0 if none was needed
	Measured  int64 // bytes, when the generation ended before the answer did
}
