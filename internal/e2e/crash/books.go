package crash

import (
	"math/rand/v2"
	"slices"
	"sync"
)

// books hold what the server has acknowledged, and what it may therefore never forget.
type books struct {
	mu struct {
		sync.Mutex
		nextID  uint64
		blobs   []content          // acknowledged
		recent  int                // blobs[recent:] were acknowledged in this round
		pending map[string]content // under way: present or not, but right
		results map[string]result
	}
}

// result is what an action key may hold: the last acknowledged value, or one that was on its way at a kill.
type result struct {
	stored bool // an acknowledged value exists: the key may not be absent
	may    []content
}

func newBooks() *books {
	b := &books{}
	b.mu.pending, b.mu.results = map[string]content{}, map[string]result{}
	return b
}

// begin makes a new content of a random size and notes that it is under way.
func (b *books) begin(size int) content {
	b.mu.Lock()
	b.mu.nextID++
	id := b.mu.nextID
	b.mu.Unlock()
	c := newContent(id, size)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.pending[c.hash] = c
	return c
}

// acknowledged moves c from under way to stored.
func (b *books) acknowledged(c content) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.mu.pending, c.hash)
	b.mu.blobs = append(b.mu.blobs, c)
}

// offered notes that key may hold c from now on.
func (b *books) offered(key string, c content) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.mu.results[key]
	r.may = append(slices.Clone(r.may), c)
	b.mu.results[key] = r
}

// settled notes that key holds c and nothing else.
func (b *books) settled(key string, c content) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.results[key] = result{stored: true, may: []content{c}}
}

// some returns up to n acknowledged blobs at random; with recent those of this round only.
func (b *books) some(n int) []content {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.mu.blobs) == 0 {
		return nil
	}
	picked := make([]content, n)
	for i := range picked {
		picked[i] = b.mu.blobs[rand.IntN(len(b.mu.blobs))]
	}
	return picked
}

// closeRound returns the round's acknowledged and unfinished blobs, and begins the next one.
func (b *books) closeRound() (acknowledged, unfinished []content) {
	b.mu.Lock()
	defer b.mu.Unlock()
	acknowledged = slices.Clone(b.mu.blobs[b.mu.recent:])
	b.mu.recent = len(b.mu.blobs)
	for hash, c := range b.mu.pending {
		unfinished = append(unfinished, c)
		delete(b.mu.pending, hash)
	}
	return acknowledged, unfinished
}

func (b *books) allBlobs() []content {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.mu.blobs)
}

func (b *books) allResults() map[string]result {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make(map[string]result, len(b.mu.results))
	for k, r := range b.mu.results {
		all[k] = r
	}
	return all
}
