package bazel

import (
	"errors"
	"io"

	"google.golang.org/genproto/googleapis/bytestream"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/leveehq/levee/internal/blobstore"
	"github.com/leveehq/levee/internal/shedcode"
)

// read serves ByteStream.Read.
//
//   - A chunk is fetched only when the client can take it, and only as much of it: SendReady waits and holds nothing.
//   - A permit covers one chunk on its way from the disk to the socket, so a slow reader holds none between chunks.
//   - A compressed chunk is a frame of its own. The client sees frames one after the other, which zstd decodes as one.
func (s *Service) read(c *call) error {
	var req bytestream.ReadRequest
	if err := c.small(&req); err != nil {
		return err
	}
	r, err := parseRead(req.ResourceName)
	if err != nil {
		return invalid(err)
	}
	if err := c.setInstance(r.instance); err != nil {
		return err
	}
	off, n, err := readRange(r, req.ReadOffset, req.ReadLimit)
	if err != nil {
		return err
	}
	if r.empty() {
		return s.sendEmpty(c, r.zstd)
	}
	blob, err := s.openBlob(c, r.digest)
	if err != nil {
		return err
	}
	defer blob.Close()
	for n > 0 {
		sent, err := s.sendChunk(c, blob, r, off, n)
		if err != nil {
			return err
		}
		off, n = off+sent, n-sent
	}
	if r.zstd && off == r.size && req.ReadOffset == r.size {
		return s.sendEmpty(c, true)
	}
	return nil
}

// readRange is what to send. bytestream.proto: an offset past the end or negative is OUT_OF_RANGE, a negative limit
// INVALID_ARGUMENT, a limit of 0 none. REAPI: a compressed read has no limit.
func readRange(r resource, off, limit int64) (from, n int64, err error) {
	switch {
	case limit < 0:
		return 0, 0, status.Errorf(codes.InvalidArgument, "read_limit %d is negative", limit)
	case limit > 0 && r.zstd:
		return 0, 0, status.Errorf(codes.InvalidArgument, "read_limit is %d, and a compressed read can have none", limit)
	case off < 0 || off > r.size:
		return 0, 0, status.Errorf(codes.OutOfRange, "read_offset %d is outside of the blob's %d bytes", off, r.size)
	}
	n = r.size - off
	if limit > 0 {
		n = min(n, limit)
	}
	return off, n, nil
}

// openBlob opens the blob of exactly this digest.
func (s *Service) openBlob(c *call, d digest) (blobstore.Blob, error) {
	if d.impossible() {
		s.count.readMisses.Add(1)
		c.miss = true
		return nil, readError(d, blobstore.ErrNotExist)
	}
	blob, err := s.store.Open(c.ctx(), d.key())
	if err == nil && blob.Size() != d.size {
		blob.Close()
		err = blobstore.ErrNotExist
	}
	if err != nil {
		if errors.Is(err, blobstore.ErrNotExist) {
			s.count.readMisses.Add(1)
			c.miss = true
		}
		return nil, readError(d, err)
	}
	s.count.readHits.Add(1)
	return blob, nil
}

// sendChunk sends the next bytes from off on, at most n, as one message. A message longer than SendReady allows would wait
// for the client with its permit in hand.
func (s *Service) sendChunk(c *call, blob blobstore.Blob, r resource, off, n int64) (int64, error) {
	extra := int64(maxDataField)
	n = min(n, int64(s.opt.ReadChunk))
	if r.zstd {
		extra += frameSlack
		n = min(n, int64(s.opt.ReadChunk)-frameSlack)
	}
	ready, err := c.st.SendReady(int(n + extra))
	if err != nil {
		return 0, err
	}
	n = max(1, min(n, int64(ready)-extra))
	p, err := c.admit(s.gates.read, shedcode.BazelRead, s.opt.readCost(n, r.zstd))
	if err != nil {
		return 0, err
	}
	defer p.Release()
	buf := getBuffer(n)
	defer putBuffer(buf)
	if _, err := blob.ReadAt(*buf, off); err != nil && err != io.EOF {
		return 0, readError(r.digest, err)
	} else if err == io.EOF && off+n < r.size { // shorter than the index says
		return 0, readError(r.digest, io.ErrUnexpectedEOF)
	}
	data := *buf
	if r.zstd {
		out := getBuffer(frameBound(n))
		defer putBuffer(out)
		if data, err = s.zstd.encode(c.ctx(), &cpuSlot{c: c}, data, (*out)[:0]); err != nil {
			return 0, err
		}
	}
	if err := c.sendData(data); err != nil {
		return 0, err
	}
	s.count.bytesOut.Add(int64(len(data)))
	return n, nil
}

// sendData sends a ReadResponse: bytes data = 10.
func (c *call) sendData(data []byte) error {
	var head [maxDataField]byte
	b := protowire.AppendTag(head[:0], 10, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(len(data)))
	c.bytes += int64(len(data))
	return c.st.SendMessage(b, data)
}

// maxDataField is a tag and a length.
const maxDataField = 6

// sendEmpty answers a read of no bytes: nothing, or a frame of nothing.
func (s *Service) sendEmpty(c *call, compressed bool) error {
	if !compressed {
		return nil
	}
	frame, err := s.zstd.encode(c.ctx(), &cpuSlot{c: c}, nil, nil)
	if err != nil {
		return err
	}
	return c.sendData(frame)
}
