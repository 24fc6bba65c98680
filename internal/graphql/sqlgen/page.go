package sqlgen

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/leveehq/levee/internal/graphql/schema"
)

// window is what of a connection's rows is shown.
type window struct {
	cells     [][]byte // all values of a column, then those of the next
	n         int      // rows that came
	from, to  int      // those that are shown
	reversed  bool     // the last comes first
	base      int64    // position of the first, for natural cursors
	next, pre bool
}

func (p *window) len() int { return p.to - p.from }

func (r *renderer) page(o *out, rec [][]byte) (p window, err error) {
	b := &r.conns[o.conn]
	p.base, p.pre, p.next = b.base, b.hasPre, b.hasNext
	if !o.extra.rows {
		return p, nil
	}
	if p.cells, p.n, err = r.read(rec, o.extra); err != nil {
		return p, err
	}
	if b.most > 0 && p.n > b.most {
		return p, fmt.Errorf("There are more than %d rows, which is the most that one list has (graphql.max_page): ask for pages with first and after.", b.most)
	}
	p.to, p.reversed = p.n, b.reversed
	if b.keep < 0 || p.n <= b.keep {
		return p, nil
	}
	p.pre = p.pre || b.preByRow
	if b.fromEnd {
		p.from = p.n - b.keep
		p.base += int64(p.from)
	} else {
		p.to = b.keep
		p.next = p.next || b.nextByRow
	}
	return p, nil
}

// read takes in the columns of a list: arrays of one length, or null if there are no rows.
func (r *renderer) read(rec [][]byte, x *connOut) (cells [][]byte, n int, err error) {
	if len(rec) < len(x.types) {
		return nil, 0, errWire
	}
	start := len(r.cells)
	for i := range x.types {
		if rec[i] != nil {
			if !x.wrapped[i] && len(rec[i]) >= 12 && !x.types[i].Reads(binary.BigEndian.Uint32(rec[i][8:])) {
				return nil, 0, ErrChanged
			}
			if !r.fits(0, items(rec[i])) {
				return nil, 0, r.meter.err
			}
			if r.cells, err = readArray(rec[i], r.cells); err != nil {
				return nil, 0, err
			}
		}
		if i == 0 {
			n = len(r.cells) - start
		}
		if len(r.cells)-start != (i+1)*n {
			return nil, 0, errWire
		}
	}
	return r.cells[start:len(r.cells):len(r.cells)], n, nil
}

// row puts the i-th shown row's columns on the stack.
func (r *renderer) row(x *connOut, p *window, i int) (rec [][]byte, err error) {
	at := p.from + i
	if p.reversed {
		at = p.to - 1 - i
	}
	from := len(r.stack)
	for column, wrapped := range x.wrapped {
		v := p.cells[column*p.n+at]
		if !wrapped {
			r.stack = append(r.stack, v)
			continue
		}
		to := len(r.stack)
		if r.stack, err = readRecord(v, r.stack, x.types[column:column+1]); err != nil {
			return nil, err
		}
		if len(r.stack) != to+1 {
			return nil, errWire
		}
	}
	return r.stack[from:len(r.stack):len(r.stack)], nil
}

// ofRow calls f with the columns of the i-th shown row.
func (r *renderer) ofRow(x *connOut, p *window, i int, f func(rec [][]byte) bool) bool {
	from := len(r.stack)
	rec, err := r.row(x, p, i)
	defer func() { r.stack = r.stack[:from] }()
	if err != nil {
		return r.unreadable(err)
	}
	return f(rec)
}

