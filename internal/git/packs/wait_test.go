package packs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leveehq/levee/gate"
)

func TestAPermitIsHeldWhilePackObjectsWorksAndNotWhileAClientReads(t *testing.T) {
	r := newRig(t, nil)
	r.hold()
	slow := &out{gate: make(chan struct{}), takes: 70_000}
	c := r.start(r.clone(), slow)
	until(t, "the generation has begun", func() bool { return r.generations() == 1 })
	if s := r.o.Heavy.Stats(); s.InUse != r.o.Slot || s.Held != 1 {
		t.Errorf("%d in use by %d permits", s.InUse, s.Held)
	}
	r.release()
	until(t, "the client reads no more", slow.isStuck)
	until(t, "the permit is given back", func() bool { return r.o.Heavy.Stats().InUse == 0 })
	if n, _ := r.o.Runner.Running(); n != 0 {
		t.Errorf("%d children run for a client that does not read", n)
	}
	fast := r.ask(r.clone())
	r.want(fast, Hit)
	r.wantPack(fast)
	close(slow.gate)
	r.want(c, Generated)
	r.wantPack(c)
}

func TestAWaiterIsSilentThenToldItsPositionAndThenServed(t *testing.T) {
	r := newRig(t, nil)
	full := r.fill(r.o.Heavy)
	c := r.start(r.clone(), new(out))
	until(t, "the first sits", func() bool { return r.seats() == 1 })
	quiet := r.start(r.clone("no-progress"), new(out))
	until(t, "both are told", func() bool {
		return strings.Contains(string(c.out.bytes()), "queued, position 1\n") && len(quiet.out.bytes()) > 20
	})
	if n, _ := r.o.Runner.Running(); n != 0 {
		t.Errorf("%d children run for a waiter", n)
	}
	full()
	r.want(c, Generated)
	r.want(quiet, Coalesced)
	r.wantPack(c)
	r.wantPack(quiet)
	if c.res.Waited <= 0 {
		t.Errorf("waited %v", c.res.Waited)
	}
	if b := quiet.out.bands(t); b.progress != "" {
		t.Errorf("a client without progress is told %q", b.progress)
	}
}

func TestACloneWaitsForNothingButItsOwnPermit(t *testing.T) {
	r := newRig(t, func(r *rig) { r.o.Wait, r.o.NoticeAfter = 300*time.Millisecond, time.Hour })
	defer r.fill(r.o.Rounds)() // a look at what is wanted would wait here
	full := r.fill(r.o.Heavy)
	job := Job{Lease: r.lease, Request: r.clone(), Caller: "10.0.0.1", Clone: true}
	_, err := r.c.Serve(t.Context(), job, new(out))
	if shed := new(gate.Shed); !errors.As(err, &shed) || shed.Gate != r.o.Heavy.Name() {
		t.Errorf("with no permit left: %v", err)
	}
	full()
	if res, err := r.c.Serve(t.Context(), job, new(out)); err != nil || res.Outcome != Generated {
		t.Errorf("with a permit: %+v, %v", res, err)
	}
}

func TestAShedIsAnErrorBeforeAnythingWasSaidAndBand3Afterwards(t *testing.T) {
	for _, told := range []bool{false, true} {
		t.Run(fmt.Sprintf("told=%v", told), func(t *testing.T) {
			r := newRig(t, func(r *rig) {
				r.o.Wait = 500 * time.Millisecond
				if !told {
					r.o.NoticeAfter = time.Hour
				}
			})
			defer r.fill(r.o.Heavy)()
			c := r.ask(r.clone())
			var shed *gate.Shed
			if !errors.As(c.err, &shed) || shed.Reason != gate.Timeout || c.res.Outcome != Shed || c.res.Began != told {
				t.Fatalf("%+v, %v", c.res, c.err)
			}
			if c.res.Waited < 400*time.Millisecond || c.res.Waited > 10*time.Second {
				t.Errorf("waited %v", c.res.Waited)
			}
			if !told {
				return
			}
			b := c.out.bands(t)
			if !strings.HasPrefix(b.fatal, "the Git cache is busy (timeout); try again in ") || b.whole || len(b.pack) > 0 {
				t.Errorf("got %+v", b)
			}
		})
	}
}

