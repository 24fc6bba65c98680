package sqlgen

import "slices"

// freeBytes are not charged for: whoever asks has room for a small answer, which is the room that is handed on.
const freeBytes = mostRoom*3/2 + mostRoom

const (
	// spare is what is written between two looks at the meter, names of fields and long values apart.
	spare = 512

	// What a renderer holds besides the bytes it has written.
	cellBytes  = 24  // a value that it has been pointed to
	errorBytes = 600 // an error, and its part of the answer
)

// meter charges for an answer while it is made. How large it becomes is known only then: names of fields, which the client chooses,
// are in the JSON of every row and in none of the database's bytes.
type meter struct {
	grow    func(bytes int64) error // nil: nobody asks
	settled int64                   // held for roots that are done
	paid    int64
	err     error // what grow said; nothing is made any more
}

// hold charges for what is held now beyond what was paid for, and reports whether that is granted.
func (m *meter) hold(bytes int64) bool {
	if m.err != nil {
		return false
	}
	missing := m.settled + bytes - m.paid - freeBytes
	if missing <= 0 || m.grow == nil {
		return true
	}
	if m.err = m.grow(missing); m.err != nil {
		return false
	}
	m.paid += missing
	return true
}

// fits charges for so many bytes of JSON and so many values more, and makes room for the JSON, before there is either. If they are
// not granted it says no from then on, and what is half made is thrown away: it need not be right.
func (r *renderer) fits(json, values int) bool {
	room := cap(r.dst)
	if need := len(r.dst) + json + spare; need > room {
		room = max(2*room, need)
	}
	held := int64(room)*3/2 + cellBytes*int64(cap(r.cells)+values) + errorBytes*int64(len(r.errs)) // while it grows, there are two
	if !r.meter.hold(held) {
		return false
	}
	if room > cap(r.dst) {
		r.dst = slices.Grow(r.dst, room-len(r.dst))
	}
	return true
}

// begin charges for the names of an object's fields, and begins it.
func (r *renderer) begin(o *out) {
	names := 0
	for i := range o.fields {
		names += len(o.fields[i].key)
	}
	r.fits(names+spare*len(o.fields)/8, 0)
	r.dst = append(r.dst, '{')
}
