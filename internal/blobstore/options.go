package blobstore

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"
)

// Durability says what an acknowledged blob survives.
type Durability string

const (
	// SurvivesKill is the default: what was acknowledged survives kill -9 of the process. After a power cut the
	// blobs of the last boot are verified the first time they are opened, and those the disk lost become misses.
	SurvivesKill Durability = "kill"
	// Fsync also survives a power cut: file, directory and journal are flushed before a commit is acknowledged.
	// Commits that arrive together share the directory and journal flushes.
	Fsync Durability = "fsync"
)

const (
	block = 4096 // what a blob's size is rounded up to; an empty one counts one block for its inode

	defaultMaxSize    = 10 << 30
	defaultMinFreeMax = 1 << 30
	defaultMaxUploads = 4096
	defaultMaxParked  = 1024
	defaultParkFor    = 5 * time.Minute
	defaultIOSlots    = 64

	maxSlots   = 1 << 28 // a slot number above this is a damaged file, not a big store
	maxBlobLen = 1 << 47 // what an entry's size field holds
)

// Options of a Disk. Dir and MaxBlobs are required; every other zero value is a safe default.
type Options struct {
	// Dir holds everything and belongs to one process at a time. It is made if absent.
	Dir string

	// MaxBlobs bounds the index, and with it the memory: MaxBlobs × BytesPerBlob. Too low: blobs are evicted while
	// the disk has room. Too high: the plan does not fit.
	MaxBlobs int

	// MaxSize bounds the bytes on disk: stored blobs, unfinished uploads and files whose removal is under way, each
	// rounded up to 4 KiB. 0 is min(10 GiB, half of the free disk, the store's own bytes counted as free).
	MaxSize int64

	// MaxBlob is the largest blob accepted, in bytes. 0 is MaxSize.
	MaxBlob int64

	// MinFree is the free space of the file system below which writes are shed, however little the store holds.
	// 0 is 5 % of the file system or 1 GiB, whichever is smaller; negative switches the floor off. It is checked
	// at most four times a second and every 16 MiB written, so it may be undershot by what is written in between.
	MinFree int64

	// Durability is SurvivesKill if empty.
	Durability Durability

	// MaxUploads bounds unfinished uploads, active and parked together. A parked one costs ParkedUploadBytes of
	// memory, an active one ActiveUploadBytes and a descriptor. 0 is 4096.
	MaxUploads int

	// MaxParked bounds parked uploads; the oldest gives way. 0 is 1024.
	MaxParked int

	// ParkFor is how long a parked upload waits to be resumed. 0 is 5 minutes.
	ParkFor time.Duration

	// IOSlots bounds the threads that a stalled disk can pin: so many reads and, apart from them so that reads go on
	// while writes stall, so many writes, removals and renames. Too low: a fast disk idles. Too high: a slow disk
	// pins threads. 0 is 64 for reads and for writes that are flushed; writes that end in the page cache are work for a
	// processor, not for a disk, and more than 16 of them (or 4 for each processor) would only be threads that keep
	// others from running.
	IOSlots int

	// FS is where bytes go; nil is the operating system. Tests put slow, full and failing disks here.
	FS FS

	// Logger gets what an operator should know: recovery, files lost by hand, failing disks. nil discards.
	Logger *slog.Logger

	boot string // the machine's boot id; tests reboot by changing it
}

func (o *Options) validate() error {
	switch {
	case o.Dir == "":
		return errors.New("blob store: Dir is empty; say where blobs are to be kept")
	case o.MaxBlobs <= 0 || o.MaxBlobs > maxSlots:
		return fmt.Errorf("blob store: MaxBlobs is %d; it must be between 1 and %d", o.MaxBlobs, maxSlots)
	case o.MaxSize < 0 || o.MaxSize > 0 && o.MaxSize < 2*block:
		return fmt.Errorf("blob store: MaxSize is %d; it must be at least %d bytes, or 0 for the default", o.MaxSize, 2*block)
	case o.MaxBlob < 0 || o.MaxBlob > maxBlobLen:
		return fmt.Errorf("blob store: MaxBlob is %d; it must be between 0 and %d", o.MaxBlob, int64(maxBlobLen))
	case o.MaxSize > 0 && o.MaxBlob > o.MaxSize:
		return fmt.Errorf("blob store: MaxBlob (%d) is above MaxSize (%d): such a blob could never be stored", o.MaxBlob, o.MaxSize)
	case o.MaxUploads < 0 || o.MaxParked < 0 || o.ParkFor < 0 || o.IOSlots < 0:
		return errors.New("blob store: MaxUploads, MaxParked, ParkFor and IOSlots must not be negative")
	case o.MaxUploads > 0 && o.MaxParked > o.MaxUploads:
		return fmt.Errorf("blob store: MaxParked (%d) is above MaxUploads (%d), of which parked uploads are a part", o.MaxParked, o.MaxUploads)
	}
	switch o.Durability {
	case "", SurvivesKill, Fsync:
	default:
		return fmt.Errorf("blob store: durability %q is unknown; use %q or %q", o.Durability, SurvivesKill, Fsync)
	}
	return nil
}

// setDefaults fills what does not depend on the disk; OpenDisk computes MaxSize and MinFree once it knows the disk.
func (o *Options) setDefaults() {
	if o.Durability == "" {
		o.Durability = SurvivesKill
	}
	if o.MaxUploads == 0 {
		o.MaxUploads = max(defaultMaxUploads, o.MaxParked)
	}
	if o.MaxParked == 0 {
		o.MaxParked = min(defaultMaxParked, o.MaxUploads)
	}
	if o.ParkFor == 0 {
		o.ParkFor = defaultParkFor
	}
	if o.IOSlots == 0 {
		o.IOSlots = defaultIOSlots
	}
	if o.FS == nil {
		o.FS = osFS{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// writeSlots is for options that have their defaults.
func (o *Options) writeSlots() int {
	if o.Durability == Fsync || o.IOSlots != defaultIOSlots {
		return o.IOSlots
	}
	return min(o.IOSlots, max(16, 4*runtime.GOMAXPROCS(0)))
}

// charged is what a blob of so many bytes counts against MaxSize.
func charged(size int64) int64 {
	return max(block, (size+block-1)&^(block-1))
}
