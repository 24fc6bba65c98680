package schema

import (
	"hash/maphash"
	"slices"
	"sort"
)

// index finds what a name stands for without keeping the names: sixteen bytes each. Sixty-four bits of hash, under a seed
// of this process, do not collide by chance among a hundred thousand names; builder would see it as a clash, and warn.
type index struct {
	entries []entry // by hash
}

// entry is what a name stands for; the rest of it is derived.
type entry struct {
	hash uint64
	id   uint32 // a class, a place in Schema.procs, or a PostgreSQL type, as kind says
	kind what
	sub  uint8 // which key of the class
}

var seed = maphash.MakeSeed()

func hashOf(name string) uint64 { return maphash.String(seed, name) }

func (x *index) find(name string) (entry, bool) {
	h := hashOf(name)
	i := sort.Search(len(x.entries), func(i int) bool { return x.entries[i].hash >= h })
	if i == len(x.entries) || x.entries[i].hash != h {
		return entry{}, false
	}
	return x.entries[i], true
}

// ordered lists the entries as the SDL does: by kind, and within one in the order of the classes, or procs.
func (x *index) ordered(place func(entry) int) []entry {
	out := slices.Clone(x.entries)
	slices.SortStableFunc(out, func(a, b entry) int {
		if d := a.kind.group() - b.kind.group(); d != 0 {
			return d
		}
		if d := place(a) - place(b); d != 0 {
			return d
		}
		if a.kind != b.kind {
			return int(a.kind) - int(b.kind)
		}
		return int(a.sub) - int(b.sub)
	})
	return out
}

func (x *index) size() int64 { return sizeOf(x.entries) }

// what a name of a type or of a field of a root stands for.
type what uint8

const (
	rowType what = iota // of classes
	connectionType
	edgeType
	conditionType
	orderByType
	inputType
	patchType
	createInput
	createPayload
	updateInput
	updatePayload
	updateKeyInput
	deleteInput
	deletePayload
	deleteKeyInput

	procConnection // of procs
	procEdge
	procRecord
	procInput
	procPayload

	rowEnum // of tables that are enums

	ownType // of PostgreSQL types: enums and domains
	ownInput
	rangeType
	boundType
	rangeInput
	boundInput

	byKey // fields of Query
	procQuery
	byNodeID
	all

	procMutation // fields of Mutation
	create
	update
	updateByKey
	remove
	removeByKey
)

// group joins the kinds whose fields stand among each other.
func (w what) group() int {
	switch w {
	case updateByKey:
		return int(update)
	case removeByKey:
		return int(remove)
	default:
		return int(w)
	}
}
