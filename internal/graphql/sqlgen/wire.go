package sqlgen

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/leveehq/levee/internal/graphql/pgvalue"
)

// errWire is bytes that are not what PostgreSQL's binary format says. A true server never sends them.
var errWire = errors.New("malformed record from the database")

// ErrChanged says that a value is of another type than it was when the schema was read: a table has been altered meanwhile.
var ErrChanged = errors.New("The schema has changed. Ask again.")

// readRecord appends the columns of a record to cols: int32 their number, then for each uint32 type, int32 length (-1: null) and
// bytes. (src/backend/utils/adt/rowtypes.c, record_send) Each column must be of its type.
func readRecord(v []byte, cols [][]byte, types []pgvalue.Wire) ([][]byte, error) {
	if len(v) < 4 {
		return cols, errWire
	}
	n := int32(binary.BigEndian.Uint32(v))
	v = v[4:]
	for i := range int(n) {
		if len(v) < 8 {
			return cols, errWire
		}
		if i < len(types) && !types[i].Reads(binary.BigEndian.Uint32(v)) {
			return cols, ErrChanged
		}
		size := int32(binary.BigEndian.Uint32(v[4:]))
		v = v[8:]
		if size == -1 {
			cols = append(cols, nil)
			continue
		}
		if size < 0 || int(size) > len(v) {
			return cols, errWire
		}
		cols, v = append(cols, v[:size:size]), v[size:]
	}
	return cols, nil
}

// errNested is said of each item of an array with several dimensions: the type in the schema has one.
var errNested = errors.New("a list within a list cannot be represented: the type has one dimension")

// nested appends a nil for each item of an array with several dimensions.
func nested(v []byte, items [][]byte) ([][]byte, error) {
	if len(v) < 20 {
		return items, errWire
	}
	n := int(int32(binary.BigEndian.Uint32(v[12:])))
	if n < 0 || n > len(v)/4 { // each item takes four bytes at least
		return items, errWire
	}
	return append(items, make([][]byte, n)...), errNested
}

// items is how many items an array has, by what it declares and what there is.
func items(v []byte) int {
	if len(v) < 20 {
		return 0
	}
	return min(int(binary.BigEndian.Uint32(v[12:])), len(v)/4) // each takes four bytes at least
}

// readArray appends the items of an array of one dimension: int32 dimensions, int32 flags, uint32 type, int32 length, int32 lower
// bound, then the items as int32 length and bytes. (arrayfuncs.c, array_send)
func readArray(v []byte, items [][]byte) ([][]byte, error) {
	if len(v) < 12 {
		return items, errWire
	}
	switch binary.BigEndian.Uint32(v) {
	case 0:
		return items, nil
	case 1:
	case 2, 3, 4, 5, 6: // MAXDIM
		return nested(v, items)
	default:
		return items, errWire
	}
	if len(v) < 20 {
		return items, errWire
	}
	n := int32(binary.BigEndian.Uint32(v[12:]))
	v = v[20:]
	if room := int(n); room > 0 && room <= len(v)/4 {
		items = slices.Grow(items, room) // every item takes four bytes at least: what is declared is there
	}
	for range n {
		if len(v) < 4 {
			return items, errWire
		}
		size := int32(binary.BigEndian.Uint32(v))
		v = v[4:]
		if size == -1 {
			items = append(items, nil)
			continue
		}
		if size < 0 || int(size) > len(v) {
			return items, errWire
		}
		items, v = append(items, v[:size:size]), v[size:]
	}
	return items, nil
}
