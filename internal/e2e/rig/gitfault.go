package rig

import (
	"errors"
	"net/http"
	"slices"
	"time"
)

// Fault is what an Upstream does wrong. What is zero is done right.
type Fault struct {
	Match func(Call) bool // nil is every call
	Times int             // so often; 0 is until it is lifted

	Delay      time.Duration // before anything is answered
	Silent     bool          // nothing is ever answered; lifting it ends the connection
	Status     int           // with RetryAfter, if that is not empty
	RetryAfter string
	Redirect   string // to this host

	// Of an answer's body, after so many bytes:
	CutAfter   int64 // the connection is cut
	EndAfter   int64 // the answer ends as if that was all
	StallAfter int64 // no more comes until the fault is lifted
}

type fault struct {
	Fault
	lifted chan struct{}
	left   int  // under the upstream's lock, as is gone
	gone   bool // lifted is closed
}

// Break adds a fault and returns what lifts it. Of several that match a call, the latest is taken.
func (u *Upstream) Break(f Fault) (lift func()) {
	broken := &fault{Fault: f, lifted: make(chan struct{}), left: f.Times}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.mu.faults, u.mu.broken = append(u.mu.faults, broken), append(u.mu.broken, broken)
	return func() { u.lift(broken) }
}

// Mend lifts all faults, those that no new call can meet included.
func (u *Upstream) Mend() {
	u.mu.Lock()
	all := slices.Clone(u.mu.broken)
	u.mu.broken = nil
	u.mu.Unlock()
	for _, f := range all {
		u.lift(f)
	}
}

func (u *Upstream) lift(f *fault) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if i := slices.Index(u.mu.faults, f); i >= 0 {
		u.mu.faults = slices.Delete(u.mu.faults, i, i+1)
	}
	if !f.gone { // it may have left the list before, having been taken often enough
		f.gone = true
		close(f.lifted)
	}
}

// faultFor takes the latest fault that matches.
func (u *Upstream) faultFor(c Call) *fault {
	u.mu.Lock()
	defer u.mu.Unlock()
	for i, f := range slices.Backward(u.mu.faults) {
		if f.Match != nil && !f.Match(c) {
			continue
		}
		if f.Times > 0 {
			if f.left--; f.left == 0 {
				u.mu.faults = slices.Delete(u.mu.faults, i, i+1)
			}
		}
		return f
	}
	return nil
}

// before does what comes before the answer; false if that was all.
func (f *fault) before(w *answerWriter, r *http.Request) bool {
	if f.Delay > 0 {
		pause(r.Context(), f.Delay)
	}
	switch {
	case f.Silent:
		f.wait(w)
		panic(http.ErrAbortHandler)
	case f.Redirect != "":
		http.Redirect(w, r, "http://"+f.Redirect+r.URL.RequestURI(), http.StatusFound)
		return false
	case f.Status != 0:
		if f.RetryAfter != "" {
			w.Header().Set("Retry-After", f.RetryAfter)
		}
		http.Error(w, http.StatusText(f.Status), f.Status)
		return false
	}
	return true
}

// wait waits until the fault is lifted or the client has left.
func (f *fault) wait(w *answerWriter) {
	select {
	case <-f.lifted:
	case <-w.ctx.Done():
	}
}

var errSpoiled = errors.New("the answer ends here")

// write passes on as much of p as the fault lets through.
func (f *fault) write(w *answerWriter, p []byte) (int, error) {
	for _, end := range []int64{f.CutAfter, f.EndAfter} {
		if end > 0 && w.n+int64(len(p)) > end {
			w.pass(p[:max(end-w.n, 0)])
			w.flush()
			return 0, errSpoiled
		}
	}
	if f.StallAfter > 0 && w.n+int64(len(p)) > f.StallAfter {
		head := int(max(f.StallAfter-w.n, 0))
		if n, err := w.pass(p[:head]); err != nil {
			return n, err
		}
		w.flush()
		f.wait(w)
		n, err := w.pass(p[head:])
		return head + n, err
	}
	return w.pass(p)
}

// spoiled tells whether the connection has to be cut after the answer.
func (f *fault) spoiled(w *answerWriter) bool { return f.CutAfter > 0 && w.n >= f.CutAfter }
