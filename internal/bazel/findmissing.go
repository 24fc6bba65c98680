package bazel

import (
	"encoding/hex"
	"sync"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/leveehq/levee/internal/blobstore"
	"github.com/leveehq/levee/internal/shedcode"
)

const (
	// lookupBatch digests are looked up at a time, so that a call with 60,000 of them does not hold the store's lock for
	// as long as it lasts.
	lookupBatch = 256

	// maxFindMissing bounds the message: 70,000 digests.
	maxFindMissing = 5 * mib

	// perFindMissing is the scratch and the response's first part.
	perFindMissing = 64 * kib
)

// findMissing parses digests as they arrive and builds the response as it goes: nothing but what is missing is kept. A
// REAPI client sends the list in one message, however long.
func (s *Service) findMissing(c *call) error {
	n, err := c.message(maxFindMissing, "split the list over several calls")
	if err != nil {
		return err
	}
	p, err := c.admit(s.gates.findMissing, shedcode.BazelRead, s.opt.findMissingCost(n))
	if err != nil {
		return err
	}
	defer p.Release()
	c.st.GrowWindow(int(s.opt.messageWindow(n)))
	m := missingPool.Get().(*missing)
	defer m.done()
	m.s = s
	m.f.reset(c.st, n)
	if err := m.parse(c); err != nil {
		return messageError(err)
	}
	m.lookup()
	s.count.findMissingDigests.Add(m.asked)
	s.count.findMissingAbsent.Add(m.absent)
	return c.st.Reply(m.response.list...)
}

// missing is one call's work. It is pooled for its scratch memory.
type missing struct {
	s     *Service
	f     fields
	ds    [lookupBatch]digest
	keys  [lookupBatch]blobstore.Key
	sizes [lookupBatch]int64
	n     int

	response      parts
	asked, absent int64
}

var missingPool = sync.Pool{New: func() any { return &missing{f: fields{buf: make([]byte, 16*kib)}} }}

func (m *missing) done() {
	m.s, m.f.src = nil, nil
	m.response, m.n, m.asked, m.absent = parts{}, 0, 0, 0
	missingPool.Put(m)
}

func (m *missing) parse(c *call) error {
	for m.f.more() {
		num, typ, err := m.f.tag()
		switch {
		case err != nil:
		case num == 2 && typ == protowire.BytesType:
			err = m.digest()
		case num == 1 && typ == protowire.BytesType:
			var b []byte
			if b, err = m.f.short(maxInstance, "instance_name"); err == nil {
				err = c.setInstance(string(b))
			}
		case num == 3 && typ == protowire.VarintType:
			err = m.f.function()
		case num <= 3:
			err = errMalformed
		default:
			err = m.f.skip(typ)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (m *missing) digest() (err error) {
	d := &m.ds[m.n]
	if *d, err = m.f.digestField(); err != nil {
		return err
	}
	m.asked++
	if d.empty() {
		return nil
	}
	m.keys[m.n] = d.key()
	if m.n++; m.n == lookupBatch {
		m.lookup()
	}
	return nil
}

// lookup answers what was gathered. A blob of another size than the digest says is another blob's hash, or none's.
func (m *missing) lookup() {
	m.s.store.Lookup(m.keys[:m.n], m.sizes[:m.n])
	for i, size := range m.sizes[:m.n] {
		if d := &m.ds[i]; size != d.size || d.impossible() {
			m.add(d)
		}
	}
	m.n = 0
}

// add writes a digest to the response: repeated Digest missing_blob_digests = 2.
func (m *missing) add(d *digest) {
	m.absent++
	p := m.response.room(maxDigestField)
	*p = appendDigest(*p, 2, d)
}

// maxDigestField is a digest as a field: tag, length, hash with tag and length, size with tag.
const maxDigestField = 2 + 66 + 11

func appendDigest(b []byte, field protowire.Number, d *digest) []byte {
	n := 66
	if d.size > 0 {
		n += 1 + protowire.SizeVarint(uint64(d.size))
	}
	b = protowire.AppendTag(b, field, protowire.BytesType)
	b = append(b, byte(n), 0x0a, 64)
	b = hex.AppendEncode(b, d.hash[:])
	if d.size > 0 {
		b = append(b, 0x10)
		b = protowire.AppendVarint(b, uint64(d.size))
	}
	return b
}

// function reads a digest_function field. It comes after what it is about, so nothing is refused before it is read.
func (f *fields) function() error {
	v, err := f.uvarint()
	if err != nil {
		return err
	}
	if err := checkFunction(repb.DigestFunction_Value(v)); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	return nil
}
