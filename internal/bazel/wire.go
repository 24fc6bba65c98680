package bazel

import (
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
)

// errMalformed is a message that is not the protobuf it should be. Errors of the source are never it.
var errMalformed = errors.New("malformed message")

// errDigest is joined to errMalformed where the form is right and only a digest's value is not.
var errDigest = errors.New("digest")

// fields reads one protobuf message as its bytes arrive, so that a call can be judged, and wait, before most of it was
// received. Nested messages are read in place: enter returns the position where the outer message goes on.
//
// It never holds more than its buffer. What is longer is read through to its destination.
type fields struct {
	src  io.Reader
	left int64 // bytes of the message not yet taken from src
	pos  int64 // of the next byte to parse, from the start of the message
	end  int64 // of the innermost message being read
	buf  []byte
	r, w int // the unparsed bytes in buf
}

// newFields reads a message of n bytes. len(buf) bounds what take can return at once.
func newFields(src io.Reader, n int64, buf []byte) *fields {
	f := &fields{buf: buf}
	f.reset(src, n)
	return f
}

// reset begins another message of n bytes; what the buffer held of the last one is forgotten.
func (f *fields) reset(src io.Reader, n int64) {
	f.src, f.left, f.pos, f.end, f.r, f.w = src, n, 0, n, 0, 0
}

// fill has at least n bytes in the buffer, if the message has as many.
func (f *fields) fill(n int) error {
	if f.w-f.r >= n {
		return nil
	}
	if f.r > 0 {
		copy(f.buf, f.buf[f.r:f.w])
		f.w -= f.r
		f.r = 0
	}
	for f.w < n && f.left > 0 {
		room := min(int64(len(f.buf)-f.w), f.left)
		m, err := f.src.Read(f.buf[f.w : f.w+int(room)])
		f.w += m
		f.left -= int64(m)
		if m == 0 && err != nil {
			return sourceError(err)
		}
	}
	if f.w < n {
		return errMalformed
	}
	return nil
}

// more tells whether the innermost message has another field.
func (f *fields) more() bool { return f.pos < f.end }

// tag reads the next field's.
func (f *fields) tag() (protowire.Number, protowire.Type, error) {
	v, err := f.uvarint()
	if err != nil {
		return 0, 0, err
	}
	num, typ := protowire.DecodeTag(v)
	if num < protowire.MinValidNumber {
		return 0, 0, errMalformed
	}
	return num, typ, nil
}

func (f *fields) uvarint() (uint64, error) {
	most := int(min(10, f.end-f.pos))
	for n := 1; n <= most; n++ {
		if err := f.fill(n); err != nil {
			return 0, err
		}
		if f.buf[f.r+n-1] < 0x80 {
			v, m := protowire.ConsumeVarint(f.buf[f.r : f.r+n])
			if m < 0 {
				return 0, errMalformed
			}
			f.advance(n)
			return v, nil
		}
	}
	return 0, errMalformed
}

func (f *fields) advance(n int) { f.r += n; f.pos += int64(n) }

// length reads the length of a field of bytes, which lies within the innermost message.
func (f *fields) length() (int64, error) {
	v, err := f.uvarint()
	if err != nil {
		return 0, err
	}
	if v > uint64(f.end-f.pos) {
		return 0, errMalformed
	}
	return int64(v), nil
}

// take returns the next n bytes, valid until the next call. n is at most the buffer's length.
func (f *fields) take(n int64) ([]byte, error) {
	if n > int64(len(f.buf)) {
		return nil, errMalformed
	}
	if err := f.fill(int(n)); err != nil {
		return nil, err
	}
	b := f.buf[f.r : f.r+int(n)]
	f.advance(int(n))
	return b, nil
}

// short reads a field of at most most bytes whole. What is longer is an error that names the field.
func (f *fields) short(most int, what string) ([]byte, error) {
	n, err := f.length()
	if err != nil {
		return nil, err
	}
	if n > int64(most) {
		return nil, fmt.Errorf("%w: %s has %d bytes, and at most %d are allowed", errMalformed, what, n, most)
	}
	return f.take(n)
}

