package bazel

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/leveehq/levee/gate"
)

const (
	// maxFrameWindow is the largest window that a decoder is opened for. It is what zstd asks every decoder to support
	// (RFC 8878, 3.1.1.1.2), and what its level 19 uses.
	maxFrameWindow = 8 * mib

	// freeWindow is granted whatever the first frame says, so that later frames of an upload may differ a little.
	freeWindow = mib
)

// zstdUpload is a compressed upload whose first frame header was read, and nothing after it.
type zstdUpload struct {
	src    io.Reader // all of the data, the header again included
	window int64     // what frames may ask for
	cost   int64     // of the permit
}

// openZstd judges a compressed upload by its first frame header. It returns nil for an identity upload.
func (s *Service) openZstd(u *uploadStream) (*zstdUpload, error) {
	if !u.res.zstd {
		return nil, nil
	}
	if u.offset != 0 {
		return nil, status.Errorf(codes.InvalidArgument, "write_offset is %d, and compressed uploads cannot be resumed: begin at 0", u.offset)
	}
	head := make([]byte, zstd.HeaderMaxSize)
	n, err := readUntilFull(u, head)
	if err != nil && err != io.EOF {
		return nil, err
	}
	head = head[:n]
	window, err := frameWindow(head, u.res.size)
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "blob %v: %v", u.res.digest, err)
	}
	z := &zstdUpload{src: io.MultiReader(bytes.NewReader(head), u), window: window, cost: s.opt.compressedCost(window)}
	if u.res.size <= smallBlob {
		z.cost = s.opt.smallCompressedCost(u.res.size)
	}
	return z, nil
}

// smallBlob is decoded whole. A client that streams does not tell zstd how long its data is, and gets frames with windows of
// 2 MiB for a few bytes; a decoder of its own for each would have few of them stored at a time.
const smallBlob = 128 * kib

// smallCompressed bounds the compressed form of a small blob: its longest frame, and some that hold nothing.
func smallCompressed(size int64) int64 { return frameBound(size) + kib }

// writeSmallZstd stores a blob that is decoded whole, in the memory of a decoder of the pool.
func (s *Service) writeSmallZstd(c *call, u *uploadStream, z *zstdUpload) error {
	buf := make([]byte, smallCompressed(u.res.size)+1)
	n, err := readUntilFull(z.src, buf)
	if err != nil && err != io.EOF {
		return err
	}
	if n == len(buf) {
		return status.Errorf(codes.InvalidArgument, "blob %v: more than %d bytes of zstd data come for it", u.res.digest, n-1)
	}
	if err := u.afterFinish(); err != nil {
		return err
	}
	return s.storeCompressed(c, u.res.digest, buf[:n])
}

// storeCompressed stores a small blob, given in zstd frames.
func (s *Service) storeCompressed(c *call, d digest, frames []byte) error {
	var stored error
	err := s.zstd.decode(c.ctx(), frames, d.size, func(data []byte) error {
		if int64(len(data)) != d.size {
			return fmt.Errorf("the data decodes to %d bytes", len(data))
		}
		stored = s.storeBytes(c, d, data)
		return nil
	})
	switch {
	case err == nil:
		return stored
	case c.ctx().Err() != nil:
		return err
	case errors.Is(err, zstd.ErrDecoderSizeExceeded):
		err = errTooMuch
	case errors.Is(err, io.ErrUnexpectedEOF):
		err = errCutShort
	}
	return status.Errorf(codes.InvalidArgument, "blob %v: %v", d, err)
}

// frameWindow is the window to pay for, given the first bytes of a blob of the given size.
func frameWindow(head []byte, size int64) (int64, error) {
	var h zstd.Header
	if err := h.Decode(head); err != nil {
		return 0, errors.New("the data is not a zstd frame")
	}
	if h.Skippable {
		return maxFrameWindow, nil // the frame that matters is still to come
	}
	if h.DictionaryID != 0 {
		return 0, errors.New("the zstd frame needs a dictionary, and none is known here")
	}
	if h.HasFCS && h.FrameContentSize > uint64(size) {
		return 0, errTooMuch
	}
	window := h.WindowSize
	if h.SingleSegment {
		window = h.FrameContentSize
	}
	if window > maxFrameWindow {
		return 0, errWindow
	}
	return max(int64(window), min(freeWindow, max(size, zstd.MinWindowSize))), nil
}

