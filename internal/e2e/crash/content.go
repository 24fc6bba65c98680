package crash

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
)

// content is a blob that can be made again from its number.
type content struct {
	id   uint64
	size int
	hash string
}

func newContent(id uint64, size int) content {
	c := content{id: id, size: size}
	sum := sha256.Sum256(c.bytes())
	c.hash = hex.EncodeToString(sum[:])
	return c
}

// bytes are random, or half random and half zeros so that compression has something to do.
func (c content) bytes() []byte {
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], c.id)
	p := make([]byte, c.size)
	random := p
	if c.id%2 == 0 {
		random = p[:(len(p)+1)/2]
	}
	rand.NewChaCha8(seed).Read(random)
	return p
}

func (c content) digest() *repb.Digest {
	return &repb.Digest{Hash: c.hash, SizeBytes: int64(c.size)}
}

func (c content) is(p []byte) bool {
	sum := sha256.Sum256(p)
	return len(p) == c.size && hex.EncodeToString(sum[:]) == c.hash
}

// actionKey is the name of the n-th action. Its results are replaced now and then.
func actionKey(n int) string {
	sum := sha256.Sum256(binary.LittleEndian.AppendUint64([]byte("action"), uint64(n)))
	return hex.EncodeToString(sum[:])
}
