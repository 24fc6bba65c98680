package blobstore

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"
)

// A commit is: take a slot of the index, rename the file, record it, and wait until the record is written. Records
// that arrive while the journal is being written share the next write: each waits for its batch, and one of those who
// wait becomes the leader that writes it. A commit becomes visible after its record is written and before it is
// acknowledged, so nobody is told of a blob that a crash would lose.

// batch is what the next journal write will hold. Removals go first: a slot that one of them frees may be taken by a
// put of the same batch, but never the other way round.
type batch struct {
	removes []byte
	puts    []byte
	commits []*commit
	done    chan struct{} // closed when it is written, or has failed
	err     error         // set before done is closed
}

func newBatch() *batch { return &batch{done: make(chan struct{})} }

// commit is one blob on its way into the index.
type commit struct {
	slot     uint32
	key      Key
	gen      uint64
	charge   int64
	resolved bool    // the batch is done with it
	left     bool    // nobody waits for it any more
	dropped  *victim // the file that it replaced, or its own if it failed: to be removed by who waits
}

// publish makes the file of n bytes that place puts at the given path the blob of that key. The caller has reserved n
// bytes, rounded up; taken says that they are no longer its own, and false that it has to discard them and its file:
// because of an error, or because the store has the blob already.
//
// An error leaves nothing behind, except when ctx ends while the journal is being written: then the blob may appear.
func (d *Disk) publish(ctx context.Context, key Key, n int64, crc uint32, place func(gen uint64, path string) error) (taken bool, err error) {
	c := &commit{key: key, charge: charged(n)}
	present, err := d.takeSlot(ctx, c)
	if err != nil || present {
		return false, err
	}
	if err := place(c.gen, d.blobPath(key, c.gen)); err != nil {
		d.mu.Lock()
		d.mu.idx.release(c.slot)
		d.signalLocked()
		d.mu.Unlock()
		return false, err
	}
	b, err := d.record(c, n, crc)
	if err == nil {
		err = d.await(ctx, b)
	}
	return true, d.settle(ctx, c, err)
}

// takeSlot names the commit, and makes room in the index for it. present says that the store already has the blob and
// that nothing is to be done; action results are always replaced.
func (d *Disk) takeSlot(ctx context.Context, c *commit) (present bool, err error) {
	for {
		d.mu.Lock()
		if d.mu.closed {
			d.mu.Unlock()
			return false, ErrClosed
		}
		if slot, ok := d.mu.idx.find(c.key); ok && c.key.Kind == CAS {
			d.touchLocked(slot, time.Now())
			d.mu.Unlock()
			return true, nil
		}
		if d.mu.idx.taken < d.opts.MaxBlobs {
			c.slot = d.mu.idx.hold()
			c.gen = d.nextGenLocked()
			d.mu.Unlock()
			return false, nil
		}
		slot, ok := d.mu.idx.oldest()
		if !ok { // every slot is held by a commit
			freed := d.freedLocked()
			d.mu.Unlock()
			if err := waitFor(ctx, freed); err != nil {
				return false, err
			}
			continue
		}
		if d.stuckLocked() {
			d.mu.Unlock()
			return false, errStuck
		}
		v, b := d.evictLocked(slot), d.mu.batch
		d.mu.Unlock()
		if err := d.unlink(ctx, b, []victim{v}); err != nil {
			return false, err
		}
	}
}

func (d *Disk) nextGenLocked() uint64 {
	d.mu.seq++
	return d.run<<runShift | d.mu.seq
}

// record fills the slot and queues the put. The bytes are used from now on.
func (d *Disk) record(c *commit, n int64, crc uint32) (*batch, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.reserved -= c.charge
	d.mu.used += c.charge
	if d.mu.closed {
		d.resolveLocked(c, ErrClosed)
		return nil, ErrClosed
	}
	e := d.mu.idx.at(c.slot)
	*e = entry{hash: c.key.Hash, gen: c.gen, crc: crc, tick: d.mu.idx.nextTick(time.Now()),
		bits: uint64(n)<<sizeShift | uint64(c.key.Kind) | flagPending}
	if d.opts.Durability == Fsync {
		e.bits |= flagVerified
	}
	b := d.mu.batch
	b.puts = appendPut(b.puts, c.slot, e)
	b.commits = append(b.commits, c)
	return b, nil
}

// await returns when b is written. If nobody is writing the journal, it does so itself.
func (d *Disk) await(ctx context.Context, b *batch) error {
	select {
	case <-b.done:
		return b.err
	default:
	}
	select {
	case <-b.done:
		return b.err
	case <-ctx.Done():
		return context.Cause(ctx)
	case d.lead <- struct{}{}:
		defer d.lead.release()
		select {
		case <-b.done:
		default:
			d.flush() // only who leads takes a batch away, so b is still the current one
		}
		return b.err
	}
}

