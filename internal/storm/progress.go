package storm

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/leveehq/levee/internal/bytesize"
)

// progress writes one line a second about what is under way.
type progress struct {
	w     io.Writer // nil: silent
	watch *watch
	mu    struct {
		sync.Mutex
		name    string
		began   time.Time
		tallies []*tally
		bytes   int64 // shown last
	}
}

func newProgress(w io.Writer, watch *watch) *progress { return &progress{w: w, watch: watch} }

func (p *progress) scenario(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.name, p.mu.began, p.mu.tallies, p.mu.bytes = name, time.Now(), nil, 0
}

func (p *progress) follow(t *tally) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.tallies = append(p.mu.tallies, t)
}

func (p *progress) run(ctx context.Context) {
	if p.w == nil {
		return
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			io.WriteString(p.w, p.line()) // progress is a courtesy: a closed pipe does not end the run
		}
	}
}

func (p *progress) line() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "%4.0fs %s:", time.Since(p.mu.began).Seconds(), p.mu.name)
	var bytes int64
	for _, t := range p.mu.tallies {
		fmt.Fprintf(&b, " offered %d, open %d, ok %d, shed %d, failed %d;",
			t.offered.Load(), t.open.Load(), t.ok.Load(), t.shedCount(), t.failedCount())
		bytes += t.bytes.Load()
	}
	fmt.Fprintf(&b, " %s/s", bytesize.Format(bytes-p.mu.bytes))
	p.mu.bytes = bytes
	if rss := p.watch.rss(); rss > 0 {
		fmt.Fprintf(&b, ", server %s", bytesize.Format(rss))
	}
	b.WriteByte('\n')
	return b.String()
}
