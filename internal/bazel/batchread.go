package bazel

import (
	"io"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/leveehq/levee/internal/shedcode"
)

const (
	// perBatchReadDigest is a digest while it waits, and its share of the response besides the data: the digest again, a
	// status, tags. A request has at least 66 bytes of each.
	perBatchReadDigest = 144

	inlineBelow  = 512 // bytes; a larger blob is a part of the response by itself
	compressFrom = 256 // bytes; below it a zstd frame is seldom shorter
)

// maxBatchReadMessage asks for MaxBatch in blobs of 100 bytes.
func (o *Options) maxBatchReadMessage() int64 { return o.MaxBatch*8/10 + 64*kib }

// batchReadCost of a request of n bytes whose blobs have total bytes: all of the response. Compression is in place.
func (o *Options) batchReadCost(n, total int64) int64 {
	return total + n/66*perBatchReadDigest + 32*kib
}

func (o *Options) maxBatchReadCost() int64 {
	return max(o.batchReadCost(o.maxBatchReadMessage(), o.MaxBatch), o.maxTreeCost())
}

// batchRead answers many small reads at once. The response is built under a permit that covers it, paid before the first
// byte is fetched; a request that is itself large is read under one that covers the largest response.
func (s *Service) batchRead(c *call) error {
	n, err := c.message(s.opt.maxBatchReadMessage(), "ask for fewer blobs at once")
	if err != nil {
		return err
	}
	if n > smallMessage {
		p, err := c.admit(s.gates.batchRead, shedcode.BazelRead, s.opt.batchReadCost(n, s.opt.MaxBatch))
		if err != nil {
			return err
		}
		defer p.Release()
		c.st.GrowWindow(int(s.opt.messageWindow(n)))
	}
	r, err := s.batchReadRequest(c, n)
	if err != nil {
		return err
	}
	if n <= smallMessage {
		if _, err := c.st.SendReady(int(r.total)); err != nil {
			return err
		}
		p, err := c.admit(s.gates.batchRead, shedcode.BazelRead, s.opt.batchReadCost(n, r.total))
		if err != nil {
			return err
		}
		defer p.Release()
	}
	r.room.left = r.total
	for i := range r.digests {
		if err := s.batchReadBlob(c, r, &r.digests[i]); err != nil {
			return err
		}
	}
	s.count.bytesOut.Add(c.bytes)
	return c.st.Reply(r.response.list...)
}

// batchReadCall is one BatchReadBlobsRequest and its response.
type batchReadCall struct {
	digests  []digest
	zstd     bool // the client accepts it
	total    int64
	room     blobRoom
	response parts
}

// blobRoom is the memory for all blobs of a response, in one piece: apart, each would be rounded up to whole pages, by up to a
// quarter. It is not taken before there is a blob to read into it.
type blobRoom struct {
	left int64 // bytes of the blobs that are still to come
	free []byte
}

// next is room for the next blob, of n bytes.
func (m *blobRoom) next(n int64) []byte {
	if m.free == nil {
		m.free = make([]byte, m.left)
	}
	b := m.free[:n:n]
	m.free = m.free[n:]
	return b
}

func (s *Service) batchReadRequest(c *call, n int64) (*batchReadCall, error) {
	r := &batchReadCall{digests: make([]digest, 0, n/66)}
	f := newFields(c.st, n, make([]byte, clamp(n, maxInstance, 4*kib)))
	for f.more() {
		num, typ, err := f.tag()
		switch {
		case err != nil:
		case num == 2 && typ == protowire.BytesType:
			var d digest
			d, err = f.digestField()
			r.digests = append(r.digests, d)
			r.total += d.size
		case num == 1 && typ == protowire.BytesType:
			var name []byte
			if name, err = f.short(maxInstance, "instance_name"); err == nil {
				err = c.setInstance(string(name))
			}
		case num == 3: // repeated enum, packed or not
			err = r.compressors(f, typ)
		case num == 4 && typ == protowire.VarintType:
			err = f.function()
		case num <= 4:
			err = errMalformed
		default:
			err = f.skip(typ)
		}
		if err != nil {
			return nil, messageError(err)
		}
		if r.total > s.opt.MaxBatch || r.total < 0 {
			return nil, status.Errorf(codes.InvalidArgument, "the blobs asked for have more than %d bytes together (max_batch_total_size_bytes): ask for fewer at once, or read large ones by ByteStream", s.opt.MaxBatch)
		}
	}
	return r, nil
}

