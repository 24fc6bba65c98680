package packs

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/leveehq/levee/internal/git/pkt"
)

// Serve answers. An error before Began is the caller's to answer: a *TooLarge, a *gate.Shed, a *child.ExitError, ErrClosed, or
// context.Cause(ctx). With Began it is for the log; a client without a side-band can only learn of it if its connection is cut.
func (c *Cache) Serve(ctx context.Context, j Job, out Out) (Result, error) {
	if j.Request.Command != "fetch" {
		return Result{Outcome: Failed}, fmt.Errorf("packs: %q is no fetch", j.Request.Command)
	}
	s, err := c.sit(&j)
	if err != nil {
		return Result{Outcome: Failed}, err
	}
	defer s.leave()
	a := &answer{ctx: ctx, c: c, seat: s, request: j.Request, body: body{out: out}}
	a.mux = pkt.NewMuxer(&a.body, j.Request.SidebandSize(), nil) // a waiter needs no buffer
	a.clock = time.NewTimer(c.o.NoticeAfter)
	defer a.clock.Stop()
	err = a.run()
	return a.result(err), err
}

// muxBytes holds two of the large packets: fewer calls, and less than what is planned for a request.
func muxBytes(r *pkt.Request) int {
	if size := r.SidebandSize(); size > 0 {
		packet := size + 5
		return (2*(pkt.Sideband64k+5) + packet - 1) / packet * packet
	}
	return 128 << 10
}

// answer is one client's.
type answer struct {
	ctx     context.Context
	c       *Cache
	seat    *seat
	request *pkt.Request
	body    body
	mux     *pkt.Muxer
	clock   *time.Timer // of the next notice

	settled bool // the seat is served, and does not change any more
	opened  bool // the sections before the pack have been sent
	sent    bool // something of the pack, since the clock last rang
	shown   int  // bytes of pack-objects' progress
	refused bool
}

// body moves the write deadline on as bytes go out.
type body struct {
	out   Out
	began bool
	bytes int64
}

func (b *body) Write(p []byte) (int, error) {
	b.began = true
	b.out.Progress()
	n, err := b.out.Write(p)
	b.bytes += int64(n)
	return n, err
}

func (a *answer) run() error {
	if err := a.await(); err != nil {
		return err
	}
	s := a.seat
	a.settled = true
	switch {
	case s.err != nil:
		return a.fail(s.err)
	case s.reader == nil:
		return a.whole(s.plan)
	}
	a.body.out.Progress()
	if err := s.reader.open(); err != nil {
		return a.fail(err)
	}
	return a.stream()
}

// await waits for the flight, and tells the client so if it can be told.
func (a *answer) await() error {
	if a.seat.flight == nil {
		return nil
	}
	for {
		select {
		case <-a.seat.flight.ready:
			return nil
		case <-a.ctx.Done():
			return context.Cause(a.ctx)
		case <-a.clock.C:
			if err := a.notice(); err != nil {
				return err
			}
		}
	}
}

// packfile begins the section of that name.
const packfile = "000dpackfile\n"

// notice keeps the connection alive, and shows people where they are in the queue. With its first one the answer begins, so from
// then on there is no status, only band 3.
func (a *answer) notice() error {
	a.clock.Reset(a.c.o.NoticeEvery)
	if !a.opened {
		if !a.request.Tellable() {
			return nil
		}
		a.opened = true
		if _, err := io.WriteString(&a.body, packfile); err != nil {
			return err
		}
	}
	if position := a.seat.flight.position.Load(); position > 0 && a.request.Progress() {
		if err := a.mux.Progress(fmt.Sprintf("queued, position %d", position)); err != nil {
			return err
		}
	} else if err := a.keepAlive(); err != nil {
		return err
	}
	return a.body.out.Flush()
}

// keepAlive is a packet without a payload on band 1, as git's own server sends them.
func (a *answer) keepAlive() error {
	if a.request.SidebandSize() == 0 {
		return nil
	}
	_, err := io.WriteString(&a.body, "0005\x01")
	return err
}

// open sends what comes before the pack.
func (a *answer) open() error {
	if a.opened {
		return nil
	}
	a.opened = true
	_, err := a.body.Write(a.seat.plan.prefix)
	return err
}

