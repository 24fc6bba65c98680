package pkt

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// maxLine of progress or of an error that is passed on; what is longer comes in pieces, or is cut.
const maxLine = 1000

// Demuxer takes a side-band apart. Its Read returns the pack, and io.EOF at the flush packet behind it and nowhere else: the
// pack is whole if and only if that is how it ends. Band 3 ends it with a *RemoteError.
type Demuxer struct {
	packets  *Reader
	progress func(line string)
	pack     []byte // of the packet last read
	text     []byte // of band 2, a line that is not yet whole
	err      error
}

// NewDemuxer reads the packets that follow. progress, unless it is nil, gets each line of band 2, without what ends it and
// without control characters, on the goroutine that reads.
func NewDemuxer(packets *Reader, progress func(line string)) *Demuxer {
	if progress == nil {
		progress = func(string) {}
	}
	return &Demuxer{packets: packets, progress: progress}
}

// Read returns what is there, at most one packet's.
func (d *Demuxer) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	d.advance()
	n := copy(p, d.pack)
	d.pack = d.pack[n:]
	if n == 0 {
		return 0, d.err
	}
	return n, nil
}

// WriteTo writes the pack to w, one Write for each packet.
func (d *Demuxer) WriteTo(w io.Writer) (total int64, err error) {
	for d.advance(); len(d.pack) > 0; d.advance() {
		n, err := w.Write(d.pack)
		total += int64(n)
		if err != nil {
			return total, err
		}
		d.pack = nil
	}
	if d.err == io.EOF {
		return total, nil
	}
	return total, d.err
}

// advance has bytes of the pack, or an error.
func (d *Demuxer) advance() {
	for len(d.pack) == 0 && d.err == nil {
		d.pack, d.err = d.next()
		if d.err != nil && len(d.text) > 0 {
			d.tell(d.text)
			d.text = nil
		}
	}
}

// next is what the next packet has of the pack.
func (d *Demuxer) next() ([]byte, error) {
	kind, p, err := d.packets.Next()
	switch {
	case err == io.EOF:
		return nil, io.ErrUnexpectedEOF
	case err != nil:
		return nil, err
	case kind == Flush:
		return nil, io.EOF
	case kind != Data:
		return nil, fmt.Errorf("%w: %v within a side-band", ErrMalformed, kind)
	case len(p) == 0:
		return nil, fmt.Errorf("%w: a side-band's packet without a band", ErrMalformed)
	}
	switch p[0] {
	case bandData:
		return p[1:], nil
	case bandProgress:
		d.listen(p[1:])
		return nil, nil
	case bandError:
		return nil, &RemoteError{Text: printable(p[1:])}
	}
	return nil, fmt.Errorf("%w: %d is no band", ErrMalformed, p[0])
}

// listen cuts band 2 into lines: a packet may have several, or a part of one.
func (d *Demuxer) listen(p []byte) {
	for _, c := range p {
		ends := c == '\n' || c == '\r'
		if !ends {
			d.text = append(d.text, c)
		}
		if len(d.text) > 0 && (ends || len(d.text) == maxLine) {
			d.tell(d.text)
			d.text = d.text[:0]
		}
	}
}

func (d *Demuxer) tell(line []byte) {
	if s := printable(line); s != "" {
		d.progress(s)
	}
}

// printable is fit for a log and a terminal that did not ask for it: other people's control characters are spaces.
func printable(text []byte) string {
	text = text[:min(len(text), maxLine)]
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' || r == utf8.RuneError || 0x7f <= r && r < 0xa0 {
			return ' '
		}
		return r
	}, string(text)))
}
