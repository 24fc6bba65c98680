package blobstore

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

// Journal and snapshot share one encoding of an entry and one of a CRC. All integers are little endian.
//
//	entry    slot u32, hash [32], gen u64, tick u64, bits u64, crc u32            64 bytes
//	record   crc u32, length u16 of what follows the type, type u8, payload
//	journal  magic [8], number u64, records
//	snapshot magic [8], number u64, blocks of (crc u32, count u32, entries), an empty block, live u64
//
// Every CRC is chained: it starts from the CRC before it, and the first from the header's. So a record that a failed
// write left behind a newer one does not pass for its successor, and a block out of order is seen.
const (
	journalMagic  = "LEVEEJ01"
	snapshotMagic = "LEVEES01"
	headerLen     = 16
	entryLen      = 64
	recordHeader  = 7
	blockHeader   = 8

	recPut    = 1 // an entry
	recRemove = 2 // slot u32, gen u64
	recTouch  = 3 // tick u64, slots u32...: the first slot got tick, the next tick+1 and so on

	maxTouches = 2048 // slots in one recTouch
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var errDamaged = errors.New("damaged")

func appendHeader(b []byte, magic string, number uint64) []byte {
	return binary.LittleEndian.AppendUint64(append(b, magic...), number)
}

// appendEntry encodes the fields of e that outlive the process.
func appendEntry(b []byte, slot uint32, e *entry) []byte {
	b = binary.LittleEndian.AppendUint32(b, slot)
	b = append(b, e.hash[:]...)
	b = binary.LittleEndian.AppendUint64(b, e.gen)
	b = binary.LittleEndian.AppendUint64(b, e.tick)
	b = binary.LittleEndian.AppendUint64(b, e.bits&^(1<<sizeShift-1)|e.bits&flagsOnDisk)
	return binary.LittleEndian.AppendUint32(b, e.crc)
}

// decodeEntry needs entryLen bytes.
func decodeEntry(b []byte) (slot uint32, e entry, err error) {
	slot = binary.LittleEndian.Uint32(b)
	copy(e.hash[:], b[4:])
	e.gen = binary.LittleEndian.Uint64(b[36:])
	e.tick = binary.LittleEndian.Uint64(b[44:])
	e.bits = binary.LittleEndian.Uint64(b[52:])
	e.crc = binary.LittleEndian.Uint32(b[60:])
	if slot >= maxSlots || e.bits&(1<<sizeShift-1)&^flagsOnDisk != 0 || e.size() > maxBlobLen {
		return 0, entry{}, errDamaged
	}
	return slot, e, nil
}

// The append functions leave the CRC open: seal fills it in when the order of the records is settled.

func beginRecord(b []byte, typ byte, payload int) []byte {
	b = append(b, 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(payload))
	return append(b, typ)
}

func appendPut(b []byte, slot uint32, e *entry) []byte {
	return appendEntry(beginRecord(b, recPut, entryLen), slot, e)
}

func appendRemove(b []byte, slot uint32, gen uint64) []byte {
	b = binary.LittleEndian.AppendUint32(beginRecord(b, recRemove, 12), slot)
	return binary.LittleEndian.AppendUint64(b, gen)
}

func appendTouches(b []byte, tick uint64, touched []uint32) []byte {
	b = binary.LittleEndian.AppendUint64(beginRecord(b, recTouch, 8+4*len(touched)), tick)
	for _, s := range touched {
		b = binary.LittleEndian.AppendUint32(b, s)
	}
	return b
}

// seal fills in the CRCs of the records in b and returns the last one.
func seal(b []byte, chain uint32) uint32 {
	for len(b) > 0 {
		n := recordHeader + int(binary.LittleEndian.Uint16(b[4:]))
		chain = crc32.Update(chain, castagnoli, b[4:n])
		binary.LittleEndian.PutUint32(b, chain)
		b = b[n:]
	}
	return chain
}

// replayer gets what a journal or a snapshot says, in order.
type replayer interface {
	put(slot uint32, e entry)
	remove(slot uint32, gen uint64)
	touch(slot uint32, tick uint64)
}

// replayRecord checks and applies the record at the start of b, and returns its length and its CRC; errDamaged if it
// is torn, out of place or nonsense.
func replayRecord(b []byte, chain uint32, r replayer) (n int, crc uint32, err error) {
	if len(b) < recordHeader {
		return 0, 0, errDamaged
	}
	n = recordHeader + int(binary.LittleEndian.Uint16(b[4:]))
	if len(b) < n {
		return 0, 0, errDamaged
	}
	crc = crc32.Update(chain, castagnoli, b[4:n])
	if crc != binary.LittleEndian.Uint32(b) {
		return 0, 0, errDamaged
	}
	p := b[recordHeader:n]
	switch typ := b[6]; {
	case typ == recPut && len(p) == entryLen:
		slot, e, err := decodeEntry(p)
		if err != nil {
			return 0, 0, err
		}
		r.put(slot, e)
	case typ == recRemove && len(p) == 12:
		r.remove(binary.LittleEndian.Uint32(p), binary.LittleEndian.Uint64(p[4:]))
	case typ == recTouch && len(p) >= 8 && len(p)%4 == 0:
		tick := binary.LittleEndian.Uint64(p)
		for i, q := uint64(0), p[8:]; len(q) > 0; i, q = i+1, q[4:] {
			r.touch(binary.LittleEndian.Uint32(q), tick+i)
		}
	default:
		return 0, 0, errDamaged
	}
	return n, crc, nil
}
