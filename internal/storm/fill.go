package storm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"

	"github.com/leveehq/levee/internal/bytesize"
)

// The scenario "fill" holds a plan to the truth. For each account there are adversaries made to fill it with real memory,
// sized by the server's own plan; what the server then holds is compared with what it planned and with what it charged.
//
// Each adversary has two phases. The first sets up all that the account does not pay for: the connections, and streams that
// have been opened and sent nothing yet. The second fills. What is booked as real is what came with the second.

// filler is one adversary.
type filler struct {
	name  string
	run   func(ctx context.Context, f *filling, t *tally) error
	alone bool // it says nothing about many at once
}

func fillers() []filler {
	return []filler{
		{name: "idle process", run: idleProcess, alone: true},
		{name: "codecs of the pool in use", run: fillCodecs, alone: true},
		{name: "parked uploads", run: fillUploads, alone: true}, // before others leave some
		{name: "half a request's header", run: fillHalfHeaders},
		{name: "answers that nobody reads", run: fillSockets},
		{name: "HTTP headers of a thousand fields", run: fillHTTPHeaders},
		{name: "HTTP downloads that nobody reads", run: fillHTTPSockets},
		{name: "requests to admin that do not end", run: fillAdmin},
		{name: "tiny frames while waiting", run: fillStreams},
		{name: "answers to exempt calls that nobody takes", run: fillReserve},
		{name: "data before SETTINGS are acknowledged", run: fillEarly},
		{name: "zstd uploads with windows of 8 MiB", run: fillWrite(23)},
		{name: "zstd uploads with windows of 1 MiB", run: fillWrite(20)},
		{name: "uploads with open windows", run: fillUpload},
		{name: "batches of wrong blobs, junk behind", run: fillBatchUpdate(128 * kib)},
		{name: "the longest batch of wrong blobs", run: fillBatchUpdate(4000 * kib)},
		{name: "missing digests, junk behind", run: fillFindMissing(128 * kib)},
		{name: "the longest list of missing digests", run: fillFindMissing(5000 * kib)},
		{name: "downloads that nobody reads", run: fillRead(false)},
		{name: "compressed downloads that nobody reads", run: fillRead(true)},
		{name: "batch reads of one blob that nobody reads", run: fillBatchRead(1)},
		{name: "batch reads of many blobs that nobody reads", run: fillBatchRead(40)},
		{name: "the largest action results", run: fillAC(0)},
		{name: "action results of 64 KiB", run: fillAC(64 * kib)},
		{name: "large uploads at full speed", run: fillDirty},
		{name: "goroutine profile under load", run: fillProfiles},
		{name: "small blobs", run: fillIndex, alone: true},
	}
}

// filling is the scenario under way.
type filling struct {
	r      *run
	k      *looker
	plan   map[string]planLine
	limits struct {
		perConn  int   // streams
		maxBatch int64 // bytes
	}
	mu struct {
		sync.Mutex
		rows map[string]*Account
	}
	idle  *look
	lists int64 // what the transport's free lists hold
}

type planLine struct {
	kind                  string
	units, perUnit, bytes int64
}

func fillAccounts(ctx context.Context, r *run) ([]*tally, error) {
	if r.o.Admin == "" || r.o.PID == 0 {
		return nil, &UsageError{errors.New("scenario fill measures the server: give its --admin and its --pid")}
	}
	f, err := newFilling(ctx, r)
	if err != nil {
		return nil, err
	}
	var tallies []*tally
	for _, fl := range fillers() {
		if r.o.Only != "" && !strings.Contains(fl.name, r.o.Only) {
			continue
		}
		t := r.tally(fl.name)
		tallies = append(tallies, t)
		if err := fl.run(ctx, f, t); err != nil {
			t.breaks("the account could not be filled: " + err.Error())
		}
		t.note(fmt.Sprintf("took %.1f s", time.Since(t.began).Seconds()))
		if err := f.calm(ctx); err != nil {
			return tallies, err
		}
	}
	if r.o.Only == "" {
		t := r.tally("all at once")
		tallies = append(tallies, t)
		if err := f.together(ctx, t); err != nil {
			return tallies, err
		}
	}
	r.accounts = f.table()
	return tallies, nil
}

