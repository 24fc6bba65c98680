package bazel

import "sync"

// bufferSizes are the pooled ones. Larger buffers are never pooled: a pool would keep them long after the load that
// needed them.
var bufferSizes = [...]int64{16 * kib, 64 * kib, 128 * kib, 256 * kib, 512 * kib, maxReadChunk}

var buffers [len(bufferSizes)]sync.Pool

// bufferSize is what a buffer of n bytes really takes, for the permit to be paid with.
func bufferSize(n int64) int64 {
	for _, size := range bufferSizes {
		if n <= size && 2*n >= size {
			return size
		}
	}
	return n
}

// getBuffer returns a buffer of n bytes, from a pool if one of its bufferSize is pooled.
func getBuffer(n int64) *[]byte {
	for i, size := range bufferSizes {
		if size == bufferSize(n) {
			if b, ok := buffers[i].Get().(*[]byte); ok {
				*b = (*b)[:n]
				return b
			}
			b := make([]byte, n, size)
			return &b
		}
	}
	b := make([]byte, n)
	return &b
}

func putBuffer(b *[]byte) {
	for i, size := range bufferSizes {
		if int64(cap(*b)) == size {
			buffers[i].Put(b)
			return
		}
	}
}

// parts is a response that grows without being copied: a slice that doubles would hold three times the message for a moment.
type parts struct {
	list [][]byte
	size int64  // kept by those who need it
	own  bool   // the last part has room that is ours
	free []byte // what is left of our last part, while the last one in the list is somebody's
}

const partSize = 8 * kib

// room returns the part to append up to n bytes to.
func (p *parts) room(n int) *[]byte {
	last := len(p.list) - 1
	switch {
	case p.own && cap(p.list[last])-len(p.list[last]) >= n:
		return &p.list[last]
	case !p.own && cap(p.free) >= n:
		p.list = append(p.list, p.free)
	default:
		p.list = append(p.list, make([]byte, 0, max(n, partSize)))
	}
	p.own, p.free = true, nil
	return &p.list[last+1]
}

// attach adds data as a part of its own, without copying it.
func (p *parts) attach(data []byte) {
	if p.own {
		last := p.list[len(p.list)-1]
		p.free, p.own = last[len(last):], false
	}
	p.list = append(p.list, data)
}
