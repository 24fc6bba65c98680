package residency

import "time"

// pump begins what can begin. It asks for the level first, outside the lock.
func (c *Cache[K, V]) pump() {
	level := c.o.Level()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pumpLocked(level)
}

// pumpLocked looks at the queue from its head until one must wait. Everything that can make room or free a slot ends by
// calling it: a build or a Close that returns, a lease given back, an eviction, a newcomer.
func (c *Cache[K, V]) pumpLocked(level Level) {
	var next *node[*flight[K, V]]
	for n := c.mu.queue.first; n != nil; n = next {
		next = n.next
		f := n.value
		if level >= LevelShed {
			c.settleLocked(f, nil, nil, Pressure)
			continue
		}
		if len(c.mu.running) >= c.o.MaxBuilds || c.spacedLocked(level) {
			return
		}
		if c.buildingLocked(f.key) { // a stale build of the same key; never two at once
			continue
		}
		lacks, reason := c.roomLocked(f)
		if reason != "" {
			c.settleLocked(f, nil, nil, reason)
			continue
		}
		if lacks > c.mu.idleBytes+c.mu.closingBytes {
			return // what is idle stays of use until a drain or a build has ended
		}
		c.evictUntilLocked(lacks)
		if c.fullLocked(f) && !c.mu.idle.empty() {
			c.detachLocked(c.mu.idle.first.value, Room)
		}
		if c.chargedLocked()+c.mu.peak > c.budget || c.fullLocked(f) {
			return // for a Close or a build to end; it holds no slot meanwhile
		}
		c.beginLocked(f)
	}
}

// buildingLocked reports a call of Build for key that has not returned.
func (c *Cache[K, V]) buildingLocked(key K) bool {
	_, lost := c.mu.lost[key]
	return lost || c.mu.running[key] != nil
}

// roomLocked says how many bytes f's build lacks, and whether there is no hope of them: a reason other than "". What
// closes, builds or drains will be room. But a key does not wait for its own drain, which may be waiting for the caller.
func (c *Cache[K, V]) roomLocked(f *flight[K, V]) (lacks int64, reason Reason) {
	lacks = c.chargedLocked() + c.mu.peak - c.budget
	soon := c.mu.idleBytes + c.mu.closingBytes + c.mu.buildBytes
	switch {
	case lacks > soon && c.mu.rotating[f.key] > 0:
		return lacks, Rotating
	case lacks > soon+c.mu.drainingBytes:
		return lacks, Overloaded
	case c.fullLocked(f) && c.mu.idle.empty() && len(c.mu.running) == 0:
		return lacks, Overloaded
	}
	return lacks, ""
}

// chargedLocked is all that counts against the budget.
func (c *Cache[K, V]) chargedLocked() int64 {
	m := &c.mu
	return m.residentBytes + m.drainingBytes + m.closingBytes + m.buildBytes + m.lostBytes
}

// fullLocked is the bound by number: until an instance has been measured, what is expected of one. A build that renews an
// instance adds none: whether it may have both in memory is a question of bytes.
func (c *Cache[K, V]) fullLocked(f *flight[K, V]) bool {
	limit := c.o.MaxInstances
	if c.mu.built == 0 {
		limit = c.capacityLocked()
	}
	n := len(c.mu.resident) + len(c.mu.running)
	for key := range c.mu.running {
		if c.mu.resident[key] != nil {
			n--
		}
	}
	if c.mu.resident[f.key] != nil {
		n--
	}
	return n >= limit
}

// capacityLocked is R, the instances of mean size that fit beside one build: the last one is built in its own room.
func (c *Cache[K, V]) capacityLocked() int {
	size := c.o.Instance
	if n := int64(len(c.mu.resident)); n > 0 {
		size = max(c.mu.residentBytes/n, 1)
	}
	r := min(c.budget/size, (c.budget-c.mu.peak)/size+1)
	return int(min(max(r, 1), int64(c.o.MaxInstances)))
}

// spacedLocked reports that builds are spaced and the pause since the last has not passed; a timer ends it.
func (c *Cache[K, V]) spacedLocked(level Level) bool {
	if level < LevelEvict {
		return false
	}
	left := spacing - time.Since(c.mu.lastBuild)
	if len(c.mu.running) > 0 || left <= 0 {
		return len(c.mu.running) > 0 // whose end looks again
	}
	if c.mu.spacer == nil {
		c.mu.spacer = time.AfterFunc(left, func() {
			c.mu.Lock()
			c.mu.spacer = nil
			c.mu.Unlock()
			c.pump()
		})
	}
	return true
}

// evictUntilLocked detaches idle instances, the least recently used first, until lacks bytes are being closed.
func (c *Cache[K, V]) evictUntilLocked(lacks int64) {
	for lacks > c.mu.closingBytes && !c.mu.idle.empty() {
		c.detachLocked(c.mu.idle.first.value, Room)
	}
}

// expireLocked evicts what nobody has leased for IdleTTL.
func (c *Cache[K, V]) expireLocked(now time.Time) {
	for c.o.IdleTTL > 0 && !c.mu.idle.empty() {
		e := c.mu.idle.first.value
		if now.Sub(e.lastUse) < c.o.IdleTTL {
			return
		}
		c.detachLocked(e, Idle)
	}
}
