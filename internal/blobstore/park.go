package blobstore

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"
)

// partials are the unfinished uploads: how many, under which names, and the parked ones from oldest to newest.
type partials struct {
	count  int
	parked int
	// A name is kept as its hash: names are long, and chosen by clients.
	names          map[[32]byte]*partial
	oldest, newest *partial
}

func (s *partials) init() { s.names = make(map[[32]byte]*partial) }

func nameKey(name string) [32]byte { return sha256.Sum256([]byte(name)) }

func (s *partials) oldestParked() *partial { return s.oldest }

func (s *partials) park(p *partial) {
	p.parked = true
	p.older, p.newer = s.newest, nil
	if s.newest != nil {
		s.newest.newer = p
	} else {
		s.oldest = p
	}
	s.newest = p
	s.parked++
}

func (s *partials) unpark(p *partial) {
	if p.older != nil {
		p.older.newer = p.newer
	} else {
		s.oldest = p.newer
	}
	if p.newer != nil {
		p.newer.older = p.older
	} else {
		s.newest = p.older
	}
	p.older, p.newer, p.parked = nil, nil, false
	s.parked--
}

// enter counts a new upload; a parked one gives way if there are too many. The caller removes the victims' files.
func (d *Disk) enter(p *partial) (victims []victim, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.closed {
		return nil, ErrClosed
	}
	s := &d.mu.uploads
	if s.count >= d.opts.MaxUploads {
		old := s.oldestParked()
		if old == nil {
			return nil, &NoSpace{Reason: "uploads", Detail: fmt.Sprintf("%d uploads are under way, the most the store allows", s.count)}
		}
		victims = append(victims, d.dropLocked(old))
	}
	s.count++
	p.gen = d.nextGenLocked()
	return victims, nil
}

// leave ends an upload whose bytes are no longer its own.
func (d *Disk) leave(p *partial) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p.charge = 0
	d.dropLocked(p)
}

// dropLocked ends an upload. Its bytes are unlinking from now on; the caller passes the victim to unlink.
func (d *Disk) dropLocked(p *partial) victim {
	s := &d.mu.uploads
	if p.parked {
		s.unpark(p)
	}
	if p.named {
		delete(s.names, p.name)
		p.named = false
	}
	s.count--
	p.gone = true
	d.mu.reserved -= p.charge
	d.mu.unlinking += p.charge
	return victim{temp: true, gen: p.gen, charge: p.charge}
}

// Name implements Upload.
func (u *upload) Name(name string) error {
	if u.ended {
		return errEnded
	}
	d, key := u.d, nameKey(name)
	d.mu.Lock()
	other := d.mu.uploads.names[key]
	if other == u.partial {
		d.mu.Unlock()
		return nil
	}
	if u.named || other != nil && !other.parked {
		d.mu.Unlock()
		if other == nil {
			return errors.New("upload has another name already")
		}
		return ErrBusy
	}
	var victims []victim
	if other != nil {
		victims = append(victims, d.dropLocked(other))
	}
	u.name, u.named = key, !u.gone
	if u.named {
		d.mu.uploads.names[key] = u.partial
	}
	d.mu.Unlock()
	return d.unlink(u.ctx, nil, victims)
}

// Park implements Upload. A parked upload holds its bytes on disk, counted, and no descriptor.
func (u *upload) Park() {
	if u.ended {
		return
	}
	d := u.d
	d.mu.Lock()
	ok := u.named && !u.gone && u.err == nil && !d.mu.closed
	d.mu.Unlock()
	if !ok {
		u.Abort()
		return
	}
	if u.file != nil {
		err := u.file.Close()
		u.file = nil
		if err != nil { // the bytes may not be there
			u.Abort()
			return
		}
	}
	u.ended = true
	d.active.Add(-1)
	var victims []victim
	d.mu.Lock()
	s := &d.mu.uploads
	if s.parked >= d.opts.MaxParked {
		victims = append(victims, d.dropLocked(s.oldestParked()))
	}
	u.deadline = time.Now().Add(d.opts.ParkFor)
	s.park(u.partial)
	d.signalLocked() // who waits for room may take it
	d.mu.Unlock()
	_ = d.unlink(context.WithoutCancel(u.ctx), nil, victims)
}

// Resume implements Store.
func (d *Disk) Resume(ctx context.Context, name string) (Upload, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.mu.uploads.names[nameKey(name)]
	switch {
	case d.mu.closed:
		return nil, ErrClosed
	case p == nil:
		return nil, ErrNotExist
	case !p.parked:
		return nil, ErrBusy
	case time.Now().After(p.deadline):
		return nil, ErrNotExist // Run has not come by yet
	}
	d.mu.uploads.unpark(p)
	d.active.Add(1)
	return &upload{partial: p, ctx: ctx}, nil
}

// expireParked drops parked uploads whose time is over.
func (d *Disk) expireParked(ctx context.Context) error {
	now := time.Now()
	var victims []victim
	d.mu.Lock()
	for {
		p := d.mu.uploads.oldestParked()
		if p == nil || !now.After(p.deadline) {
			break
		}
		victims = append(victims, d.dropLocked(p))
	}
	d.mu.Unlock()
	return d.unlink(ctx, nil, victims)
}
