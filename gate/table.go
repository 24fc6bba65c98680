package gate

import "hash/maphash"

// table finds the active keys by name. A map would do, but here nearly every admission inserts a key and every release
// deletes one, which costs a map a third of the whole admission; and a map keeps the size of its fullest moment. The
// states are linked where they lie, so the table allocates only when it grows or shrinks.
type table struct {
	seed    maphash.Seed // of its own, so that nobody can choose names that collide; never written again
	buckets []*keyState  // the length is a power of two
	n       int
}

const minBuckets = 16

func newTable() table {
	return table{seed: maphash.MakeSeed(), buckets: make([]*keyState, minBuckets)}
}

// hash needs no lock.
func (t *table) hash(name string) uint64 { return maphash.String(t.seed, name) }

// get returns nil if there is none.
func (t *table) get(hash uint64, name string) *keyState {
	k := t.buckets[hash&uint64(len(t.buckets)-1)]
	for k != nil && (k.hash != hash || k.name != name) {
		k = k.chain
	}
	return k
}

// put adds k, whose hash and name are set and not yet in the table.
func (t *table) put(k *keyState) {
	if t.n >= len(t.buckets) {
		t.resize(2 * len(t.buckets))
	}
	t.n++
	t.link(k)
}

// drop takes out k, which is in the table.
func (t *table) drop(k *keyState) {
	at := &t.buckets[k.hash&uint64(len(t.buckets)-1)]
	for *at != k {
		at = &(*at).chain
	}
	*at, k.chain = k.chain, nil
	t.n--
	if len(t.buckets) > minBuckets && t.n < len(t.buckets)/8 {
		t.resize(len(t.buckets) / 2)
	}
}

func (t *table) link(k *keyState) {
	at := &t.buckets[k.hash&uint64(len(t.buckets)-1)]
	k.chain, *at = *at, k
}

func (t *table) resize(n int) {
	old := t.buckets
	t.buckets = make([]*keyState, n)
	for _, k := range old {
		for k != nil {
			next := k.chain
			t.link(k)
			k = next
		}
	}
}
