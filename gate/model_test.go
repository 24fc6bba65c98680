package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// model is what the gate must look like from outside: who holds, who waits, and what may happen next. It knows the rules
// and not the algorithm.
type model struct {
	g       *Gate
	o       Options // with defaults
	limit   int64
	closed  bool
	held    []*call
	waiting []*call // in the order they came
	want    Stats   // the counters only
	short   uint64  // admitted at once beside waiters: through the queue or past it, which is the algorithm's affair
}

var errCause = errors.New("the model cancelled it")

func newModel(rt *rapid.T) *model {
	o := Options{Name: "model", Limit: rapid.Int64Range(1, 8).Draw(rt, "limit")}
	o.PerKey = rapid.Int64Range(0, o.Limit).Draw(rt, "per key")
	if o.PerKey > 0 {
		o.PerKeyContended = rapid.Int64Range(0, o.PerKey).Draw(rt, "per key contended")
	}
	if rapid.Bool().Draw(rt, "has a maximum") {
		o.MaxCost = rapid.Int64Range(1, 12).Draw(rt, "max cost")
	}
	if o.Queue = rapid.IntRange(0, 8).Draw(rt, "queue"); o.Queue > 0 {
		o.QueuePerKey = rapid.IntRange(0, o.Queue).Draw(rt, "queue per key")
		o.Wait = 16 * time.Second
	}
	g, err := New(o)
	if err != nil {
		rt.Fatal(err)
	}
	return &model{g: g, o: o.withDefaults(), limit: o.Limit, want: Stats{Shed: map[Reason]uint64{}}}
}

func sum(calls []*call, key string) (n int, cost int64) {
	for _, c := range calls {
		if key == "" || c.key == key {
			n, cost = n+1, cost+c.cost
		}
	}
	return n, cost
}

func (m *model) keys() int {
	keys := map[string]bool{}
	for _, c := range slices.Concat(m.held, m.waiting) {
		keys[c.key] = true
	}
	return len(keys)
}

func (m *model) keyLimit() int64 {
	if m.keys() > 1 {
		return m.o.PerKeyContended
	}
	return m.o.PerKey
}

// fits is about c that waits or has just come.
func (m *model) fits(c *call) bool {
	n, cost := sum(m.held, "")
	return n == 0 || c.cost <= m.limit-cost
}

func (m *model) fitsKey(c *call) bool {
	n, cost := sum(m.held, c.key)
	return n == 0 || c.cost <= m.keyLimit()-cost
}

// arrive takes the result of an admission that has just been asked for; queue says whether it may have queued.
func (m *model) arrive(rt *rapid.T, c *call, queue bool) {
	maxCost := m.limit
	if m.o.MaxCost > 0 {
		maxCost = m.o.MaxCost
	}
	m.waiting = append(m.waiting, c) // so that it counts as an active key
	room := m.fits(c) && m.fitsKey(c)
	m.waiting = m.waiting[:len(m.waiting)-1]
	waiters, _ := sum(m.waiting, "")
	ofKey, _ := sum(m.waiting, c.key)
	must := Reason("")
	switch {
	case m.closed:
		must = Closed
	case c.cost > maxCost:
		must = TooLarge
	case room && waiters == 0:
		must = "admitted"
	case room && c.admitted(): // past waiters who may not use the room; obey judges that
		must = "admitted"
	case !queue || m.o.Queue == 0:
		must = Busy
	case ofKey >= m.o.QueuePerKey && m.o.QueuePerKey < m.o.Queue:
		must = KeyQueueFull
	case waiters >= m.o.Queue:
		must = QueueFull
	}
	switch {
	case must == "" && c.done() && !c.admitted():
		rt.Fatalf("cost %d of %s got %v, it should wait or be admitted", c.cost, c.key, c.err)
	case must == "":
		m.waiting = append(m.waiting, c)
	case must == "admitted" && !c.admitted():
		rt.Fatalf("cost %d of %s was not admitted (%v), with room and nobody before it", c.cost, c.key, c.err)
	case must == "admitted":
		m.held = append(m.held, c)
		m.want.Admitted++
		if waiters > 0 {
			m.short++
		}
	default:
		m.wantShed(rt, c, must)
	}
}

func (m *model) waitOf(c *call) time.Duration {
	if c.how.Wait > 0 {
		return c.how.Wait
	}
	return m.o.Wait
}

