package bazel

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"

	"github.com/leveehq/levee/internal/blobstore"
)

// digest is a REAPI Digest under SHA-256, the one digest function that is served.
type digest struct {
	hash [sha256.Size]byte
	size int64
}

// emptyHash is the hash of no bytes. That blob is always present (REAPI: "servers MUST behave as though empty blobs are
// always available"), so it is answered here and never stored; with any other size the hash names nothing.
var emptyHash = sha256.Sum256(nil)

func (d digest) empty() bool { return d.size == 0 && d.hash == emptyHash }

// impossible digests name nothing that could be stored.
func (d digest) impossible() bool { return (d.size == 0) != (d.hash == emptyHash) }

func (d digest) key() blobstore.Key { return blobstore.Key{Kind: blobstore.CAS, Hash: d.hash} }

func (d digest) String() string {
	return hex.EncodeToString(d.hash[:]) + "/" + strconv.FormatInt(d.size, 10)
}

var (
	errNegativeSize = errors.New("its size is negative")
	errNoDigest     = errors.New("it is missing")
)

// parseHash reads a SHA-256 as REAPI writes it: 64 lowercase hexadecimal digits.
func parseHash[T string | []byte](h *[sha256.Size]byte, s T) error {
	if len(s) != 2*sha256.Size {
		if f := functionByLength(len(s)); f != "" {
			return fmt.Errorf("%d digits are a hash of %s, and this server has SHA256 only", len(s), f)
		}
		return fmt.Errorf("its hash has %d characters, and a SHA-256 has 64", len(s))
	}
	for i := range h {
		hi, lo := unhex[s[2*i]], unhex[s[2*i+1]]
		if hi|lo > 0xf {
			return fmt.Errorf("its hash %q is not lowercase hexadecimal", clip(string(s)))
		}
		h[i] = hi<<4 | lo
	}
	return nil
}

func functionByLength(n int) string {
	switch n {
	case 32:
		return "MD5"
	case 40:
		return "SHA1"
	case 96:
		return "SHA384"
	case 128:
		return "SHA512"
	}
	return ""
}

// unhex maps a lowercase hexadecimal digit to its value and all else to 0xff.
var unhex = func() (t [256]byte) {
	for i := range t {
		t[i] = 0xff
	}
	for i, c := range []byte("0123456789abcdef") {
		t[c] = byte(i)
	}
	return t
}()

func parseDigest(p *repb.Digest) (d digest, err error) {
	if p.GetHash() == "" {
		return d, errNoDigest
	}
	if p.SizeBytes < 0 {
		return d, errNegativeSize
	}
	d.size = p.SizeBytes
	return d, parseHash(&d.hash, p.Hash)
}

// checkFunction takes SHA-256, said or inferred, and refuses all else by its name.
func checkFunction(f repb.DigestFunction_Value) error {
	if f == repb.DigestFunction_UNKNOWN || f == repb.DigestFunction_SHA256 {
		return nil
	}
	return fmt.Errorf("digest function %v is not supported: use SHA256", f)
}

// acKey is where the action result of an instance is stored. The instance is part of what is hashed, with its length in
// front, so that no instance's key can be made from another's; the domain keeps it apart from any content's hash.
func acKey(instance string, action [sha256.Size]byte) blobstore.Key {
	b := make([]byte, 0, 128)
	b = append(b, "levee action cache 1\x00"...)
	b = binary.AppendUvarint(b, uint64(len(instance)))
	b = append(b, instance...)
	b = append(b, action[:]...)
	return blobstore.Key{Kind: blobstore.AC, Hash: sha256.Sum256(b)}
}

// clip shortens what a client sent for a message to it.
func clip(s string) string {
	if len(s) > 100 {
		return s[:100] + "…"
	}
	return s
}
