package packs

import (
	"bytes"
	"errors"
	"slices"
	"strconv"

	"github.com/leveehq/levee/internal/git/child"
)

// join serves the seats from a pack that is there, or in the making, for another request.
func (f *flight) join(p *plan) bool {
	c := f.c
	c.mu.Lock()
	defer c.mu.Unlock()
	pack, ok := c.mu.spools.get(p.pack)
	if !ok {
		return false
	}
	for s := range f.seats {
		s.leader, s.outcome = false, Hit
		if pack.making {
			s.outcome = Coalesced
		}
	}
	f.settleLocked(p, pack, nil)
	return true
}

// deliver makes the pack of p, unless there is none or somebody else makes it.
func (f *flight) deliver(p *plan, price cost, held *held) error {
	if p.args == nil {
		f.settle(p, nil, nil)
		return nil
	}
	if f.join(p) {
		return nil
	}
	s, err := f.c.newSpool(p.pack, f.stop)
	if err != nil {
		return err
	}
	if !f.enter(p, s) {
		s.finish(errNobody)
		if f.join(p) {
			return nil
		}
		return errNobody
	}
	use, err := f.generate(s, p, price)
	for err != nil && f.again(s, err, &price) {
		held.release()
		if err = f.pay(price, held); err == nil {
			use, err = f.generate(s, p, price)
		}
	}
	held.release()
	f.suspect(err)
	s.mu.Lock()
	s.mu.usage = use.PeakAnon
	s.mu.Unlock()
	s.finish(err)
	return nil // what went wrong is told by the spool
}

// enter shows the spool to everybody, unless there is one by now, or nobody in the seats.
func (f *flight) enter(p *plan, s *spool) bool {
	c := f.c
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.generating++
	if _, ok := c.mu.spools.get(p.pack); ok || f.settled {
		return false
	}
	s.listed = true
	c.mu.spools.put(p.pack, s)
	c.mu.stats.Generations++
	f.settleLocked(p, s, nil)
	return true
}

// generate runs pack-objects into s.
func (f *flight) generate(s *spool, p *plan, price cost) (child.Usage, error) {
	at := slices.Index(p.args, "pack-objects") + 1
	args := slices.Insert(slices.Clone(p.args), at, "--progress")
	use, err := f.c.o.Runner.Run(f.ctx, child.Cmd{
		Dir: f.job.Lease.Dir, Args: args, Budget: f.budget(price),
		Stdin: bytes.NewReader(p.input), Stdout: into{f.ctx, s}, Stderr: (*progress)(s),
	})
	if err == nil {
		f.c.peaks.note(peakKey{f.job.Lease.Repo.String(), price.kind}, use.PeakAnon, f.job.Lease.Objects)
	}
	return use, err
}

// again tells that a generation which ran out of memory may be tried with twice as much: nobody has a byte of it yet, so that
// two runs are not spliced. Whether or not, the next one like it is planned with more.
func (f *flight) again(s *spool, err error, price *cost) bool {
	var exit *child.ExitError
	if !errors.As(err, &exit) || !exit.OutOfMemory {
		return false
	}
	price.bytes *= 2
	f.c.peaks.note(peakKey{f.job.Lease.Repo.String(), price.kind}, price.bytes, f.job.Lease.Objects)
	price.quick = price.quick && price.bytes <= f.c.o.Quick.Stats().Limit
	if !price.quick {
		price.bytes = max(price.bytes, f.c.o.Slot)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.size == 0
}

// progress takes what pack-objects says of its work, which a client may see on band 2 as it is.
type progress spool

// maxProgress of a pack in the making is kept: enough for each percent of each of its stages, and for some minutes of lines a
// second.
const maxProgress = 32 << 10

func (p *progress) Write(b []byte) (int, error) {
	s := (*spool)(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	if n, ok := percent(b); ok {
		s.mu.percent = n
	}
	if len(s.mu.progress)+len(b) <= maxProgress {
		s.mu.progress = append(s.mu.progress, b...)
		s.signalLocked()
	}
	return len(b), nil
}

// percent of the last "Writing objects:  NN% (…" in b.
func percent(b []byte) (int, bool) {
	i := bytes.LastIndex(b, []byte("Writing objects:"))
	if i < 0 {
		return 0, false
	}
	text, _, ok := bytes.Cut(b[i+len("Writing objects:"):], []byte("%"))
	n, err := strconv.Atoi(string(bytes.TrimSpace(text)))
	return n, ok && err == nil
}