// flush writes the current batch. The caller holds lead. It needs no I/O slot: there is one leader.
func (d *Disk) flush() {
	d.mu.Lock()
	b := d.mu.batch
	d.mu.batch = newBatch()
	touches := d.mu.touches
	d.mu.touches = nil
	buf := append(b.removes, b.puts...)
	if len(touches) > 0 {
		buf = d.appendTouchesLocked(buf, touches)
	}
	d.mu.Unlock()

	err := d.syncShards(b)
	if err == nil && d.journal == nil {
		err = errNotBegun
	}
	if err == nil && len(buf) > 0 {
		// Removals are not worth a flush: a power cut that loses one leaves a blob without a file, for the sweep.
		err = d.journal.append(buf, d.opts.Durability == Fsync && len(b.commits) > 0)
	}

	d.mu.Lock()
	if err != nil {
		// Puts fail with the batch. Removals have happened and must be told to the next start: they try again.
		d.mu.batch.removes = append(b.removes[:len(b.removes):len(b.removes)], d.mu.batch.removes...)
	}
	for _, c := range b.commits {
		d.resolveLocked(c, err)
	}
	if d.journal != nil {
		d.mu.journalBytes = d.journal.off
	}
	d.mu.Unlock()
	if err != nil {
		err = d.writeError("journal", err)
	}
	b.err = err
	close(b.done)
}

// appendTouchesLocked groups slots by runs of ticks: those of one Lookup follow one another.
func (d *Disk) appendTouchesLocked(buf []byte, touched []uint32) []byte {
	tick := func(slot uint32) uint64 { return d.mu.idx.at(slot).tick }
	for len(touched) > 0 {
		n := 1
		for n < len(touched) && tick(touched[n]) == tick(touched[0])+uint64(n) {
			n++
		}
		buf = appendTouches(buf, tick(touched[0]), touched[:n])
		touched = touched[n:]
	}
	return buf
}

// syncShards makes the renames of the batch durable. Directories are filled in turn, so they are few.
func (d *Disk) syncShards(b *batch) error {
	if d.opts.Durability != Fsync {
		return nil
	}
	synced := make(map[string]bool)
	for _, c := range b.commits {
		dir := filepath.Dir(d.blobPath(c.key, c.gen))
		if synced[dir] {
			continue
		}
		synced[dir] = true
		if err := d.fs.SyncDir(dir); err != nil {
			return err
		}
	}
	return nil
}

// resolveLocked makes a recorded commit visible, or undoes it. Of two commits of one key the newer generation wins,
// here and at recovery alike, so both agree whatever the order of their records.
func (d *Disk) resolveLocked(c *commit, err error) {
	c.resolved = true
	e := d.mu.idx.at(c.slot)
	switch other, ok := d.mu.idx.find(c.key); {
	case err != nil:
		v := victim{key: c.key, gen: c.gen, charge: c.charge}
		d.mu.idx.release(c.slot)
		d.mu.used -= c.charge
		d.mu.unlinking += c.charge
		c.dropped = &v
	case ok && d.mu.idx.at(other).gen > e.gen:
		v := victim{key: c.key, gen: c.gen, charge: c.charge}
		d.mu.batch.removes = appendRemove(d.mu.batch.removes, c.slot, c.gen)
		d.mu.idx.release(c.slot)
		d.mu.used -= c.charge
		d.mu.unlinking += c.charge
		c.dropped = &v
	default:
		if ok {
			v := d.removeLocked(other)
			c.dropped = &v
		}
		e.tick = d.mu.idx.nextTick(time.Now())
		d.mu.idx.insert(c.slot)
	}
	if c.left && c.dropped != nil {
		d.mu.ghosts = append(d.mu.ghosts, *c.dropped)
	}
	d.signalLocked()
}

// settle ends a commit's wait: it removes the file that the commit made superfluous, or leaves that to others if the
// wait was given up.
func (d *Disk) settle(ctx context.Context, c *commit, err error) error {
	d.mu.Lock()
	c.left = !c.resolved
	dropped := c.dropped
	d.mu.Unlock()
	if dropped != nil {
		// The removal's record need not be written first: the winner's is, and recovery lets the winner win. The
		// commit's outcome stands whether or not ctx lets us remove the file now.
		_ = d.unlink(ctx, nil, []victim{*dropped})
	}
	return err
}

// rename puts a temporary file at its final place. A directory that somebody removed is made again.
func (d *Disk) rename(from, to string) error {
	err := d.fs.Rename(from, to)
	if errors.Is(err, os.ErrNotExist) {
		if err := d.fs.MkdirAll(filepath.Dir(to)); err != nil {
			return err
		}
		err = d.fs.Rename(from, to)
	}
	return err
}
