package sqlgen

import (
	"encoding/binary"
	"math"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/leveehq/levee/internal/graphql/pgvalue"
	"github.com/leveehq/levee/internal/graphql/schema"
)

// Object ids of the shapes, from pg_type.dat.
const (
	oidPoint   = 600
	oidLseg    = 601
	oidPath    = 602
	oidBox     = 603
	oidPolygon = 604
	oidLine    = 628
	oidCircle  = 718
)

// shape compiles the selection of a geometric value, which travels as itself.
func (c *compiler) shape(oid uint32, t *schema.Type, sets []ast.SelectionSet) *out {
	o := &out{kind: outShape, part: int(oid)}
	for _, s := range c.collect(t, sets...) {
		f := outField{key: jsonKey(s.key), name: s.key, column: -1}
		if s.def == nil {
			f.out = &out{kind: outConst, text: string(pgvalue.AppendString(nil, t.Name))}
		} else {
			f.column, f.nonNull, f.out = int(s.def.Bind.Index), true, c.shapePart(s)
		}
		o.fields = append(o.fields, f)
	}
	return o
}

func (c *compiler) shapePart(s *selected) *out {
	switch ref := s.def.Type; {
	case ref.Name == "Float":
		return &out{kind: outLeaf, leaf: pgvalue.Float}
	case ref.Name == "Boolean":
		return &out{kind: outLeaf, leaf: pgvalue.Bool}
	case ref.List:
		return &out{kind: outPoints, item: c.shape(oidPoint, c.types(ref.Name), s.sub())}
	default:
		return c.shape(oidPoint, c.types(ref.Name), s.sub())
	}
}

// shape writes the object of a geometric value as one whose columns are the parts of the value.
func (r *renderer) shape(o *out, v []byte) bool {
	from := len(r.stack)
	var err error
	r.stack, err = readShape(uint32(o.part), v, r.stack)
	defer func() { r.stack = r.stack[:from] }()
	if err != nil {
		r.fail(err)
		return r.null()
	}
	return r.object(o, r.stack[from:len(r.stack):len(r.stack)])
}

// points writes a list of points. None of them may be null, so one that is makes the list so.
func (r *renderer) points(o *out, v []byte) bool {
	start := len(r.dst)
	r.dst = append(r.dst, '[')
	for i := 0; len(v) >= 16 && r.fits(0, 0); i++ {
		if i > 0 {
			r.dst = append(r.dst, ',')
		}
		r.path = append(r.path, step{index: i})
		null := r.shape(o.item, v[:16])
		r.path = r.path[:len(r.path)-1]
		if null {
			r.dst = r.dst[:start]
			return r.null()
		}
		v = v[16:]
	}
	r.dst = append(r.dst, ']')
	return false
}

var no, yes = []byte{0}, []byte{1}

// readShape appends the parts of a shape, in the order of its type's fields: points and numbers are float8s. A path is a byte that
// is 1 if it is closed, int32 the number of its points, and these; a polygon the same without the byte. (geo_ops.c)
func readShape(oid uint32, v []byte, parts [][]byte) ([][]byte, error) {
	isOpen := no
	size := map[uint32]int{oidPoint: 16, oidLseg: 32, oidBox: 32, oidLine: 24, oidCircle: 24}[oid]
	switch oid {
	case oidPath:
		if len(v) < 1 {
			return parts, errWire
		}
		if v[0] == 0 {
			isOpen = yes
		}
		v = v[1:]
		fallthrough
	case oidPolygon:
		if len(v) < 4 {
			return parts, errWire
		}
		n := int32(binary.BigEndian.Uint32(v))
		if v = v[4:]; n < 0 || int64(n)*16 != int64(len(v)) {
			return parts, errWire
		}
		return append(parts, v, isOpen), nil
	}
	if len(v) != size {
		return parts, errWire
	}
	if oid == oidLine {
		v = twoPoints(float(v), float(v[8:]), float(v[16:]))
	}
	half := size / 2
	if oid == oidCircle || oid == oidLine {
		half = 16
	}
	return append(parts, v[:half:half], v[half:]), nil
}

// twoPoints finds two points of the line ax + by + c = 0: where it meets the axes, or where it does not or these are the same,
// one step further. PostGraphile has points there that are not on the line, or one point twice.
func twoPoints(a, b, c float64) []byte {
	onX, onY := [2]float64{-c / a, 0}, [2]float64{0, -c / b}
	switch {
	case a == 0:
		onX = [2]float64{1, onY[1]}
	case b == 0:
		onY = [2]float64{onX[0], 1}
	case c == 0:
		onY = [2]float64{1, -a / b}
	}
	out := make([]byte, 0, 32)
	for _, f := range []float64{onX[0], onX[1], onY[0], onY[1]} {
		out = binary.BigEndian.AppendUint64(out, math.Float64bits(f))
	}
	return out
}

func float(v []byte) float64 { return math.Float64frombits(binary.BigEndian.Uint64(v)) }
