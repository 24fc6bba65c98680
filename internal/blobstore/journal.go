package blobstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
)

// journal appends records to one file. It is used by whoever holds Disk.lead, one at a time.
type journal struct {
	file   File
	number uint64
	off    int64 // where the next record goes: a failed append leaves it, so the next one writes over the debris
	chain  uint32
}

func (d *Disk) createJournal(number uint64) (*journal, error) {
	f, err := d.fs.Open(d.journalPath(number), os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return nil, err
	}
	h := appendHeader(nil, journalMagic, number)
	if _, err = f.WriteAt(h, 0); err == nil {
		err = d.fs.SyncDir(d.opts.Dir) // flushing a file does not flush its name
	}
	if err != nil {
		f.Close()
		return nil, errors.Join(err, ignoreNotExist(d.fs.Remove(d.journalPath(number))))
	}
	return &journal{file: f, number: number, off: headerLen, chain: crc32.Checksum(h, castagnoli)}, nil
}

// append writes the records; sync flushes them to the disk, too. An error leaves the journal as it was.
func (j *journal) append(b []byte, sync bool) error {
	chain := seal(b, j.chain)
	if _, err := j.file.WriteAt(b, j.off); err != nil {
		return err
	}
	if sync {
		if err := j.file.Sync(); err != nil {
			return err
		}
	}
	j.off += int64(len(b))
	j.chain = chain
	return nil
}

// replayJournal feeds the records of f to r and returns how many bytes were good and how many there are. A torn or
// damaged record ends the replay without an error: it was never acknowledged, or the power failed without Fsync. An
// error means that the file could not be read.
func replayJournal(f io.ReaderAt, number uint64, r replayer) (good, total int64, err error) {
	in := newScanner(f)
	h, err := in.peek(headerLen)
	if err != nil {
		return 0, 0, err
	}
	if len(h) < headerLen || string(h[:8]) != journalMagic || binary.LittleEndian.Uint64(h[8:]) != number {
		total, err = in.drain()
		return 0, total, err
	}
	chain := crc32.Checksum(h, castagnoli)
	in.skip(headerLen)
	for {
		b, err := in.peek(recordHeader)
		if err != nil {
			return 0, 0, err
		}
		if len(b) == recordHeader {
			if b, err = in.peek(recordHeader + int(binary.LittleEndian.Uint16(b[4:]))); err != nil {
				return 0, 0, err
			}
		}
		n, crc, err := replayRecord(b, chain, r)
		if err != nil {
			good := in.pos
			total, err := in.drain()
			return good, total, err
		}
		chain = crc
		in.skip(n)
	}
}

// scanner reads a file front to back through one buffer that is larger than any record.
type scanner struct {
	f    io.ReaderAt
	buf  []byte
	have []byte // the unread part of buf
	read int64  // bytes read from f
	pos  int64  // bytes consumed
	eof  bool
}

func newScanner(f io.ReaderAt) *scanner { return &scanner{f: f, buf: make([]byte, 256<<10)} }

// peek returns the next n bytes, n at most 128 KiB; fewer only at the end of the file.
func (s *scanner) peek(n int) ([]byte, error) {
	for len(s.have) < n && !s.eof {
		kept := copy(s.buf, s.have)
		m, err := s.f.ReadAt(s.buf[kept:], s.read)
		s.read += int64(m)
		s.have = s.buf[:kept+m]
		switch {
		case errors.Is(err, io.EOF):
			s.eof = true
		case err != nil:
			return nil, fmt.Errorf("reading the index: %w", err)
		}
	}
	return s.have[:min(n, len(s.have))], nil
}

func (s *scanner) skip(n int) {
	s.have = s.have[n:]
	s.pos += int64(n)
}

// drain reads to the end and returns the length of the file.
func (s *scanner) drain() (int64, error) {
	for !s.eof {
		s.have = nil
		if _, err := s.peek(1); err != nil {
			return 0, err
		}
	}
	return s.read, nil
}
