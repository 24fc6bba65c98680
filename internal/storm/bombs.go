package storm

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"
	bspb "google.golang.org/genproto/googleapis/bytestream"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A bomb decodes to far more than it says, or asks the decoder for far more memory than it needs.
const (
	bombContent = 1 << 30
	bombAtOnce  = 50

	// "abcdefg": the bombs are sent under the name of these seven bytes.
	bombHash = "7d1a54127b222502f5b79b5fb0803061152a44f92b37e23c6527baf665d4da9a"
	bombSize = 7
)

// wideFrame is a zstd frame (RFC 8878, 3.1.1.1) whose window descriptor asks for 2 GiB, and an empty last block.
var wideFrame = []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 21 << 3, 0x01, 0x00, 0x00}

// zstdBombs: compressed uploads of a gibibyte of zeros under the name of a blob of seven bytes, and frames that ask
// for a window of two gibibytes. Both must be found wrong at once, and neither may be retried.
func zstdBombs(ctx context.Context, r *run) ([]*tally, error) {
	t := r.tally("bombs")
	p, err := dialPool(r.o.Target, r.o.Connections, "")
	if err != nil {
		return nil, err
	}
	defer p.Close()
	bomb, err := theBomb()
	if err != nil {
		return nil, err
	}
	t.note(fmt.Sprintf("%d bombs of %d bytes at once", bombAtOnce, len(bomb)))
	var wg sync.WaitGroup
	for i := range bombAtOnce {
		wg.Go(func() {
			c := r.client(p, i, t)
			for n := 0; n < r.o.BlobsPerWriter && r.offer.Err() == nil; n++ {
				c.sendBomb(ctx, bomb)
				c.sendBomb(ctx, wideFrame)
			}
		})
	}
	wg.Wait()
	return []*tally{t}, ctx.Err()
}

// theBomb is made once, and before the time that a scenario has begins to run.
var theBomb = sync.OnceValues(makeBomb)

// makeBomb compresses zeros as well as the library can: some 33 kB for 1 GiB.
func makeBomb() ([]byte, error) {
	var out bytes.Buffer
	enc, err := zstd.NewWriter(&out, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	if _, err := io.CopyN(enc, zeros{}, bombContent); err != nil {
		return nil, err
	}
	if err := enc.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func (c *client) sendBomb(ctx context.Context, body []byte) {
	c.tally.offered.Add(1)
	c.tally.open.Add(1)
	defer c.tally.open.Add(-1)
	ctx, cancel := context.WithTimeout(ctx, c.o.CallTimeout)
	defer cancel()
	stream, err := bspb.NewByteStreamClient(c.conn).Write(ctx)
	if err != nil {
		c.tally.answer(err)
		return
	}
	name := fmt.Sprintf("%suploads/%s/compressed-blobs/zstd/%s/%d", instancePrefix(c.o.Instance), newUUID(), bombHash, bombSize)
	for off := 0; off < len(body); {
		part := body[off:min(off+int(c.o.MessageSize), len(body))]
		req := &bspb.WriteRequest{WriteOffset: int64(off), Data: part, FinishWrite: off+len(part) == len(body)}
		if off == 0 {
			req.ResourceName = name
		}
		if stream.Send(req) != nil {
			break // CloseAndRecv says why
		}
		off += len(part)
	}
	_, err = stream.CloseAndRecv()
	if err == nil {
		c.tally.breaks("a bomb was acknowledged (or the seven bytes whose name it bears are stored already: use an empty store)")
		return
	}
	c.tally.answer(err)
	if !isShed(err) && status.Code(err) != codes.InvalidArgument {
		c.tally.breaks(fmt.Sprintf("a bomb was answered %s instead of INVALID_ARGUMENT: %s", codeName(status.Code(err)), status.Convert(err).Message()))
	}
}
