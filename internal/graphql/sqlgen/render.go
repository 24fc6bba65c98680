package sqlgen

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/leveehq/levee/internal/graphql/document"
	"github.com/leveehq/levee/internal/graphql/pgvalue"
)

// renderer writes one root field's JSON from the bytes of its column. A value that is null where the schema allows none makes the
// object around it null, and says so in errs, as the specification has it.
type renderer struct {
	*room
	meter *meter
	errs  []Error
	at    []document.Location
	conns []bound
}

func (r *renderer) fail(err error) {
	r.errs = append(r.errs, Error{Error: document.Error{Message: err.Error(), Locations: r.at, Path: pathOf(r.path)}})
}

// step is a part of a path: a name, or an index where that is empty.
type step struct {
	name  string
	index int
}

func pathOf(steps []step) []any {
	path := make([]any, len(steps))
	for i, s := range steps {
		if path[i] = s.name; s.name == "" {
			path[i] = s.index
		}
	}
	return path
}

func (r *renderer) null() bool {
	r.dst = append(r.dst, "null"...)
	return true
}

// value appends the JSON of v, NULL if it is nil, and tells whether that is null. rec is the record that v is a column of.
func (r *renderer) value(o *out, v []byte, rec [][]byte) (null bool) {
	switch o.kind {
	case outConst:
		r.dst = append(r.dst, o.text...)
		return o.text == "null"
	case outSame:
		return r.object(o, rec)
	case outJoined:
		if there := rec[o.column]; len(there) != 1 || there[0] == 0 {
			return r.null()
		}
		return r.object(o, rec)
	case outColumn:
		return r.value(o.item, rec[o.column], rec)
	case outNodeID:
		return r.nodeID(o, rec)
	case outCursor: // of a payload's edge, which is in no list
		r.cursor(o.extra, rec, 1)
		return false
	case outBound:
		if rec[o.part] == nil || r.infinite(o, rec[o.part]) {
			return r.null()
		}
		return r.object(o, rec)
	}
	if v == nil {
		return r.null()
	}
	switch o.kind {
	case outLeaf:
		return r.leaf(o, v)
	case outObject:
		return r.within(v, o.types, func(rec [][]byte) bool { return r.object(o, rec) })
	case outConn:
		return r.within(v, nil, func(rec [][]byte) bool { return r.connection(o, rec) })
	case outList:
		return r.list(o, v)
	case outInterval:
		return r.interval(o, v)
	case outShape:
		return r.shape(o, v)
	case outPoints:
		return r.points(o, v)
	case outCount:
		r.dst = strconv.AppendInt(r.dst, int64(binary.BigEndian.Uint64(v)), 10)
		return false
	}
	panic(fmt.Sprintf("sqlgen: output %d is not one of a column", o.kind))
}

func (r *renderer) leaf(o *out, v []byte) bool {
	start := len(r.dst)
	if len(v) > spare && !r.fits(o.leaf.Length(v), 0) {
		return r.null()
	}
	dst, err := o.leaf.AppendJSON(r.dst, v)
	r.dst = dst
	if err != nil {
		return r.wrongLeaf(err)
	}
	return len(r.dst)-start == 4 && string(r.dst[start:]) == "null"
}

// wrongLeaf is apart because what errors.As writes to is on the heap.
func (r *renderer) wrongLeaf(err error) bool {
	var items pgvalue.ItemErrors
	if !errors.As(err, &items) {
		r.fail(err)
		return r.null()
	}
	for _, item := range items {
		if !r.fits(0, 0) {
			break
		}
		r.path = append(r.path, step{index: item.Index})
		r.fail(item.Err)
		r.path = r.path[:len(r.path)-1]
	}
	return false
}

// infinite tells of a range's bound that JSON has no value for, which is as good as none.
func (r *renderer) infinite(o *out, v []byte) bool {
	text, err := o.leaf.AppendJSON(r.scratch[:0], v)
	r.scratch = text[:0]
	return err == nil && string(text) == "null"
}

// within reads a record, and calls f with its columns.
func (r *renderer) within(v []byte, types []pgvalue.Wire, f func(rec [][]byte) bool) bool {
	from := len(r.stack)
	var err error
	r.stack, err = readRecord(v, r.stack, types)
	defer func() { r.stack = r.stack[:from] }()
	if err != nil {
		return r.unreadable(err)
	}
	return f(r.stack[from:len(r.stack):len(r.stack)])
}

