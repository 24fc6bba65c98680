package sqlgen

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"slices"
	"testing"

	"github.com/leveehq/levee/internal/graphql/pgvalue"
)

// record writes what readRecord reads.
func record(cols ...[]byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(cols)))
	for _, v := range cols {
		b = binary.BigEndian.AppendUint32(b, 25)
		b = appendItem(b, v)
	}
	return b
}

// array writes what readArray reads.
func array(items ...[]byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, 1)
	b = append(b, make([]byte, 8)...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(items)))
	b = append(b, make([]byte, 4)...)
	for _, v := range items {
		b = appendItem(b, v)
	}
	return b
}

func appendItem(b, v []byte) []byte {
	if v == nil {
		return binary.BigEndian.AppendUint32(b, ^uint32(0))
	}
	return append(binary.BigEndian.AppendUint32(b, uint32(len(v))), v...)
}

func FuzzRecord(f *testing.F) {
	f.Add(record())
	f.Add(record([]byte("a"), nil, []byte{}))
	f.Add(array(record([]byte("a")), nil))
	f.Add([]byte{0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0})
	f.Add(binary.BigEndian.AppendUint32(nil, 0))
	f.Fuzz(func(t *testing.T, v []byte) {
		if cols, err := readRecord(v, nil, nil); err == nil {
			again, err := readRecord(record(cols...), nil, nil)
			if err != nil || !slices.EqualFunc(cols, again, same) {
				t.Errorf("%q read again is %q, %v", cols, again, err)
			}
		}
		if items, err := readArray(v, nil); err == nil {
			again, err := readArray(array(items...), nil)
			if err != nil || !slices.EqualFunc(items, again, same) {
				t.Errorf("%q read again is %q, %v", items, again, err)
			}
		}
	})
}

func same(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

func FuzzCursor(f *testing.F) {
	for _, text := range []string{`["6776d37f70",1]`, `["6776d37f70",null,"x"]`, `["natural",3]`, `["natural",-1]`, `["natural",1e9]`, `[]`, `[[]]`, `{}`, `["6776d37f70",{}]`} {
		f.Add(base64.StdEncoding.EncodeToString([]byte(text)))
	}
	f.Add("")
	f.Add("no base64")
	f.Fuzz(func(t *testing.T, text string) {
		for _, natural := range []bool{false, true} {
			a := connArgs{natural: natural, digest: "6776d37f70", keys: []keyPart{{}, {tie: true}}, page: 10}
			a.first, a.last, a.offset, a.before = source{kind: absent}, source{kind: absent}, source{kind: absent}, source{kind: absent}
			a.after = source{value: text}
			b, err := a.bind(nil)
			if err != nil {
				continue
			}
			if b.offset < 0 || b.limit < 0 {
				t.Errorf("%q reads %d rows from %d", text, b.limit, b.offset)
			}
			if !natural && len(b.after) != len(a.keys) {
				t.Errorf("%q has %d values for %d columns", text, len(b.after), len(a.keys))
			}
			a.before = a.after
			if b, err := a.bind(nil); err == nil && (b.offset < 0 || b.limit < 0) {
				t.Errorf("before and after %q are %d rows from %d", text, b.limit, b.offset)
			}
		}
	})
}

func FuzzNodeID(f *testing.F) {
	for _, text := range []string{`["Post",1]`, `["Post","1",2]`, `["Post"]`, `[1]`, `["Post",{}]`, `null`} {
		f.Add(base64.StdEncoding.EncodeToString([]byte(text)))
		f.Add(base64.RawStdEncoding.EncodeToString([]byte(text)))
	}
	f.Add("query")
	f.Fuzz(func(t *testing.T, text string) {
		name, parts, ok := decodeID(text)
		if !ok {
			return
		}
		again, err := json.Marshal(append([]any{name}, parts...))
		if err != nil {
			t.Fatal(err)
		}
		other, others, ok := decodeID(base64.StdEncoding.EncodeToString(again))
		if !ok || other != name || len(others) != len(parts) {
			t.Errorf("%q is %q %v, and written again %q %v", text, name, parts, other, others)
		}
	})
}

func FuzzShape(f *testing.F) {
	point := make([]byte, 16)
	f.Add(append(point, point...))
	f.Add(append([]byte{1, 0, 0, 0, 1}, point...))
	f.Add(append([]byte{0, 0, 0, 1}, point...))
	f.Add([]byte{0, 0x7f, 0xff, 0xff, 0xff})
	f.Add(make([]byte, 24))
	number := &out{kind: outLeaf, leaf: pgvalue.Float}
	at := &out{kind: outShape, part: oidPoint, fields: []outField{{key: `"x":`, name: "x", nonNull: true, out: number}, {key: `"y":`, name: "y", nonNull: true, column: 1, out: number}}}
	points := &out{kind: outPoints, item: at}
	second := map[int]*out{oidPoint: number, oidCircle: number, oidPath: {kind: outLeaf, leaf: pgvalue.Bool}, oidPolygon: {kind: outConst, text: "1"}}
	f.Fuzz(func(t *testing.T, v []byte) {
		for _, oid := range []int{oidPoint, oidLseg, oidPath, oidBox, oidPolygon, oidLine, oidCircle} {
			a, b := at, second[oid]
			switch oid {
			case oidPoint:
				a = number
			case oidPath, oidPolygon:
				a = points
			}
			if b == nil {
				b = at
			}
			r := renderer{room: new(room), meter: new(meter)}
			null := r.value(&out{kind: outShape, part: oid, fields: []outField{{key: `"a":`, name: "a", nonNull: true, out: a}, {key: `"b":`, name: "b", nonNull: true, column: 1, out: b}}}, v, nil)
			if !json.Valid(r.dst) || null != (string(r.dst) == "null") || null != (len(r.errs) > 0) || len(r.stack) > 0 || len(r.path) > 0 {
				t.Errorf("%d %x: %s %v", oid, v, r.dst, r.errs)
			}
		}
	})
}