// A request with a shallow-info section to come cannot be told anything, so it waits in silence, and shorter.
func TestWhoCannotBeToldWaitsInSilence(t *testing.T) {
	r := newRig(t, func(r *rig) { r.o.SilentWait = 300 * time.Millisecond })
	defer r.fill(r.o.Heavy, r.o.Quick)()
	began := time.Now()
	c := r.ask(r.clone("deepen 1"))
	if !errors.Is(c.err, gate.ErrShed) || c.res.Began || len(c.out.bytes()) > 0 {
		t.Errorf("%+v, %v, said %q", c.res, c.err, c.out.bytes())
	}
	if took := time.Since(began); took < 300*time.Millisecond || took > 10*time.Second {
		t.Errorf("waited %v", took)
	}
}

func TestACancelInTheQueueLeavesIt(t *testing.T) {
	r := newRig(t, nil)
	full := r.fill(r.o.Heavy)
	c := r.start(r.clone(), new(out))
	until(t, "it waits", func() bool { return r.o.Heavy.Stats().Queued == 1 })
	c.cancel(errLeft)
	c.wait(t)
	if !errors.Is(c.err, errLeft) || c.res.Outcome != Canceled {
		t.Errorf("%+v, %v", c.res, c.err)
	}
	if s := r.o.Heavy.Stats(); s.Queued != 0 {
		t.Errorf("%d are in the queue", s.Queued)
	}
	full()
	r.want(r.ask(r.clone()), Generated)
}

// G6: a client that leaves in mid-stream ends a generation that nobody else waits for.
func TestG6ACancelInMidStreamEndsTheGeneration(t *testing.T) {
	r := newRig(t, bigPack)
	r.half()
	c := r.start(r.clone(), new(out))
	until(t, "the pack has begun", func() bool { return len(c.out.bytes()) > 50_000 })
	c.cancel(errLeft)
	c.wait(t)
	if !errors.Is(c.err, errLeft) || !c.res.Began || c.res.Outcome != Canceled {
		t.Errorf("%+v, %v", c.res, c.err)
	}
	// Serve has returned, so nothing reads the mirror for it.
	if n, _ := r.o.Runner.Running(); n != 0 || r.o.Heavy.Stats().InUse != 0 || r.c.Stats().SpoolBytes != 0 {
		t.Errorf("%d children, %d in use, %d bytes spooled", n, r.o.Heavy.Stats().InUse, r.c.Stats().SpoolBytes)
	}
	r.release()
	r.want(r.ask(r.clone()), Generated)
}

// bigPack is one of 4 MB.
func bigPack(r *rig) { r.makeRepository(40, 100_000) }

func TestALeaderMayLeaveAndItsFollowersGoOn(t *testing.T) {
	r := newRig(t, bigPack)
	r.half()
	leader := r.start(r.clone(), new(out))
	until(t, "the pack has begun", func() bool { return len(leader.out.bytes()) > 50_000 })
	var followers []*call
	for range 5 {
		followers = append(followers, r.start(r.clone(), new(out)))
	}
	until(t, "they read", func() bool { return r.seats() == 6 && len(followers[4].out.bytes()) > 50_000 })
	leader.cancel(errLeft)
	leader.wait(t)
	r.release()
	for _, f := range followers {
		r.want(f, Coalesced)
		r.wantPack(f)
	}
	if n := r.generations(); n != 1 {
		t.Errorf("%d generations", n)
	}
}

func TestALeaderMayLeaveTheQueueAndItsFollowersGoOn(t *testing.T) {
	r := newRig(t, nil)
	full := r.fill(r.o.Heavy)
	leader := r.start(r.clone(), new(out))
	until(t, "the first sits", func() bool { return r.seats() == 1 })
	follower := r.start(r.clone(), new(out))
	until(t, "both wait", func() bool { return r.seats() == 2 && r.o.Heavy.Stats().Queued == 1 })
	leader.cancel(errLeft)
	leader.wait(t)
	full()
	follower.wait(t)
	r.wantPack(follower)
}

func TestAPackThatIsNearlyDoneIsFinishedForNobody(t *testing.T) {
	r := newRig(t, bigPack)
	r.half()
	c := r.start(r.clone(), new(out))
	until(t, "the pack has begun", func() bool { return len(c.out.bytes()) > 50_000 })
	r.c.mu.Lock()
	for _, s := range r.c.mu.spools.oldest {
		s.mu.Lock()
		s.mu.percent = nearlyDone
		s.mu.Unlock()
	}
	r.c.mu.Unlock()
	c.cancel(errLeft)
	r.release()
	c.wait(t)
	r.want(r.ask(r.clone()), Hit)
}

