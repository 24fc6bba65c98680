package pgpool

import (
	"container/list"
	"hash/maphash"
	"math/rand/v2"
	"strconv"
)

// statements knows what is prepared on one connection: at most limit of them, the ones used last.
//
// A text is known by 128 bits of keyed hash and its length. Keeping the texts themselves would cost, on each connection, more than
// everything else about it, and the seeds are this process's own, so nobody can look for two texts that collide.
//
// Each role has statements of its own. PostgreSQL asks whether a function may be called when it plans, if it is then put into the
// plan itself or replaced by its result, and keeps the plan when the role changes: a role would get what only another may call.
type statements struct {
	limit  int
	prefix string // of this connection: behind a pooler that nobody told us of, two of ours may meet on one server session
	last   uint64 // names are never used twice, so that one that is lost cannot be in the way
	known  map[digest]*list.Element
	order  *list.List // of *prepared, the last used first

	doomed []string // names to be closed with the next request
}

type prepared struct {
	of    digest
	name  string
	ready bool // PostgreSQL has parsed it
	asked bool // the request that is being encoded has it parsed
}

type digest struct {
	a, b uint64
	size int
}

var seedA, seedB = maphash.MakeSeed(), maphash.MakeSeed()

func digestOf(role, sql string) digest {
	return digest{hash(seedA, role, sql), hash(seedB, role, sql), len(sql)}
}

func hash(seed maphash.Seed, role, sql string) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	h.WriteString(role)
	h.WriteByte(0) // neither has one
	h.WriteString(sql)
	return h.Sum64()
}

func newStatements(limit int) *statements {
	return &statements{limit: limit, prefix: "l" + strconv.FormatUint(rand.Uint64(), 36) + "_", known: map[digest]*list.Element{}, order: list.New()}
}

// get returns the statement for a role and a text; it may not be ready.
func (s *statements) get(role, sql string) *prepared {
	d := digestOf(role, sql)
	if e := s.known[d]; e != nil {
		s.order.MoveToFront(e)
		return e.Value.(*prepared)
	}
	s.last++
	p := &prepared{of: d, name: s.prefix + strconv.FormatUint(s.last, 36)}
	s.known[d] = s.order.PushFront(p)
	return p
}

// evict takes out the one that was used longest ago, if there are too many. Those of the present request are never that many.
func (s *statements) evict() *prepared {
	if s.order.Len() <= s.limit {
		return nil
	}
	p := s.order.Back().Value.(*prepared)
	s.forget(p)
	return p
}

func (s *statements) forget(p *prepared) {
	if e := s.known[p.of]; e != nil && e.Value.(*prepared) == p {
		s.order.Remove(e)
		delete(s.known, p.of)
	}
}

// doom has a statement closed with the next request.
func (s *statements) doom(p *prepared) {
	s.forget(p)
	s.doomed = append(s.doomed, p.name)
}

func (s *statements) doomAll() {
	for e := s.order.Front(); e != nil; e = s.order.Front() {
		s.doom(e.Value.(*prepared))
	}
}
