package bazel

import (
	"context"

	"github.com/klauspost/compress/zstd"
)

// zstdPool lends encoders, and decoders with their output buffer, GOMAXPROCS of each. A stream borrows one for a chunk or a
// blob, never for its life: a thousand slow readers of compressed blobs hold no encoder at all.
type zstdPool struct {
	enc chan *zstd.Encoder
	dec chan *batchDecoder
}

// batchDecoder decodes one blob of a batch at a time into memory of its own.
type batchDecoder struct {
	dec *zstd.Decoder
	out []byte // kept until the blob is stored
}

// perBatchDecoder is what one takes: the largest blob of a batch, and tables and block buffers.
func perBatchDecoder(maxBatch int64) int64 { return maxBatch + 512*kib }

func newZstdPool(n int, maxBatch int64) (*zstdPool, error) {
	p := &zstdPool{enc: make(chan *zstd.Encoder, n), dec: make(chan *batchDecoder, n)}
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
		p.enc <- e
		p.dec <- &batchDecoder{dec: d}
	}
	return p, nil
}

// encode appends src as one zstd frame to dst.
func (p *zstdPool) encode(ctx context.Context, src, dst []byte) ([]byte, error) {
	select {
	case e := <-p.enc:
		defer func() { p.enc <- e }()
		return e.EncodeAll(src, dst), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// decode gives use the bytes that data decodes to, at most size of them, in memory that is the pool's.
func (p *zstdPool) decode(ctx context.Context, data []byte, size int64, use func([]byte) error) error {
	select {
	case d := <-p.dec:
		defer func() { p.dec <- d }()
		if int64(cap(d.out)) < size {
			d.out = make([]byte, 0, size)
		}
		b, err := d.dec.DecodeAll(data, d.out[:0:size])
		if err != nil {
			return err
		}
		return use(b)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// frameBound is the length of the longest frame of n bytes: raw blocks with headers of three bytes, and the frame's own
// header and checksum, with some to spare.
func frameBound(n int64) int64 { return n + 3*(n/(128*kib)+1) + 64 }

// frameSlack is what a chunk to be encoded leaves free, so that its frame fits into a buffer of the same size.
const frameSlack = 128