// wantTold checks when c was told its position, and that there were as many waiters.
func (m *model) wantTold(rt *rapid.T, c *call) {
	if c.how.Every == 0 { // it came by Admit
		return
	}
	until := time.Now()
	if c.done() {
		until = c.at
	}
	due := c.came.Add(c.how.After)
	for _, x := range c.heard() {
		if !x.at.Equal(due) || x.position < 1 || x.position > x.queued {
			rt.Fatalf("%v after it came it was told position %d of %d; due was %v", x.at.Sub(c.came), x.position, x.queued, due.Sub(c.came))
		}
		due = due.Add(c.how.Every)
	}
	if due.Before(until) {
		rt.Fatalf("it was told %d times in %v, and not at %v", len(c.heard()), until.Sub(c.came), due.Sub(c.came))
	}
}

func (m *model) wantShed(rt *rapid.T, c *call, want Reason) {
	var s *Shed
	if !c.done() || !errors.As(c.err, &s) || s.Reason != want || s.Key != c.key || s.Cost != c.cost {
		rt.Fatalf("cost %d of %s got %v, want it shed as %s", c.cost, c.key, c.err, want)
	}
	m.want.Shed[want]++
}

// observe moves what has happened to waiters into the model, and judges each.
func (m *model) observe(rt *rapid.T) {
	var granted []*call
	still := m.waiting[:0:0]
	for _, c := range m.waiting {
		switch {
		case !c.done():
			still = append(still, c)
		case c.err == nil:
			granted = append(granted, c)
			m.want.Admitted++
			m.want.AdmittedAfterWait++
		case c.err == errCause:
			m.want.Canceled++
		case m.closed:
			m.wantShed(rt, c, Closed)
		default:
			m.wantShed(rt, c, Timeout)
			if waited := c.at.Sub(c.came); waited != m.waitOf(c) {
				rt.Fatalf("timed out after %v, want %v", waited, m.waitOf(c))
			}
		}
		m.wantTold(rt, c)
	}
	before := m.waiting
	m.waiting = still
	m.held = append(m.held, granted...)
	for _, c := range granted {
		m.judge(rt, c, before)
	}
	m.obey(rt)
}

// judge looks at one grant: was it within the limits, and had it nobody before it?
func (m *model) judge(rt *rapid.T, c *call, before []*call) {
	if n, cost := sum(m.held, ""); n > 1 && cost > m.limit {
		rt.Fatalf("granted %d of %s: now %d in use by %d permits, the limit is %d", c.cost, c.key, cost, n, m.limit)
	}
	if n, cost := sum(m.held, c.key); n > 1 && cost > m.keyLimit() {
		rt.Fatalf("granted %d: key %s has %d in use by %d permits, its limit is %d", c.cost, c.key, cost, n, m.keyLimit())
	}
	for _, earlier := range before {
		if earlier == c {
			return
		}
		if earlier.key == c.key && !earlier.done() && m.fits(earlier) {
			rt.Fatalf("%d of %s overtook %d, for which there is room", c.cost, c.key, earlier.cost)
		}
	}
}

// obey checks what must hold whenever the gate is at rest.
func (m *model) obey(rt *rapid.T) {
	first := map[string]bool{}
	for _, c := range m.waiting {
		if first[c.key] || !m.fits(c) || !m.fitsKey(c) {
			first[c.key] = true
			continue
		}
		gathers := func(other *call) bool { return m.fitsKey(other) && !m.fits(other) }
		if !slices.ContainsFunc(m.waiting, gathers) {
			rt.Fatalf("%d of %s waits, though it fits and nobody gathers", c.cost, c.key)
		}
	}
	for all, n := positions(m.g), 1; n <= len(m.waiting); n++ {
		if all[n] == nil {
			rt.Fatalf("of %d waiters none has position %d: %v", len(m.waiting), n, all)
		}
	}
	s := m.g.Stats()
	held, inUse := sum(m.held, "")
	if s.InUse != inUse || s.Held != held || s.Queued != len(m.waiting) || s.Keys != m.keys() || s.Limit != m.limit {
		rt.Fatalf("the gate says %d in use by %d, %d queued, %d keys, limit %d; the model %d by %d, %d, %d, %d",
			s.InUse, s.Held, s.Queued, s.Keys, s.Limit, inUse, held, len(m.waiting), m.keys(), m.limit)
	}
	shed, wantShed := fmt.Sprint(s.Shed), fmt.Sprint(m.allReasons())
	if s.Admitted != m.want.Admitted || s.AdmittedAfterWait-m.want.AdmittedAfterWait > m.short || s.HandedOn != m.want.HandedOn ||
		s.Canceled != m.want.Canceled || shed != wantShed {
		rt.Fatalf("the gate counts %+v, the model %+v", s, m.want)
	}
}

