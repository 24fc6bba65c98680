package gate

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Reason says why an admission was shed. The set is closed, so it may label a metric.
type Reason string

const (
	QueueFull    Reason = "queue_full"     // the gate's queue holds Options.Queue waiters
	KeyQueueFull Reason = "key_queue_full" // this key's share of the queue is full
	Timeout      Reason = "timeout"        // Options.Wait, or the Wait of its own Waiting, passed in the queue
	TooLarge     Reason = "too_large"      // cost above Options.MaxCost
	Pressure     Reason = "pressure"       // Options.Pressure said so
	Busy         Reason = "busy"           // no room, and this call or this gate does not queue
	Closed       Reason = "closed"         // the gate was closed
)

// Reasons returns all of them, for those who must name every series before it has a value.
func Reasons() []Reason {
	return []Reason{QueueFull, KeyQueueFull, Timeout, TooLarge, Pressure, Busy, Closed}
}

// ErrShed is matched by every *Shed: errors.Is(err, ErrShed).
var ErrShed = errors.New("shed")

// Shed is the error of an admission that the gate turned away. It is never the caller's own cancellation.
type Shed struct {
	Gate       string
	Reason     Reason
	Key        string
	Cost       int64         // what was asked for
	InUse      int64         // cost in use at the moment of shedding
	Limit      int64         // the limit then
	Queued     int           // other waiters then
	Waited     time.Duration // time spent in the queue
	RetryAfter time.Duration // a hint: whole seconds, at least one, with jitter
}

func (s *Shed) Error() string {
	return fmt.Sprintf("gate %s shed cost %d of key %q: %s (%d of %d in use, %d queued, waited %v)",
		s.Gate, s.Cost, s.Key, s.Reason, s.InUse, s.Limit, s.Queued, s.Waited)
}

// Is makes errors.Is(err, ErrShed) true for every *Shed.
func (s *Shed) Is(target error) bool { return target == ErrShed }

// shedLocked counts the shed and describes it.
func (g *Gate) shedLocked(r Reason, key string, cost int64, waited time.Duration) *Shed {
	g.mu.shed[r]++
	return &Shed{
		Gate: g.o.Name, Reason: r, Key: key, Cost: cost,
		InUse: g.mu.inUse, Limit: g.mu.limit, Queued: g.mu.queued,
		Waited: waited, RetryAfter: retryAfter(g.o.Wait),
	}
}

// retryAfter spreads a crowd that was shed together over one queue wait, so that it does not come back together.
// Two seconds is the least spread that is one at all: Retry-After counts in whole seconds.
func retryAfter(wait time.Duration) time.Duration {
	spread := min(max(int64(wait/time.Second), 2), 30)
	return time.Duration(1+rand.Int64N(spread)) * time.Second
}
