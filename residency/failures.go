package residency

import "time"

// A key whose build failed answers that failure for a second, then twice as long each time it fails again.
const (
	firstBackoff = time.Second
	lastBackoff  = 30 * time.Second
	maxFailures  = 1024 // remembered; a scan of names that do not exist must not fill the memory
)

// failure is how the last build of a key ended, if it did not succeed.
type failure[K comparable] struct {
	node[*failure[K]]
	key    K
	err    error
	reason Reason // instead of err
	delay  time.Duration
	until  time.Time
}

// failedLocked notes a failure. The oldest are forgotten when they are many, and those that nobody has asked about for
// as long as the longest backoff.
func (c *Cache[K, V]) failedLocked(key K, err error, reason Reason) {
	now := time.Now()
	f := c.mu.failures[key]
	if f == nil {
		f = &failure[K]{key: key}
		f.value = f
		c.mu.failures[key] = f
	}
	f.err, f.reason = err, reason
	f.delay = min(max(2*f.delay, firstBackoff), lastBackoff)
	f.until = now.Add(f.delay)
	f.moveTo(&c.mu.failed)
	for n := c.mu.failed.first; n != nil; n = c.mu.failed.first {
		if len(c.mu.failures) <= maxFailures && now.Before(n.value.until.Add(lastBackoff)) {
			return
		}
		c.forgetFailureLocked(n.value.key)
	}
}

func (c *Cache[K, V]) forgetFailureLocked(key K) {
	if f := c.mu.failures[key]; f != nil {
		f.leave()
		delete(c.mu.failures, key)
	}
}

// backedOffLocked is the answer to a key whose backoff is not over, or nil.
func (c *Cache[K, V]) backedOffLocked(key K) error {
	f := c.mu.failures[key]
	if f == nil {
		return nil
	}
	left := time.Until(f.until)
	switch {
	case left <= 0:
		return nil
	case f.reason != "":
		return c.shedLocked(f.reason, key, 0, left)
	}
	c.mu.failedAnswers++
	return f.err
}
