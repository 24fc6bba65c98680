package blobstore

import (
	"context"
	"errors"
	"fmt"
)

// victim is a file that nothing refers to any more. Its bytes count, as unlinking, until it is gone.
type victim struct {
	key    Key
	gen    uint64
	charge int64
	temp   bool // an unfinished upload's file
}

func victimOf(e *entry) victim {
	return victim{key: e.key(), gen: e.gen, charge: charged(e.size())}
}

const (
	// evictorSlots is how many calls make room at once.
	evictorSlots = 8
	// victimsAtOnce bounds what one call takes out before it removes the files.
	victimsAtOnce = 128
	// maxFailed is how many files may resist removal before nothing more is evicted. A few are somebody's doing, and
	// other blobs can make room for them; more are a disk that is read-only, and would cost us the whole index.
	maxFailed = 16
)

// errStuck is what writes that need room get while that is so. Run finds out when it is over.
var errStuck = errors.New("blob store: files cannot be removed to make room; is the file system read-only?")

// reserve makes n more bytes belong to unfinished uploads. Nothing is reserved before the room is there: victims leave
// the index, then their files go, and only then do their bytes count as free. A declared size reserves nothing, so it
// evicts nothing.
func (d *Disk) reserve(ctx context.Context, n int64) error {
	d.mu.Lock()
	ok := d.reserveLocked(n)
	d.mu.Unlock()
	if ok {
		return nil
	}
	// Whatever becomes free wakes all who make room: were that every upload of a full store, each removal would make
	// hundreds of them ready to run for nothing. The others wait here, in order.
	if err := d.evictors.acquire(ctx); err != nil {
		return err
	}
	defer d.evictors.release()
	return d.makeRoom(ctx, n)
}

func (d *Disk) reserveLocked(n int64) bool {
	if d.mu.closed || d.mu.used+d.mu.reserved+d.mu.stuck+d.mu.unlinking+n > d.opts.MaxSize {
		return false
	}
	d.mu.reserved += n
	return true
}

func (d *Disk) makeRoom(ctx context.Context, n int64) error {
	for {
		d.mu.Lock()
		if d.mu.closed {
			d.mu.Unlock()
			return ErrClosed
		}
		if d.reserveLocked(n) {
			d.mu.Unlock()
			return nil
		}
		kept := d.mu.used + d.mu.reserved + d.mu.stuck
		need := kept + n - d.opts.MaxSize
		if need > 0 && d.stuckLocked() {
			d.mu.Unlock()
			return errStuck
		}
		victims := d.victimsLocked(need)
		// Without victims room may still be on its way: others are removing files, or committing what can then go.
		full := len(victims) == 0 && d.mu.used == 0 && need > 0
		b, freed := d.mu.batch, d.freedLocked()
		d.mu.Unlock()
		var err error
		switch {
		case full:
			return &NoSpace{Reason: "uploads", Detail: fmt.Sprintf("unfinished uploads fill the store's %d bytes; raise its size or let fewer uploads run at once", d.opts.MaxSize)}
		case len(victims) > 0:
			err = d.unlink(ctx, b, victims)
		default:
			err = waitFor(ctx, freed)
		}
		if err != nil {
			return err
		}
	}
}

// victimsLocked takes out enough to make need more bytes free, or as much as one call may: parked uploads first, the
// oldest of them first, then the least recently used blobs. If enough is out already it returns files that other calls
// left to be removed.
func (d *Disk) victimsLocked(need int64) []victim {
	var out []victim
	if need <= 0 {
		n := min(len(d.mu.ghosts), victimsAtOnce)
		out = append(out, d.mu.ghosts[:n]...)
		d.mu.ghosts = append(d.mu.ghosts[:0], d.mu.ghosts[n:]...)
		return out
	}
	for need > 0 && len(out) < victimsAtOnce {
		var v victim
		if p := d.mu.uploads.oldestParked(); p != nil {
			v = d.dropLocked(p)
		} else if slot, ok := d.mu.idx.oldest(); ok {
			v = d.evictLocked(slot)
		} else {
			break
		}
		need -= v.charge
		out = append(out, v)
	}
	return out
}

func (d *Disk) stuckLocked() bool {
	return len(d.mu.failed) >= maxFailed || d.mu.used == 0 && d.mu.stuck > 0
}

