package pkt

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// parser walks over the packets of a body that is whole, and puts what they say into r. Its strings share the memory of one
// copy of the body: a copy of each object id would be twice as much.
type parser struct {
	r     *Request
	body  string
	at    int // where the next packet begins
	n     int // packets read
	lines int // that may still come

	wide, narrow bool // object ids of 64, of 40 digits were seen
}

func newParser(version int, body []byte, l Limits) (*parser, error) {
	l = l.withDefaults()
	switch {
	case int64(len(body)) > l.Bytes:
		return nil, fmt.Errorf("%w: %d bytes, at most %d are read", ErrTooLarge, len(body), l.Bytes)
	case len(body) == 0:
		return nil, fmt.Errorf("the request is empty; expected pkt-lines")
	}
	p := &parser{body: string(body), lines: l.Lines}
	p.r = &Request{
		Version: version, Body: body, ObjectFormat: "sha1",
		Wants: p.roomFor("want "), Haves: p.roomFor("have "),
	}
	return p, nil
}

// roomFor the object ids that many lines have: growing step by step would leave five times as much behind. Text that only
// looks like such lines gets no more room than the lines would.
func (p *parser) roomFor(name string) []OID {
	const shortest = headerLen + len("want ") + 40
	n := min(strings.Count(p.body, name), len(p.body)/shortest)
	if n == 0 {
		return nil
	}
	return make([]OID, 0, n)
}

// next returns the next packet, a line without its line feed. At the end of the body it is an error: every message ends in a
// packet that says so.
func (p *parser) next() (Kind, string, error) {
	p.n++
	rest := p.body[p.at:]
	if len(rest) < headerLen {
		return 0, "", p.wrong("the body ends here, before the request does: %w", io.ErrUnexpectedEOF)
	}
	kind, n, err := parseHeader(rest)
	switch {
	case err != nil:
		return 0, "", p.wrong("%w", err)
	case len(rest) < headerLen+n:
		return 0, "", p.wrong("%d bytes were promised and %d are there: %w", n, len(rest)-headerLen, io.ErrUnexpectedEOF)
	}
	p.at += headerLen + n
	if kind != Data {
		return kind, "", nil
	}
	if p.lines--; p.lines < 0 {
		return 0, "", p.wrong("%w: no more lines are read", ErrTooLarge)
	}
	line := strings.TrimSuffix(rest[headerLen:headerLen+n], "\n")
	if strings.ContainsAny(line, "\x00\n") {
		return 0, "", p.wrong("a NUL or a line feed within %.80q", line)
	}
	return Data, line, nil
}

// ended tells whether the body is at its end.
func (p *parser) ended() bool { return p.at == len(p.body) }

// wrong is an error about the packet read last.
func (p *parser) wrong(format string, a ...any) error {
	return fmt.Errorf("line %d of the request: "+format, append([]any{p.n}, a...)...)
}

// finish checks what concerns the whole, and sorts it.
func (p *parser) finish() (*Request, error) {
	r := p.r
	switch r.ObjectFormat {
	case "sha1":
		if p.wide {
			return nil, fmt.Errorf("the request has object ids of 64 digits and says no object-format=sha256")
		}
	case "sha256":
		if p.narrow {
			return nil, fmt.Errorf("the request has object ids of 40 digits and says object-format=sha256")
		}
	default:
		return nil, fmt.Errorf("the request's object-format is %.80q; expected sha1 or sha256", r.ObjectFormat)
	}
	if r.Depth > 0 && (r.DeepenSince != "" || len(r.DeepenNot) > 0) {
		return nil, fmt.Errorf("the request has deepen together with deepen-since or deepen-not; git allows one or the other")
	}
	r.Wants, r.Haves, r.Shallows = sorted(r.Wants), sorted(r.Haves), sorted(r.Shallows)
	r.WantRefs, r.DeepenNot, r.RefPrefixes = sorted(r.WantRefs), sorted(r.DeepenNot), sorted(r.RefPrefixes)
	r.Caps = sorted(r.Caps)
	return r, nil
}

// sorted, each once.
func sorted[T ~string](all []T) []T {
	slices.Sort(all)
	return slices.Compact(all)
}

// oid reads the object id of a line "what <oid>".
func (p *parser) oid(what, s string) (OID, error) {
	upper := false
	for i := range len(s) {
		if _, ok := hexDigit(s[i]); !ok {
			return "", p.wrong("%s %.80q; expected an object id in hexadecimal", what, s)
		}
		upper = upper || s[i] < 'a' && s[i] > '9'
	}
	switch len(s) {
	case 40:
		p.narrow = true
	case 64:
		p.wide = true
	default:
		return "", p.wrong("%s %.80q; expected an object id of 40 or 64 digits", what, s)
	}
	if upper {
		s = strings.ToLower(s)
	}
	return OID(s), nil
}

// common takes the lines that a fetch of every version may have: known says whether it was one.
func (p *parser) common(name, arg string) (known bool, err error) {
	r := p.r
	switch name {
	case "shallow":
		return true, p.appendOID(&r.Shallows, name, arg)
	case "deepen":
		return true, p.depth(arg)
	case "deepen-since":
		if _, err := strconv.ParseUint(arg, 10, 63); err != nil || r.DeepenSince != "" {
			return true, p.wrong("deepen-since %.80q; expected it once, with seconds since 1970", arg)
		}
		r.DeepenSince = arg
	case "deepen-not":
		r.DeepenNot = append(r.DeepenNot, arg)
	case "filter":
		if arg == "" || r.Filter != "" {
			return true, p.wrong("filter %.80q; expected one that is not empty", arg)
		}
		r.Filter = arg
	default:
		return false, nil
	}
	return true, nil
}

func (p *parser) appendOID(to *[]OID, name, arg string) error {
	id, err := p.oid(name, arg)
	*to = append(*to, id)
	return err
}

func (p *parser) depth(arg string) error {
	n, err := strconv.ParseInt(arg, 10, 32)
	if err != nil || n < 1 || p.r.Depth > 0 {
		return p.wrong("deepen %.80q; expected it once, with a number from 1 to 2147483647", arg)
	}
	p.r.Depth = int(n)
	return nil
}

// capability takes one of the client's; those that tell who it is are kept apart.
func (p *parser) capability(c string) {
	name, value, _ := strings.Cut(c, "=")
	switch name {
	case "agent":
		p.r.Agent = value
	case "session-id":
	case "object-format":
		p.r.ObjectFormat = value
	default:
		p.r.Caps = append(p.r.Caps, c)
	}
}
