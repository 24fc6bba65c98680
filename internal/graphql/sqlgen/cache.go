package sqlgen

import (
	"container/list"
	"crypto/sha256"
	"sync"
	"unsafe"

	"github.com/leveehq/levee/internal/graphql/document"
)

// cache keeps compiled documents within a budget of bytes, and drops those that were not used for longest. A flood of documents
// that come once costs compiling, and never more memory.
type cache struct {
	budget int

	mu struct {
		sync.Mutex
		documents map[planKey]*list.Element
		used      list.List // of *kept, the last used first
		bytes     int
	}
}

type planKey [sha256.Size]byte

// kept is what is kept of a document: its variables, and a plan for each of the shapes that they came in.
type kept struct {
	key       planKey
	variables *document.Variables
	ids       []source // of node fields, whose types decide about the plan
	plans     map[string]*plan
	bytes     int
}

// Bytes of an entry beside what is counted: the map's and the list's.
const (
	keptOverhead = int(unsafe.Sizeof(kept{})+unsafe.Sizeof(list.Element{})) + 2*sha256.Size + 160
	planOverhead = 96
)

func newCache(budget int) *cache {
	c := &cache{budget: budget}
	c.mu.documents = map[planKey]*list.Element{}
	return c
}

func keyOf(r Request) (k planKey) {
	h := sha256.New()
	h.Write([]byte(r.Query))
	h.Write([]byte{0})
	h.Write([]byte(r.OperationName))
	h.Sum(k[:0])
	return k
}

func (c *cache) size() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.bytes
}

func (c *cache) get(key planKey) *kept {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.mu.documents[key]
	if e == nil {
		return nil
	}
	c.mu.used.MoveToFront(e)
	return e.Value.(*kept)
}

func (c *cache) plan(k *kept, shape string) *plan {
	c.mu.Lock()
	defer c.mu.Unlock()
	return k.plans[shape]
}

// put keeps a plan, in place of the one that its document had for this shape, if it is not too large. A document with more shapes
// than there is room for starts again with this one.
func (c *cache) put(key planKey, v *document.Variables, ids []source, shape string, p *plan) {
	size := p.size() + len(shape) + planOverhead
	own := v.Size() + keptOverhead
	for i := range ids {
		own += ids[i].size()
	}
	if own+size > c.budget {
		p.own = size
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var k *kept
	if e := c.mu.documents[key]; e != nil {
		k = e.Value.(*kept)
		c.dropLocked(e)
	}
	if k == nil || k.bytes+size > c.budget {
		k = &kept{key: key, variables: v, ids: ids, plans: map[string]*plan{}, bytes: own}
	}
	if old := k.plans[shape]; old != nil {
		k.bytes -= old.size() + len(shape) + planOverhead
	}
	k.plans[shape] = p
	k.bytes += size
	for c.mu.bytes+k.bytes > c.budget && c.mu.used.Len() > 0 {
		c.dropLocked(c.mu.used.Back())
	}
	c.mu.documents[key] = c.mu.used.PushFront(k)
	c.mu.bytes += k.bytes
}

func (c *cache) dropLocked(e *list.Element) {
	k := e.Value.(*kept)
	c.mu.used.Remove(e)
	delete(c.mu.documents, k.key)
	c.mu.bytes -= k.bytes
}
