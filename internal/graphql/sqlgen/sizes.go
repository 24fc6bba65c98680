package sqlgen

import (
	"encoding/binary"
	"hash/maphash"
	"sync"
)

// sizes are the limits of lists that a plan was asked with. The first few are written into its statement, for the sake of a plan of
// PostgreSQL's that is good for all requests of that size: see fixedLimit. Clients have few page sizes. One that asks with many gets
// parameters, so that it cannot fill the connections with statements.
type sizes struct {
	mu struct {
		sync.Mutex
		seen [mostSizes]uint64
		n    int
	}
}

const mostSizes = 4

// admit tells whether the limits of a request are written into its statement.
func (s *sizes) admit(roots []binding) bool {
	key := hashOf(roots)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, seen := range s.mu.seen[:s.mu.n] {
		if seen == key {
			return true
		}
	}
	if s.mu.n == mostSizes {
		return false
	}
	s.mu.seen[s.mu.n] = key
	s.mu.n++
	return true
}

// hashOf tells limits of one request from those of others, under a seed of this process, so that nobody can have many look alike.
func hashOf(roots []binding) uint64 {
	var h maphash.Hash
	h.SetSeed(sizesSeed)
	for i := range roots {
		for j := range roots[i].conns {
			_, _ = h.Write(binary.LittleEndian.AppendUint64(nil, uint64(roots[i].conns[j].limit))) // never fails
		}
	}
	return h.Sum64()
}

var sizesSeed = maphash.MakeSeed()
