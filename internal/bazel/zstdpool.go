package bazel

import (
	"context"

	"github.com/klauspost/compress/zstd"
)

// zstdPool lends encoders, and decoders for small blobs, a number of each with scratch memory that is the pool's. A
// stream borrows one for a chunk or a blob, never for its life: a thousand slow readers of compressed blobs hold none at
// all. The two are apart because a decoder is held until its blob is stored: a stalled disk must not stop reads.
type zstdPool struct {
	encoders chan *encoder
	decoders chan *decoder
}

type encoder struct {
	*zstd.Encoder
	scratch []byte // a frame of up to maxShrink bytes
}

type decoder struct {
	*zstd.Decoder
	scratch []byte // the largest blob so far
}

// maxShrink is the largest blob of a batch that is compressed for a client: beyond it the scratch memory would be felt,
// and a client has ByteStream.
const maxShrink = 256 * kib

// perProcessor is what an encoder and a decoder take: tables, block buffers, scratch.
func (o *Options) perProcessor() int64 {
	return perEncoder + frameBound(maxShrink) + perBlockDecoder + max(o.MaxBatch, smallBlob)
}

func newZstdPool(n int) (*zstdPool, error) {
	p := &zstdPool{encoders: make(chan *encoder, n), decoders: make(chan *decoder, n)}
	for range n {
		e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest),
			zstd.WithWindowSize(maxReadChunk), zstd.WithLowerEncoderMem(true), zstd.WithSingleSegment(true), zstd.WithZeroFrames(true))
		if err != nil {
			return nil, err
		}
		// The output limit is the capacity of the buffer given, so a frame that says or holds more ends with an error at
		// the block that passes it.
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(maxFrameWindow), zstd.WithDecodeAllCapLimit(true))
		if err != nil {
			return nil, err
		}
		p.encoders <- &encoder{Encoder: e}
		p.decoders <- &decoder{Decoder: d}
	}
	return p, nil
}

// encode appends src as one frame to dst. A large chunk is encoded with a permit of the CPU gate; a small one is done
// before the gate would have decided.
func (p *zstdPool) encode(ctx context.Context, cpu *cpuSlot, src, dst []byte) (out []byte, err error) {
	err = borrow(ctx, p.encoders, func(e *encoder) error {
		out, err = e.encode(cpu, src, dst)
		return err
	})
	return out, err
}

// shrink makes b a frame in place, if that is shorter and b is not too long.
func (p *zstdPool) shrink(ctx context.Context, cpu *cpuSlot, b []byte) (out []byte, shorter bool, err error) {
	if len(b) > maxShrink {
		return b, false, nil
	}
	err = borrow(ctx, p.encoders, func(e *encoder) error {
		e.scratch = room(e.scratch, frameBound(int64(len(b))))
		frame, err := e.encode(cpu, b, e.scratch)
		if shorter = err == nil && len(frame) < len(b); shorter {
			b = b[:copy(b, frame)]
		}
		return err
	})
	return b, shorter, err
}

func (e *encoder) encode(cpu *cpuSlot, src, dst []byte) ([]byte, error) {
	if len(src) >= largeChunk {
		if err := cpu.enter(); err != nil {
			return nil, err
		}
		defer cpu.leave()
	}
	return e.EncodeAll(src, dst), nil
}

const largeChunk = 32 * kib

// decode gives use the bytes that data decodes to, at most size of them, in memory that is the pool's.
func (p *zstdPool) decode(ctx context.Context, data []byte, size int64, use func([]byte) error) error {
	return borrow(ctx, p.decoders, func(d *decoder) error {
		d.scratch = room(d.scratch, size)
		b, err := d.DecodeAll(data, d.scratch[:0:size])
		if err != nil {
			return err
		}
		return use(b)
	})
}

func borrow[T any](ctx context.Context, from chan T, use func(T) error) error {
	select {
	case v := <-from:
		defer func() { from <- v }()
		return use(v)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// room is b, emptied, or a larger one.
func room(b []byte, n int64) []byte {
	if int64(cap(b)) < n {
		return make([]byte, 0, n)
	}
	return b[:0]
}

// frameBound is the length of the longest frame of n bytes: raw blocks with headers of three bytes, and the frame's own
// header and checksum, with some to spare.
func frameBound(n int64) int64 { return n + 3*(n/(128*kib)+1) + 64 }

// frameSlack is what a chunk to be encoded leaves free, so that its frame fits into a buffer of the same size.
const frameSlack = 128
