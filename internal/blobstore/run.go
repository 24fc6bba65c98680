package blobstore

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Run does the store's background work until ctx ends, and then returns nil: it writes snapshots, drops parked uploads
// whose time is over, removes files that others left, and sweeps once if the last run did not end well. Without it the
// store is correct, but its journal grows. It runs two goroutines.
func (d *Disk) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	if d.unclean {
		wg.Go(func() { d.sweep(ctx) })
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		d.tidy(ctx)
		select {
		case <-ctx.Done():
			wg.Wait()
			return nil
		case <-tick.C:
		}
	}
}

// tidy is one round of Run. What fails is tried again in the next one.
func (d *Disk) tidy(ctx context.Context) {
	_ = d.room() // keeps Shedding up to date while nobody writes
	err := errors.Join(d.expireParked(ctx), d.removeGhosts(ctx))
	if d.hasBegun() || d.knownUnclean() {
		err = errors.Join(err, d.trim(ctx))
	}
	if e := d.beginLate(); e != nil {
		d.complain("the disk is full; writes are shed until there is room", d.opts.Dir, e)
		return
	}
	err = errors.Join(err, d.flushQueued(ctx))
	if d.snapshotDue() {
		err = errors.Join(err, d.snapshot(ctx))
	}
	if err != nil && ctx.Err() == nil {
		d.complain("the blob store's upkeep failed; it will be tried again", d.opts.Dir, err)
	}
}

// knownUnclean says that the next start would look for files that the index does not agree with.
func (d *Disk) knownUnclean() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.unclean
}

// flushQueued writes records that nobody waits for: touches, and removals after a failed write.
func (d *Disk) flushQueued(ctx context.Context) error {
	d.mu.Lock()
	b := d.mu.batch
	queued := len(d.mu.touches) > 0 || len(b.removes) > 0 || len(b.puts) > 0
	d.mu.Unlock()
	if !queued {
		return nil
	}
	return d.await(ctx, b)
}

const (
	tailMin     = 8 << 20 // a journal shorter than this is replayed in well under a second
	maxJournals = 16
)

// snapshotDue says that replaying the journals would take longer than reading a snapshot of half their size, or that
// crashes have left many of them. Writing one at that point at most triples what is written for a commit.
func (d *Disk) snapshotDue() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.journalBytes+d.mu.oldJournalBytes > max(tailMin, d.mu.snapshotBytes/2) || d.mu.oldJournals >= maxJournals
}

// sweepRate bounds the sweep's removals and look-ups, in files a second: it competes with serving.
const sweepRate = 5000

// sweep makes files and index agree again after a run that did not end well. Files of earlier runs that the index does
// not name go: their commits were never acknowledged, or they were being removed. Blobs whose file is not there, which
// only a power cut can do, are forgotten. Files of this run are left alone, so the sweep never meets a commit.
func (d *Disk) sweep(ctx context.Context) {
	pace := time.NewTicker(100 * time.Millisecond)
	defer pace.Stop()
	files, orphans := 0, 0
	err := d.eachBlobFile(func(v victim, name string) error {
		if files++; files%(sweepRate/10) == 0 {
			select {
			case <-pace.C:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if runOf(v.gen) == d.run || d.see(v) {
			return nil
		}
		orphans++
		if err := d.writes.acquire(ctx); err != nil {
			return err
		}
		defer d.writes.release()
		return ignoreNotExist(d.fs.Remove(name))
	})
	if err == nil {
		select { // what was removed may be what a full disk needed
		case <-d.begun:
			err = d.forgetUnseen(ctx)
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	if err != nil {
		if ctx.Err() == nil {
			d.log.Warn("the sweep after an unclean stop failed; the next start tries again", "error", err)
		}
		return
	}
	d.mu.Lock()
	d.unclean = false
	d.mu.Unlock()
	d.log.Info("the blob store is swept after an unclean stop", "files", files, "orphans_removed", orphans)
}

// see reports whether the index names that file, and remembers that it is there.
func (d *Disk) see(v victim) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	slot, ok := d.mu.idx.find(v.key)
	if !ok || d.mu.idx.at(slot).gen != v.gen {
		return false
	}
	d.mu.idx.at(slot).bits |= flagSeen
	return true
}

// forgetUnseen drops the blobs of earlier runs that the sweep did not meet.
func (d *Disk) forgetUnseen(ctx context.Context) error {
	for chunk := 0; ; chunk++ {
		var victims []victim
		d.mu.Lock()
		if chunk >= len(d.mu.idx.chunks) {
			d.mu.Unlock()
			return nil
		}
		if c := d.mu.idx.chunks[chunk]; c != nil {
			for i := range c {
				if e := &c[i]; e.has(flagLive) && !e.has(flagSeen) && runOf(e.gen) < d.run {
					victims = append(victims, d.removeLocked(uint32(chunk*chunkLen+i)))
				}
			}
		}
		b := d.mu.batch
		d.mu.Unlock()
		if len(victims) == 0 {
			continue
		}
		d.forgotten.Add(uint64(len(victims)))
		if err := d.unlink(ctx, b, victims); err != nil {
			return err
		}
	}
}