func (r *renderer) connection(o *out, rec [][]byte) bool {
	cells := len(r.cells)
	defer func() { r.cells = r.cells[:cells] }()
	p, err := r.page(o, rec)
	if err != nil {
		return r.unreadable(err)
	}
	start := len(r.dst)
	r.begin(o)
	for i := range o.fields {
		f := &o.fields[i]
		if i > 0 {
			r.dst = append(r.dst, ',')
		}
		r.dst = append(r.dst, f.key...)
		r.path = append(r.path, step{name: f.name})
		null := false
		switch f.out.kind {
		case outRows, outEdges:
			r.rows(f.out, o.extra, &p)
		case outCount:
			null = r.value(f.out, rec[o.extra.count], nil)
		case outPageInfo:
			r.pageInfo(f.out, o.extra, &p)
		default:
			null = r.value(f.out, nil, nil)
		}
		ok := r.checked(f, null)
		r.path = r.path[:len(r.path)-1]
		if !ok {
			r.dst = r.dst[:start]
			return r.null()
		}
	}
	r.dst = append(r.dst, '}')
	return false
}

func (r *renderer) rows(o *out, x *connOut, p *window) {
	r.dst = append(r.dst, '[')
	for i := range p.len() {
		if !r.fits(0, 0) {
			break
		}
		if i > 0 {
			r.dst = append(r.dst, ',')
		}
		r.path = append(r.path, step{index: i})
		r.ofRow(x, p, i, func(rec [][]byte) bool {
			if o.kind == outRows {
				return r.value(o.item, nil, rec)
			}
			return r.edge(o.item, x, rec, p.base+int64(i)+1)
		})
		r.path = r.path[:len(r.path)-1]
	}
	r.dst = append(r.dst, ']')
}

func (r *renderer) edge(o *out, x *connOut, rec [][]byte, position int64) bool {
	r.begin(o)
	for i := range o.fields {
		f := &o.fields[i]
		if i > 0 {
			r.dst = append(r.dst, ',')
		}
		r.dst = append(r.dst, f.key...)
		if f.out.kind == outCursor {
			r.cursor(x, rec, position)
			continue
		}
		r.path = append(r.path, step{name: f.name})
		r.value(f.out, nil, rec)
		r.path = r.path[:len(r.path)-1]
	}
	r.dst = append(r.dst, '}')
	return false
}

// cursor writes base64 of JSON [digest, values...], or ["natural", position].
func (r *renderer) cursor(x *connOut, rec [][]byte, position int64) {
	if x.natural {
		r.appendBase64(append(strconv.AppendInt(append(r.scratch[:0], `["natural",`...), position, 10), ']'))
		return
	}
	b := append(append(append(r.scratch[:0], `["`...), x.digest...), '"')
	null := false
	for i, leaf := range x.leaves {
		if i >= x.named && !null {
			break
		}
		b = append(b, ',')
		v := rec[x.cursors+i]
		if v == nil {
			null = true
			b = append(b, "null"...)
			continue
		}
		var err error
		if b, err = leaf.AppendKey(b, v); err != nil {
			b = append(b, "null"...)
		}
	}
	r.appendBase64(append(b, ']'))
}

func (r *renderer) pageInfo(o *out, x *connOut, p *window) {
	r.begin(o)
	for i, f := range o.fields {
		if i > 0 {
			r.dst = append(r.dst, ',')
		}
		r.dst = append(r.dst, f.key...)
		if f.out.kind == outConst {
			r.dst = append(r.dst, f.out.text...)
			continue
		}
		switch schema.Op(f.out.part) {
		case schema.OpHasNextPage:
			r.dst = strconv.AppendBool(r.dst, p.next)
		case schema.OpHasPreviousPage:
			r.dst = strconv.AppendBool(r.dst, p.pre)
		case schema.OpStartCursor:
			r.cursorAt(x, p, 0)
		case schema.OpEndCursor:
			r.cursorAt(x, p, p.len()-1)
		}
	}
	r.dst = append(r.dst, '}')
}

func (r *renderer) cursorAt(x *connOut, p *window, i int) {
	if i < 0 || i >= p.len() {
		r.null()
		return
	}
	r.ofRow(x, p, i, func(rec [][]byte) bool {
		r.cursor(x, rec, p.base+int64(i)+1)
		return false
	})
}
