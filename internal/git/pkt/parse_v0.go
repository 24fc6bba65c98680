package pkt

import (
	"strings"
)

// ParseV0 reads what follows a v0 or v1 advertisement: wants with capabilities, shallows, depth, haves, done. Several rounds
// of haves may follow each other, with flush packets between. An error says which line is wrong and what was expected.
func ParseV0(version int, body []byte, l Limits) (*Request, error) {
	p, err := newParser(version, body, l)
	if err != nil {
		return nil, err
	}
	if err := p.wantsV0(); err != nil {
		return nil, err
	}
	if p.r.Command != "" {
		err = p.havesV0()
	}
	switch {
	case err != nil:
		return nil, err
	case !p.ended():
		p.n++
		return nil, p.wrong("%d more bytes behind the end of the request", len(p.body)-p.at)
	}
	if p.wide && !p.narrow { // git says the format in v2 alone
		p.r.ObjectFormat = "sha256"
	}
	return p.finish()
}

// wantsV0 reads to the flush packet before the haves.
func (p *parser) wantsV0() error {
	for {
		kind, line, err := p.next()
		switch {
		case err != nil:
			return err
		case kind == Flush && p.n == 1:
			return nil // the probe
		case kind == Flush && len(p.r.Wants) == 0:
			return p.wrong("%v; expected a line want … before it", kind)
		case kind == Flush:
			p.r.Command = "fetch"
			return nil
		case kind != Data:
			return p.wrong("%v; protocol v%d has none", kind, p.r.Version)
		}
		name, arg, _ := strings.Cut(line, " ")
		if name == "want" {
			err = p.wantV0(arg)
		} else if known, problem := p.common(name, arg); known {
			err = problem
		} else {
			err = p.wrong("%.80q; expected want, shallow, deepen, deepen-since, deepen-not, filter or a flush packet", line)
		}
		if err != nil {
			return err
		}
	}
}

// wantV0 reads a want; the first has the client's capabilities behind it.
func (p *parser) wantV0(arg string) error {
	id, caps, _ := strings.Cut(arg, " ")
	if caps != "" && len(p.r.Wants) > 0 {
		return p.wrong("capabilities %.80q; they belong to the first want", caps)
	}
	for c := range strings.FieldsSeq(caps) {
		p.capability(c)
		if c == "deepen-relative" {
			p.r.DeepenRelative = true
		}
	}
	return p.appendOID(&p.r.Wants, "want", id)
}

// havesV0 reads to done or to the end. A first POST of a shallow clone has none of it.
func (p *parser) havesV0() error {
	from, rounds, to := p.at, 0, p.at
	for !p.ended() {
		kind, line, err := p.next()
		name, arg, _ := strings.Cut(line, " ")
		switch {
		case err != nil:
			return err
		case kind == Flush && p.r.Done: // some clients end in one
		case kind == Flush:
			rounds++
		case kind != Data:
			return p.wrong("%v; protocol v%d has none", kind, p.r.Version)
		case p.r.Done:
			return p.wrong("%.80q after done; expected nothing", line)
		case name == "have":
			err = p.appendOID(&p.r.Haves, name, arg)
		case line == "done":
			p.r.Done = true
		default:
			err = p.wrong("%.80q; expected have, done or a flush packet", line)
		}
		if err != nil {
			return err
		}
		if kind == Data {
			to = p.at
		}
	}
	if rounds > 1 {
		p.r.rest = p.body[from:to]
	}
	return nil
}
