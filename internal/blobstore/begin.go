package blobstore

import (
	"context"
	"encoding/json"
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// A start has to write: the run's number, before a file can bear it, and the run's journal. A full disk must not cost the
// reads, so the store opens without that, and sheds every write until Run has found the room to begin.

// errNotBegun is what a journal record gets before there is a journal.
var errNotBegun = &NoSpace{Reason: "disk_full", Detail: "the disk was full when the store was opened, and its journal could not be begun since; remove other files"}

func isFull(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

func (d *Disk) hasBegun() bool {
	select {
	case <-d.begun:
		return true
	default:
		return false
	}
}

// begin writes what a run has to write before its first blob. It may be called again after an error; nothing of this run
// is on disk before it has succeeded, so the next process may have the same number.
func (d *Disk) begin() error {
	d.snapshotting.Lock()
	defer d.snapshotting.Unlock()
	if err := d.lead.acquire(context.Background()); err != nil {
		return err
	}
	defer d.lead.release()
	if d.hasBegun() {
		return nil
	}
	if err := d.makeDirs(); err != nil {
		return err
	}
	if err := d.writeState(false); err != nil {
		return errors.Join(err, ignoreNotExist(d.fs.Remove(d.path("state.tmp"))))
	}
	if err := d.openJournal(d.fresh); err != nil {
		return err
	}
	close(d.begun)
	return nil
}

// beginLate is begin for Run.
func (d *Disk) beginLate() error {
	if d.hasBegun() {
		return nil
	}
	err := d.begin()
	if err == nil {
		d.log.Info("the disk has room again, and writes are taken", "dir", d.opts.Dir)
	}
	return err
}

// markUnclean notes on a full disk that files and index may come to disagree. It writes over the state file, which takes
// no new block on most file systems. Where it fails, nothing is evicted until the run has begun: the next start would
// believe that all is well, and promise blobs that are gone.
func (d *Disk) markUnclean(known bool) {
	if !known || d.unclean {
		return
	}
	b, err := json.Marshal(state{Version: stateVersion, Run: d.run, Boot: d.opts.boot, BootRun: d.bootRun})
	if err != nil {
		return
	}
	f, err := d.fs.Open(d.path("state"), os.O_WRONLY)
	if err != nil {
		return
	}
	size, _, err := f.Stat()
	if err == nil && size <= 64<<10 {
		for b = append(b, '\n'); int64(len(b)) < size; {
			b = append(b, '\n')
		}
		_, err = f.WriteAt(b, 0)
	}
	err = errors.Join(err, f.Sync(), f.Close())
	d.unclean = err == nil
}
