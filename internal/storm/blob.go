package storm

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"sync"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
)

// tailSize bytes at the end of each blob make it unique.
const tailSize = 32

// source makes blobs that are unique and incompressible at almost no cost.
//
//   - A blob of n bytes is an AES-CTR key stream of n-32 bytes, the same for all blobs of one source, and a tail that
//     holds the source's seed and the blob's number.
//   - So the SHA-256 state after the shared part is computed once per size, and the digest of one more blob costs two
//     blocks of hashing, whatever its size. Any range of a blob can be made again for comparison: nothing is kept.
//
// A random block with a patched head was tried first: it needs the whole blob hashed each time, which took half of
// the generator's CPU.
type source struct {
	block cipher.Block
	seed  uint64
	mu    struct {
		sync.Mutex
		next   uint64
		states map[int64][]byte // size of a blob to the hash's state before its tail
	}
}

func newSource(seed uint64) *source {
	var key [16]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic(fmt.Sprintf("storm: aes of a 16-byte key: %v", err)) // cannot be
	}
	s := &source{block: block, seed: seed}
	s.mu.states = map[int64][]byte{}
	return s
}

// blob is one unique blob; its bytes are made when they are read.
type blob struct {
	src  *source
	size int64
	tail [tailSize]byte
	hash [sha256.Size]byte
}

// next returns a blob that this source has not returned before. The first call for a size hashes that many bytes.
func (s *source) next(size int64) *blob {
	b := &blob{src: s, size: size}
	h := s.prefixHash(size)
	s.mu.Lock()
	s.mu.next++
	n := s.mu.next
	s.mu.Unlock()
	binary.LittleEndian.PutUint64(b.tail[0:], n)
	binary.LittleEndian.PutUint64(b.tail[8:], s.seed)
	s.block.Encrypt(b.tail[16:], b.tail[:16]) // the tail of a tiny blob must not compress either
	h.Write(b.tail[tailSize-b.tailLen():])
	h.Sum(b.hash[:0])
	return b
}

// unhashed is a blob under a name that its bytes do not have, for clients that never finish it.
func (s *source) unhashed(size int64) *blob {
	b := &blob{src: s, size: size}
	rand.Read(b.hash[:])
	return b
}

func (s *source) prefixHash(size int64) hash.Hash {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := sha256.New()
	if state, ok := s.mu.states[size]; ok {
		if err := h.(encoding.BinaryUnmarshaler).UnmarshalBinary(state); err != nil {
			panic(fmt.Sprintf("storm: own hash state: %v", err)) // cannot be
		}
		return h
	}
	buf := make([]byte, 64<<10)
	for off, end := int64(0), max(size-tailSize, 0); off < end; off += int64(len(buf)) {
		part := buf[:min(int64(len(buf)), end-off)]
		s.stream(part, off)
		h.Write(part)
	}
	state, err := h.(encoding.BinaryMarshaler).MarshalBinary()
	if err != nil {
		panic(fmt.Sprintf("storm: own hash state: %v", err)) // cannot be
	}
	s.mu.states[size] = state
	return h
}

// stream fills p with the key stream from off on.
func (s *source) stream(p []byte, off int64) {
	clear(p)
	var iv [aes.BlockSize]byte
	binary.BigEndian.PutUint64(iv[8:], uint64(off/aes.BlockSize))
	ctr := cipher.NewCTR(s.block, iv[:])
	if skip := off % aes.BlockSize; skip > 0 {
		var drop [aes.BlockSize]byte
		ctr.XORKeyStream(drop[:skip], drop[:skip])
	}
	ctr.XORKeyStream(p, p)
}

func (b *blob) tailLen() int64 { return min(b.size, tailSize) }

// readAt fills p with the blob's bytes from off on; off+len(p) is within the blob.
func (b *blob) readAt(p []byte, off int64) {
	prefix := b.size - b.tailLen()
	if n := min(int64(len(p)), prefix-off); n > 0 {
		b.src.stream(p[:n], off)
		p, off = p[n:], off+n
	}
	if len(p) > 0 {
		copy(p, b.tail[tailSize-b.tailLen()+off-prefix:])
	}
}

// bytes is the whole blob, for the small ones that travel in one message.
func (b *blob) bytes() []byte {
	p := make([]byte, b.size)
	b.readAt(p, 0)
	return p
}

func (b *blob) hex() string { return hex.EncodeToString(b.hash[:]) }

func (b *blob) digest() *repb.Digest { return &repb.Digest{Hash: b.hex(), SizeBytes: b.size} }

// uploadName is a resource name for a Write that nobody else uses.
func (b *blob) uploadName(instance, id string) string {
	return fmt.Sprintf("%suploads/%s/blobs/%s/%d", instancePrefix(instance), id, b.hex(), b.size)
}

func (b *blob) readName(instance string) string {
	return fmt.Sprintf("%sblobs/%s/%d", instancePrefix(instance), b.hex(), b.size)
}

func instancePrefix(instance string) string {
	if instance == "" {
		return ""
	}
	return instance + "/"
}