// fail tells the client on band 3 if the answer has begun. If it has not, the caller tells it.
func (a *answer) fail(err error) error {
	if !a.body.began {
		return err
	}
	// Without a side-band the client notices by the cut, or by the checksum that it misses.
	_ = a.mux.Fail(tell(err))
	_ = a.body.out.Flush()
	return err
}

// whole sends an answer that has no pack: a round of negotiation, or upload-pack's refusal.
func (a *answer) whole(p *plan) error {
	if text := refusal(p.prefix); text != "" {
		a.refused = true
		if a.opened {
			return a.fail(&refusedError{text})
		}
	}
	if a.opened { // it was told of a pack that upload-pack does not want to make
		return a.fail(fmt.Errorf("upload-pack answers a request that is done without a pack"))
	}
	_, err := a.body.Write(p.prefix)
	return err
}

// stream sends the pack as it is made.
func (a *answer) stream() error {
	if a.opened && !bytes.Equal(a.seat.plan.prefix, []byte(packfile)) {
		return a.fail(fmt.Errorf("upload-pack has sections before the pack that the request did not ask for"))
	}
	a.mux = pkt.NewMuxer(&a.body, a.request.SidebandSize(), make([]byte, muxBytes(a.request)))
	r := a.seat.reader
	for {
		some, done, changed, err := r.look()
		switch {
		case err != nil:
			return a.fail(err)
		case some:
			if err := a.send(r); err != nil {
				return err
			}
		case done:
			if err := a.open(); err != nil {
				return err
			}
			if err := a.progress(r); err != nil {
				return err
			}
			return a.mux.Close()
		default:
			if err := a.linger(r, changed); err != nil {
				return err
			}
		}
	}
}

// send sends all that has been written.
func (a *answer) send(r *reader) error {
	if a.ctx.Err() != nil {
		return context.Cause(a.ctx)
	}
	if err := a.open(); err != nil {
		return err
	}
	if err := a.progress(r); err != nil {
		return err
	}
	a.sent = true
	_, err := a.mux.ReadFrom(r)
	switch {
	case err == nil, err == errNothingYet:
		return nil
	case r.err != nil:
		return a.fail(r.err)
	}
	return err
}

// linger waits for more.
func (a *answer) linger(r *reader, changed <-chan struct{}) error {
	if a.opened {
		if err := a.progress(r); err != nil {
			return err
		}
		if err := a.body.out.Flush(); err != nil {
			return err
		}
	}
	select {
	case <-changed:
		return nil
	case <-a.ctx.Done():
		return context.Cause(a.ctx)
	case <-a.clock.C:
	}
	a.clock.Reset(a.c.o.NoticeAfter)
	if a.sent {
		a.sent = false
		return nil
	}
	if err := a.open(); err != nil {
		return err
	}
	return a.keepAlive()
}

// progress shows what pack-objects says of its work.
func (a *answer) progress(r *reader) error {
	s := r.s
	if !a.request.Progress() || !r.watches {
		return nil
	}
	s.mu.Lock()
	a.shown = max(a.shown, s.mu.dropped)
	text := string(s.mu.progress[a.shown-s.mu.dropped:])
	s.mu.Unlock()
	if text == "" {
		return nil
	}
	a.shown += len(text)
	return a.mux.Progress(text)
}

func (a *answer) result(err error) Result {
	s := a.seat
	res := Result{Began: a.body.began, Waited: s.waited()}
	if f := s.flight; f != nil {
		res.Predicted = f.cost.Load()
	}
	if !a.settled { // by ctx, or by a client that broke while it was told of the queue
		res.Outcome = Canceled
		return res
	}
	res.Outcome = s.outcome
	switch {
	case err != nil:
		res.Outcome = outcome(err, a.ctx.Err() != nil)
	case a.refused:
		res.Outcome = Refused
	case s.reader == nil:
		res.Outcome = Round
	case res.Outcome != "":
	case s.leader:
		res.Outcome = Generated
	default:
		res.Outcome = Coalesced
	}
	if r := s.reader; r != nil {
		res.PackBytes = r.offset
		r.s.mu.Lock()
		res.Measured = r.s.mu.usage
		r.s.mu.Unlock()
	}
	a.count(res.Outcome)
	return res
}

func (a *answer) count(outcome string) {
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	switch outcome {
	case Hit:
		a.c.mu.stats.Hits++
	case Coalesced:
		a.c.mu.stats.Coalesced++
	case Round:
		a.c.mu.stats.Rounds++
	}
}
