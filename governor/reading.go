package governor

import "time"

// Cause says which input holds the level up. The set is closed, so it may label a metric.
type Cause string

const (
	CauseNone    Cause = ""
	CauseUse     Cause = "use"         // unreclaimable memory over the limit
	CauseHeap    Cause = "heap"        // live Go heap, or bytes charged to it, over GOMEMLIMIT
	CauseBrink   Cause = "brink"       // use with garbage has nearly reached the limit
	CauseLimiter Cause = "gc_limiter"  // the collector holds itself back
	CauseMeter   Cause = "meter_error" // the meter cannot be read
)

// Reading is everything that the level was decided from.
type Reading struct {
	At    time.Time `json:"at"` // zero until Run has read
	Level Level     `json:"level"`
	Since time.Time `json:"since"` // when that level was entered
	Cause Cause     `json:"cause,omitempty"`

	Share     float64 `json:"share"` // the greater of UseShare and HeapShare: what the marks are held against
	EvictMark float64 `json:"evict_mark"`
	ShedMark  float64 `json:"shed_mark"`

	Scope     Scope   `json:"scope"`
	Group     string  `json:"group,omitempty"` // the control group measured, in group scope
	Limit     int64   `json:"limit_bytes"`
	Use       Use     `json:"use"`
	UseBytes  int64   `json:"use_bytes"`       // Use, added up
	NetBytes  int64   `json:"net_use_bytes"`   // UseBytes without the Go heap's slack
	UseShare  float64 `json:"use_share"`       // NetBytes over Limit
	Heap      Heap    `json:"heap"`            //
	ChargedGo int64   `json:"charged_bytes"`   // to accounts on the Go heap
	HeapShare float64 `json:"heap_share"`      // the greater of live and charged, over GOMEMLIMIT (or Limit, if that is not set)
	GCShare   float64 `json:"gc_cpu_share"`    // of all CPU, over the last half minute or so; shown, never acted on
	OwnGCs    uint64  `json:"governor_gcs"`    // collections that the governor ran itself
	Note      string  `json:"note,omitempty"`  // what the figures lack on this machine
	Error     string  `json:"error,omitempty"` // why the meter cannot be read
}