func (r *batchReadCall) compressors(f *fields, typ protowire.Type) error {
	if typ == protowire.VarintType {
		v, err := f.uvarint()
		r.zstd = r.zstd || v == uint64(repb.Compressor_ZSTD)
		return err
	}
	if err := want(typ, protowire.BytesType); err != nil {
		return err
	}
	outer, err := f.enter()
	for err == nil && f.more() {
		var v uint64
		v, err = f.uvarint()
		r.zstd = r.zstd || v == uint64(repb.Compressor_ZSTD)
	}
	f.leave(outer)
	return err
}

// batchReadBlob adds one blob, or the status that says why not, to the response: repeated Response { Digest digest = 1;
// bytes data = 2; Compressor compressor = 4; google.rpc.Status status = 3 } = 1. Its error ends the call.
func (s *Service) batchReadBlob(c *call, r *batchReadCall, d *digest) error {
	data, compressor, err := s.fetchBlob(c, *d, &r.room, r.zstd)
	if err != nil && c.ctx().Err() != nil {
		return err
	}
	var st []byte
	if err != nil {
		st = statusBytes(err, true)
	}
	var head [maxDigestField]byte
	field := appendDigest(head[:0], 1, d)
	n := len(field) + 1 + protowire.SizeBytes(len(st))
	if len(data) > 0 {
		n += 1 + protowire.SizeBytes(len(data))
	}
	if compressor != 0 {
		n += 2
	}
	p := r.response.room(len(field) + len(st) + 32 + min(len(data), inlineBelow))
	*p = protowire.AppendTag(*p, 1, protowire.BytesType)
	*p = protowire.AppendVarint(*p, uint64(n))
	*p = append(*p, field...)
	*p = protowire.AppendTag(*p, 3, protowire.BytesType)
	*p = protowire.AppendBytes(*p, st)
	if compressor != 0 {
		*p = protowire.AppendTag(*p, 4, protowire.VarintType)
		*p = protowire.AppendVarint(*p, uint64(compressor))
	}
	if len(data) > 0 {
		*p = protowire.AppendTag(*p, 2, protowire.BytesType)
		*p = protowire.AppendVarint(*p, uint64(len(data)))
		if len(data) < inlineBelow {
			*p = append(*p, data...)
		} else {
			r.response.attach(data)
		}
		c.bytes += int64(len(data))
	}
	return nil
}

// fetchBlob reads a whole blob into the next part of m, compressed if that is wanted and shorter.
func (s *Service) fetchBlob(c *call, d digest, m *blobRoom, compressed bool) ([]byte, repb.Compressor_Value, error) {
	if d.empty() {
		return nil, 0, nil
	}
	blob, err := s.openBlob(c, d)
	if err != nil {
		m.left -= d.size
		return nil, 0, err
	}
	defer blob.Close()
	data := m.next(d.size)
	if n, err := blob.ReadAt(data, 0); err != nil && (err != io.EOF || int64(n) < d.size) {
		return nil, 0, readError(d, noEOF(err))
	}
	if !compressed || d.size < compressFrom {
		return data, 0, nil
	}
	data, shorter, err := s.zstd.shrink(c.ctx(), &cpuSlot{c: c}, data)
	if shorter {
		return data, repb.Compressor_ZSTD, err
	}
	return data, 0, err
}

// noEOF: an end before the size that the store says is trouble on the disk, not an end.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
