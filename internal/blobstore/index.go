package blobstore

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"time"
)

// BytesPerBlob is the memory that one blob costs: its entry, its share of the buckets and of the last chunk's unused
// part, and at start 4 bytes for sorting. A test fills an index, measures the heap, and fails if this is low.
const BytesPerBlob = 84

// entry is what memory knows of a blob. It holds no pointers, so that the collector never looks at it.
type entry struct {
	hash       [32]byte
	gen        uint64 // names the file together with hash; larger is newer; the top bits are the run that wrote it
	tick       uint64 // last use in microseconds since 1970, made unique; the order of the LRU list, kept for restarts
	bits       uint64 // size << 16 | flags
	crc        uint32 // CRC-32C of an action result, which has no digest to be verified by
	prev, next uint32 // neighbours towards more and less recently used: slot + 1, 0 for none; next also links free slots
	chain      uint32 // next in the bucket: slot + 1
}

const (
	flagKind     = 1 << 0 // 0: CAS, 1: AC
	flagVerified = 1 << 1 // known to have reached the disk whole: flushed, or verified after a reboot
	flagNoCRC    = 1 << 2 // found by a scan of the directories: crc says nothing
	flagSeen     = 1 << 3 // the sweep after an unclean start saw the file; never written to disk
	flagHeld     = 1 << 4 // the slot is taken, nothing is in it yet
	flagPending  = 1 << 5 // filled and journalled, not visible yet
	flagLive     = 1 << 6 // in the buckets and in the LRU list
	flagUsed     = flagHeld | flagPending | flagLive
	flagsOnDisk  = flagKind | flagVerified | flagNoCRC

	sizeShift = 16
)

func (e *entry) size() int64       { return int64(e.bits >> sizeShift) }
func (e *entry) has(f uint64) bool { return e.bits&f != 0 }
func (e *entry) kind() Kind        { return Kind(e.bits & flagKind) }
func (e *entry) key() Key          { return Key{Kind: e.kind(), Hash: e.hash} }

// Generations count up within a run; runs count up with every start. So a name is never used twice, a removal can
// never hit the file of a later commit, and a file that belongs to an earlier run is known by its name.
const runShift = 40

func runOf(gen uint64) uint64 { return gen >> runShift }

const chunkLen = 1024

// index maps keys to entries and keeps the exact order of use. It is guarded by the Disk's lock and knows no files.
//
// Entries live in chunks that are allocated as they are needed and never moved or copied, so growing has no peak. A
// slot number is stable for as long as its entry lives: journal and snapshot speak of slots, which makes touching an
// entry cost 4 bytes on disk and lets recovery run without a hash table.
type index struct {
	chunks     []*[chunkLen]entry
	buckets    []uint32 // slot + 1
	seed       [2]uint64
	free       uint32 // head of the list of freed slots: slot + 1
	high       uint32 // slots from here on were never used
	head, tail uint32 // most and least recently used: slot + 1
	taken      int    // slots in use, whatever for
	live       int    // entries in the list
	lastTick   uint64
}

func newIndex(maxBlobs int) *index {
	// The seed is secret: keys of action results are chosen by callers, who could otherwise fill one bucket.
	return &index{buckets: make([]uint32, maxBlobs), seed: [2]uint64{rand.Uint64(), rand.Uint64()}}
}

func (x *index) at(slot uint32) *entry { return &x.chunks[slot/chunkLen][slot%chunkLen] }

// ensure makes the chunk of slot exist.
func (x *index) ensure(slot uint32) *entry {
	c := int(slot / chunkLen)
	for len(x.chunks) <= c {
		x.chunks = append(x.chunks, nil)
	}
	if x.chunks[c] == nil {
		x.chunks[c] = new([chunkLen]entry)
	}
	return &x.chunks[c][slot%chunkLen]
}

func (x *index) bucket(k Key) *uint32 {
	a := binary.LittleEndian.Uint64(k.Hash[0:]) ^ binary.LittleEndian.Uint64(k.Hash[16:])
	b := binary.LittleEndian.Uint64(k.Hash[8:]) ^ binary.LittleEndian.Uint64(k.Hash[24:])
	hi, lo := bits.Mul64(a^x.seed[0], b^x.seed[1]^uint64(k.Kind))
	i, _ := bits.Mul64(hi^lo, uint64(len(x.buckets)))
	return &x.buckets[i]
}

func (x *index) find(k Key) (slot uint32, ok bool) {
	for s := *x.bucket(k); s != 0; {
		e := x.at(s - 1)
		if e.hash == k.Hash && e.kind() == k.Kind {
			return s - 1, true
		}
		s = e.chain
	}
	return 0, false
}

// hold takes a slot, to be filled and inserted, or released.
func (x *index) hold() uint32 {
	var slot uint32
	var e *entry
	if x.free != 0 {
		slot = x.free - 1
		e = x.at(slot)
		x.free = e.next
	} else {
		slot = x.high
		e = x.ensure(slot)
		x.high++
	}
	*e = entry{bits: flagHeld}
	x.taken++
	return slot
}

// release gives a slot back that is in no list.
func (x *index) release(slot uint32) {
	*x.at(slot) = entry{next: x.free}
	x.free = slot + 1
	x.taken--
}

// insert makes a filled slot visible and the most recently used. The caller knows that the key is absent.
func (x *index) insert(slot uint32) {
	e := x.at(slot)
	b := x.bucket(e.key())
	e.chain, *b = *b, slot+1
	e.bits = e.bits&^flagUsed | flagLive
	x.pushFront(slot)
	x.live++
}

// remove takes a live entry out and frees its slot.
func (x *index) remove(slot uint32) {
	e := x.at(slot)
	for p := x.bucket(e.key()); ; p = &x.at(*p - 1).chain {
		if *p == slot+1 {
			*p = e.chain
			break
		}
	}
	x.unlink(slot)
	x.live--
	x.release(slot)
}

func (x *index) touch(slot uint32, now time.Time) {
	if x.head != slot+1 {
		x.unlink(slot)
		x.pushFront(slot)
	}
	x.at(slot).tick = x.nextTick(now)
}

// nextTick is now, or one more than the last: clocks stand still and step back.
func (x *index) nextTick(now time.Time) uint64 {
	x.lastTick = max(x.lastTick+1, uint64(now.UnixMicro()))
	return x.lastTick
}

func (x *index) pushFront(slot uint32) {
	e := x.at(slot)
	e.prev, e.next = 0, x.head
	if x.head != 0 {
		x.at(x.head - 1).prev = slot + 1
	} else {
		x.tail = slot + 1
	}
	x.head = slot + 1
}

func (x *index) unlink(slot uint32) {
	e := x.at(slot)
	if e.prev != 0 {
		x.at(e.prev - 1).next = e.next
	} else {
		x.head = e.next
	}
	if e.next != 0 {
		x.at(e.next - 1).prev = e.prev
	} else {
		x.tail = e.prev
	}
	e.prev, e.next = 0, 0
}

// oldest is the least recently used entry.
func (x *index) oldest() (slot uint32, ok bool) { return x.tail - 1, x.tail != 0 }
