package storm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/leveehq/levee/internal/bytesize"
)

// The scenario "fill" holds a plan to the truth. For each account there are adversaries made to fill it with real memory,
// sized by the server's own plan; what the server then holds is compared with what it planned and with what it charged.
//
// Each adversary has two phases. The first sets up all that the account does not pay for: the connections, and streams that
// have been opened and sent nothing yet. The second fills. What is booked as real is what came with the second.

// Account is one line of the plan and the worst that its adversaries made of it. Bytes.
type Account struct {
	Name      string `json:"account"`
	Adversary string `json:"adversary,omitempty"` // the one with the highest real peak
	Plan      int64  `json:"plan"`
	Charged   int64  `json:"charged_peak"` // as the server counts
	Real      int64  `json:"real_peak"`    // as measured
	Note      string `json:"note,omitempty"`
}

// Ratio of the plan to what is real; 0 if nothing was measured.
func (a *Account) Ratio() float64 {
	if a.Real <= 0 {
		return 0
	}
	return float64(a.Plan) / float64(a.Real)
}

// filler is one adversary.
type filler struct {
	name string
	run  func(ctx context.Context, f *filling, t *tally) error
}

func fillers() []filler {
	return []filler{
		{"idle process", idleProcess},
		{"codecs of the pool in use", fillCodecs},
		{"half a request's header", fillHalfHeaders},
		{"answers that nobody reads", fillSockets},
		{"HTTP headers of a thousand fields", fillHTTPHeaders},
		{"HTTP downloads that nobody reads", fillHTTPSockets},
		{"requests to admin that do not end", fillAdmin},
		{"tiny frames while waiting", fillStreams},
		{"answers to exempt calls that nobody takes", fillReserve},
		{"data before SETTINGS are acknowledged", fillEarly},
		{"zstd uploads with windows of 8 MiB", fillWrite(23)},
		{"zstd uploads with windows of 1 MiB", fillWrite(20)},
		{"batches of wrong blobs, junk behind", fillBatchUpdate(128 * kib)},
		{"the longest batch of wrong blobs", fillBatchUpdate(4000 * kib)},
		{"missing digests, junk behind", fillFindMissing(128 * kib)},
		{"the longest list of missing digests", fillFindMissing(5000 * kib)},
		{"downloads that nobody reads", fillRead(false)},
		{"compressed downloads that nobody reads", fillRead(true)},
		{"batch reads of one blob that nobody reads", fillBatchRead(1)},
		{"batch reads of many blobs that nobody reads", fillBatchRead(40)},
		{"the largest action results", fillAC(0)},
		{"action results of 64 KiB", fillAC(64 * kib)},
		{"parked uploads", fillUploads},
		{"small blobs", fillIndex},
		{"large uploads at full speed", fillDirty},
		{"goroutine profile under load", fillProfiles},
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
	quick bool // all at once: nothing is measured by account

	mu struct {
		sync.Mutex
		rows map[string]*Account
	}
	idle *look
}

type planLine struct{ units, perUnit, bytes int64 }

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
	r.accounts = f.table()
	return tallies, nil
}

func newFilling(ctx context.Context, r *run) (*filling, error) {
	f := &filling{r: r, plan: map[string]planLine{}}
	f.k = &looker{w: r.watch, sockets: map[string]int{"sockets": portOf(r.o.Target), "http_sockets": portOf(r.o.HTTP), "admin_sockets": portOf(r.o.Admin)}}
	f.mu.rows = map[string]*Account{}
	for range 2 { // what pools held is gone after the second
		l, err := f.k.look(ctx)
		if err != nil {
			return nil, err
		}
		f.idle = l
	}
	for _, l := range f.idle.status.Plan.Lines {
		f.plan[l.Account] = planLine{l.Units, l.PerUnit, l.Bytes}
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

// measure is how the real bytes of an account are told from two looks.
type measure func(before, now *look) int64

func goBytes(before, now *look) int64 { return now.goBytes() - before.goBytes() }

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

// looks is how often a filled account is looked at. The dearest moment may be short.
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
	for range looks {
		now, err := f.k.look(ctx)
		if err != nil {
			return err
		}
		for account, m := range of {
			charged, real := now.inUse[account]-before.inUse[account], m(before, now)
			f.book(account, t.name, charged, real)
			t.note(fmt.Sprintf("%s: charged %s, real %s of %s", account, bytesize.Format(charged), bytesize.Format(real), bytesize.Format(f.plan[account].bytes)))
		}
		if !sleep(ctx, 300*time.Millisecond) {
			return context.Cause(ctx)
		}
	}
	return nil
}

// calm waits until the server has let go of the last adversary.
func (f *filling) calm(ctx context.Context) error {
	for range 100 {
		l, err := f.k.look(ctx)
		if err != nil {
			return err
		}
		if l.inUse["streams"]+l.inUse["connections"]+l.inUse["http_connections"]+l.inUse["write"]+l.inUse["batch_update"] == 0 {
			return nil
		}
		if !sleep(ctx, 200*time.Millisecond) {
			return context.Cause(ctx)
		}
	}
	return errors.New("the server still holds streams or connections 20 s after their clients have gone")
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

// writeAccounts prints the comparison.
func writeAccounts(b *strings.Builder, rows []Account) {
	if len(rows) == 0 {
		return
	}
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "account\tplan\tcharged peak\treal peak\tplan/real\tadversary")
	for _, a := range rows {
		charged, real, ratio := "-", "-", "-"
		if a.Charged > 0 {
			charged = bytesize.Format(a.Charged)
		}
		if a.Real > 0 {
			real, ratio = bytesize.Format(a.Real), fmt.Sprintf("%.2f", a.Ratio())
		}
		says := a.Adversary
		if a.Note != "" {
			says = strings.TrimPrefix(says+"; "+a.Note, "; ")
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", a.Name, bytesize.Format(a.Plan), charged, real, ratio, says)
	}
	w.Flush()
}

// judgeAccounts says which accounts are not honest: those that really take more than their line.
func judgeAccounts(rows []Account) (broken []string) {
	for _, a := range rows {
		if a.Real > a.Plan {
			broken = append(broken, fmt.Sprintf("account %s really took %s with %s, above its line of %s", a.Name, bytesize.Format(a.Real), a.Adversary, bytesize.Format(a.Plan)))
		}
	}
	return broken
}
