package pkt

import (
	"io"
)

// readerSize holds the largest packet.
const readerSize = 64 << 10

// Reader takes packets from a stream. It holds 64 KiB, whatever comes.
type Reader struct {
	src        io.Reader
	buf        []byte
	start, end int // what was read and not yet given out
}

// NewReader reads ahead from src.
func NewReader(src io.Reader) *Reader { return &Reader{src: src} }

// Next returns the next packet; its payload, with the line feed that it may end in, stays good until the next call. The
// error is io.EOF between two packets, io.ErrUnexpectedEOF within one, wraps ErrMalformed, or is the source's own.
func (r *Reader) Next() (Kind, []byte, error) {
	if err := r.fill(headerLen); err != nil {
		return 0, nil, err
	}
	kind, n, err := parseHeader(r.buf[r.start:r.end])
	if err != nil {
		return 0, nil, err
	}
	if err := r.fill(headerLen + n); err != nil {
		return 0, nil, err
	}
	payload := r.buf[r.start+headerLen : r.start+headerLen+n : r.start+headerLen+n]
	r.start += headerLen + n
	return kind, payload, nil
}

// fill has at least n bytes in the buffer, n no more than a packet.
func (r *Reader) fill(n int) error {
	if r.end-r.start >= n {
		return nil
	}
	if r.buf == nil {
		r.buf = make([]byte, readerSize)
	}
	if r.start+n > len(r.buf) || r.start == r.end {
		r.end = copy(r.buf, r.buf[r.start:r.end])
		r.start = 0
	}
	had := r.end - r.start
	m, err := io.ReadAtLeast(r.src, r.buf[r.end:], n-had)
	r.end += m
	switch {
	case err == io.EOF && (had > 0 || n > headerLen):
		return io.ErrUnexpectedEOF
	default:
		return err
	}
}