// unreadable is of what PostgreSQL sent. If that is of another type, so may be all else, and nothing is to be shown of it.
func (r *renderer) unreadable(err error) bool {
	if errors.Is(err, ErrChanged) {
		r.meter.err = err
	}
	r.fail(err)
	return r.null()
}

func (r *renderer) object(o *out, rec [][]byte) bool {
	start := len(r.dst)
	r.begin(o)
	for i := range o.fields {
		f := &o.fields[i]
		if i > 0 {
			r.dst = append(r.dst, ',')
		}
		r.dst = append(r.dst, f.key...)
		var v []byte
		if f.column >= 0 && f.column < len(rec) {
			v = rec[f.column]
		}
		r.path = append(r.path, step{name: f.name})
		ok := r.checked(f, r.value(f.out, v, rec))
		r.path = r.path[:len(r.path)-1]
		if !ok {
			r.dst = r.dst[:start]
			return r.null()
		}
	}
	r.dst = append(r.dst, '}')
	return false
}

// checked is false if a field is null and may not be. Whoever made it null by an error has said so.
func (r *renderer) checked(f *outField, null bool) bool {
	if !null || !f.nonNull {
		return true
	}
	if n := len(r.errs); n == 0 || !within(r.errs[n-1].Path, pathOf(r.path)) {
		r.fail(fmt.Errorf("Cannot return null for the non-nullable field %s.", f.name))
	}
	return false
}

// within tells whether path begins with of.
func within(path, of []any) bool {
	return len(path) >= len(of) && slices.Equal(path[:len(of)], of)
}

func (r *renderer) list(o *out, v []byte) bool {
	if !r.fits(0, items(v)) {
		return r.null()
	}
	list, err := readArray(v, nil)
	if err != nil && !errors.Is(err, errNested) {
		r.fail(err)
		return r.null()
	}
	r.dst = append(r.dst, '[')
	for i, item := range list {
		if !r.fits(0, len(list)) {
			break
		}
		if i > 0 {
			r.dst = append(r.dst, ',')
		}
		r.path = append(r.path, step{index: i})
		if err != nil {
			r.fail(err)
		}
		r.value(o.item, item, nil)
		r.path = r.path[:len(r.path)-1]
	}
	r.dst = append(r.dst, ']')
	return false
}

// nodeID writes base64 of JSON ["Type", key...].
func (r *renderer) nodeID(o *out, rec [][]byte) bool {
	b := append(r.scratch[:0], o.text...)
	for i := range o.fields {
		v := rec[o.column+i]
		if v == nil {
			return r.null()
		}
		var err error
		b = append(b, ',')
		if b, err = o.fields[i].out.leaf.AppendKey(b, v); err != nil {
			r.fail(err)
			return r.null()
		}
	}
	r.appendBase64(append(b, ']'))
	return false
}

func (r *renderer) appendBase64(b []byte) {
	r.scratch = b
	r.dst = append(r.dst, '"')
	r.dst = append(base64.StdEncoding.AppendEncode(r.dst, b), '"')
}

// interval writes the parts of an interval: int64 microseconds, int32 days, int32 months. (timestamp.c, interval_send)
func (r *renderer) interval(o *out, v []byte) bool {
	if len(v) != 16 {
		r.fail(errWire)
		return r.null()
	}
	micros, days, months := int64(binary.BigEndian.Uint64(v)), int32(binary.BigEndian.Uint32(v[8:])), int32(binary.BigEndian.Uint32(v[12:]))
	parts := [6]int64{0, micros / 60e6 % 60, micros / 3600e6, int64(days), int64(months % 12), int64(months / 12)}
	r.begin(o)
	for i, f := range o.fields {
		if i > 0 {
			r.dst = append(r.dst, ',')
		}
		r.dst = append(r.dst, f.key...)
		switch {
		case f.out.kind == outConst:
			r.dst = append(r.dst, f.out.text...)
		case f.out.part == 0:
			r.dst = strconv.AppendFloat(r.dst, float64(micros%60e6)/1e6, 'f', -1, 64)
		default:
			r.dst = strconv.AppendInt(r.dst, parts[f.out.part], 10)
		}
	}
	r.dst = append(r.dst, '}')
	return false
}
