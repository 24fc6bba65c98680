package rpc

import "testing"

// list takes n chunks from p, as one list.
func list(p *chunkPool, n int) (head *chunk) {
	for range n {
		k := p.get()
		k.next = head
		head = k
	}
	return head
}

func TestAPaidWindowUsesItsChunksAgain(t *testing.T) {
	var p chunkPool
	const n = 4 * freeChunks
	p.pay(n)
	seen := map[*chunk]bool{}
	for range 5 { // the window fills and empties
		full := list(&p, n)
		for k := full; k != nil; k = k.next {
			seen[k] = true
		}
		p.putAll(full)
	}
	if len(seen) != n {
		t.Errorf("a window of %d chunks that was filled five times took %d", n, len(seen))
	}
}

func TestTheFreeListKeepsNoMoreThanIsPaidFor(t *testing.T) {
	var p chunkPool
	const n = 4 * freeChunks
	p.putAll(list(&p, n))
	if p.mu.n != freeChunks {
		t.Errorf("without a paid window %d chunks are kept, not %d", p.mu.n, freeChunks)
	}
	p.pay(n)
	held := list(&p, n)
	p.putAll(list(&p, n)) // more than the window has room for
	if p.mu.n != freeChunks {
		t.Errorf("with all that is paid for lent, %d chunks are kept, not %d", p.mu.n, freeChunks)
	}
	p.putAll(held)
	if p.mu.n != n {
		t.Errorf("of a paid window of %d chunks, %d are kept", n, p.mu.n)
	}
	p.pay(-n)
	if p.mu.n != freeChunks || p.mu.used != 0 || p.mu.paid != 0 {
		t.Errorf("after the window has gone, %d chunks are kept, %d lent, %d paid for", p.mu.n, p.mu.used, p.mu.paid)
	}
}
