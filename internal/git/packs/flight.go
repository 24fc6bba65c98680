package packs

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/leveehq/levee/gate"
	"github.com/leveehq/levee/internal/git/child"
	"github.com/leveehq/levee/internal/git/mirror"
)

// flight finds the answer to a canonical request, for all who ask at the same time. It belongs to none of them, and runs on a
// goroutine of its own until the pack is made.
type flight struct {
	c    *Cache
	key  key
	job  Job   // of who came first, all others' are alike; with a lease of the flight's own
	plan *plan // if it is known already, and only its pack is gone

	ctx   context.Context // ended when all seats have left
	stop  context.CancelCauseFunc
	ready chan struct{} // closed when the seats are served
	over  chan struct{} // closed when nothing of it runs any more

	seats   map[*seat]struct{} // guarded by the Cache's lock
	settled bool               // guarded by the Cache's lock

	began    time.Time
	position atomic.Int64 // in the queue; 0 is in none
	waited   atomic.Int64 // nanoseconds
	cost     atomic.Int64
}

// seat is one caller's place: in a flight until that is settled, and then at what has come of it.
type seat struct {
	c       *Cache
	flight  *flight // nil if the answer was known
	leader  bool
	outcome string
	plan    *plan
	reader  *reader // nil if there is no pack
	err     error
}

// sit finds the answer in the tables, or a flight that is about it, or begins one.
func (c *Cache) sit(j *Job) (*seat, error) {
	k := canonical(j)
	s, err := c.take(k, j, nil)
	if s != nil || err != nil {
		return s, err
	}
	// A flight has a lease of its own: the mirror may be packed anew between its first seat's and its last one's.
	lease := j.Lease.Hold()
	s, err = c.take(k, j, lease)
	if err != nil || s.flight == nil || s.flight.job.Lease != lease { // what else a seat says may change from now on
		lease.Release()
	}
	return s, err
}

// take begins a flight only with a lease for it; without, it may find nothing.
func (c *Cache) take(k key, j *Job, lease *mirror.Lease) (*seat, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.closed {
		return nil, ErrClosed
	}
	s := &seat{c: c}
	p, known := c.mu.plans.get(k)
	if known && c.serveLocked(s, p) {
		return s, nil
	}
	f, ok := c.mu.flights[k]
	switch {
	case ok:
	case lease == nil:
		return nil, nil
	default:
		s.leader = true
		f = c.beginLocked(k, Job{Lease: lease, Request: j.Request, Caller: j.Caller, Clone: j.Clone}, p)
	}
	f.seats[s] = struct{}{}
	s.flight = f
	return s, nil
}

// serveLocked gives s what p says, if that needs no more than what is here.
func (c *Cache) serveLocked(s *seat, p *plan) bool {
	if p.args == nil {
		s.plan, s.outcome = p, Round
		return true
	}
	pack, ok := c.mu.spools.get(p.pack)
	if !ok {
		return false
	}
	s.plan, s.reader, s.outcome = p, pack.joinLocked(), Hit
	if pack.making {
		s.outcome = Coalesced
	}
	return true
}

func (c *Cache) beginLocked(k key, j Job, p *plan) *flight {
	f := &flight{
		c: c, key: k, job: j, plan: p, ready: make(chan struct{}), over: make(chan struct{}), seats: make(map[*seat]struct{}),
		began: time.Now(),
	}
	// Not a child of any caller's context: who comes first may leave.
	f.ctx, f.stop = context.WithCancelCause(context.Background())
	c.mu.flights[k] = f
	c.flights.Add(1)
	go f.run()
	return f
}

func (f *flight) run() {
	defer f.c.flights.Done()
	defer close(f.over)
	defer f.stop(nil)
	defer f.job.Lease.Release()
	if err := f.work(); err != nil {
		f.suspect(err)
		f.settle(nil, nil, err)
	}
}

// suspect tells the mirror of a child that failed by itself, for no reason that is ours.
func (f *flight) suspect(err error) {
	var exit *child.ExitError
	if errors.As(err, &exit) && exit.Signal == "" && !exit.OutOfMemory && !exit.DiskFull {
		f.job.Lease.Suspect(err)
	}
}

// work ends when the pack is made. Whatever permit it holds is given back then.
func (f *flight) work() error {
	held := new(held)
	defer held.release()
	if f.plan == nil && !f.job.Request.EndsInPack() {
		return f.round(held)
	}
	price, err := f.permitted(held)
	if err != nil {
		return err
	}
	p := f.plan
	if p == nil {
		if p, err = f.c.plan(f.ctx, &f.job, f.budget(price)); err != nil {
			return err
		}
	}
	return f.deliver(p, price, held)
}

