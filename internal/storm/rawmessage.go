package storm

import (
	"encoding/binary"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

const (
	methodWrite = "/google.bytestream.ByteStream/Write"
	methodRead  = "/google.bytestream.ByteStream/Read"
	methodBatch = "/build.bazel.remote.execution.v2.ContentAddressableStorage/BatchUpdateBlobs"
)

// Field numbers of google.bytestream.WriteRequest and of BatchUpdateBlobsRequest.
const (
	writeName, writeFinish, writeData    = 1, 3, 10
	batchInstance, batchRequests         = 1, 2
	batchRequestDigest, batchRequestData = 1, 2
)

const (
	prefixSize   = 5
	mostDeclared = 1<<32 - 1
)

// prefixed puts gRPC's five bytes before a message of n bytes that begins with head.
func prefixed(n uint32, head []byte) []byte {
	p := make([]byte, prefixSize, prefixSize+len(head))
	binary.BigEndian.PutUint32(p[1:], n)
	return append(p, head...)
}

// writeHead is a WriteRequest up to where its size bytes of data begin. The message may be declared longer than it is.
func writeHead(name string, size int64, finish bool) []byte {
	var b []byte
	b = protowire.AppendTag(b, writeName, protowire.BytesType)
	b = protowire.AppendString(b, name)
	if finish {
		b = protowire.AppendTag(b, writeFinish, protowire.VarintType)
		b = protowire.AppendVarint(b, 1)
	}
	b = protowire.AppendTag(b, writeData, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(size))
	return prefixed(uint32(min(int64(len(b))+size, mostDeclared)), b)
}

// batchHead is a BatchUpdateBlobsRequest of one blob up to where its data begin.
func batchHead(instance string, d *repb.Digest) ([]byte, error) {
	digest, err := proto.Marshal(d)
	if err != nil {
		return nil, err
	}
	var request []byte
	request = protowire.AppendTag(request, batchRequestDigest, protowire.BytesType)
	request = protowire.AppendBytes(request, digest)
	request = protowire.AppendTag(request, batchRequestData, protowire.BytesType)
	request = protowire.AppendVarint(request, uint64(d.SizeBytes))

	var b []byte
	if instance != "" {
		b = protowire.AppendTag(b, batchInstance, protowire.BytesType)
		b = protowire.AppendString(b, instance)
	}
	b = protowire.AppendTag(b, batchRequests, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(len(request))+uint64(d.SizeBytes))
	b = append(b, request...)
	return prefixed(uint32(int64(len(b))+d.SizeBytes), b), nil
}
