package storm

import (
	"encoding/json"
	"fmt"
	"math/bits"
	"sync"
	"time"
)

// subBuckets per power of two: a recorded value is off by at most 1/32 of itself.
const (
	subBits    = 5
	subBuckets = 1 << subBits
)

// histogram counts durations in log-linear buckets of microseconds. It has a fixed size, so that the length of a run
// costs the generator nothing.
type histogram struct {
	mu struct {
		sync.Mutex
		n       uint64
		max     time.Duration
		buckets [(65 - subBits) * subBuckets]uint64
	}
}

func (h *histogram) add(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.n++
	h.mu.max = max(h.mu.max, d)
	h.mu.buckets[bucketOf(uint64(max(d, 0)/time.Microsecond))]++
}

// bucketOf keeps the subBits+1 leading bits of v; below 2*subBuckets every value has its own bucket.
func bucketOf(v uint64) int {
	shift := max(bits.Len64(v)-subBits-1, 0)
	return shift*subBuckets + int(v>>shift)
}

// bucketTop is the largest value that bucketOf puts into bucket i.
func bucketTop(i int) uint64 {
	if i < 2*subBuckets {
		return uint64(i)
	}
	shift := i/subBuckets - 1
	return uint64(i-shift*subBuckets+1)<<shift - 1
}

// quantile is the upper edge of the bucket that holds the q-th part of all values.
func (h *histogram) quantile(q float64) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.n == 0 {
		return 0
	}
	rank := max(uint64(q*float64(h.mu.n)+0.5), 1)
	var seen uint64
	for i, n := range h.mu.buckets {
		seen += n
		if seen >= rank {
			return min(time.Duration(bucketTop(i))*time.Microsecond, h.mu.max)
		}
	}
	return h.mu.max
}

func (h *histogram) latency() Latency {
	l := Latency{P50: h.quantile(0.50), P90: h.quantile(0.90), P99: h.quantile(0.99)}
	h.mu.Lock()
	defer h.mu.Unlock()
	l.N, l.Max = h.mu.n, h.mu.max
	return l
}

// Latency of N calls. Percentiles are right to within 1/32.
type Latency struct {
	N                  uint64
	P50, P90, P99, Max time.Duration
}

// latencyJSON is a Latency in seconds, the unit of every other time in the report.
type latencyJSON struct {
	N   uint64  `json:"n"`
	P50 float64 `json:"p50_seconds"`
	P90 float64 `json:"p90_seconds"`
	P99 float64 `json:"p99_seconds"`
	Max float64 `json:"max_seconds"`
}

// MarshalJSON implements json.Marshaler.
func (l Latency) MarshalJSON() ([]byte, error) {
	return json.Marshal(latencyJSON{l.N, l.P50.Seconds(), l.P90.Seconds(), l.P99.Seconds(), l.Max.Seconds()})
}

// UnmarshalJSON implements json.Unmarshaler.
func (l *Latency) UnmarshalJSON(text []byte) error {
	var j latencyJSON
	if err := json.Unmarshal(text, &j); err != nil {
		return err
	}
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	*l = Latency{j.N, seconds(j.P50), seconds(j.P90), seconds(j.P99), seconds(j.Max)}
	return nil
}

func (l Latency) String() string {
	if l.N == 0 {
		return "none"
	}
	return fmt.Sprintf("p50 %s, p90 %s, p99 %s, max %s (%d calls)", short(l.P50), short(l.P90), short(l.P99), short(l.Max), l.N)
}

// short prints d with three digits or so.
func short(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d >= 10*time.Millisecond:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(10 * time.Microsecond).String()
}