var (
	errWindow  = errors.New("the zstd frame asks for a window of more than 8 MiB: compress with a window log of 23 or less")
	errTooMuch = errors.New("the data decodes to more bytes than its digest says")

	errCutShort = errors.New("the zstd data is cut short")
)

// writeZstd decodes an upload into the store. It stops at the first block that passes the declared size, however much
// more the frames would unfold into. What it decoded is not kept if the stream breaks: a compressed stream cannot be
// entered in the middle.
func (s *Service) writeZstd(c *call, u *uploadStream, z *zstdUpload) error {
	up, err := s.store.Create(c.ctx(), u.res.key(), u.res.size, 0)
	if err != nil {
		return s.writeError(u.res.digest, err)
	}
	defer up.Abort()
	cpu := cpuSlot{c: c}
	defer cpu.leave()
	dec, err := newStreamDecoder(cpu.around(z.src), z.window)
	if err != nil {
		return s.zstdError(u, err)
	}
	defer dec.Close()
	if err := decodeInto(up, dec, u.res.size, &cpu); err != nil {
		if w := (storeError{}); errors.As(err, &w) {
			return s.writeError(u.res.digest, w.error)
		}
		return s.zstdError(u, err)
	}
	if err := u.afterFinish(); err != nil {
		return err
	}
	if err := up.Commit(c.ctx()); err != nil {
		return s.writeError(u.res.digest, err)
	}
	return nil
}

// newStreamDecoder decodes frames of up to the given window, in the goroutine that reads from it.
func newStreamDecoder(src io.Reader, window int64) (*zstd.Decoder, error) {
	return zstd.NewReader(src, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(uint64(window)))
}

// decodeInto writes what dec yields to w, and stops at the first block that passes size. Errors of w are a storeError.
func decodeInto(w io.Writer, dec io.Reader, size int64, cpu *cpuSlot) error {
	buf := getBuffer(copyBuffer)
	defer putBuffer(buf)
	for at := int64(0); ; {
		if err := cpu.enter(); err != nil {
			return err
		}
		n, err := readUntilFull(dec, (*buf)[:min(copyBuffer, size-at+1)])
		cpu.leave()
		if at += int64(n); at > size {
			return errTooMuch
		}
		if n > 0 {
			if _, err := w.Write((*buf)[:n]); err != nil {
				return storeError{err}
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

type storeError struct{ error }

// zstdError tells a broken stream from broken data.
func (s *Service) zstdError(u *uploadStream, err error) error {
	switch {
	case u.err != nil && u.err != io.EOF:
		return u.err
	case errors.Is(err, errNoCPU):
		return err
	case errors.Is(err, zstd.ErrWindowSizeExceeded):
		err = errors.New("a later zstd frame asks for a larger window than the first one: compress as one frame")
	case errors.Is(err, io.ErrUnexpectedEOF):
		err = errCutShort
	}
	return status.Errorf(codes.InvalidArgument, "blob %v: %v", u.res.digest, err)
}

// errNoCPU is how waiting for the processor ends other than by getting it.
var errNoCPU = status.Error(codes.Unavailable, "the server found no processor time for this call: try again later")

// cpuSlot holds a permit of the CPU gate while its owner computes, and gives it up for every read and write: one held
// across a stalled disk or client would let that stop everybody's computing.
type cpuSlot struct {
	c *call
	p *gate.Permit
}

func (s *cpuSlot) enter() error {
	if s.p != nil || s.c == nil { // nil: nobody to share with
		return nil
	}
	p, err := s.c.s.gates.cpu.Admit(s.c.ctx(), s.c.key(), 1)
	if errors.Is(err, gate.ErrShed) {
		return errNoCPU
	}
	s.p = p
	return err
}

func (s *cpuSlot) leave() {
	s.p.Release()
	s.p = nil
}

// around returns a reader of src that gives the slot up while it waits for data.
func (s *cpuSlot) around(src io.Reader) io.Reader { return &slotReader{slot: s, src: src} }

type slotReader struct {
	slot *cpuSlot
	src  io.Reader
	buf  [8 * kib]byte // the decoder reads headers of three bytes
	r, w int
}

func (r *slotReader) Read(p []byte) (int, error) {
	if r.r == r.w {
		r.slot.leave()
		n, err := r.src.Read(r.buf[:])
		if n == 0 && err != nil {
			return 0, err
		}
		r.r, r.w = 0, n
		if err := r.slot.enter(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.buf[r.r:r.w])
	r.r += n
	return n, nil
}