func (m *model) allReasons() map[Reason]uint64 {
	for _, r := range Reasons() {
		m.want.Shed[r] += 0
	}
	return m.want.Shed
}

// take removes one of them, nil if there is none.
func take(rt *rapid.T, from *[]*call, what string) *call {
	if len(*from) == 0 {
		return nil
	}
	i := rapid.IntRange(0, len(*from)-1).Draw(rt, what)
	c := (*from)[i]
	*from = slices.Delete(slices.Clone(*from), i, i+1)
	return c
}

func (m *model) actions() map[string]func(*rapid.T) {
	key := rapid.SampledFrom([]string{"a", "a", "a", "b", "c"})
	cost := rapid.OneOf(rapid.Int64Range(1, 3), rapid.Int64Range(1, 13))
	ask := func(rt *rapid.T) {
		c := admit(m.g, key.Draw(rt, "key"), cost.Draw(rt, "cost"))
		m.arrive(rt, c, true)
	}
	return map[string]func(*rapid.T){
		"admit":      ask,
		"admit more": ask,
		"admit with a wait of its own": func(rt *rapid.T) {
			// All else happens at whole tenths of a second, so that nobody is told while the queue changes.
			how := Waiting{After: 501 * time.Millisecond, Every: time.Second}
			how.Wait = time.Duration(rapid.SampledFrom([]int{0, 1, 7, 40}).Draw(rt, "wait s")) * time.Second
			m.arrive(rt, admitWith(m.g, key.Draw(rt, "key"), cost.Draw(rt, "cost"), how), true)
		},
		"try to admit": func(rt *rapid.T) {
			c := &call{key: key.Draw(rt, "key"), cost: cost.Draw(rt, "cost")}
			c.over.Store(true)
			c.permit, c.err = m.g.TryAdmit(c.key, c.cost)
			m.arrive(rt, c, false)
		},
		"admit with a context that is done": func(rt *rapid.T) {
			ctx, cancel := context.WithCancelCause(context.Background())
			cancel(errCause)
			if p, err := m.g.Admit(ctx, key.Draw(rt, "key"), 1); p != nil || err != errCause {
				rt.Fatalf("got %v, %v", p, err)
			}
			m.want.Canceled++
		},
		"release": func(rt *rapid.T) {
			if c := take(rt, &m.held, "which"); c != nil {
				c.release()
				c.release()
			}
		},
		"cancel": func(rt *rapid.T) {
			waiting := m.waiting
			if c := take(rt, &waiting, "which"); c != nil {
				c.cancel(errCause)
				synctest.Wait()
			}
		},
		"let time pass": func(rt *rapid.T) {
			advance(time.Duration(rapid.IntRange(1, 80).Draw(rt, "x 100ms")) * 100 * time.Millisecond)
		},
		"change the limit": func(rt *rapid.T) {
			m.limit = rapid.Int64Range(1, 10).Draw(rt, "limit")
			m.g.SetLimit(m.limit)
			synctest.Wait()
		},
		"close": func(rt *rapid.T) {
			if rapid.IntRange(0, 30).Draw(rt, "only at 0") == 0 {
				m.g.Close()
				m.closed = true
				synctest.Wait()
			}
		},
		"": m.observe,
	}
}

// The gate is driven at random, in virtual time, and after each step everything it did must be allowed by the model and
// everything the model demands must have been done.
func TestTheGateObeysItsModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rapid.SyncTest(rt, func(rt *rapid.T) {
			m := newModel(rt)
			defer func() {
				m.g.Close() // no caller may be left in the bubble
				synctest.Wait()
			}()
			m.run(rt)
		})
	})
}

func (m *model) run(rt *rapid.T) {
	rt.Repeat(m.actions())
	for _, c := range m.waiting {
		c.cancel(errCause)
		synctest.Wait()
	}
	m.observe(rt)
	for len(m.held) > 0 {
		m.held[0].release()
		m.held = m.held[1:]
		m.observe(rt)
	}
	wantEmpty(rt, m.g)
}