func (d *Disk) evictLocked(slot uint32) victim {
	v := d.removeLocked(slot)
	d.mu.evictions++
	d.mu.evictedBytes += uint64(v.charge)
	return v
}

// removeLocked takes a live entry out of the index and queues the record of it. The caller passes the victim to unlink.
func (d *Disk) removeLocked(slot uint32) victim {
	e := d.mu.idx.at(slot)
	v := victimOf(e)
	d.mu.batch.removes = appendRemove(d.mu.batch.removes, slot, e.gen)
	d.mu.idx.remove(slot)
	d.mu.used -= v.charge
	d.mu.unlinking += v.charge
	return v
}

// unlink removes the files of victims, after the batch with the records of their removal is written: a crash in between
// leaves files that nothing names, which the sweep finds, and never an index that promises files that are gone. If the
// journal cannot be written they are removed all the same, else a full disk could never be relieved.
//
// If ctx ends the rest is left to other calls and to Run.
func (d *Disk) unlink(ctx context.Context, b *batch, victims []victim) error {
	if b != nil {
		_ = d.await(ctx, b) // what ctx says is seen below
	}
	for i, v := range victims {
		if err := d.writes.acquire(ctx); err != nil {
			d.mu.Lock()
			d.mu.ghosts = append(d.mu.ghosts, victims[i:]...)
			d.signalLocked()
			d.mu.Unlock()
			return err
		}
		err := ignoreNotExist(d.fs.Remove(d.victimPath(v)))
		d.writes.release()
		d.removed(v, err)
	}
	return nil
}

// removed accounts for a file that is gone, or could not be removed: then its bytes stay counted, as stuck, and other
// blobs have to make room in its stead until Run succeeds.
func (d *Disk) removed(v victim, err error) {
	d.mu.Lock()
	d.mu.unlinking -= v.charge
	if err != nil {
		d.mu.stuck += v.charge
		d.mu.failed = append(d.mu.failed, v)
	}
	d.signalLocked()
	d.mu.Unlock()
	if err != nil {
		d.complain("a file could not be removed; its bytes stay counted and it will be tried again", d.victimPath(v), err)
	}
}

// removeGhosts removes the files that other calls left, and tries once more those that failed.
func (d *Disk) removeGhosts(ctx context.Context) error {
	d.mu.Lock()
	victims, b := append(d.mu.ghosts, d.mu.failed...), d.mu.batch
	for _, v := range d.mu.failed {
		d.mu.stuck -= v.charge
		d.mu.unlinking += v.charge
	}
	d.mu.ghosts, d.mu.failed = nil, nil
	d.mu.Unlock()
	if len(victims) == 0 {
		return nil
	}
	return d.unlink(ctx, b, victims)
}

// trim evicts what is above the limits. Only a store that was opened with smaller limits has anything to trim.
func (d *Disk) trim(ctx context.Context) error {
	for {
		d.mu.Lock()
		var victims []victim
		if over := d.mu.used + d.mu.reserved + d.mu.stuck - d.opts.MaxSize; over > 0 {
			victims = d.victimsLocked(over)
		}
		b := d.mu.batch
		d.mu.Unlock()
		if len(victims) == 0 {
			return nil
		}
		if err := d.unlink(ctx, b, victims); err != nil {
			return err
		}
	}
}

// forget takes out a blob whose file is gone or damaged. It returns false if the entry has changed in the meantime.
func (d *Disk) forget(ctx context.Context, key Key, gen uint64) bool {
	d.mu.Lock()
	slot, ok := d.mu.idx.find(key)
	if !ok || d.mu.idx.at(slot).gen != gen {
		d.mu.Unlock()
		return false
	}
	v, b := d.removeLocked(slot), d.mu.batch
	d.mu.Unlock()
	d.forgotten.Add(1)
	_ = d.unlink(ctx, b, []victim{v})
	return true
}

// freedLocked returns what is closed when bytes or slots become free.
func (d *Disk) freedLocked() <-chan struct{} {
	if d.mu.freed == nil {
		d.mu.freed = make(chan struct{})
	}
	return d.mu.freed
}

func (d *Disk) signalLocked() {
	if d.mu.freed != nil {
		close(d.mu.freed)
		d.mu.freed = nil
	}
}

func waitFor(ctx context.Context, freed <-chan struct{}) error {
	select {
	case <-freed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
