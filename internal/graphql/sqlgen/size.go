package sqlgen

import "unsafe"

// size is an estimate from above of what a plan keeps, by walking it.
func (p *plan) size() int {
	n := int(unsafe.Sizeof(*p))
	for i := range p.roots {
		r := &p.roots[i]
		n += int(unsafe.Sizeof(*r)) + len(r.key) + r.sql.size() + r.out.size() + r.captured.size() + 64
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
	if text, ok := s.value.(string); ok {
		n += len(text)
	}
	return n
}

func (o *out) size() int {
	if o == nil {
		return 0
	}
	n := int(unsafe.Sizeof(*o)) + len(o.text) + o.item.size()
	for i := range o.fields {
		n += int(unsafe.Sizeof(outField{})) + 2*len(o.fields[i].name) + 8 + o.fields[i].out.size()
	}
	if o.extra != nil {
		n += int(unsafe.Sizeof(*o.extra)) + len(o.extra.leaves)*32
	}
	return n
}

// counts are the sources of all first and last that a request's variables say.
func (p *plan) counts() (out []source) {
	for i := range p.roots {
		for _, c := range p.roots[i].conns {
			for _, s := range []source{c.first, c.last} {
				if s.kind == variable {
					out = append(out, s)
				}
			}
		}
	}
	return out
}
