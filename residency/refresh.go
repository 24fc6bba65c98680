package residency

import "context"

// Refresh builds key's instance anew while the present one goes on serving, and returns when the new one has taken its place:
// leases of the old one stay good, as after Evict. A build of key that is queued or under way is joined. A key without an
// instance is left alone; the next Lease builds it anyway. With an error, one of Lease's, the present instance stays where it is.
//
// The two are charged together, so the present one may be what makes room if nobody leases it: who leases the key then waits for
// the build.
func (c *Cache[K, V]) Refresh(ctx context.Context, key K) error {
	l := new(Lease[V])
	group, level := c.o.Group(key), c.o.Level()
	c.mu.Lock()
	if c.mu.resident[key] == nil && c.mu.flights[key] == nil {
		c.mu.Unlock()
		return nil
	}
	f, err := c.joinLocked(ctx, key, group, level)
	c.mu.Unlock()
	if err != nil {
		return err
	}
	l, err = c.wait(ctx, l, f)
	l.Release()
	return err
}
