package packs

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// reader is one client's place in a spool.
type reader struct {
	s    *spool
	file *os.File // its own, since a spool's file may go when the last reader has left
	size int64    // what was written when it last looked
	err  error    // of the spool, as Read returned it

	watches bool // it came while the pack was made, and may see how that went

	// Guarded by the spool's lock.
	offset   int64
	detached bool
	left     bool
}

var (
	errNothingYet = errors.New("nothing has been written beyond")
	errDetached   = errors.New("the pack is larger than can be kept for a client that reads so slowly; try again, or fetch less at once")
)

// joinLocked takes a place at the beginning of s. The Cache's lock is held.
func (s *spool) joinLocked() *reader {
	s.seats++
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &reader{s: s, watches: !s.mu.done}
	s.mu.readers[r] = struct{}{}
	return r
}

// open must come before Read.
func (r *reader) open() (err error) {
	if r.file, err = os.Open(r.s.path); err != nil {
		return fmt.Errorf("read a spooled pack: %w", err)
	}
	return nil
}

// look tells what there is: bytes to read, or the end, or a reason why there will be none, or a channel that is closed when to
// look again.
func (r *reader) look() (some, done bool, changed <-chan struct{}, err error) {
	s := r.s
	s.mu.Lock()
	defer s.mu.Unlock()
	r.size = s.mu.size
	switch {
	case r.detached:
		err = errDetached
	case s.mu.err != nil:
		err = s.mu.err
	}
	return r.offset < s.mu.size, s.mu.done, s.mu.changed, err
}

// Read gives what has been written; at the end of that it is errNothingYet, or io.EOF.
func (r *reader) Read(p []byte) (int, error) {
	if r.offset == r.size {
		if some, done, _, err := r.look(); err != nil {
			return 0, r.fail(err)
		} else if !some && done {
			return 0, io.EOF
		} else if !some {
			return 0, errNothingYet
		}
	}
	at, n := r.offset, min(int64(len(p)), r.size-r.offset)
	window := r.s.ring()
	if window > 0 {
		at %= window
		n = min(n, window-at)
	}
	got, err := r.file.ReadAt(p[:n], at)
	if int64(got) < n {
		return 0, r.fail(fmt.Errorf("read a spooled pack: %w", err))
	}
	if err := r.advance(int64(got)); err != nil {
		return 0, err
	}
	return got, nil
}

// advance says that n bytes were read; only now may they be written over, and only if they have not been they are good.
func (r *reader) advance(n int64) error {
	s := r.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.detached {
		return r.fail(errDetached)
	}
	r.offset += n
	if s.mu.window > 0 {
		select {
		case s.mu.freed <- struct{}{}:
		default:
		}
	}
	return nil
}

func (r *reader) fail(err error) error {
	r.err = err
	return err
}

func (s *spool) ring() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.window
}

// leave gives the place back; once. If it was the last and the pack is far from done, its making is ended; in any case the
// last to leave waits for the end: when Serve returns, nothing is at work for it.
func (r *reader) leave() {
	s, c := r.s, r.s.c
	if r.file != nil {
		_ = r.file.Close()
	}
	s.mu.Lock()
	delete(s.mu.readers, r)
	s.forgetLocked()
	again := r.left
	r.left = true
	near := s.mu.done || s.mu.percent >= nearlyDone && s.mu.window == 0
	select {
	case s.mu.freed <- struct{}{}:
	default:
	}
	s.mu.Unlock()
	if again {
		return
	}
	c.mu.Lock()
	s.seats--
	last := s.seats == 0 && s.making
	if last && !near {
		c.retireLocked(s)
		s.stop(errNobody)
	}
	dead := c.deadLocked(s)
	c.mu.Unlock()
	if dead {
		c.discard([]*spool{s})
	}
	if last {
		<-s.over
	}
}

// nearlyDone is the share, in percent, of a pack's objects from which on it is finished even if nobody waits for it any more.
const nearlyDone = 90

var errNobody = errors.New("nobody waits for the pack any more")
