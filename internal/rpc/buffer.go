package rpc

import (
	"sync"
	"unsafe"
)

const (
	chunkSize    = 2 << 10
	chunkPayload = chunkSize - int(unsafe.Sizeof(uintptr(0))) - 4

	// freeChunks is what the free list may hold on to whatever streams there are: 1 MiB.
	freeChunks = 512
)

// chunk is the unit in which received bytes are held. Its pointer comes first, so the collector scans only that.
type chunk struct {
	next *chunk
	r, w uint16
	data [chunkPayload]byte
}

// chunkPool is a free list with a bound. sync.Pool would do, but it empties itself at every collection, which under
// memory pressure is when allocating afresh hurts most.
//
// Windows that were grown are paid for by permits, full or not. So the list may also hold what they do not: a window that
// fills and empties uses the same chunks again, instead of leaving a trail of them that only a collection takes away.
type chunkPool struct {
	mu struct {
		sync.Mutex
		free *chunk
		n    int // chunks in free
		used int // chunks lent
		paid int // chunks that grown windows have room for
	}
}

func (p *chunkPool) get() *chunk {
	p.mu.Lock()
	p.mu.used++
	k := p.mu.free
	if k != nil {
		p.mu.free = k.next
		p.mu.n--
	}
	p.mu.Unlock()
	if k == nil {
		return new(chunk)
	}
	k.next, k.r, k.w = nil, 0, 0
	return k
}

// putAll takes back a list of chunks; what is above the bound is left to the collector.
func (p *chunkPool) putAll(k *chunk) {
	if k == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for k != nil {
		next := k.next
		p.mu.used--
		if p.roomLocked() {
			k.next = p.mu.free
			p.mu.free = k
			p.mu.n++
		}
		k = next
	}
}

func (p *chunkPool) roomLocked() bool { return p.mu.n < max(freeChunks, p.mu.paid-p.mu.used) }

// pay tells that windows have been grown by so many chunks, or are gone if chunks is negative.
func (p *chunkPool) pay(chunks int) {
	if chunks == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.paid += chunks
	for p.mu.n > max(freeChunks, p.mu.paid-p.mu.used) {
		p.mu.free = p.mu.free.next
		p.mu.n--
	}
}

// fifo is a list of chunks with bytes appended at its tail.
type fifo struct{ head, tail *chunk }

func (f *fifo) append(p *chunkPool, b []byte) {
	for len(b) > 0 {
		if f.tail == nil || f.tail.w == uint16(chunkPayload) {
			k := p.get()
			if f.tail == nil {
				f.head = k
			} else {
				f.tail.next = k
			}
			f.tail = k
		}
		n := copy(f.tail.data[f.tail.w:], b)
		f.tail.w += uint16(n)
		b = b[n:]
	}
}

// take returns all chunks and leaves f empty.
func (f *fifo) take() *chunk {
	k := f.head
	f.head, f.tail = nil, nil
	return k
}

// size is the number of unread bytes in the list that starts at k.
func (k *chunk) size() (n int) {
	for ; k != nil; k = k.next {
		n += int(k.w - k.r)
	}
	return n
}

// readBufs lends buffers to connection readers. A reader holds one only between a socket's becoming readable and its
// running dry, so an idle connection has none.
type readBufs struct {
	mu struct {
		sync.Mutex
		free []*[readBufSize]byte
	}
}

const (
	readBufSize  = 16 << 10
	freeReadBufs = 16
)

func (p *readBufs) get() *[readBufSize]byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.mu.free); n > 0 {
		b := p.mu.free[n-1]
		p.mu.free = p.mu.free[:n-1]
		return b
	}
	return new([readBufSize]byte)
}

func (p *readBufs) put(b *[readBufSize]byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.mu.free) < freeReadBufs {
		p.mu.free = append(p.mu.free, b)
	}
}
