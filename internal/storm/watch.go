package storm

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/leveehq/levee/internal/bytesize"
)

const (
	watchEvery = 200 * time.Millisecond
	pageWait   = 5 * time.Second
	// profileWait is for pages that have the server collect its garbage first: that waits for its turn behind all that the
	// server is busy with, once for each span of the heap.
	profileWait = 60 * time.Second
	maxAnswer   = 8 << 20 // of an admin page
)

// watch observes the server through its admin listener and /proc while others load it. Without either it sees nothing
// and promises nothing.
type watch struct {
	admin  string
	pid    int
	http   *http.Client
	readyz histogram
	mu     struct {
		sync.Mutex
		rss, peak, total int64 // now, since mark, since the start
		accounts         map[string]int64
		last             serverStatus
		before           map[GateShed]uint64 // counters when the run began; keys have no Count
		notReady         uint64
		silent           uint64 // probes without an answer
	}
}

func newWatch(ctx context.Context, o *BazelOptions) (*watch, error) {
	w := &watch{admin: o.Admin, pid: o.PID, http: &http.Client{Transport: &http.Transport{MaxConnsPerHost: 4, DisableCompression: true}}}
	w.mu.accounts = map[string]int64{}
	if w.admin != "" {
		if err := w.poll(ctx); err != nil {
			return nil, fmt.Errorf("the admin listener at %s does not answer (give another --admin, or an empty one to do without): %w", w.admin, err)
		}
	}
	if w.pid != 0 {
		if _, _, err := residentOf(w.pid); err != nil {
			return nil, &UsageError{fmt.Errorf("pid %d: %w", w.pid, err)}
		}
	}
	return w, nil
}

// run polls until ctx ends. Memory and readiness have a goroutine each, so that a slow page does not hide a slow probe.
func (w *watch) run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() {
		for sleep(ctx, watchEvery) {
			w.poll(ctx) // a page that does not come is seen by the probe
		}
	})
	if w.admin != "" {
		wg.Go(func() {
			for sleep(ctx, watchEvery) {
				w.probe(ctx)
			}
		})
	}
	wg.Wait()
}

func (w *watch) poll(ctx context.Context) error {
	var rss, peak int64
	var st serverStatus
	if w.admin != "" {
		if err := w.page(ctx, "/status", func(r io.Reader) error { return json.NewDecoder(r).Decode(&st) }); err != nil {
			return err
		}
		if err := w.page(ctx, "/metrics", func(r io.Reader) (err error) { rss, err = residentFrom(r); return err }); err != nil {
			return err
		}
	}
	if w.pid != 0 {
		now, high, err := residentOf(w.pid)
		if err != nil {
			return err
		}
		rss, peak = now, high
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.rss = rss
	w.mu.peak = max(w.mu.peak, rss, peak)
	w.mu.total = max(w.mu.total, w.mu.peak)
	if w.admin == "" {
		return nil
	}
	w.mu.last = st
	if w.mu.before == nil {
		w.mu.before = st.sheds()
	}
	for _, l := range st.Plan.Lines {
		if l.InUse != nil && *l.InUse > 0 {
			w.mu.accounts[l.Account] = max(w.mu.accounts[l.Account], *l.InUse)
		}
	}
	return nil
}

func (w *watch) probe(ctx context.Context) {
	began := time.Now()
	err := w.page(ctx, "/readyz", func(io.Reader) error { return nil })
	if ctx.Err() != nil {
		return
	}
	w.readyz.add(time.Since(began))
	if err == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, answered := err.(statusError); answered {
		w.mu.notReady++
	} else {
		w.mu.silent++
	}
}

// statusError is an answer other than 200.
type statusError int

func (e statusError) Error() string { return "HTTP status " + strconv.Itoa(int(e)) }

func (w *watch) page(ctx context.Context, path string, read func(io.Reader) error) error {
	patience := pageWait
	if strings.HasPrefix(path, "/debug/") {
		patience = profileWait
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.admin+path, nil)
	if err != nil {
		return err
	}
	resp, err := w.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body := io.LimitReader(resp.Body, maxAnswer)
	if resp.StatusCode != http.StatusOK {
		return statusError(resp.StatusCode)
	}
	if err := read(body); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	_, err = io.Copy(io.Discard, body)
	return err
}

// residentFrom finds the resident set in a page of metrics.
func residentFrom(r io.Reader) (int64, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), "process_resident_memory_bytes "); ok {
			f, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			return int64(f), err
		}
	}
	if err := lines.Err(); err != nil {
		return 0, err
	}
	return 0, fmt.Errorf("no process_resident_memory_bytes among the metrics")
}

