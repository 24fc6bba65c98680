package sqlgen

import (
	"encoding/json"
	"unsafe"

	"github.com/leveehq/levee/internal/graphql/pgvalue"
)

// size is an estimate from above of what a plan keeps, by walking it.
func (p *plan) size() int {
	n := int(unsafe.Sizeof(*p)) + len(p.bounds)*int(unsafe.Sizeof(bounded{}))
	for i := range p.roots {
		r := &p.roots[i]
		n += int(unsafe.Sizeof(*r)) + len(r.key) + r.sql.size() + r.out.size() + 64
		for _, c := range r.conns {
			n += int(unsafe.Sizeof(c)) + len(c.digest) + len(c.keys)*int(unsafe.Sizeof(keyPart{}))
		}
		n += len(r.nodes) * int(unsafe.Sizeof(source{})+16)
		if r.change != nil {
			n += int(unsafe.Sizeof(*r.change)) + r.change.first.size()
		}
	}
	return n
}

func (t text) size() int {
	n := len(t.params) * int(unsafe.Sizeof(param{}))
	for _, p := range t.parts {
		n += len(p) + 16
	}
	for i := range t.params {
		n += t.params[i].of.size()
	}
	return n
}

func (s *source) size() int {
	n := 32
	for i := range s.items {
		n += int(unsafe.Sizeof(source{})) + len(s.keys)*32 + s.items[i].size()
	}
	return n + len(s.name) + sizeOfValue(s.value)
}

func sizeOfValue(value any) (n int) {
	switch v := value.(type) {
	case string:
		n = len(v)
	case json.Number:
		n = len(v)
	case []any:
		for _, item := range v {
			n += 16 + sizeOfValue(item)
		}
	case map[string]any:
		n = 48
		for key, item := range v {
			n += 64 + len(key) + sizeOfValue(item)
		}
	}
	return n + 16
}

func (o *out) size() int {
	if o == nil {
		return 0
	}
	n := int(unsafe.Sizeof(*o)) + len(o.text) + 8*len(o.types) + o.item.size()
	for i := range o.fields {
		n += int(unsafe.Sizeof(outField{})) + 2*len(o.fields[i].name) + 8 + o.fields[i].out.size()
	}
	if o.extra != nil {
		n += int(unsafe.Sizeof(*o.extra)) + len(o.extra.leaves)*int(unsafe.Sizeof(pgvalue.Out{})) + 9*len(o.extra.wrapped)
	}
	return n
}

// bounded is a variable that says how many rows a list has, and its value when the plan was made: the limits were checked for
// that, and hold for anything less.
type bounded struct {
	by   source
	most int64
}

func (p *plan) noteBounds(vars map[string]any) {
	for i := range p.roots {
		for _, c := range p.roots[i].conns {
			for _, s := range []source{c.first, c.last} {
				if n, given, err := count(s, vars, nil); s.kind == variable && given && err == nil {
					p.bounds = append(p.bounds, bounded{s, n})
				}
			}
		}
	}
}

// allows tells whether the limits that were checked for the plan hold for these variables too. Values that are no counts are the
// field's affair.
func (p *plan) allows(vars map[string]any) bool {
	for _, b := range p.bounds {
		if n, _, _ := count(b.by, vars, nil); n > b.most {
			return false
		}
	}
	return true
}
