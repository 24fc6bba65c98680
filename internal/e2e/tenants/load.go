package tenants

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/leveehq/levee/internal/e2e/rig"
)

// load is many clients who ask for this and that, of all tenants.
type load struct {
	address string
	cancel  context.CancelFunc
	all     sync.WaitGroup
	mu      struct {
		sync.Mutex
		good    int
		codes   map[string]int
		slowest time.Duration
		lastBad answer
		seen    map[string]time.Time // when the last right answer of a tenant was asked for
		told    map[string]answer    // of each mutation, by its key
	}
}

const clients = 24

func startLoad(t testing.TB, s *rig.Server, queries ...func() query) *load {
	l := &load{address: s.HTTP}
	l.mu.codes, l.mu.seen, l.mu.told = map[string]int{}, map[string]time.Time{}, map[string]answer{}
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	for range clients {
		l.all.Go(func() {
			for ctx.Err() == nil {
				tenant := name(rand.IntN(count))
				q := queries[rand.IntN(len(queries))]()
				a, err := ask(context.WithoutCancel(ctx), l.address, tenant, q)
				if err != nil {
					t.Error(err)
					return
				}
				pause := l.note(tenant, q, a)
				select {
				case <-time.After(pause):
				case <-ctx.Done():
				}
			}
		})
	}
	t.Cleanup(l.stop)
	return l
}

// note counts an answer, and tells how long the client waits before it asks again.
func (l *load) note(tenant string, q query, a answer) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.slowest = max(l.mu.slowest, a.took)
	if q.key != "" {
		l.mu.told[q.key] = a
	}
	if !a.good() {
		l.mu.codes[a.code]++
		if a.began.After(l.mu.lastBad.began) {
			l.mu.lastBad = a
		}
		return 20 * time.Millisecond
	}
	l.mu.good++
	if a.began.After(l.mu.seen[tenant]) {
		l.mu.seen[tenant] = a.began
	}
	return time.Millisecond
}

func (l *load) stop() { l.cancel(); l.all.Wait() }

// failed is the number of requests that were turned away.
func (l *load) failed() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.mu.codes {
		n += c
	}
	return n
}

// servedSince tells how many tenants were asked, and served, after a time.
func (l *load) servedSince(at time.Time) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, seen := range l.mu.seen {
		if seen.After(at) {
			n++
		}
	}
	return n
}

func (l *load) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := fmt.Sprintf("%d right", l.mu.good)
	for _, code := range slices.Sorted(maps.Keys(l.mu.codes)) {
		text += fmt.Sprintf(", %d %s", l.mu.codes[code], code)
	}
	return text + fmt.Sprintf(", the slowest %v", l.mu.slowest.Round(time.Millisecond))
}

// until polls for a condition.
func until(t testing.TB, within time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !ok(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", within, what)
		}
	}
}