// residentOf reads VmRSS and VmHWM, in bytes.
func residentOf(pid int) (now, peak int64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		kib, _ := strconv.ParseInt(fields[1], 10, 64)
		switch fields[0] {
		case "VmRSS:":
			now = kib << 10
		case "VmHWM:":
			peak = kib << 10
		}
	}
	return now, peak, nil
}

func (w *watch) on() bool { return w.admin != "" || w.pid != 0 }

// mark begins a section: peaks count from here. Where the system allows it the kernel's own high-water mark is reset.
func (w *watch) mark() (rssBefore int64) {
	if w.pid != 0 {
		os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", w.pid), []byte("5"), 0) // without the right to, the mark is the process's life
		if now, _, err := residentOf(w.pid); err == nil {
			rssBefore = now
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if rssBefore == 0 {
		rssBefore = w.mu.rss
	}
	w.mu.peak = 0
	clear(w.mu.accounts)
	return rssBefore
}

// memory ends a section that mark began.
func (w *watch) memory(before int64) *Memory {
	if !w.on() {
		return nil
	}
	w.poll(context.Background()) // bounded by the client's time-out; the last look matters for short sections
	w.mu.Lock()
	defer w.mu.Unlock()
	return &Memory{RSSBefore: before, RSSPeak: w.mu.peak, Accounts: maps.Clone(w.mu.accounts)}
}

func (w *watch) rss() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.rss
}

func (w *watch) server() *Server {
	if !w.on() {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	s := &Server{RSSPeak: w.mu.total, Limit: w.mu.last.Plan.Limit, Readyz: w.readyz.latency(), NotOK: w.mu.notReady, Plan: map[string]int64{}}
	for _, l := range w.mu.last.Plan.Lines {
		s.Plan[l.Account] = l.Bytes
	}
	for key, n := range w.mu.last.sheds() {
		if n -= w.mu.before[key]; n > 0 {
			key.Count = n
			s.Sheds = append(s.Sheds, key)
		}
	}
	slices.SortFunc(s.Sheds, func(a, b GateShed) int {
		return strings.Compare(a.Gate+" "+a.Reason, b.Gate+" "+b.Reason)
	})
	return s
}

// judge holds the server to its plan: the resident set to the limit, each account to its line, and the probes to an answer.
func (w *watch) judge(r *Report, maxRSS int64) {
	if r.Server == nil {
		return
	}
	if limit := max(maxRSS, 0); limit > 0 || r.Server.Limit > 0 {
		if limit == 0 {
			limit = r.Server.Limit
		}
		if r.Server.RSSPeak > limit {
			r.Broken = append(r.Broken, fmt.Sprintf("the server's resident set reached %s, above %s", bytesize.Format(r.Server.RSSPeak), bytesize.Format(limit)))
		}
	}
	for _, s := range r.Sections {
		if s.Memory == nil {
			continue
		}
		for _, account := range sortedKeys(s.Memory.Accounts) {
			if peak, plan := s.Memory.Accounts[account], r.Server.Plan[account]; peak > plan {
				r.Broken = append(r.Broken, fmt.Sprintf("account %s held %s in %s, above its line of %s", account, bytesize.Format(peak), s.Name, bytesize.Format(plan)))
			}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.silent > 0 {
		r.Broken = append(r.Broken, fmt.Sprintf("%d probes of /readyz had no answer within %s", w.mu.silent, pageWait))
	}
}
