package sqlgen

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/leveehq/levee/internal/graphql/schema"
)

// window is what of a connection's rows is shown.
type window struct {
	rows      [][]byte
	base      int64 // position of the first, for natural cursors
	next, pre bool
}

func (r *renderer) page(o *out, rec [][]byte) (p window, err error) {
	b := &r.conns[o.conn]
	p.base, p.pre, p.next = b.base, b.hasPre, b.hasNext
	if o.extra.items < 0 {
		return p, nil
	}
	if p.rows, err = readArray(rec[o.extra.items], nil); err != nil {
		return p, err
	}
	n := len(p.rows)
	if b.most > 0 && n > b.most {
		return p, fmt.Errorf("There are more than %d rows, which is the most that one list has (graphql.max_page): ask for pages with first and after.", b.most)
	}
	if b.keep < 0 || n <= b.keep {
		return r.turned(b, p), nil
	}
	switch {
	case b.fromEnd:
		p.base += int64(n - b.keep)
		p.rows = p.rows[n-b.keep:]
		p.pre = p.pre || b.preByRow
	default:
		p.rows = p.rows[:b.keep]
		p.next = p.next || b.nextByRow
		p.pre = p.pre || b.preByRow
	}
	return r.turned(b, p), nil
}

func (r *renderer) turned(b *bound, p window) window {
	if b.reversed {
		slices.Reverse(p.rows)
	}
	return p
}

func (r *renderer) connection(o *out, rec [][]byte) bool {
	p, err := r.page(o, rec)
	if err != nil {
		r.fail(err)
		return r.null()
	}
	start := len(r.dst)
	r.dst = append(r.dst, '{')
	for i := range o.fields {
		f := &o.fields[i]
		if i > 0 {
			r.dst = append(r.dst, ',')
		}
		r.dst = append(r.dst, f.key...)
		r.path = append(r.path, step{name: f.name})
		null := false
		switch f.out.kind {
		case outRows:
			r.rows(f.out, o.extra, p)
		case outCount:
			null = r.value(f.out, rec[o.extra.count], nil)
		case outPageInfo:
			r.pageInfo(f.out, o.extra, p)
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

func (r *renderer) rows(o *out, x *connOut, p window) {
	r.dst = append(r.dst, '[')
	for i, row := range p.rows {
		if i > 0 {
			r.dst = append(r.dst, ',')
		}
		r.path = append(r.path, step{index: i})
		r.within(row, func(rec [][]byte) bool {
			if o.column >= 0 {
				return r.value(o.item, rec[o.column], rec)
			}
			return r.edge(o.item, x, rec, p.base+int64(i)+1)
		})
		r.path = r.path[:len(r.path)-1]
	}
	r.dst = append(r.dst, ']')
}

func (r *renderer) edge(o *out, x *connOut, rec [][]byte, position int64) bool {
	r.dst = append(r.dst, '{')
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
		var v []byte
		if f.column >= 0 {
			v = rec[f.column]
		}
		r.path = append(r.path, step{name: f.name})
		r.value(f.out, v, rec)
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

func (r *renderer) pageInfo(o *out, x *connOut, p window) {
	r.dst = append(r.dst, '{')
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
			r.cursorAt(x, p, len(p.rows)-1)
		}
	}
	r.dst = append(r.dst, '}')
}

func (r *renderer) cursorAt(x *connOut, p window, i int) {
	if i < 0 || i >= len(p.rows) {
		r.null()
		return
	}
	r.within(p.rows[i], func(rec [][]byte) bool {
		r.cursor(x, rec, p.base+int64(i)+1)
		return false
	})
}
