package blobstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Disk is a Store with one file for each blob.
//
// Locks: mu guards memory and is never held during I/O. lead makes one goroutine at a time write the journal, and
// snapshotting one at a time a snapshot; they are taken in the order snapshotting, lead, mu.
type Disk struct {
	opts    Options
	fs      FS
	log     *slog.Logger
	lock    io.Closer
	run     uint64 // this process's number; see runShift
	bootRun uint64 // the first run since the machine started
	unclean bool   // files and index may disagree: Run sweeps

	reads, writes slots
	sums          slots // for hashing; never held together with another
	evictors      slots // for making room, see reserve; taken before writes
	space         space
	active        atomic.Int64 // uploads being written
	forgotten     atomic.Uint64

	snapshotting sync.Mutex
	lead         slots    // one slot: who holds it writes the journal
	journal      *journal // used by who holds lead; nil before begin

	fresh bool          // what begin has to know, see openJournal
	begun chan struct{} // closed when begin has succeeded

	mu struct {
		sync.Mutex
		idx    *index
		seq    uint64 // generations of this run
		closed bool

		// Bytes on disk. Their sum never exceeds MaxSize.
		used      int64 // stored blobs, visible or about to be
		reserved  int64 // unfinished uploads
		unlinking int64 // taken out of index or uploads, file not removed yet
		stuck     int64 // the same, but removing failed; Run tries again

		uploads partials
		batch   *batch // commits and removals that wait for the next journal write
		touches []uint32
		ghosts  []victim      // files to be removed, left by calls whose context ended
		failed  []victim      // files whose removal failed, for Run
		freed   chan struct{} // closed and replaced when bytes or slots become free; nil if nobody waits

		journalBytes    int64 // of the current journal
		oldJournals     int   // older journals that the snapshot does not cover
		oldJournalBytes int64
		snapshotBytes   int64

		evictions    uint64
		evictedBytes uint64
	}
}

var _ Store = (*Disk)(nil)

// OpenDisk opens the store in o.Dir, or makes one. It loads the index and removes what unfinished uploads left, but
// starts nothing in the background: that is Run's. Close ends it.
func OpenDisk(o Options) (*Disk, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	o.setDefaults()
	if o.boot == "" {
		b, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // absent: every start counts as a reboot
		o.boot = strings.TrimSpace(string(b))
	}
	d := &Disk{opts: o, fs: o.FS, log: o.Logger, lead: make(slots, 1), begun: make(chan struct{}),
		reads: make(slots, o.IOSlots), writes: make(slots, o.writeSlots()), sums: make(slots, runtime.GOMAXPROCS(0)),
		evictors: make(slots, evictorSlots)}
	d.mu.uploads.init()
	d.mu.batch = newBatch()
	if err := d.fs.MkdirAll(o.Dir); err != nil {
		return nil, fmt.Errorf("blob store: %w", err)
	}
	lock, err := d.fs.Lock(d.path("lock"))
	if err != nil {
		return nil, fmt.Errorf("blob store: %w", err)
	}
	d.lock = lock
	if err := d.open(); err != nil {
		if d.journal != nil {
			d.journal.file.Close()
		}
		return nil, errors.Join(fmt.Errorf("blob store: opening %s: %w", o.Dir, err), lock.Close())
	}
	return d, nil
}

func (d *Disk) open() error {
	last, known, err := d.readState()
	if err != nil {
		return err
	}
	if err := d.emptyTemp(); err != nil {
		return err
	}
	l := &loader{idx: newIndex(d.opts.MaxBlobs)}
	rescanned, err := d.load(l, known)
	if err != nil {
		return err
	}
	lost, moved := l.finish(d.opts.MaxBlobs)
	d.run = max(last.Run, l.lastRun) + 1
	d.bootRun = d.run
	if known && last.Boot != "" && last.Boot == d.opts.boot {
		d.bootRun = last.BootRun
	}
	d.unclean = known && !last.Clean || moved
	d.mu.idx = l.idx
	for slot := l.idx.head; slot != 0; slot = l.idx.at(slot - 1).next {
		d.mu.used += charged(l.idx.at(slot - 1).size())
	}
	for _, g := range lost {
		d.mu.batch.removes = appendRemove(d.mu.batch.removes, g.slot, g.gen)
		d.mu.unlinking += g.charge
		d.mu.ghosts = append(d.mu.ghosts, g.victim)
	}
	if err := d.sizeDefaults(known); err != nil {
		return err
	}
	d.fresh = rescanned || moved
	err = d.begin()
	if isFull(err) {
		d.log.Warn("the disk is full: blobs are read, and writes are shed until there is room", "dir", d.opts.Dir, "error", err)
		d.markUnclean(known)
		return nil
	}
	return err
}

