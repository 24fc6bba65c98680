package blobstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"os"
	"sync/atomic"
	"time"
)

// What an unfinished upload takes: its state, its hash, its entry under its name, and while it is active the open file. There
// is no buffer: each Write goes to the file as it is, so callers give pieces of 16 KiB or more. A test measures both.
const (
	ActiveUploadBytes = 768
	ParkedUploadBytes = 576
)

// Write-back starts when dirtyTarget bytes, all uploads together, are dirty, so that the kernel never has gigabytes to
// write at once. One upload starts its own after at least dirtyMin: smaller requests cost more than they help. Blobs
// smaller than that are left to the kernel.
const (
	dirtyTarget = 8 << 20
	dirtyMin    = 64 << 10
)

// partial is an unfinished upload. While active it belongs to one call, through an upload; while parked to the Disk.
type partial struct {
	d        *Disk
	key      Key
	declared int64 // -1: unknown
	limit    int64 // bytes accepted
	gen      uint64
	digest   hash.Hash // CAS
	crc      uint32    // AC
	written  atomic.Int64
	charge   int64 // reserved
	dirty    int64
	file     File // nil before the first write and while parked
	made     bool // the temporary file exists

	// Guarded by the Disk's lock.
	name     [32]byte
	named    bool
	parked   bool
	gone     bool // dropped, or committed
	deadline time.Time
	newer    *partial // neighbours in the list of parked ones
	older    *partial
}

// upload is one call's hold of a partial. Park and Resume pass the partial on to another upload, so that a deferred
// Abort of the old one cannot hit it.
type upload struct {
	*partial
	ctx   context.Context
	ended bool
	err   error // of the first Write that failed; everything after fails with it
}

var errEnded = errors.New("upload has ended")

// Create implements Store.
func (d *Disk) Create(ctx context.Context, key Key, size, limit int64) (Upload, error) {
	if limit <= 0 || limit > d.opts.MaxBlob {
		limit = d.opts.MaxBlob
	}
	if size > d.opts.MaxBlob {
		return nil, tooLarge(size, d.opts.MaxBlob)
	}
	if size >= 0 {
		limit = size
	}
	if err := d.room(); err != nil {
		return nil, err
	}
	p := &partial{d: d, key: key, declared: size, limit: limit}
	if key.Kind == CAS {
		p.digest = sha256.New()
	}
	victims, err := d.enter(p)
	if len(victims) > 0 {
		if e := d.unlink(ctx, nil, victims); e != nil && err == nil {
			d.leave(p)
			return nil, e
		}
	}
	if err != nil {
		return nil, err
	}
	d.active.Add(1)
	return &upload{partial: p, ctx: ctx}, nil
}

func tooLarge(size, limit int64) error {
	return fmt.Errorf("%w: %d bytes, and the limit is %d", ErrTooLarge, size, limit)
}

func (u *upload) Written() int64 { return u.written.Load() }

// Write implements io.Writer. After an error the upload cannot go on, and what it held on disk is given back.
func (u *upload) Write(b []byte) (int, error) {
	if u.ended {
		return 0, errEnded
	}
	if u.err != nil {
		return 0, u.err
	}
	at := u.written.Load()
	end := at + int64(len(b))
	if end > u.limit {
		if u.declared >= 0 {
			return 0, fmt.Errorf("%w: more than the declared %d bytes", ErrSize, u.declared)
		}
		return 0, tooLarge(end, u.limit)
	}
	if len(b) == 0 {
		return 0, nil
	}
	if err := u.store(b, at, end); err != nil {
		u.err = err
		u.discard()
		return 0, err
	}
	if err := u.sum(b); err != nil {
		u.err = err
		u.discard()
		return 0, err
	}
	u.written.Store(end)
	return len(b), nil
}

// sum hashes what was stored. Callers that wait for a slot are not ready to run, so what else becomes ready, such as a
// health check, is not the last of hundreds in the scheduler's queue.
func (u *upload) sum(b []byte) error {
	if len(b) >= sumSlotMin {
		if err := u.d.sums.acquire(u.ctx); err != nil {
			return err
		}
		defer u.d.sums.release()
	}
	if u.digest != nil {
		u.digest.Write(b)
	} else {
		u.crc = crc32.Update(u.crc, castagnoli, b)
	}
	return nil
}

// sumSlotMin is from where on hashing takes a slot: 4 KiB take some 3 µs.
const sumSlotMin = 4 << 10