// read takes up to len(p) bytes that the caller knows to lie within the field being read.
func (f *fields) read(p []byte) (int, error) {
	if f.r < f.w {
		n := copy(p, f.buf[f.r:f.w])
		f.advance(n)
		return n, nil
	}
	if int64(len(p)) > f.left {
		p = p[:f.left]
	}
	if len(p) == 0 {
		return 0, errMalformed
	}
	n, err := f.src.Read(p)
	f.left -= int64(n)
	f.pos += int64(n)
	if n > 0 {
		return n, nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return 0, sourceError(err)
}

func (f *fields) readFull(p []byte) error {
	for len(p) > 0 {
		n, err := f.read(p)
		if err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// skip passes over the value of a field of the given type. Groups, which REAPI has none of, are malformed.
func (f *fields) skip(typ protowire.Type) (err error) {
	n := int64(0)
	switch typ {
	case protowire.VarintType:
		_, err = f.uvarint()
		return err
	case protowire.Fixed32Type:
		n = 4
	case protowire.Fixed64Type:
		n = 8
	case protowire.BytesType:
		if n, err = f.length(); err != nil {
			return err
		}
	default:
		return errMalformed
	}
	return f.discard(n)
}

func (f *fields) discard(n int64) error {
	if n > f.end-f.pos {
		return errMalformed
	}
	for n > 0 {
		if err := f.fill(1); err != nil {
			return err
		}
		m := min(n, int64(f.w-f.r))
		f.advance(int(m))
		n -= m
	}
	return nil
}

// enter begins the nested message whose length comes next; leave, given what enter returned, ends it.
func (f *fields) enter() (outer int64, err error) {
	n, err := f.length()
	if err != nil {
		return 0, err
	}
	outer, f.end = f.end, f.pos+n
	return outer, nil
}

func (f *fields) leave(outer int64) { f.end = outer }

// want says that a field has the type that its number goes with.
func want(got, typ protowire.Type) error {
	if got != typ {
		return errMalformed
	}
	return nil
}

// sourceError: a source that ends before its message is a client that stopped in the middle.
func sourceError(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// digestField reads a Digest message. The text of an error is for the client and does not repeat "digest".
func (f *fields) digestField() (d digest, err error) {
	outer, err := f.enter()
	if err != nil {
		return d, err
	}
	if n := f.end - f.pos; n >= 66 && n <= 80 { // as everybody writes it
		b, err := f.peek(int(n))
		if err != nil {
			return d, err
		}
		if size, ok := plainDigest(b, &d); ok {
			d.size = size
			f.advance(int(n))
			f.leave(outer)
			return d, nil
		}
	}
	hashed := false
	for f.more() {
		num, typ, err := f.tag()
		switch {
		case err != nil:
		case num == 1 && typ == protowire.BytesType:
			var b []byte
			if b, err = f.short(256, "a hash"); err == nil {
				err = asMalformed(parseHash(&d.hash, b))
			}
			hashed = true
		case num == 2 && typ == protowire.VarintType:
			var v uint64
			v, err = f.uvarint()
			d.size = int64(v)
		case num <= 2:
			err = errMalformed
		default:
			err = f.skip(typ)
		}
		if err != nil {
			return d, err
		}
	}
	f.leave(outer)
	if d.size < 0 {
		return d, asMalformed(errNegativeSize)
	}
	if !hashed {
		return d, asMalformed(errNoDigest)
	}
	return d, nil
}

func (f *fields) peek(n int) ([]byte, error) {
	if n > len(f.buf) {
		return nil, errMalformed
	}
	if err := f.fill(n); err != nil {
		return nil, err
	}
	return f.buf[f.r : f.r+n], nil
}

// plainDigest reads a digest with its two fields in order and nothing else.
func plainDigest(b []byte, d *digest) (size int64, ok bool) {
	if b[0] != 0x0a || b[1] != 64 || parseHash(&d.hash, b[2:66]) != nil {
		return 0, false
	}
	if b = b[66:]; len(b) == 0 {
		return 0, true
	}
	v, n := protowire.ConsumeVarint(b[1:])
	return int64(v), b[0] == 0x10 && n == len(b)-1 && int64(v) >= 0
}

// asMalformed makes the error of a value one of the message, and keeps its text.
func asMalformed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w: %w", errMalformed, errDigest, err)
}
