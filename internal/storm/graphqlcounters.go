package storm

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// The server's metrics that scenarios judge by, without labels: all series of a name are added up.
const (
	metricBuilds     = "levee_graphql_builds_total" // builds begun
	metricBuilding   = "levee_graphql_building"     // builds under way
	metricFlushed    = `levee_graphql_evictions_total{cause="asked"}`
	metricDraining   = "levee_graphql_draining" // instances that left and are still in use
	metricClosing    = "levee_graphql_closing"  // instances whose close has not returned
	metricGoroutines = "go_goroutines"
)

// metricPrefixes are of what is printed if it counted anything.
var metricPrefixes = []string{"levee_graphql_", "levee_residency_"}

// counters are the server's series, each under its name with labels, as published.
type counters map[string]float64

// counters reads them now; nil if the server does not tell.
func (r *graphqlRun) counters(ctx context.Context) counters {
	if r.o.Admin == "" {
		return nil
	}
	c := counters{}
	if err := r.watch.page(ctx, "/metrics", c.read); err != nil {
		return nil
	}
	return c
}

func (c counters) read(r io.Reader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		at := strings.LastIndexByte(line, ' ')
		if at < 0 || line[0] == '#' {
			continue
		}
		if v, err := strconv.ParseFloat(line[at+1:], 64); err == nil {
			c[line[:at]] = v
		}
	}
	return lines.Err()
}

// sum adds up the series of a metric, or is the value of one that is named with its labels; false if there is none.
func (c counters) sum(metric string) (total float64, known bool) {
	for series, v := range c {
		if name, _, _ := strings.Cut(series, "{"); name == metric || series == metric {
			total, known = total+v, true
		}
	}
	return total, known
}

// Count is by how much one of the server's counters rose.
type Count struct {
	Series string  `json:"series"`
	Rise   float64 `json:"rise"`
}

// since lists what rose.
func (c counters) since(before counters) (rises []Count) {
	for _, series := range sortedKeys(c) {
		name, _, _ := strings.Cut(series, "{")
		if !strings.HasSuffix(name, "_total") || !hasPrefixOf(name, metricPrefixes) {
			continue
		}
		if rise := c[series] - before[series]; rise > 0 {
			rises = append(rises, Count{series, rise})
		}
	}
	return rises
}

func hasPrefixOf(name string, prefixes []string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

// rise of a metric since the scenario began; false if the server does not tell.
func (r *graphqlRun) rise(ctx context.Context, metric string) (float64, bool) {
	now := r.counters(ctx)
	after, known := now.sum(metric)
	before, _ := r.before.sum(metric)
	return after - before, known
}

// gauge of the server; false if it does not tell.
func (r *graphqlRun) gauge(ctx context.Context, metric string) (float64, bool) {
	return r.counters(ctx).sum(metric)
}

// peak is the highest value of a gauge that was seen while work went on.
func (r *graphqlRun) peak(ctx context.Context, metric string, work func()) (highest float64, known bool) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			if v, ok := r.gauge(ctx, metric); ok {
				highest, known = max(highest, v), true
			}
			if r.o.Admin == "" || !sleep(ctx, peakEvery) {
				return
			}
		}
	})
	work()
	cancel()
	wg.Wait()
	return highest, known
}

const peakEvery = 50 * time.Millisecond // so a peak of less than that may be missed

// until asks again and again whether something holds, for at most patience.
func until(ctx context.Context, patience time.Duration, holds func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for !holds() {
		if !sleep(ctx, watchEvery) {
			return holds()
		}
	}
	return true
}

// connectionMeter counts the connections of one role, by one of its own.
type connectionMeter struct {
	conn *pgx.Conn
	role string
	mu   struct {
		sync.Mutex
		now, before, peak int
		err               error
	}
}

func newConnectionMeter(ctx context.Context, url, role string) (*connectionMeter, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("database-url: %w", err)
	}
	m := &connectionMeter{conn: conn, role: role}
	m.look(ctx)
	m.mu.before = m.mu.now
	return m, m.mu.err
}

func (m *connectionMeter) run(ctx context.Context) {
	for sleep(ctx, watchEvery) {
		m.look(ctx)
	}
}

func (m *connectionMeter) look(ctx context.Context) {
	var n int
	// A query that a cancelled context cuts would close the connection, so that the last look has its own.
	err := m.conn.QueryRow(context.WithoutCancel(ctx), "select count(*) from pg_stat_activity where usename = $1", m.role).Scan(&n)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.now, m.mu.peak = n, max(m.mu.peak, n)
	if err != nil && m.mu.err == nil {
		m.mu.err = err
	}
}

// more is how many there are now above those that there were when the run began.
func (m *connectionMeter) more() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.now - m.mu.before
}

// close must follow run's end.
func (m *connectionMeter) close() (peak int, err error) {
	_ = m.conn.Close(context.Background()) // it was read only
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.peak, m.mu.err
}