func TestHowFarAPackIsFollowsFromItsProgress(t *testing.T) {
	for text, want := range map[string]int{
		"Writing objects:  91% (91/100)\rWriting objects:  92% (92/100)\r": 92,
		"Writing objects: 100% (100/100), 1 MiB, done.\n":                  100,
		"Compressing objects: 91% (1/2)\r":                                 -1,
		"Writing objects: ":                                                -1,
	} {
		if n, ok := percent([]byte(text)); n != want && (ok || want >= 0) {
			t.Errorf("%q: %d, %v", text, n, ok)
		}
	}
}

func TestAGenerationThatFailsBeforeItsFirstByteIsAnErrorForAll(t *testing.T) {
	r := newRig(t, func(r *rig) { r.o.NoticeAfter = time.Hour })
	r.breaks(0)
	r.hold()
	calls := []*call{r.start(r.clone(), new(out)), r.start(r.clone(), new(out))}
	until(t, "both wait", func() bool { return r.seats() == 2 })
	os.Remove(filepath.Join(r.dir, "hold"))
	for _, c := range calls {
		c.wait(t)
		if c.err == nil || c.res.Began || c.res.Outcome != Failed || !strings.Contains(c.err.Error(), "fatal: broken") {
			t.Errorf("%+v, %v", c.res, c.err)
		}
	}
	r.release()
	r.want(r.ask(r.clone()), Generated)
}

// No short pack is ever served as whole, to nobody (G8: a killed child gives a side-band error).
func TestG8AGenerationThatFailsInTheMiddleIsToldOnBand3(t *testing.T) {
	r := newRig(t, bigPack)
	r.breaks(100_000)
	r.half()
	calls := []*call{r.start(r.clone(), new(out)), r.start(r.clone(), new(out))}
	until(t, "both read", func() bool { return len(calls[0].out.bytes()) > 90_000 && len(calls[1].out.bytes()) > 90_000 })
	os.Remove(filepath.Join(r.dir, "half"))
	for _, c := range calls {
		c.wait(t)
		b := c.out.bands(t)
		if c.err == nil || !c.res.Began || b.whole || !strings.Contains(b.fatal, "cannot be made") || strings.Contains(b.fatal, r.dir) {
			t.Errorf("%+v, %v, %q, whole: %v", c.res, c.err, b.fatal, b.whole)
		}
	}
	r.release()
	again := r.ask(r.clone())
	r.want(again, Generated)
	r.wantPack(again)
}

func TestAWriterThatPanicsLeavesNothingHeld(t *testing.T) {
	r := newRig(t, bigPack)
	func() {
		defer func() { _ = recover() }()
		_, _ = r.c.Serve(context.Background(), Job{Lease: r.lease, Request: r.clone()}, &out{panicsAt: 60_000})
		t.Error("it did not panic")
	}()
	if n := r.seats(); n != 0 {
		t.Errorf("%d seats are taken", n)
	}
}

func TestClosedCachesLetNobodyIn(t *testing.T) {
	r := newRig(t, nil)
	c, err := Open(r.o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Serve(t.Context(), Job{Lease: r.lease, Request: r.clone()}, new(out)); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
}

// Many clients that come and leave at any time: what they hold is checked when the rig ends.
func TestG6ManyClientsThatLeaveAtAnyTime(t *testing.T) {
	r := newRig(t, bigPack)
	older := strings.Fields(r.sh(nil, `git -C "$1" rev-list -n 30 main`, r.lease.Dir))
	var calls []*call
	for i := range 90 {
		req := r.fetch("want "+older[i%len(older)], "done")
		if i%4 == 0 {
			req = r.clone()
		}
		calls = append(calls, r.start(req, new(out)))
		if c := calls[i]; i%3 == 2 {
			time.AfterFunc(time.Duration(i)*time.Millisecond, func() { c.cancel(errLeft) })
		}
	}
	for i, c := range calls {
		c.wait(t)
		if c.err != nil && (i%3 != 2 || !errors.Is(c.err, errLeft)) {
			t.Errorf("%d: %v", i, c.err)
		}
		if c.err == nil {
			r.wantPack(c)
		}
	}
}
