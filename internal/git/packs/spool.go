package packs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// file is the writer's end of a spool. Tests put a full disk behind it.
type file interface {
	io.WriterAt
	io.Closer
	writeback(off, n int64, wait bool)
}

// spool is one pack on disk, whole or in the making. While it fits it is a plain file; when it may not grow, it becomes a ring
// of the size it has, and whoever reads it must keep up.
type spool struct {
	c    *Cache
	key  key
	path string
	file file
	stop context.CancelCauseFunc // ends the generation
	over chan struct{}           // closed when it has ended

	// Guarded by the Cache's lock.
	seats  int // readers that have not left
	making bool
	listed bool  // may be joined
	gone   bool  // its bytes are given back
	charge int64 // bytes of the budget
	aside  int64 // bytes of what is set aside for windows

	dirty dirty // the writer's alone

	mu struct {
		sync.Mutex
		size     int64 // written
		window   int64 // of the ring; 0 while it is none
		done     bool
		err      error
		readers  map[*reader]struct{}
		changed  chan struct{} // closed and replaced when any of this changes, size by signalBytes
		said     int64         // size at that time
		saying   bool          // it will be, in signalAfter
		freed    chan struct{} // 1 deep: a reader has made room in the ring
		progress []byte        // what pack-objects says
		dropped  int           // bytes before progress
		percent  int           // of what it writes
		usage    int64
	}
}

// newSpool makes the file, with a first grain of the budget or, if that is spent, of what is set aside.
func (c *Cache) newSpool(k key, stop context.CancelCauseFunc) (*spool, error) {
	s := &spool{c: c, key: k, stop: stop, over: make(chan struct{}), making: true}
	s.path = filepath.Join(c.o.Dir, strconv.FormatUint(c.made.Add(1), 10)+".pack")
	s.mu.readers = make(map[*reader]struct{})
	s.mu.changed, s.mu.freed = make(chan struct{}), make(chan struct{}, 1)
	var err error
	if s.file, err = c.mkfile(s.path); err != nil {
		return nil, fmt.Errorf("spool a pack: %w", err)
	}
	if !c.grow(s, c.grain) {
		c.mu.Lock()
		s.aside = c.grain
		c.mu.aside += c.grain
		c.mu.Unlock()
	}
	return s, nil
}

type osFile struct{ *os.File }

func createFile(path string) (file, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (f osFile) writeback(off, n int64, wait bool) {
	flags := unix.SYNC_FILE_RANGE_WRITE
	if wait {
		flags |= unix.SYNC_FILE_RANGE_WAIT_BEFORE | unix.SYNC_FILE_RANGE_WAIT_AFTER
	}
	// It is a wish: a file system that cannot do it writes when it likes.
	_ = unix.SyncFileRange(int(f.Fd()), off, n, flags)
}

// dirty starts write-back piece by piece, and lets no more than two pieces of a spool be dirty: the kernel would collect gigabytes,
// and then stop everybody.
type dirty struct{ from, to, before int64 }

const dirtyPiece = 4 << 20

func (s *spool) wrote(off, n int64) {
	d := &s.dirty
	if off != d.to { // around the ring
		s.file.writeback(d.from, d.to-d.from, false)
		*d = dirty{from: off, to: off, before: off}
	}
	d.to = off + n
	if d.to-d.from < dirtyPiece {
		return
	}
	s.file.writeback(d.from, d.to-d.from, false)
	if d.before < d.from {
		s.file.writeback(d.before, d.from-d.before, true)
	}
	d.before, d.from = d.from, d.to
}

// into is where pack-objects writes to. It ends with ctx.
type into struct {
	ctx context.Context
	s   *spool
}

const copyBytes = 128 << 10

// ReadFrom is for io.Copy, whose own buffer would be a quarter of it.
func (w into) ReadFrom(r io.Reader) (total int64, err error) {
	buf := make([]byte, copyBytes)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return total, err
			}
			total += int64(n)
		}
		if err == io.EOF {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}