func (u *upload) store(b []byte, at, end int64) error {
	if err := u.d.room(); err != nil {
		return err
	}
	if more := charged(end) - u.charge; more > 0 {
		if err := u.d.reserve(u.ctx, more); err != nil {
			return err
		}
		u.charge += more
	}
	if err := u.d.writes.acquire(u.ctx); err != nil {
		return err
	}
	defer u.d.writes.release()
	if err := u.openLocked(); err != nil {
		return u.d.writeError("creating a file", err)
	}
	if _, err := u.file.WriteAt(b, at); err != nil {
		return u.d.writeError("writing", err)
	}
	u.d.space.written.Add(int64(len(b)))
	u.writeback(int64(len(b)), end, false)
	return nil
}

// openLocked makes the temporary file, or opens it again after the upload was parked. The caller holds a write slot.
func (u *upload) openLocked() error {
	if u.file != nil {
		return nil
	}
	flag := os.O_WRONLY
	if !u.made {
		flag |= os.O_CREATE | os.O_EXCL
	}
	f, err := u.d.fs.Open(u.d.tempPath(u.gen), flag)
	if err != nil {
		return err
	}
	u.file, u.made = f, true
	return nil
}

// writeback asks for write-back of the last dirty bytes, which end at end, if they are many; with last, if they are
// not few. The kernel may refuse; it will write in its own time then.
func (u *upload) writeback(n, end int64, last bool) {
	u.dirty += n
	least := int64(dirtyMin)
	if !last {
		least = max(dirtyMin, dirtyTarget/max(1, u.d.active.Load()))
	}
	if u.dirty >= least {
		_ = u.file.StartWriteback(end-u.dirty, u.dirty)
		u.dirty = 0
	}
}

// Commit implements Upload.
func (u *upload) Commit(ctx context.Context) error {
	if u.ended {
		return errEnded
	}
	u.ended = true
	defer u.d.active.Add(-1)
	if u.err != nil {
		return u.err
	}
	if err := u.verify(); err != nil {
		u.discard()
		return err
	}
	n := u.written.Load()
	if u.charge == 0 { // nothing was written: the empty blob counts, too
		if err := u.d.reserve(ctx, block); err != nil {
			u.discard()
			return err
		}
		u.charge = block
	}
	taken, err := u.d.publish(ctx, u.key, n, u.crc, func(_ uint64, path string) error { return u.place(ctx, path) })
	if !taken {
		u.discard()
		return err
	}
	u.d.leave(u.partial)
	return err
}

func (u *upload) verify() error {
	if n := u.written.Load(); u.declared >= 0 && n != u.declared {
		return fmt.Errorf("%w: %d bytes, and %d were declared", ErrSize, n, u.declared)
	}
	if u.digest == nil {
		return nil
	}
	var sum [32]byte
	if u.digest.Sum(sum[:0]); !bytes.Equal(sum[:], u.key.Hash[:]) {
		return digestError(sum, u.key.Hash)
	}
	return nil
}

func digestError(got, want [32]byte) error {
	return fmt.Errorf("%w: they hash to %x, not to %x", ErrDigest, got, want)
}

// place ends the file and renames it.
func (u *upload) place(ctx context.Context, path string) error {
	if err := u.d.writes.acquire(ctx); err != nil {
		return err
	}
	defer u.d.writes.release()
	if u.file == nil && (!u.made || u.d.opts.Durability == Fsync) {
		if err := u.openLocked(); err != nil {
			return u.d.writeError("creating a file", err)
		}
	}
	if f := u.file; f != nil {
		u.writeback(0, u.written.Load(), true)
		var err error
		if u.d.opts.Durability == Fsync {
			err = f.Sync()
		}
		u.file = nil
		if err = errors.Join(err, f.Close()); err != nil { // some file systems report a full disk only now
			return u.d.writeError("writing", err)
		}
	}
	if err := u.d.rename(u.d.tempPath(u.gen), path); err != nil {
		return u.d.writeError("renaming", err)
	}
	u.made = false
	return nil
}

// Abort implements Upload.
func (u *upload) Abort() {
	if u.ended {
		return
	}
	u.ended = true
	u.d.active.Add(-1)
	u.discard()
}

// discard gives back what the upload holds, whatever became of its context. It may be called again.
func (u *upload) discard() {
	if u.file != nil {
		u.file.Close()
		u.file = nil
	}
	d := u.d
	d.mu.Lock()
	if u.gone {
		d.mu.Unlock()
		return
	}
	v := d.dropLocked(u.partial)
	d.mu.Unlock()
	if !u.made {
		d.removed(v, nil)
		return
	}
	_ = d.unlink(context.WithoutCancel(u.ctx), nil, []victim{v})
}