func newFilling(ctx context.Context, r *run) (*filling, error) {
	f := &filling{r: r, plan: map[string]planLine{}}
	f.k = &looker{w: r.watch, sockets: map[string]int{"sockets": portOf(r.o.Target), "http_sockets": portOf(r.o.HTTP), "admin_sockets": portOf(r.o.Admin)}}
	f.mu.rows = map[string]*Account{}
	if err := f.warm(ctx); err != nil {
		return nil, err
	}
	for i := range 1 + looks { // what pools held is gone after the second
		l, err := f.k.look(ctx)
		if err != nil {
			return nil, err
		}
		if i <= 1 || l.goBytes() < f.idle.goBytes() {
			f.idle = l
		}
	}
	for _, l := range f.idle.status.Plan.Lines {
		f.plan[l.Account] = planLine{l.Kind, l.Units, l.PerUnit, l.Bytes}
		f.mu.rows[l.Account] = &Account{Name: l.Account, Plan: l.Bytes}
	}
	c, err := dialRaw(ctx, &r.o, newTally(""), 65535)
	if err != nil {
		return nil, err
	}
	defer c.close(true)
	if err := c.read(ctx); err != nil {
		return nil, err
	}
	f.limits.perConn = c.streamLimit(maxStreams)
	f.limits.maxBatch, err = r.maxBatch(ctx)
	return f, err
}

// warm has the server do once what it does for anybody: libraries set things up at first use, and keep them.
func (f *filling) warm(ctx context.Context) error {
	b, err := f.stored(ctx, kib)
	if err != nil {
		return err
	}
	p, err := dialPool(f.r.o.Target, 1, "")
	if err != nil {
		return err
	}
	defer p.Close()
	cas, ac := repb.NewContentAddressableStorageClient(p.conn(0)), repb.NewActionCacheClient(p.conn(0))
	name, all := f.r.o.Instance, []*repb.Digest{b.digest()}
	_, err1 := cas.FindMissingBlobs(ctx, &repb.FindMissingBlobsRequest{InstanceName: name, BlobDigests: all})
	_, err2 := cas.BatchReadBlobs(ctx, &repb.BatchReadBlobsRequest{InstanceName: name, Digests: all})
	result := &repb.ActionResult{OutputFiles: []*repb.OutputFile{{Path: "p", Digest: b.digest()}}}
	_, err3 := ac.UpdateActionResult(ctx, &repb.UpdateActionResultRequest{InstanceName: name, ActionDigest: b.digest(), ActionResult: result})
	_, err4 := ac.GetActionResult(ctx, &repb.GetActionResultRequest{InstanceName: name, ActionDigest: b.digest()})
	_, err5 := f.r.client(p, 0, newTally("")).readBack(ctx, b, nil)
	return errors.Join(err1, err2, err3, err4, err5)
}

// together has all adversaries at work at the same time, and again and again. They get in each other's way, as they would
// in life: what counts is what all of it comes to.
func (f *filling) together(ctx context.Context, t *tally) error {
	const lasts = 30 * time.Second
	quiet := &filling{r: f.r, k: f.k, plan: f.plan, limits: f.limits, idle: f.idle, lists: f.lists} // without rows to book to
	ctx, cancel := context.WithTimeout(ctx, lasts)
	defer cancel()
	var wg sync.WaitGroup
	for _, fl := range fillers() {
		if fl.alone {
			continue
		}
		wg.Go(func() {
			for ctx.Err() == nil {
				fl.run(ctx, quiet, t) // it ends when there is no room for it, and tries again
				sleep(ctx, 200*time.Millisecond)
			}
		})
	}
	var peak look
	for sleep(ctx, 100*time.Millisecond) {
		now, err := f.k.glance()
		if err != nil {
			return err
		}
		if now.total() > peak.total() {
			peak = *now
		}
	}
	wg.Wait()
	limit := f.idle.status.Plan.Limit
	text := fmt.Sprintf("%s together of a limit of %s: %s anonymous, %s of the binary, %s of sockets, %s of page tables and stacks", bytesize.Format(peak.total()), bytesize.Format(limit),
		bytesize.Format(peak.anon), bytesize.Format(peak.binary), bytesize.Format(peak.socketBytes()), bytesize.Format(peak.kernel))
	t.note(text)
	if peak.total() > limit {
		t.breaks("the server took " + text)
	}
	return nil
}

