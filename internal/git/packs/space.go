package packs

import (
	"os"
)

// blockSize is what a file takes more of at a time.
const blockSize = 4 << 10

// grow charges n more bytes to s; false if they cannot be had, even if all packs that nobody reads gave way.
func (c *Cache) grow(s *spool, n int64) bool {
	c.mu.Lock()
	victims, ok := c.roomLocked(n)
	if ok {
		c.mu.used += n
		s.charge += n
	}
	c.mu.Unlock()
	c.discard(victims)
	return ok
}

// roomLocked takes as many packs out of the table as n bytes need, the least recently read first. Their bytes are given back
// before their files are gone: unlinking is quick, and who is let in by it has a whole grain to fill first.
func (c *Cache) roomLocked(n int64) (victims []*spool, ok bool) {
	free := c.kept - c.mu.used
	if free >= n {
		return nil, true
	}
	for _, s := range c.mu.spools.oldest {
		if free >= n {
			break
		}
		if s.seats == 0 && !s.making {
			victims = append(victims, s)
			free += s.charge
		}
	}
	if free < n {
		return nil, false
	}
	for _, s := range victims {
		c.retireLocked(s)
		c.unchargeLocked(s)
	}
	return victims, true
}

// shrink makes real room on a full disk: at least n bytes of packs that nobody reads, whatever the budget says.
func (c *Cache) shrink(n int64) bool {
	c.mu.Lock()
	var victims []*spool
	for _, s := range c.mu.spools.oldest {
		if n <= 0 {
			break
		}
		if s.seats == 0 && !s.making {
			victims = append(victims, s)
			n -= s.charge
			c.retireLocked(s)
			c.unchargeLocked(s)
		}
	}
	c.mu.Unlock()
	c.discard(victims)
	return len(victims) > 0
}

// retireLocked lets nobody else read s.
func (c *Cache) retireLocked(s *spool) {
	if s.listed {
		s.listed = false
		c.mu.spools.drop(s.key)
	}
}

func (c *Cache) retire(s *spool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retireLocked(s)
}

// deadLocked tells that the file of s is of no use any more, and gives its bytes back; once.
func (c *Cache) deadLocked(s *spool) bool {
	if s.listed || s.making || s.seats > 0 || s.gone {
		return false
	}
	c.unchargeLocked(s)
	return true
}

func (c *Cache) unchargeLocked(s *spool) {
	s.gone = true
	c.mu.used -= s.charge
	c.mu.aside -= s.aside
	s.charge, s.aside = 0, 0
}

func (c *Cache) discard(dead []*spool) {
	for _, s := range dead {
		_ = os.Remove(s.path) // what stays is removed by the next Open
	}
}
