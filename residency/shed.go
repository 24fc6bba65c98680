package residency

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Reason says why a lease was shed. The set is closed, so it may label a metric.
type Reason string

const (
	Overloaded   Reason = "overloaded"    // no room could be made (all is leased), or Options.Queue is full
	BuildTimeout Reason = "build_timeout" // WaitTimeout passed, or the build reached BuildMax
	Rotating     Reason = "rotating"      // the key's former instance drains, and there is no room for both
	TooLarge     Reason = "too_large"     // the instance is larger than the budget
	Pressure     Reason = "pressure"      // Options.Level said LevelShed
	Closed       Reason = "closed"        // the cache was closed
)

// Reasons returns all of them, for those who must name every series before it has a value.
func Reasons() []Reason {
	return []Reason{Overloaded, BuildTimeout, Rotating, TooLarge, Pressure, Closed}
}

// ErrShed is matched by every *Shed: errors.Is(err, ErrShed).
var ErrShed = errors.New("shed")

// Shed is the error of a lease that the cache turned away. It is never the caller's own cancellation, nor the error of
// a build.
type Shed struct {
	Cache      string
	Reason     Reason
	Key        any           // the K that was asked for
	Charged    int64         // bytes in use at the moment of shedding
	Budget     int64         // Heap - Base
	Waited     time.Duration // time spent waiting
	RetryAfter time.Duration // a hint: whole seconds, at least one, with jitter
}

func (s *Shed) Error() string {
	return fmt.Sprintf("residency %s shed key %v: %s (%d of %d bytes in use, waited %v)",
		s.Cache, s.Key, s.Reason, s.Charged, s.Budget, s.Waited)
}

// Is makes errors.Is(err, ErrShed) true for every *Shed.
func (s *Shed) Is(target error) bool { return target == ErrShed }

// shedLocked counts the shed and describes it. It comes back no sooner than atLeast.
func (c *Cache[K, V]) shedLocked(r Reason, key K, waited, atLeast time.Duration) *Shed {
	c.mu.shed[r]++
	return &Shed{
		Cache: c.o.Name, Reason: r, Key: key, Charged: c.chargedLocked(), Budget: c.budget,
		Waited: waited, RetryAfter: retryAfter(atLeast),
	}
}

// retryAfter spreads a crowd that was shed together, so that it does not come back together.
func retryAfter(atLeast time.Duration) time.Duration {
	whole := max((atLeast+time.Second-1)/time.Second, 1)
	return (whole + time.Duration(rand.Int64N(4))) * time.Second
}
