package bazel

import (
	"io"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
)

// Fields of google.bytestream.WriteRequest.
const (
	writeName   = 1
	writeOffset = 2
	writeFinish = 3
	writeData   = 10
)

// uploadStream is the data of one ByteStream.Write call: a reader across its messages that checks, on the way, what the
// protocol says about their other fields. It holds one small buffer; the data goes straight to the reader's.
type uploadStream struct {
	c   *call
	res resource

	f      *fields
	name   string // as the first message has it
	offset int64  // of the next byte of data, as the client counts
	begun  int64  // offset at the start of the current message
	data   int64  // bytes of the current data field still to come
	first  bool   // still in the first message
	sawAny bool   // data of the current message was seen
	finish bool   // finish_write was seen
	err    error  // the first error, io.EOF included

	window int // granted so far
	most   int // what the permit covers; 0 before there is one

	moved    int64         // bytes of data since the last minProgress of them was complete
	waited   time.Duration // for the client, since then
	deadline time.Time
}

// newUploadStream reads the call up to the first byte of its data.
func newUploadStream(c *call) (*uploadStream, error) {
	u := &uploadStream{c: c, first: true, window: c.s.opt.doorWindow()}
	u.f = newFields(c.st, 0, make([]byte, maxName))
	c.st.SetReadDeadline(time.Now().Add(c.s.opt.MessageWait)) // as short as a unary call's, until there is an upload
	if err := u.nextMessage(); err != nil {
		if err == io.EOF {
			return nil, status.Error(codes.InvalidArgument, "the stream carries no message")
		}
		return nil, err
	}
	for u.data == 0 && u.f.more() {
		if err := u.field(); err != nil {
			return nil, messageError(err)
		}
	}
	if u.name == "" {
		return nil, status.Error(codes.InvalidArgument, "the first message lacks resource_name")
	}
	return u, nil
}

// Read returns data until finish_write or the client's half-close, both io.EOF.
func (u *uploadStream) Read(p []byte) (int, error) {
	if u.err != nil {
		return 0, u.err
	}
	began := u.arm()
	for u.data == 0 {
		if err := u.advance(); err != nil {
			u.err = err
			return 0, err
		}
	}
	p = p[:min(int64(len(p)), u.data)]
	n, err := u.f.read(p)
	if n < len(p) {
		u.grow()
	}
	u.data -= int64(n)
	u.offset += int64(n)
	u.c.bytes += int64(n)
	u.progress(int64(n), time.Since(began))
	if err != nil {
		u.err = messageError(err)
	}
	return n, u.err
}

// advance goes one step towards the next byte of data.
func (u *uploadStream) advance() error {
	if u.f.more() {
		if err := u.field(); err != nil {
			return messageError(err)
		}
		return nil
	}
	if u.finish {
		return io.EOF
	}
	u.first = false
	return u.nextMessage()
}

func (u *uploadStream) nextMessage() error {
	n, err := u.c.st.NextMessage()
	if err != nil {
		return err
	}
	u.f.reset(u.c.st, n)
	u.begun, u.sawAny = u.offset, false
	return nil
}

func (u *uploadStream) field() error {
	num, typ, err := u.f.tag()
	if err != nil {
		return err
	}
	switch num {
	case writeName:
		return u.nameField(typ)
	case writeOffset:
		return u.offsetField(typ)
	case writeFinish:
		v, err := u.f.varintField(typ)
		u.finish = u.finish || v != 0
		return err
	case writeData:
		if err := want(typ, protowire.BytesType); err != nil {
			return err
		}
		if u.name == "" {
			// Legal protobuf, but the bytes could not be judged before they are received.
			return status.Error(codes.InvalidArgument, "the first message has data before resource_name: send the fields in the order of their numbers")
		}
		u.data, err = u.f.length()
		u.sawAny = u.sawAny || u.data > 0
		return err
	}
	return u.f.skip(typ)
}

func (u *uploadStream) nameField(typ protowire.Type) error {
	if err := want(typ, protowire.BytesType); err != nil {
		return err
	}
	b, err := u.f.short(maxName, "resource_name")
	if err != nil || len(b) == 0 {
		return err
	}
	if u.name == "" && u.first {
		u.name = string(b)
		u.res, err = parseWrite(u.name)
		return invalid(err)
	}
	if u.name != string(b) {
		return status.Errorf(codes.InvalidArgument, "resource_name changed within the call, from %q to %q", clip(u.name), clip(string(b)))
	}
	return nil
}

// offsetField checks write_offset. REAPI's rule for compressed uploads adds an uncompressed offset to compressed lengths;
// since clients differ in how they read it, and nothing depends on it, it is not enforced after the first message.
func (u *uploadStream) offsetField(typ protowire.Type) error {
	v, err := u.f.varintField(typ)
	if err != nil {
		return err
	}
	n := int64(v)
	switch {
	case n < 0:
		return status.Errorf(codes.InvalidArgument, "write_offset %d is negative", n)
	case u.first && !u.sawAny:
		u.offset, u.begun = n, n
	case n != u.begun && !u.res.zstd:
		return status.Errorf(codes.InvalidArgument, "write_offset is %d, and the data before it ends at %d", n, u.begun)
	}
	return nil
}

// grow lets more arrive, now that a read has emptied the window: it was the client or the line that we waited for. A call
// that the disk or the processor holds up finds its window full, and does not grow, so that what lies in windows stays far
// below what the permits allow.
func (u *uploadStream) grow() {
	if u.window < u.most {
		u.window = min(4*u.window, u.most) // a round trip for each step
		u.c.st.GrowWindow(u.window)
	}
}

// arm sets the deadline of a read: what is left of the stall time after the waiting that has brought too little so far. The
// time between two reads, which the store and the processor take, is not the client's. The deadline is moved at most once a
// second: a timer per chunk would be felt.
func (u *uploadStream) arm() (now time.Time) {
	now = time.Now()
	stall := u.c.s.opt.ReadStall
	if d := now.Add(stall - u.waited); d.Sub(u.deadline) > min(time.Second, stall/8) {
		u.deadline = d
		u.c.st.SetReadDeadline(d)
	}
	return now
}

// progress forgets the waiting once enough has come of it. Messages without data and single bytes do not: they would hold a
// permit for years.
func (u *uploadStream) progress(n int64, waited time.Duration) {
	u.moved += n
	u.waited += waited
	if u.moved >= minProgress {
		u.moved, u.waited = 0, 0
	}
}

// afterFinish finds messages that follow finish_write, which is an error (bytestream.proto). A client's half-close comes
// with its last message; one that half-closes only after our answer is given a moment, not an error.
func (u *uploadStream) afterFinish() error {
	if !u.finish {
		return nil
	}
	u.c.st.SetReadDeadline(time.Now().Add(afterFinishWait))
	if _, err := u.c.st.NextMessage(); err == nil {
		return status.Error(codes.InvalidArgument, "a message follows the one with finish_write")
	}
	return nil
}

const afterFinishWait = 100 * time.Millisecond

// varintField reads the value of a field that must be a varint.
func (f *fields) varintField(typ protowire.Type) (uint64, error) {
	if err := want(typ, protowire.VarintType); err != nil {
		return 0, err
	}
	return f.uvarint()
}
