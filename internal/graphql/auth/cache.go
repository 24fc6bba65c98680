package auth

import (
	"crypto/sha256"
	"sync"
)

// cache remembers what verified tokens made, by their hash. Entries are in two halves: when the young one is full it becomes
// the old one, and what was old and not asked for since is forgotten. A list in order of use was not worth its pointers. A
// nil cache remembers nothing.
type cache struct {
	half int // bytes
	mu   struct {
		sync.Mutex
		young, old map[[sha256.Size]byte]entry
		bytes      int // of young
	}
}

// entry holds for now in [from, until), and while the keys are those of that generation.
type entry struct {
	id          Identity
	from, until float64
	generation  uint64
}

func newCache(size int) *cache {
	c := &cache{half: size / 2}
	c.mu.young = map[[sha256.Size]byte]entry{}
	return c
}

func (c *cache) get(token string, now float64, generation uint64) (Identity, bool) {
	if c == nil {
		return Identity{}, false
	}
	hash := sha256.Sum256([]byte(token))
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.mu.young[hash]
	if !ok {
		if e, ok = c.mu.old[hash]; ok {
			delete(c.mu.old, hash)
			c.putLocked(hash, e)
		}
	}
	if !ok || e.generation != generation || now < e.from || now >= e.until {
		return Identity{}, false
	}
	return e.id, true
}

func (c *cache) put(token string, e entry) {
	if c == nil {
		return
	}
	hash := sha256.Sum256([]byte(token))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.putLocked(hash, e)
}

func (c *cache) putLocked(hash [sha256.Size]byte, e entry) {
	size := e.size()
	if size > c.half {
		return
	}
	if _, there := c.mu.young[hash]; there {
		c.mu.young[hash] = e // of the same token: the same size
		return
	}
	if c.mu.bytes+size > c.half {
		c.mu.old, c.mu.young, c.mu.bytes = c.mu.young, map[[sha256.Size]byte]entry{}, 0
	}
	c.mu.young[hash] = e
	c.mu.bytes += size
}

// size is from above: a map's slot at its emptiest, and per setting two string headers, and what strings are rounded up to.
func (e entry) size() int {
	n := 512 + len(e.id.Role) + len(e.id.Key)
	for _, s := range e.id.Settings {
		n += 32 + len(s.Name) + len(s.Value) + 32 + 32 // the slice grows by doubling
	}
	return n
}
