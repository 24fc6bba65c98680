package blobstore

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// space remembers what the file system said about room.
type space struct {
	next    atomic.Int64 // when to ask again, Unix nanoseconds
	written atomic.Int64 // bytes written since the last answer
	free    atomic.Int64 // that answer
	asking  atomic.Bool  // one caller asks; the others, and those who come while a stalled disk keeps it, believe the last answer
	full    atomic.Int64 // until when writes are shed because one found the disk full, Unix nanoseconds
	said    atomic.Int64 // when complain last logged
}

const (
	askEvery      = 250 * time.Millisecond
	askEveryBytes = 16 << 20
	fullFor       = time.Second // how long a full disk is believed without asking it again
)

// sizeDefaults computes the limits that depend on the disk. The store's own bytes count as free, else every restart
// would halve what is left. A store that is there already may open on a full disk.
func (d *Disk) sizeDefaults(known bool) error {
	free, total, err := d.fs.Free(d.opts.Dir)
	if err != nil {
		return err
	}
	if d.opts.MinFree == 0 {
		d.opts.MinFree = min(total/20, defaultMinFreeMax)
	}
	if d.opts.MaxSize == 0 {
		d.opts.MaxSize = min(defaultMaxSize, (free+d.mu.used)/2)
		if known && free < d.opts.MinFree {
			// Somebody else fills the disk, and may empty it while we run: half of what is left would make us evict what we
			// hold as soon as writes are taken again. Until then the floor protects the disk.
			d.opts.MaxSize = min(defaultMaxSize, max(d.mu.used, total/2))
		}
		if d.opts.MaxSize < 2*block {
			return fmt.Errorf("the file system has %d bytes free: make room, or choose another directory", free)
		}
	}
	d.opts.MaxSize &^= block - 1
	if d.opts.MaxBlob == 0 || d.opts.MaxBlob > d.opts.MaxSize {
		d.opts.MaxBlob = min(d.opts.MaxSize, maxBlobLen)
	}
	d.space.free.Store(free)
	return nil
}

// room sheds a write while the disk is full or below the floor. Nothing is evicted to help: the store is within its
// size, so somebody else fills the disk, and would fill what we free.
func (d *Disk) room() error {
	now := time.Now().UnixNano()
	if now >= d.space.next.Load() || d.space.written.Load() >= askEveryBytes {
		if d.space.asking.CompareAndSwap(false, true) {
			d.space.next.Store(now + int64(askEvery))
			d.space.written.Store(0)
			if free, _, err := d.fs.Free(d.opts.Dir); err == nil { // an error will show at the write itself
				d.space.free.Store(free)
			}
			d.space.asking.Store(false)
		}
	}
	if reason, shed := d.Shedding(); shed {
		return d.noSpace(reason)
	}
	return nil
}

// Shedding says whether writes are being shed, and why: "disk_full" or "min_free".
func (d *Disk) Shedding() (reason string, shed bool) {
	switch {
	case !d.hasBegun():
		return "disk_full", true
	case d.space.full.Load() > time.Now().UnixNano():
		return "disk_full", true
	case d.opts.MinFree > 0 && d.space.free.Load() < d.opts.MinFree:
		return "min_free", true
	}
	return "", false
}

func (d *Disk) noSpace(reason string) *NoSpace {
	if reason == "min_free" {
		return &NoSpace{Reason: reason, Detail: fmt.Sprintf("%d bytes are free on the file system of %s and the floor is %d; remove other files, or lower the store's min_free", d.space.free.Load(), d.opts.Dir, d.opts.MinFree)}
	}
	return &NoSpace{Reason: reason, Detail: fmt.Sprintf("the file system of %s, or its quota, is full; remove other files, or lower the store's size", d.opts.Dir)}
}

// writeError turns a failed write into a *NoSpace if the disk or a quota is full.
func (d *Disk) writeError(what string, err error) error {
	var shed *NoSpace
	if errors.As(err, &shed) {
		return err
	}
	if isFull(err) {
		d.space.full.Store(time.Now().Add(fullFor).UnixNano())
		return d.noSpace("disk_full")
	}
	return fmt.Errorf("blob store: %s: %w", what, err)
}

// complain logs trouble with the disk, at most once a second: a disk that fails does so for every call.
func (d *Disk) complain(what, path string, err error) {
	now, said := time.Now().UnixNano(), d.space.said.Load()
	if now-said >= int64(time.Second) && d.space.said.CompareAndSwap(said, now) {
		d.log.Warn(what, "file", path, "error", err)
	}
}
