package storm

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strconv"
	"strings"
)

// What storm speaks of Git's protocol: version 2 over HTTP, one request and one answer at a time (gitprotocol-v2(5)).

const (
	gitFlush = "0000"
	gitDelim = "0001"

	maxPktLine = 65520
	packHeader = "PACK"
)

// gitRequest builds a request.
type gitRequest struct{ bytes.Buffer }

func (r *gitRequest) line(text string) {
	fmt.Fprintf(r, "%04x%s\n", len(text)+5, text)
}

// command begins a request with what clients always say.
func (r *gitRequest) command(name string) {
	r.line("command=" + name)
	r.line("agent=git/levee-storm")
	r.line("object-format=sha1")
	r.WriteString(gitDelim)
}

// lsRefsRequest asks for everything that is advertised.
func lsRefsRequest() []byte {
	var r gitRequest
	r.command("ls-refs")
	for _, line := range []string{"peel", "symrefs", "unborn"} {
		r.line(line)
	}
	r.WriteString(gitFlush)
	return r.Bytes()
}

// gitFetch is one request that ends in a pack.
type gitFetch struct {
	wants, haves []string
	filter       string
}

// request is what Git sends when it needs no further round.
func (f gitFetch) request() []byte {
	var r gitRequest
	r.command("fetch")
	r.line("thin-pack")
	if f.filter != "" {
		r.line("no-progress")
	} else {
		r.line("include-tag")
	}
	r.line("ofs-delta")
	if f.filter != "" {
		r.line("filter " + f.filter)
	}
	for _, oid := range f.wants {
		r.line("want " + oid)
	}
	for _, oid := range f.haves {
		r.line("have " + oid)
	}
	r.line("done")
	r.WriteString(gitFlush)
	return r.Bytes()
}

// gitError is a server's refusal inside an answer whose HTTP status was 200.
type gitError struct {
	where string // "ERR" packet, or "band 3"
	text  string
}

func (e *gitError) Error() string { return e.where + ": " + e.text }

// pktReader reads pkt-lines. What a line claims to be long is read into one buffer of the largest length there is.
type pktReader struct {
	r   *bufio.Reader
	buf [maxPktLine]byte
}

func newPktReader(r io.Reader) *pktReader { return &pktReader{r: bufio.NewReaderSize(r, 64<<10)} }

// special is a pkt-line without a payload.
type special byte

const (
	pktLine special = iota
	pktFlush
	pktDelim
	pktEnd // response end
)

// next returns a payload that is valid until the next call.
func (p *pktReader) next() ([]byte, special, error) {
	head := p.buf[:4]
	if _, err := io.ReadFull(p.r, head); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF // an answer ends with a flush packet
		}
		return nil, pktLine, err
	}
	n, err := strconv.ParseUint(string(head), 16, 16)
	switch {
	case err != nil:
		return nil, pktLine, fmt.Errorf("%q is not the length of a pkt-line", head)
	case n < 3:
		return nil, pktFlush + special(n), nil
	case n < 4 || n > maxPktLine:
		return nil, pktLine, fmt.Errorf("a pkt-line cannot have a length of %d", n)
	}
	payload := p.buf[:n-4]
	if _, err := io.ReadFull(p.r, payload); err != nil {
		return nil, pktLine, io.ErrUnexpectedEOF
	}
	if text, ok := bytes.CutPrefix(payload, []byte("ERR ")); ok {
		return nil, pktLine, &gitError{"ERR packet", strings.TrimSpace(string(text))}
	}
	return payload, pktLine, nil
}

// readRefs reads the answer to ls-refs: its lines, as they came.
func readRefs(r io.Reader) (refs []string, err error) {
	p := newPktReader(r)
	for {
		line, what, err := p.next()
		if err != nil || what == pktFlush {
			return refs, err
		}
		refs = append(refs, strings.TrimSuffix(string(line), "\n"))
	}
}

