package bazel

import (
	"strings"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/leveehq/levee/internal/shedcode"
)

// batchUpdate stores the blobs of a batch one by one as the message streams in, each with a status of its own. What is
// held is one blob and the response.
func (s *Service) batchUpdate(c *call) error {
	n, err := c.message(s.opt.maxBatchMessage(), "send fewer blobs at once, or large ones by ByteStream")
	if err != nil {
		return err
	}
	p, err := c.admit(s.gates.batchUpdate, shedcode.BazelWrite, s.opt.batchCost(n))
	if err != nil {
		return err
	}
	defer p.Release()
	c.st.GrowWindow(int(s.opt.messageWindow(n)))
	b := batch{c: c, size: n, f: newFields(c.st, n, make([]byte, clamp(n, maxInstance, 4*kib)))}
	if err := b.parse(); err != nil {
		return messageError(err)
	}
	s.count.bytesIn.Add(c.bytes)
	return c.st.Reply(b.response.list...)
}

// batch is a BatchUpdateBlobsRequest being read.
type batch struct {
	c        *call
	f        *fields
	size     int64 // of the message
	total    int64 // bytes of blobs so far, as their digests say
	data     []byte
	response parts
}

func (b *batch) parse() error {
	for b.f.more() {
		num, typ, err := b.f.tag()
		switch {
		case err != nil:
		case num == 2 && typ == protowire.BytesType:
			err = b.request()
		case num == 1 && typ == protowire.BytesType:
			var name []byte
			if name, err = b.f.short(maxInstance, "instance_name"); err == nil {
				err = b.c.setInstance(string(name))
			}
		case num == 5 && typ == protowire.VarintType:
			err = b.f.function()
		case num == 1 || num == 2 || num == 5:
			err = errMalformed
		default:
			err = b.f.skip(typ)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// request reads one blob, stores it, and adds its status to the response.
func (b *batch) request() error {
	outer, err := b.f.enter()
	if err != nil {
		return err
	}
	var d digest
	var compressor uint64
	hasDigest := false
	b.data = b.data[:0]
	for b.f.more() {
		num, typ, err := b.f.tag()
		switch {
		case err != nil:
		case num == 1 && typ == protowire.BytesType:
			d, err = b.f.digestField()
			hasDigest = true
		case num == 2 && typ == protowire.BytesType:
			err = b.blob()
		case num == 3 && typ == protowire.VarintType:
			compressor, err = b.f.uvarint()
		case num <= 3:
			err = errMalformed
		default:
			err = b.f.skip(typ)
		}
		if err != nil {
			return err
		}
	}
	b.f.leave(outer)
	if !hasDigest {
		return asMalformed(errNoDigest)
	}
	// Counted by what the digest says and by what was sent: neither may pass the limit that was announced.
	b.total += max(d.size, int64(len(b.data)))
	if most := b.c.s.opt.MaxBatch; b.total > most {
		return status.Errorf(codes.InvalidArgument, "the batch holds more than %d bytes (max_batch_total_size_bytes): send fewer blobs at once, or large ones by ByteStream", most)
	}
	b.add(&d, b.store(d, repb.Compressor_Value(compressor)))
	return b.c.ctx().Err()
}

// blob reads the data. Its buffer serves blob after blob, and grows to the largest.
func (b *batch) blob() error {
	n, err := b.f.length()
	if err != nil {
		return err
	}
	if n > b.c.s.opt.MaxBatch+64*kib { // compressed data may be a little larger than what it holds
		return status.Errorf(codes.InvalidArgument, "the batch holds more than %d bytes (max_batch_total_size_bytes)", b.c.s.opt.MaxBatch)
	}
	if int64(cap(b.data)) < n {
		b.data = nil // for the collector before the next one is made
		b.data = make([]byte, n)
	}
	b.data = b.data[:n]
	b.c.bytes += n
	return b.f.readFull(b.data)
}

// store keeps one blob of the batch. Its error is that blob's status.
func (b *batch) store(d digest, compressor repb.Compressor_Value) error {
	s, c := b.c.s, b.c
	switch compressor {
	case repb.Compressor_IDENTITY:
		if int64(len(b.data)) != d.size {
			return status.Errorf(codes.InvalidArgument, "blob %v comes with %d bytes", d, len(b.data))
		}
		return s.storeBytes(c, d, b.data)
	case repb.Compressor_ZSTD:
	default:
		return status.Errorf(codes.InvalidArgument, "compressor %v is not supported: use ZSTD or none", compressor)
	}
	return s.storeCompressed(c, d, b.data)
}

// storeBytes stores a blob that is in memory.
func (s *Service) storeBytes(c *call, d digest, data []byte) error {
	if d.impossible() {
		return status.Errorf(codes.InvalidArgument, "digest %v names nothing: a blob of no bytes has the hash of no bytes, and no other has", d)
	}
	if most := s.opt.MaxBlob; most > 0 && d.size > most {
		return status.Errorf(codes.InvalidArgument, "blob %v has %d bytes, and at most %d are accepted (bazel.max_blob)", d, d.size, most)
	}
	if s.storedSize(d) == d.size {
		return nil
	}
	if err := s.store.Put(c.ctx(), d.key(), data); err != nil {
		return s.writeError(d, err)
	}
	return nil
}

// add appends to the response: repeated Response { Digest digest = 1; google.rpc.Status status = 2 } = 1.
func (b *batch) add(d *digest, err error) {
	var st []byte
	if err != nil {
		b.c.s.count.batchBlobsFailed.Add(1)
		st = statusBytes(err, b.response.size < b.size/4)
	}
	var head [maxDigestField]byte
	field := appendDigest(head[:0], 1, d)
	n := len(field) + 1 + protowire.SizeBytes(len(st))
	p := b.response.room(n + 6)
	*p = protowire.AppendTag(*p, 1, protowire.BytesType)
	*p = protowire.AppendVarint(*p, uint64(n))
	*p = append(*p, field...)
	*p = protowire.AppendTag(*p, 2, protowire.BytesType)
	*p = protowire.AppendBytes(*p, st)
	b.response.size += int64(n)
}

// statusBytes is err as an encoded google.rpc.Status, without details. There may be one for each of ten thousand blobs:
// the texts are short, and the permit foresees them for the first only.
func statusBytes(err error, text bool) []byte {
	st := status.Convert(err)
	m := &spb.Status{Code: int32(st.Code())}
	if text {
		m.Message = strings.ToValidUTF8(clip(st.Message()), "")
	}
	b, err := proto.Marshal(m)
	if err != nil { // only for text that is not UTF-8, which this is not
		return []byte{0x08, byte(codes.Unknown)}
	}
	return b
}
