package blobstore

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os"
)

// A snapshot lets the journals before it go. It is fuzzy: the index changes while it is being written, chunk by chunk,
// and the journal that was begun just before holds those changes. Replaying that journal over the snapshot gives the
// right index whatever moment each chunk shows, because records speak of slots: a put sets its slot whatever was there,
// a removal clears it only if the generation agrees, so the last record about a slot decides, and a slot without a
// record did not change.

// writeSnapshot writes the index to w: next calls back with every entry to be kept and returns false after the last.
func writeSnapshot(w io.WriterAt, number uint64, next func(block []byte) ([]byte, bool)) (size int64, err error) {
	h := appendHeader(nil, snapshotMagic, number)
	if _, err := w.WriteAt(h, 0); err != nil {
		return 0, err
	}
	size = headerLen
	chain := crc32.Checksum(h, castagnoli)
	buf := make([]byte, 0, blockHeader+chunkLen*entryLen)
	live := uint64(0)
	for more := true; more; {
		buf, more = next(buf[:blockHeader])
		n := (len(buf) - blockHeader) / entryLen
		if n == 0 && more {
			continue
		}
		live += uint64(n)
		if n > 0 {
			if chain, size, err = writeBlock(w, buf, chain, size); err != nil {
				return 0, err
			}
		}
	}
	end := binary.LittleEndian.AppendUint64(buf[:blockHeader], live)
	_, size, err = writeBlock(w, end, chain, size)
	return size, err
}

// writeBlock writes one block whose entries follow the room for its header. The last block has no entries, but a count.
func writeBlock(w io.WriterAt, b []byte, chain uint32, off int64) (uint32, int64, error) {
	n := uint32((len(b) - blockHeader) / entryLen)
	binary.LittleEndian.PutUint32(b[4:], n)
	chain = crc32.Update(chain, castagnoli, b[4:])
	binary.LittleEndian.PutUint32(b, chain)
	_, err := w.WriteAt(b, off)
	return chain, off + int64(len(b)), err
}

// readSnapshot feeds the entries of f to r. errDamaged means that the file is not a whole snapshot of that number.
func readSnapshot(f io.ReaderAt, number uint64, r replayer) error {
	in := newScanner(f)
	h, err := in.peek(headerLen)
	if err != nil {
		return err
	}
	if len(h) < headerLen || string(h[:8]) != snapshotMagic || binary.LittleEndian.Uint64(h[8:]) != number {
		return errDamaged
	}
	chain := crc32.Checksum(h, castagnoli)
	in.skip(headerLen)
	for live := uint64(0); ; {
		b, err := in.peek(blockHeader)
		if err != nil {
			return err
		}
		if len(b) < blockHeader {
			return errDamaged
		}
		n := binary.LittleEndian.Uint32(b[4:])
		body := int(n) * entryLen
		if n == 0 {
			body = 8
		}
		if n > chunkLen {
			return errDamaged
		}
		if b, err = in.peek(blockHeader + body); err != nil {
			return err
		}
		if len(b) < blockHeader+body {
			return errDamaged
		}
		chain = crc32.Update(chain, castagnoli, b[4:])
		if chain != binary.LittleEndian.Uint32(b) {
			return errDamaged
		}
		if n == 0 {
			if binary.LittleEndian.Uint64(b[blockHeader:]) != live {
				return errDamaged
			}
			return nil
		}
		live += uint64(n)
		for p := b[blockHeader:]; len(p) > 0; p = p[entryLen:] {
			slot, e, err := decodeEntry(p)
			if err != nil {
				return err
			}
			r.put(slot, e)
		}
		in.skip(len(b))
	}
}

// snapshot begins a new journal, writes the index beside it, and removes what the two replace. The index's lock is held
// for one chunk at a time and never during I/O. A failure leaves the old snapshot and every journal in place.
func (d *Disk) snapshot(ctx context.Context) error {
	d.snapshotting.Lock()
	defer d.snapshotting.Unlock()

	number, chunks, err := d.rotate(ctx)
	if err != nil {
		return err
	}
	size, err := d.saveSnapshot(ctx, number, chunks)
	if err != nil {
		return errors.Join(err, ignoreNotExist(d.fs.Remove(d.path("snapshot.tmp"))))
	}
	d.mu.Lock()
	d.mu.snapshotBytes = size
	d.mu.oldJournals = 0
	d.mu.oldJournalBytes = 0
	d.mu.Unlock()
	return d.removeIndexFiles(number)
}

// rotate flushes what is queued to the old journal and begins the next one. Entries that are pending afterwards are
// recorded in the new one.
func (d *Disk) rotate(ctx context.Context) (number uint64, chunks int, err error) {
	if err := d.lead.acquire(ctx); err != nil {
		return 0, 0, err
	}
	defer d.lead.release()
	if d.journal == nil {
		return 0, 0, errNotBegun
	}
	d.flush()
	number = d.journal.number + 1
	j, err := d.createJournal(number)
	if err != nil {
		return 0, 0, err
	}
	d.mu.Lock()
	old := d.journal
	d.journal = j
	d.mu.oldJournals++
	d.mu.oldJournalBytes += old.off
	d.mu.journalBytes = j.off
	chunks = len(d.mu.idx.chunks)
	d.mu.Unlock()
	return number, chunks, old.file.Close()
}

func (d *Disk) saveSnapshot(ctx context.Context, number uint64, chunks int) (size int64, err error) {
	f, err := d.fs.Open(d.path("snapshot.tmp"), os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	chunk := 0
	size, err = writeSnapshot(f, number, func(b []byte) ([]byte, bool) {
		if chunk >= chunks || ctx.Err() != nil {
			return b, false
		}
		b = d.encodeChunk(b, chunk)
		chunk++
		return b, true
	})
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return 0, err
	}
	// Flushed before the rename, or a power cut could leave the name on an empty file and the journals gone.
	if err := f.Sync(); err != nil {
		return 0, err
	}
	if err := d.fs.Rename(d.path("snapshot.tmp"), d.snapshotPath(number)); err != nil {
		return 0, err
	}
	return size, d.fs.SyncDir(d.opts.Dir)
}

// encodeChunk appends the entries of one chunk that are live or on their way: the record of a pending one may be in a
// journal that this snapshot replaces.
func (d *Disk) encodeChunk(b []byte, chunk int) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.mu.idx.chunks[chunk]
	if c == nil {
		return b
	}
	for i := range c {
		if c[i].has(flagLive | flagPending) {
			b = appendEntry(b, uint32(chunk*chunkLen+i), &c[i])
		}
	}
	return b
}

func ignoreNotExist(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