// readCapabilities reads what a v2 server advertises, with or without the line that names the service.
func readCapabilities(r io.Reader) (all []string, err error) {
	p := newPktReader(r)
	for {
		line, what, err := p.next()
		switch {
		case err != nil:
			return nil, err
		case what == pktFlush && len(all) > 0:
			if all[0] != "version 2" {
				return nil, fmt.Errorf("it answers %q, which is not protocol v2", all[0])
			}
			_, err := io.Copy(io.Discard, p.r) // so that the connection can be used again
			return all[1:], err
		case what == pktLine && !bytes.HasPrefix(line, []byte("# service=")):
			all = append(all, strings.TrimSuffix(string(line), "\n"))
		}
	}
}

// packAnswer is what came of a fetch.
type packAnswer struct {
	bytes    int64    // of the pack
	objects  uint32   // by its header
	trailer  []byte   // its checksum, the same for the same bytes
	progress []string // lines of band 2 that tell of a queue
}

// readPack reads the answer to a fetch to its end. The error is nil if and only if the pack is whole and right. What was read
// until an error is in the answer.
func readPack(r io.Reader) (*packAnswer, error) {
	p, a := newPktReader(r), &packAnswer{}
	if err := skipToPack(p); err != nil {
		return a, err
	}
	check := newPackCheck()
	for {
		line, what, err := p.next()
		if err != nil {
			return a, err
		}
		if what == pktFlush {
			break
		}
		if what != pktLine || len(line) == 0 {
			return a, errors.New("a packet without a side band amid the pack")
		}
		switch band, data := line[0], line[1:]; band {
		case 1:
			a.bytes += int64(len(data))
			check.write(data)
		case 2:
			a.progress = appendNotices(a.progress, string(data))
		case 3:
			return a, &gitError{"band 3", strings.TrimSpace(string(data))}
		default:
			return a, fmt.Errorf("there is no side band %d", band)
		}
	}
	a.objects, a.trailer = check.objects(), check.tail
	return a, check.err()
}

// skipToPack passes over the sections before the pack.
func skipToPack(p *pktReader) error {
	for {
		line, what, err := p.next()
		if err != nil {
			return err
		}
		if what == pktFlush {
			return errors.New("the answer ended without a pack")
		}
		if string(bytes.TrimSuffix(line, []byte("\n"))) == "packfile" {
			return nil
		}
	}
}

// queueNotice is how a server tells that it keeps its client waiting.
const queueNotice = "queued, position"

const maxNotices = 100

func appendNotices(lines []string, text string) []string {
	for line := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '\n' || r == '\r' }) {
		if strings.Contains(line, queueNotice) && len(lines) < maxNotices {
			lines = append(lines, line)
		}
	}
	return lines
}

// packCheck hashes a pack but for its last 20 bytes, which are the hash.
type packCheck struct {
	sum        hash.Hash
	head, tail []byte
}

func newPackCheck() *packCheck { return &packCheck{sum: sha1.New()} }

func (c *packCheck) write(data []byte) {
	if missing := 12 - len(c.head); missing > 0 {
		c.head = append(c.head, data[:min(missing, len(data))]...)
	}
	if len(data) >= sha1.Size {
		c.sum.Write(c.tail)
		c.sum.Write(data[:len(data)-sha1.Size])
		c.tail = append(c.tail[:0], data[len(data)-sha1.Size:]...)
		return
	}
	c.tail = append(c.tail, data...)
	if over := len(c.tail) - sha1.Size; over > 0 {
		c.sum.Write(c.tail[:over])
		c.tail = slices.Delete(c.tail, 0, over)
	}
}

func (c *packCheck) objects() uint32 {
	if len(c.head) < 12 {
		return 0
	}
	return uint32(c.head[8])<<24 | uint32(c.head[9])<<16 | uint32(c.head[10])<<8 | uint32(c.head[11])
}

func (c *packCheck) err() error {
	switch {
	case len(c.head) < 12 || string(c.head[:4]) != packHeader:
		return errors.New("what came is no pack")
	case !bytes.Equal(c.sum.Sum(nil), c.tail):
		return errors.New("the pack's bytes do not have the checksum at its end")
	}
	return nil
}