// round plans under a small permit. Only if upload-pack finds that it knows enough for a pack, the flight waits for the right
// one, and then it holds no child.
func (f *flight) round(held *held) error {
	permit, err := f.admit(f.ctx, f.c.o.Rounds, f.job.Caller, f.c.o.RoundSlot)
	if err != nil {
		return err
	}
	held.permit = permit
	p, err := f.c.plan(f.ctx, &f.job, child.Budget{Bytes: f.c.o.RoundSlot})
	held.release()
	if err != nil {
		return err
	}
	if p.args == nil {
		f.settle(p, nil, nil)
		return nil
	}
	if f.join(p) {
		return nil
	}
	price, err := f.permitted(held)
	if err != nil {
		return err
	}
	return f.deliver(p, price, held)
}

// held is the permit that a flight has, if it has one.
type held struct{ permit *gate.Permit }

func (h *held) release() {
	h.permit.Release()
	h.permit = nil
}

// permitted has held hold a permit for what the generation is predicted to cost.
func (f *flight) permitted(held *held) (cost, error) {
	price, err := f.predict(f.ctx)
	if err != nil {
		return cost{}, err
	}
	return price, f.pay(price, held)
}

func (f *flight) pay(price cost, held *held) (err error) {
	g, key := f.c.o.Heavy, f.job.Lease.Repo.String()
	if price.quick {
		g, key = f.c.o.Quick, f.job.Caller
	}
	f.cost.Store(price.bytes)
	held.permit, err = f.admit(f.ctx, g, key, price.bytes)
	return err
}

// admit waits for as long as those in the seats can: all of them can be told, or none. The time is for all of the flight's queues
// together.
func (f *flight) admit(ctx context.Context, g *gate.Gate, key string, bytes int64) (*gate.Permit, error) {
	o := &f.c.o
	wait := o.SilentWait
	if f.job.Request.Tellable() {
		wait = o.Wait
	}
	defer f.position.Store(0)
	// Each seat has a clock of its own, for it came at its own time; here is only where it reads the position.
	permit, err := g.AdmitWith(ctx, key, bytes, gate.Waiting{
		Wait: max(wait-time.Since(f.began), time.Millisecond), After: o.NoticeAfter * 3 / 4, Every: o.NoticeEvery / 4,
		Tell: func(position int) { f.position.Store(int64(position)) },
	})
	f.waited.Add(int64(permit.Waited()))
	var shed *gate.Shed
	if errors.As(err, &shed) {
		f.waited.Add(int64(shed.Waited))
		if shed.Reason == gate.TooLarge {
			return nil, &TooLarge{Repo: f.job.Lease.Repo.String(), Bytes: bytes, Shed: shed}
		}
	}
	return permit, err
}

func (f *flight) budget(price cost) child.Budget {
	b := child.Budget{Bytes: price.bytes}
	if !price.quick {
		b.Threads = f.c.o.Threads
	}
	return b
}

// settle gives every seat what has come of the flight, once. From then on it can be joined by nobody.
func (f *flight) settle(p *plan, pack *spool, err error) {
	c := f.c
	c.mu.Lock()
	defer c.mu.Unlock()
	f.settleLocked(p, pack, err)
}

func (f *flight) settleLocked(p *plan, pack *spool, err error) {
	c := f.c
	if f.settled {
		return
	}
	f.settled = true
	if c.mu.flights[f.key] == f {
		delete(c.mu.flights, f.key)
	}
	if err == nil && p.ended == nil {
		c.keepLocked(f.key, p)
	}
	for s := range f.seats {
		s.plan, s.err = p, err
		if pack != nil {
			s.reader = pack.joinLocked()
		}
	}
	close(f.ready)
}

// leave gives the place back, wherever it is. The last one to leave a flight ends it, and waits for that: when Serve returns,
// nothing is at work for it.
func (s *seat) leave() {
	if s.flight != nil {
		s.leaveFlight()
	}
	if s.reader != nil {
		s.reader.leave()
	}
}

func (s *seat) leaveFlight() {
	c, f := s.c, s.flight
	c.mu.Lock()
	delete(f.seats, s)
	last := !f.settled && len(f.seats) == 0
	if last {
		f.settled = true
		delete(c.mu.flights, f.key)
		f.stop(errNobody)
	}
	c.mu.Unlock()
	if last {
		<-f.over
	}
}

// waited is for permits.
func (s *seat) waited() time.Duration {
	if s.flight == nil {
		return 0
	}
	return time.Duration(s.flight.waited.Load())
}