// measure is how the real bytes of an account are told from two looks.
type measure func(before, now *look) int64

func goBytes(before, now *look) int64 { return now.goBytes() - before.goBytes() }

// beyond is goBytes for an account whose calls are streams, too. Each stream has paid for its door window, which is part of
// the larger one that it has here, and for the stack of its handler: what passes the account's charge is held against that.
func (f *filling) beyond(account string, base *look, t *tally) measure {
	return func(before, now *look) int64 {
		real, charged := goBytes(before, now), now.inUse[account]-before.inUse[account]
		t.note(fmt.Sprintf("%s, with what streams have paid for: %s", account, bytesize.Format(real)))
		if real <= charged {
			return real
		}
		elsewhere := f.lists + now.inUse["streams"] - base.inUse["streams"]
		return max(charged, goBytes(base, now)-elsewhere)
	}
}

func socketsOf(account string) measure {
	return func(before, now *look) int64 { return now.sockets[account] - before.sockets[account] }
}

// book notes what a look says of an account.
func (f *filling) book(account, adversary string, charged, real int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a := f.mu.rows[account]
	if a == nil {
		return
	}
	a.Charged = max(a.Charged, charged)
	if real > a.Real {
		a.Real, a.Adversary = real, adversary
	}
}

func (f *filling) note(account, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if a := f.mu.rows[account]; a != nil {
		a.Note = text
	}
}

// looks is how often a filled account is looked at. The middle one counts: what is allocated while a collection is under way
// counts as live until the next, which on a busy machine may be much.
const looks = 3

// hold books what came since before to the accounts, while pump keeps the adversary at work.
func (f *filling) hold(ctx context.Context, t *tally, before *look, of map[string]measure, pump func(context.Context)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	if pump != nil {
		wg.Go(func() { pump(ctx) })
	}
	real, charged := map[string][]int64{}, map[string]int64{}
	for range looks {
		now, err := f.k.look(ctx)
		if err != nil {
			return err
		}
		for account, m := range of {
			charged[account] = max(charged[account], now.inUse[account]-before.inUse[account])
			real[account] = append(real[account], m(before, now))
		}
		if !sleep(ctx, 300*time.Millisecond) {
			return context.Cause(ctx)
		}
	}
	for _, account := range sortedKeys(charged) {
		slices.Sort(real[account])
		middle := real[account][looks/2]
		f.book(account, t.name, charged[account], middle)
		t.note(fmt.Sprintf("%s: charged %s, real %s, planned %s", account,
			bytesize.Format(charged[account]), bytesize.Format(middle), bytesize.Format(f.plan[account].bytes)))
	}
	return nil
}

// calm waits until the server has let go of the last adversary.
func (f *filling) calm(ctx context.Context) error {
	var err error
	for range 100 {
		var l *look
		if l, err = f.k.look(ctx); err == nil && // it may be too busy with what it lets go of to answer in time
			l.inUse["streams"]+l.inUse["connections"]+l.inUse["http_connections"]+l.inUse["write"]+l.inUse["batch_update"] == 0 {
			return nil
		}
		if !sleep(ctx, 200*time.Millisecond) {
			return context.Cause(ctx)
		}
	}
	return errors.Join(errors.New("the server still holds streams or connections 20 s after their clients have gone"), err)
}

// gate waits a moment and returns what the server says of a gate.
func (f *filling) gate(ctx context.Context, name string) (inUse, limit int64, queued int, err error) {
	if !sleep(ctx, 50*time.Millisecond) {
		return 0, 0, 0, context.Cause(ctx)
	}
	st, err := f.k.status(ctx)
	if err != nil {
		return 0, 0, 0, err
	}
	for _, g := range st.Gates {
		if g.Name == name {
			return g.InUse, g.Limit, g.Queued, nil
		}
	}
	return 0, 0, 0, fmt.Errorf("the server has no gate %q", name)
}

func (f *filling) table() []Account {
	var rows []Account
	for _, l := range f.idle.status.Plan.Lines { // in the plan's order
		rows = append(rows, *f.mu.rows[l.Account])
	}
	return rows
}