func (w into) Write(p []byte) (n int, err error) {
	for n < len(p) {
		at, room, err := w.s.room(w.ctx, int64(len(p)-n))
		if err != nil {
			return n, err
		}
		m, err := w.s.file.WriteAt(p[n:n+int(room)], at)
		w.s.wrote(at, int64(m))
		w.s.grew(int64(m))
		n += m
		if err != nil {
			if err := w.s.full(err); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// room says where how many of n bytes may be written.
func (s *spool) room(ctx context.Context, n int64) (at, room int64, err error) {
	s.mu.Lock()
	size, window := s.mu.size, s.mu.window
	s.mu.Unlock()
	if window > 0 {
		return s.roomInRing(ctx, n)
	}
	limit := s.limit()
	for limit < size+n && limit < s.c.o.MaxPack && s.aside == 0 && s.c.grow(s, s.c.grain) {
		limit = s.limit()
	}
	if size < limit {
		return size, min(n, limit-size), nil
	}
	s.turn(size)
	return s.roomInRing(ctx, n)
}

// limit is what the file may have.
func (s *spool) limit() int64 {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	return s.charge + s.aside
}

// turn makes a ring of what is written. Nobody can join any more: its beginning is about to be written over.
func (s *spool) turn(window int64) {
	s.c.retire(s)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.window = window
}

// full is called when the disk has no room. What it can be told is nil: there is room again, or the ring is as long as the file
// has become, so that it needs no more.
func (s *spool) full(err error) error {
	if !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT) {
		return fmt.Errorf("spool a pack: %w", err)
	}
	if s.c.shrink(s.c.grain) {
		return nil
	}
	s.mu.Lock()
	size, window := s.mu.size, s.mu.window
	s.mu.Unlock()
	if window > 0 || size < grainLeast {
		return fmt.Errorf("spool a pack: %w, and no spooled pack can give way; make room for git.path", err)
	}
	s.turn(size)
	return nil
}

// roomInRing waits until the slowest reader has left room.
func (s *spool) roomInRing(ctx context.Context, n int64) (at, room int64, err error) {
	patience := time.NewTimer(s.c.patient)
	defer patience.Stop()
	for {
		s.mu.Lock()
		size, window := s.mu.size, s.mu.window
		free := window - (size - s.slowestLocked())
		s.mu.Unlock()
		if free > 0 {
			at = size % window
			return at, min(n, free, window-at), nil
		}
		select {
		case <-s.mu.freed:
		case <-patience.C:
			s.detachSlow()
			patience.Reset(s.c.patient)
		case <-ctx.Done():
			return 0, 0, context.Cause(ctx)
		}
	}
}

// slowestLocked is how far all readers are. Without any the ring is not written over: the generation is about to be ended.
func (s *spool) slowestLocked() int64 {
	if len(s.mu.readers) == 0 {
		return s.mu.size - s.mu.window
	}
	slowest := s.mu.size
	for r := range s.mu.readers {
		slowest = min(slowest, r.offset)
	}
	return slowest
}

// detachSlow leaves behind those that fill the ring, if there is somebody who has read all of it and waits. As long as all are
// slow nobody is: they get what they can take.
func (s *spool) detachSlow() {
	s.mu.Lock()
	slowest := s.slowestLocked()
	var slow []*reader
	starving := false
	for r := range s.mu.readers {
		switch r.offset {
		case s.mu.size:
			starving = true
		case slowest:
			slow = append(slow, r)
		}
	}
	if !starving {
		slow = nil
	}
	for _, r := range slow {
		r.detached = true
		delete(s.mu.readers, r)
	}
	s.signalLocked()
	s.mu.Unlock()
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	s.c.mu.stats.Detached += uint64(len(slow))
}

func (s *spool) grew(n int64) {
	if n <= 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.size += n
	worth := int64(signalBytes)
	if s.mu.window > 0 {
		worth = min(worth, s.mu.window/4)
	}
	switch unsaid := s.mu.size - s.mu.said; {
	case s.mu.said == 0, unsaid >= worth:
		s.signalLocked()
	case !s.mu.saying:
		s.mu.saying = true
		time.AfterFunc(signalAfter, s.say)
	}
}

// git writes eight kilobytes at a time. To wake every reader for each of them would cost more than making the pack: they are
// woken for a good piece, or a moment later for what there is.
const (
	signalBytes = 256 << 10
	signalAfter = 20 * time.Millisecond
)

func (s *spool) say() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.saying = false
	if s.mu.said < s.mu.size {
		s.signalLocked()
	}
}

func (s *spool) signalLocked() {
	s.mu.said = s.mu.size
	close(s.mu.changed)
	s.mu.changed = make(chan struct{})
}

// lastProgress is kept of a pack that is made: the last lines tell how much was packed.
const lastProgress = 4 << 10

// forgetLocked leaves no more of the progress, once the pack is made, than those who came before may not have looked at yet; it
// is of no use to those who come later.
func (s *spool) forgetLocked() {
	if !s.mu.done && s.mu.err == nil {
		return
	}
	keep := 0
	for r := range s.mu.readers {
		if r.watches {
			keep = min(len(s.mu.progress), lastProgress)
			break
		}
	}
	if drop := len(s.mu.progress) - keep; drop > 0 {
		s.mu.dropped += drop
		s.mu.progress = bytes.Clone(s.mu.progress[drop:])
	}
}

// finish is the end of the generation. A pack that is whole, and all of which is on disk, is kept for others.
func (s *spool) finish(err error) {
	s.file.writeback(s.dirty.from, s.dirty.to-s.dirty.from, false)
	_ = s.file.Close()
	s.mu.Lock()
	s.mu.done, s.mu.err = err == nil, err
	s.forgetLocked()
	size := s.mu.size
	s.signalLocked()
	s.mu.Unlock()

	c := s.c
	c.mu.Lock()
	s.making = false
	c.mu.generating--
	if err != nil || s.aside > 0 { // a window is needed by the next
		c.retireLocked(s)
	} else if fits := (size + blockSize - 1) &^ (blockSize - 1); fits < s.charge {
		c.mu.used -= s.charge - fits
		s.charge = fits
	}
	dead := c.deadLocked(s)
	c.mu.Unlock()
	if dead {
		c.discard([]*spool{s})
	}
	close(s.over)
}
