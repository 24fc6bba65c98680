package blobstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"os"
	"sync"
	"time"
)

// blob is an open file of the store.
type blob struct {
	d    *Disk
	ctx  context.Context
	file File
	size int64
}

// Open implements Store.
func (d *Disk) Open(ctx context.Context, key Key) (Blob, error) {
	for {
		d.mu.Lock()
		if d.mu.closed {
			d.mu.Unlock()
			return nil, ErrClosed
		}
		slot, ok := d.mu.idx.find(key)
		if !ok {
			d.mu.Unlock()
			return nil, ErrNotExist
		}
		e := *d.mu.idx.at(slot)
		d.touchLocked(slot, time.Now())
		d.mu.Unlock()

		b, err := d.openEntry(ctx, &e)
		if err == nil {
			return b, nil
		}
		if !errors.Is(err, os.ErrNotExist) && !errors.Is(err, errDamaged) {
			return nil, fmt.Errorf("blob store: opening a blob: %w", err)
		}
		if err := d.dirIsThere(ctx); err != nil {
			return nil, err
		}
		if d.forget(context.WithoutCancel(ctx), key, e.gen) {
			d.complain("a blob's file was removed or damaged; the blob is forgotten", d.blobPath(key, e.gen), err)
			return nil, ErrNotExist
		}
		// The entry was evicted or replaced between our two steps: look again.
	}
}

// dirIsThere keeps a directory that was unmounted or moved away from passing for one whose files were all removed.
func (d *Disk) dirIsThere(ctx context.Context) error {
	if err := d.reads.acquire(ctx); err != nil {
		return err
	}
	defer d.reads.release()
	f, err := d.fs.Open(d.path("state"), os.O_RDONLY)
	if err != nil {
		return fmt.Errorf("blob store: the directory is gone or unreadable; is it mounted? %v", err) // not ErrNotExist
	}
	return f.Close()
}

// openEntry opens the file of e. It is os.ErrNotExist or errDamaged if the blob is lost, and else trouble.
func (d *Disk) openEntry(ctx context.Context, e *entry) (*blob, error) {
	if err := d.reads.acquire(ctx); err != nil {
		return nil, err
	}
	f, err := d.fs.Open(d.blobPath(e.key(), e.gen), os.O_RDONLY)
	var size int64
	if err == nil {
		if size, _, err = f.Stat(); err != nil {
			f.Close()
		}
	}
	d.reads.release()
	if err != nil {
		return nil, err
	}
	b := &blob{d: d, ctx: ctx, file: f, size: size}
	if size != e.size() {
		err = errDamaged
	} else if runOf(e.gen) < d.bootRun && !e.has(flagVerified) {
		err = d.verify(b, e)
	}
	if err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// verify reads a blob that was written before the machine last started and never flushed: its name and size may have
// reached the disk without its bytes.
func (d *Disk) verify(b *blob, e *entry) error {
	if e.has(flagNoCRC) {
		return errDamaged // nothing to verify an action result by; a miss is safe
	}
	var h hash.Hash = sha256.New()
	want := e.hash[:]
	if e.kind() == AC {
		h = crc32.New(castagnoli)
		want = []byte{byte(e.crc >> 24), byte(e.crc >> 16), byte(e.crc >> 8), byte(e.crc)}
	}
	buf := copyBuffers.Get().(*[copyLen]byte)
	defer copyBuffers.Put(buf)
	if _, err := io.CopyBuffer(h, struct{ io.Reader }{io.NewSectionReader(b, 0, b.size)}, buf[:]); err != nil {
		return err
	}
	if !bytes.Equal(h.Sum(nil), want) {
		return errDamaged
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if slot, ok := d.mu.idx.find(e.key()); ok && d.mu.idx.at(slot).gen == e.gen {
		d.mu.idx.at(slot).bits |= flagVerified
	}
	return nil
}

func (b *blob) Size() int64  { return b.size }
func (b *blob) Close() error { return b.file.Close() }

// ReadAt implements io.ReaderAt.
func (b *blob) ReadAt(p []byte, off int64) (int, error) {
	if err := b.d.reads.acquire(b.ctx); err != nil {
		return 0, err
	}
	defer b.d.reads.release()
	n, err := b.file.ReadAt(p, off)
	if err == io.EOF && off+int64(n) < b.size {
		err = io.ErrUnexpectedEOF // cut by hand while open
	}
	return n, err
}

const (
	copyLen = 64 << 10
	// sendLen is how much is made to be in memory, under a read slot, before it is sent without one: a slow client
	// must not hold a slot, and a stalled disk should stall slots and not threads.
	sendLen = 256 << 10
)

var copyBuffers = sync.Pool{New: func() any { return new([copyLen]byte) }}

// SendTo implements Blob.
func (b *blob) SendTo(w io.Writer, off, n int64) (sent int64, err error) {
	n = max(0, min(n, b.size-off))
	from, ok := w.(io.ReaderFrom)
	f := b.file.OSFile()
	if !ok || f == nil {
		return b.copyTo(w, off, n)
	}
	if _, err := f.Seek(off, io.SeekStart); err != nil {
		return 0, err
	}
	part := &io.LimitedReader{R: f}
	for sent < n {
		part.N = min(sendLen, n-sent)
		want := part.N
		if err := b.fetch(off+sent, want); err != nil {
			return sent, err
		}
		m, err := from.ReadFrom(part)
		sent += m
		if err == nil && m < want {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return sent, err
		}
	}
	return sent, nil
}

// fetch brings a part of the file into the page cache: it asks for all of it and waits for its end.
func (b *blob) fetch(off, n int64) error {
	if err := b.d.reads.acquire(b.ctx); err != nil {
		return err
	}
	defer b.d.reads.release()
	_ = b.file.Readahead(off, n)
	var last [1]byte
	if _, err := b.file.ReadAt(last[:], off+n-1); err == io.EOF {
		return io.ErrUnexpectedEOF
	} else if err != nil {
		return err
	}
	return nil
}

func (b *blob) copyTo(w io.Writer, off, n int64) (sent int64, err error) {
	buf := copyBuffers.Get().(*[copyLen]byte)
	defer copyBuffers.Put(buf)
	return io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{io.NewSectionReader(b, off, n)}, buf[:])
}
