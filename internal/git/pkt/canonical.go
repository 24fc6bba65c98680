package pkt

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
)

// Canonical is what two requests must share for their answers to be the same but for progress and the size of packets:
// everything else that changes the answer, sorted. Never agent, session-id, no-progress or the kind of side-band; v0 and v1
// are answered alike.
func (r *Request) Canonical() [32]byte {
	c := canon{Hash: sha256.New()}
	c.number(max(r.Version, 1))
	c.text(r.Command)
	c.text(r.ObjectFormat)
	c.texts(r.sharedCaps())
	putAll(&c, r.Wants)
	putAll(&c, r.Haves)
	putAll(&c, r.Shallows)
	c.texts(r.WantRefs)
	c.number(r.Depth)
	c.text(r.DeepenSince)
	c.texts(r.DeepenNot)
	c.text(r.Filter)
	c.texts(r.RefPrefixes)
	c.flags(r.DeepenRelative, r.Done, r.WaitForDone, r.Peel, r.Symrefs, r.Unborn)
	c.text(r.rest)
	var sum [32]byte
	c.Sum(sum[:0])
	return sum
}

// sharedCaps are those that a client must share with another.
func (r *Request) sharedCaps() []string {
	var shared []string
	for _, c := range r.Caps {
		switch c {
		case "no-progress", "side-band", "side-band-64k":
		default:
			shared = append(shared, c)
		}
	}
	return shared
}

// canon hashes values with their lengths, so that no two lists of values read the same.
type canon struct {
	hash.Hash
	buf []byte
}

func (c *canon) number(n int) {
	c.buf = binary.LittleEndian.AppendUint64(c.buf[:0], uint64(n))
	c.Write(c.buf)
}

func (c *canon) text(s string) {
	c.buf = binary.LittleEndian.AppendUint64(c.buf[:0], uint64(len(s)))
	c.buf = append(c.buf, s...)
	c.Write(c.buf)
}

func (c *canon) texts(all []string) { putAll(c, all) }

func putAll[T ~string](c *canon, all []T) {
	c.number(len(all))
	for _, s := range all {
		c.text(string(s))
	}
}

func (c *canon) flags(all ...bool) {
	bits := 0
	for i, set := range all {
		if set {
			bits |= 1 << i
		}
	}
	c.number(bits)
}
