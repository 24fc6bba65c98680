package pkt

import (
	"strings"
)

// ParseV2 reads a v2 request. An error says which line is wrong and what was expected.
func ParseV2(body []byte, l Limits) (*Request, error) {
	p, err := newParser(2, body, l)
	if err != nil {
		return nil, err
	}
	end, err := p.capabilitiesV2()
	if err == nil && end == Delim {
		err = p.argumentsV2()
	}
	switch {
	case err != nil:
		return nil, err
	case !p.ended():
		p.n++
		return nil, p.wrong("%d more bytes behind the flush packet that ends the request", len(p.body)-p.at)
	}
	return p.finish()
}

// capabilitiesV2 reads the lines before the arguments, and returns the packet that ends them.
func (p *parser) capabilitiesV2() (end Kind, err error) {
	for {
		kind, line, err := p.next()
		switch {
		case err != nil:
			return 0, err
		case kind == Flush && p.n == 1:
			return Flush, nil // the probe
		case kind == ResponseEnd:
			return 0, p.wrong("%v; expected a command or a capability", kind)
		case kind != Data && p.r.Command == "":
			return 0, p.wrong("%v; expected a line command=… before it", kind)
		case kind != Data:
			return kind, nil
		}
		name, value, _ := strings.Cut(line, "=")
		switch name {
		case "command":
			err = p.command(value)
		case "agent", "session-id", "object-format", "server-option":
			p.capability(line)
		default:
			err = p.wrong("capability %.80q is not known; expected agent, object-format, session-id or server-option", line)
		}
		if err != nil {
			return 0, err
		}
	}
}

func (p *parser) command(name string) error {
	if p.r.Command != "" {
		return p.wrong("command %.80q after %s; expected one command", name, p.r.Command)
	}
	switch name {
	case "ls-refs", "fetch", "object-info", "bundle-uri":
		p.r.Command = name
		return nil
	}
	return p.wrong("command %.80q is not known; expected ls-refs, fetch, object-info or bundle-uri", name)
}

// argumentsV2 reads to the flush packet that ends them.
func (p *parser) argumentsV2() error {
	argument := p.fetchArgument
	from := p.at
	switch p.r.Command {
	case "ls-refs":
		argument = p.lsRefsArgument
	case "object-info", "bundle-uri": // not taken apart: nothing here depends on them
		argument = func(string) error { return nil }
		defer func() { p.r.rest = p.body[from:p.at] }()
	}
	for {
		kind, line, err := p.next()
		switch {
		case err != nil:
			return err
		case kind == Flush:
			return nil
		case kind != Data:
			return p.wrong("%v; expected an argument of %s, or a flush packet", kind, p.r.Command)
		}
		if err := argument(line); err != nil {
			return err
		}
	}
}

func (p *parser) lsRefsArgument(line string) error {
	r := p.r
	switch name, arg, _ := strings.Cut(line, " "); {
	case name == "ref-prefix":
		r.RefPrefixes = append(r.RefPrefixes, arg)
	case line == "peel":
		r.Peel = true
	case line == "symrefs":
		r.Symrefs = true
	case line == "unborn":
		r.Unborn = true
	default:
		return p.wrong("%.80q is no argument of ls-refs; expected peel, symrefs, unborn or ref-prefix", line)
	}
	return nil
}

func (p *parser) fetchArgument(line string) error {
	r := p.r
	switch line {
	case "done":
		r.Done = true
		return nil
	case "wait-for-done":
		r.WaitForDone = true
		return nil
	case "deepen-relative":
		r.DeepenRelative = true
		return nil
	case "thin-pack", "ofs-delta", "include-tag", "no-progress", "sideband-all":
		r.Caps = append(r.Caps, line)
		return nil
	}
	name, arg, _ := strings.Cut(line, " ")
	switch name {
	case "want":
		return p.appendOID(&r.Wants, name, arg)
	case "have":
		return p.appendOID(&r.Haves, name, arg)
	case "want-ref":
		r.WantRefs = append(r.WantRefs, arg)
		return nil
	case "packfile-uris":
		r.Caps = append(r.Caps, name+"="+arg)
		return nil
	}
	if known, err := p.common(name, arg); known {
		return err
	}
	return p.wrong("%.80q is no argument of fetch; expected want, have, done, shallow, deepen, filter or another of gitprotocol-v2(5)", line)
}
