package bazel

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// readDigests is a FindMissingBlobsRequest read by hand.
func readDigests(f *fields) (out []digest, err error) {
	for f.more() {
		num, typ, err := f.tag()
		if err != nil {
			return nil, err
		}
		if num != 2 {
			if err := f.skip(typ); err != nil {
				return nil, err
			}
			continue
		}
		d, err := f.digestField()
		if err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, nil
}

func TestAMessageReadsTheSameHoweverItsBytesArrive(t *testing.T) {
	req := &repb.FindMissingBlobsRequest{InstanceName: "main", DigestFunction: repb.DigestFunction_SHA256}
	for i := range 300 {
		req.BlobDigests = append(req.BlobDigests, &repb.Digest{Hash: hashOf([]byte{byte(i), byte(i >> 8)}), SizeBytes: int64(i) << (i % 50)})
	}
	b, err := proto.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	for name, src := range map[string]io.Reader{
		"at once": bytes.NewReader(b), "byte by byte": iotest.OneByteReader(bytes.NewReader(b)), "in halves": iotest.HalfReader(bytes.NewReader(b)),
	} {
		got, err := readDigests(newFields(src, int64(len(b)), make([]byte, 300)))
		if err != nil || len(got) != 300 {
			t.Fatalf("%s: %d digests, %v", name, len(got), err)
		}
		for i, d := range got {
			if want := req.BlobDigests[i]; hexOf(d) != want.Hash || d.size != want.SizeBytes {
				t.Fatalf("%s: digest %d is %v, want %v", name, i, d, want)
			}
		}
	}
}

func TestADigestMayHaveItsFieldsInAnyOrder(t *testing.T) {
	var inner []byte
	inner = protowire.AppendTag(inner, 2, protowire.VarintType)
	inner = protowire.AppendVarint(inner, 7)
	inner = protowire.AppendTag(inner, 9, protowire.BytesType)
	inner = protowire.AppendString(inner, "unknown")
	inner = protowire.AppendTag(inner, 1, protowire.BytesType)
	inner = protowire.AppendString(inner, hashP)
	f := bytesFields(protowire.AppendBytes(nil, inner))
	d, err := f.digestField()
	if err != nil || hexOf(d) != hashP || d.size != 7 {
		t.Fatalf("%v, %v", d, err)
	}
}

func TestAMessageCutShortIsNotMalformed(t *testing.T) {
	b, _ := proto.Marshal(&repb.FindMissingBlobsRequest{BlobDigests: []*repb.Digest{{Hash: hashP, SizeBytes: 7}}})
	for n := range b {
		_, err := readDigests(newFields(bytes.NewReader(b[:n]), int64(len(b)), make([]byte, 100)))
		if !errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, errMalformed) {
			t.Fatalf("cut at %d: %v", n, err)
		}
	}
}

// FuzzFields holds the reader to protobuf's own: what that takes as a message of digests is read alike, and nothing makes
// the reader fail in another way than by an error.
func FuzzFields(f *testing.F) {
	b, _ := proto.Marshal(&repb.FindMissingBlobsRequest{InstanceName: "i", BlobDigests: []*repb.Digest{{Hash: hashP, SizeBytes: 7}}})
	f.Add(b, 100)
	f.Add([]byte{0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}, 80)
	f.Fuzz(func(t *testing.T, b []byte, size int) {
		size = max(80, min(size, 1000))
		got, err := readDigests(newFields(iotest.OneByteReader(bytes.NewReader(b)), int64(len(b)), make([]byte, size)))
		again, errAgain := readDigests(newFields(bytes.NewReader(b), int64(len(b)), make([]byte, size)))
		if (err == nil) != (errAgain == nil) || len(got) != len(again) {
			t.Fatalf("%d digests and %v byte by byte, %d and %v at once", len(got), err, len(again), errAgain)
		}
		var m repb.FindMissingBlobsRequest
		if err == nil && proto.Unmarshal(b, &m) == nil && len(m.BlobDigests) != len(got) {
			t.Fatalf("%d digests, protobuf finds %d", len(got), len(m.BlobDigests))
		}
	})
}