// openJournal begins this run's journal. With fresh the old ones do not match the index in memory, which therefore is
// written at once and replaces them.
func (d *Disk) openJournal(fresh bool) error {
	snapshots, journals, err := d.indexFiles()
	if err != nil {
		return err
	}
	number := uint64(1)
	for _, n := range append(snapshots, journals...) {
		number = max(number, n+1)
	}
	if fresh {
		// Before the journal: a crash in between leaves a snapshot without one, and that means to scan again. The other
		// way round it would leave an empty journal, and that means an empty store.
		d.mu.Lock()
		d.mu.batch.removes = nil // the snapshot speaks of what remains
		chunks := len(d.mu.idx.chunks)
		d.mu.Unlock()
		size, err := d.saveSnapshot(context.Background(), number, chunks)
		if err != nil {
			return errors.Join(err, ignoreNotExist(d.fs.Remove(d.path("snapshot.tmp"))))
		}
		d.mu.Lock()
		d.mu.snapshotBytes, d.mu.oldJournals, d.mu.oldJournalBytes = size, 0, 0
		d.mu.Unlock()
	}
	j, err := d.createJournal(number)
	if err != nil {
		return err
	}
	d.journal = j
	d.mu.Lock()
	d.mu.journalBytes = j.off
	d.mu.Unlock()
	if fresh {
		return d.removeIndexFiles(number)
	}
	return nil
}

// emptyTemp removes what unfinished uploads left: nothing of it can be resumed.
func (d *Disk) emptyTemp() error {
	tmp := d.path("tmp")
	return ignoreNotExist(d.fs.List(tmp, func(name string) error {
		return ignoreNotExist(d.fs.Remove(tmp + "/" + name))
	}))
}

func (d *Disk) makeDirs() error {
	if err := d.fs.MkdirAll(d.path("tmp")); err != nil {
		return err
	}
	for kind := CAS; kind <= AC; kind++ {
		for s := range shards {
			if err := d.fs.MkdirAll(d.shardPath(kind, s)); err != nil {
				return err
			}
		}
		if err := d.fs.SyncDir(d.path(kind.String())); err != nil {
			return err
		}
	}
	return d.fs.SyncDir(d.opts.Dir)
}

// Lookup implements Store.
func (d *Disk) Lookup(keys []Key, sizes []int64) {
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, k := range keys {
		sizes[i] = -1
		if slot, ok := d.mu.idx.find(k); ok {
			sizes[i] = d.mu.idx.at(slot).size()
			d.touchLocked(slot, now)
		}
	}
}

// touchEvery is how stale an entry's place in the journal may become. Order of use is exact in memory and after Close;
// after a crash it is the order of some moment within this time. Journalling every touch would cost a write for reads.
const touchEvery = time.Minute

func (d *Disk) touchLocked(slot uint32, now time.Time) {
	before := d.mu.idx.at(slot).tick
	d.mu.idx.touch(slot, now)
	if d.mu.idx.lastTick-before > uint64(touchEvery.Microseconds()) && len(d.mu.touches) < maxTouches {
		d.mu.touches = append(d.mu.touches, slot)
	}
}

// Committed implements Store.
func (d *Disk) Committed(name string) (int64, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p, ok := d.mu.uploads.names[nameKey(name)]
	if !ok {
		return 0, false
	}
	return p.written.Load(), true
}

// Close flushes the journal and writes a snapshot, so that the next start has nothing to replay or sweep. Uploads that
// are not finished are lost. Run must have returned.
func (d *Disk) Close() error {
	d.mu.Lock()
	if d.mu.closed {
		d.mu.Unlock()
		return nil
	}
	d.mu.closed = true
	d.signalLocked()
	d.mu.Unlock()

	err := errors.Join(d.beginLate(), d.removeGhosts(context.Background()))
	if e := d.snapshot(context.Background()); e != nil {
		err = errors.Join(err, e)
	}
	if err == nil {
		d.mu.Lock()
		// A call that is still under way may yet leave a file; the next start must look for it.
		clean := !d.unclean && d.mu.uploads.count == 0 && d.mu.idx.taken == d.mu.idx.live && len(d.mu.failed) == 0
		d.mu.Unlock()
		err = d.writeState(clean)
	}
	_ = d.lead.acquire(context.Background())
	defer d.lead.release() // a straggler finds the file closed, and its batch fails
	if d.journal != nil {
		err = errors.Join(err, d.journal.file.Close())
	}
	return errors.Join(err, d.lock.Close())
}
