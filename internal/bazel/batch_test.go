package bazel

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
	"time"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
)

func request(b []byte) *repb.BatchUpdateBlobsRequest_Request {
	return &repb.BatchUpdateBlobsRequest_Request{Digest: digestFor(b), Data: b}
}

func (r *grpcRig) batchUpdate(reqs ...*repb.BatchUpdateBlobsRequest_Request) []*repb.BatchUpdateBlobsResponse_Response {
	r.Helper()
	resp, err := r.cas.BatchUpdateBlobs(r.ctx, &repb.BatchUpdateBlobsRequest{Requests: reqs})
	r.must(err)
	if len(resp.Responses) != len(reqs) {
		r.Fatalf("%d answers to %d blobs", len(resp.Responses), len(reqs))
	}
	return resp.Responses
}

func (r *grpcRig) batchRead(zstd bool, ds ...*repb.Digest) []*repb.BatchReadBlobsResponse_Response {
	r.Helper()
	req := &repb.BatchReadBlobsRequest{Digests: ds}
	if zstd {
		req.AcceptableCompressors = []repb.Compressor_Value{repb.Compressor_ZSTD}
	}
	resp, err := r.cas.BatchReadBlobs(r.ctx, req)
	r.must(err)
	if len(resp.Responses) != len(ds) {
		r.Fatalf("%d answers to %d digests", len(resp.Responses), len(ds))
	}
	return resp.Responses
}

func TestABadBlobOfABatchDoesNotStopTheOthers(t *testing.T) { // B5
	r := newGRPCRig(t, nil)
	wrong := request(blobH)
	wrong.Data = blobX
	z := request(blobP)
	z.Data, z.Compressor = compress(t, blobP), repb.Compressor_ZSTD
	bomb := request([]byte("1234567"))
	bomb.Data, bomb.Compressor = compress(t, make([]byte, mib)), repb.Compressor_ZSTD
	deflate := request([]byte("x"))
	deflate.Compressor = repb.Compressor_DEFLATE
	short := request([]byte("yy"))
	short.Data = short.Data[:1]
	got := r.batchUpdate(wrong, request(blobX), z, bomb, deflate, short, request(nil))
	want := []codes.Code{codes.InvalidArgument, codes.OK, codes.OK, codes.InvalidArgument, codes.InvalidArgument, codes.InvalidArgument, codes.OK}
	for i, c := range want {
		if codes.Code(got[i].Status.GetCode()) != c {
			t.Errorf("blob %d: %v, want %v", i, got[i].Status, c)
		}
	}
	if m := r.missing(digestFor(blobH), digestFor(blobX), digestFor(blobP)); len(m) != 1 || m[0] != hashH {
		t.Errorf("missing after it: %v", m)
	}
}

func TestABatchOfExactlyTheAnnouncedSizeIsTaken(t *testing.T) { // B14
	r := newGRPCRig(t, func(o *Options) { o.Store = newMemStore() }) // 20,000 files would take longer than all else here
	caps, err := r.caps.GetCapabilities(r.ctx, &repb.GetCapabilitiesRequest{})
	r.must(err)
	most := int(caps.CacheCapabilities.MaxBatchTotalSizeBytes)
	if most <= 0 {
		t.Fatal("no limit is announced")
	}
	one := randomBytes(1, most)
	if got := r.batchUpdate(request(one)); got[0].Status.GetCode() != 0 {
		t.Errorf("one blob: %v", got[0].Status)
	}
	var many []*repb.BatchUpdateBlobsRequest_Request
	var digests []*repb.Digest
	for i := range most / 100 {
		b := binary.BigEndian.AppendUint64(bytes.Repeat([]byte{7}, 92), uint64(i))
		many = append(many, request(b))
		digests = append(digests, digestFor(b))
	}
	start := time.Now()
	for _, a := range r.batchUpdate(many...) {
		if a.Status.GetCode() != 0 {
			t.Fatalf("one of %d blobs: %v", len(many), a.Status)
		}
	}
	t.Logf("%d blobs of 100 bytes in %v", len(many), time.Since(start))
	_, err = r.cas.BatchUpdateBlobs(r.ctx, &repb.BatchUpdateBlobsRequest{Requests: []*repb.BatchUpdateBlobsRequest_Request{request(randomBytes(2, most+1))}})
	r.wantCode(err, codes.InvalidArgument, "max_batch_total_size_bytes")
	_, err = r.cas.BatchUpdateBlobs(r.ctx, &repb.BatchUpdateBlobsRequest{Requests: append(many, request([]byte("one more"+strings.Repeat("!", 100))))})
	r.wantCode(err, codes.InvalidArgument, "max_batch_total_size_bytes")

	// With a client of default settings: no response passes what it takes.
	if got := r.batchRead(false, digestFor(one)); !bytes.Equal(got[0].Data, one) {
		t.Errorf("one blob of %d bytes is read as %d, %v", most, len(got[0].Data), got[0].Status)
	}
	for i, a := range r.batchRead(false, digests...) {
		if len(a.Data) != 100 || a.Digest.Hash != digests[i].Hash {
			t.Fatalf("blob %d is read as %d bytes, %v", i, len(a.Data), a.Status)
		}
	}
	_, err = r.cas.BatchReadBlobs(r.ctx, &repb.BatchReadBlobsRequest{Digests: []*repb.Digest{digestFor(one), digestFor(blobP)}})
	r.wantCode(err, codes.InvalidArgument, "max_batch_total_size_bytes")
}

func TestABatchIsReadWithAStatusForEach(t *testing.T) {
	r := newGRPCRig(t, nil)
	zeros := make([]byte, 100*kib)
	random := randomBytes(1, 100*kib)
	r.batchUpdate(request(zeros), request(random), request(blobP))
	for _, zstd := range []bool{false, true} {
		got := r.batchRead(zstd, digestFor(zeros), digestFor(blobX), digestFor(random), digestFor(nil), digestFor(blobP))
		for i, want := range [][]byte{zeros, nil, random, nil, blobP} {
			data, a := got[i].Data, got[i]
			if a.Compressor == repb.Compressor_ZSTD {
				if !zstd {
					t.Error("compressed, and nobody asked for it")
				}
				if len(data) >= len(want) {
					t.Errorf("blob %d: compression made %d bytes of %d", i, len(data), len(want))
				}
				var err error
				data, err = decodeAll(data)
				r.must(err)
			}
			if !bytes.Equal(data, want) {
				t.Errorf("blob %d comes as %d bytes, want %d", i, len(data), len(want))
			}
			if code := codes.Code(a.Status.GetCode()); i == 1 && code != codes.NotFound || i != 1 && code != codes.OK {
				t.Errorf("blob %d: %v", i, a.Status)
			}
		}
		if zstd && got[0].Compressor != repb.Compressor_ZSTD {
			t.Error("100 KiB of zeros are not compressed")
		}
	}
}

// The response to either has no data, so there is no window to wait for.
func TestABatchReadOfNothingIsAnsweredAtOnce(t *testing.T) { // B12
	r := newGRPCRig(t, nil)
	r.batchRead(false)
	if got := r.batchRead(true, digestFor(nil)); got[0].Status.GetCode() != 0 || len(got[0].Data) != 0 {
		t.Errorf("the empty blob: %v", got[0])
	}
}

func TestSixtyThousandDigestsAreLookedUpInOneCall(t *testing.T) { // B14
	r := newGRPCRig(t, nil)
	r.put(blobP)
	req := &repb.FindMissingBlobsRequest{InstanceName: "main"}
	for i := range 60_000 {
		req.BlobDigests = append(req.BlobDigests, &repb.Digest{Hash: hashOf(binary.BigEndian.AppendUint64(nil, uint64(i))), SizeBytes: 8})
	}
	req.BlobDigests = append(req.BlobDigests, digestFor(blobP), digestFor(nil))
	// All of them absent are 4.2 MB, a little more than gRPC's clients take when nobody tells them otherwise.
	resp, err := r.cas.FindMissingBlobs(r.ctx, req, grpc.MaxCallRecvMsgSize(8*mib))
	r.must(err)
	if len(resp.MissingBlobDigests) != 60_000 || resp.MissingBlobDigests[59_999].Hash != req.BlobDigests[59_999].Hash {
		t.Errorf("%d digests are missing", len(resp.MissingBlobDigests))
	}
}

func TestDigestsThatCannotBeAreRefusedByName(t *testing.T) {
	r := newGRPCRig(t, nil)
	for _, c := range []struct {
		d    *repb.Digest
		f    repb.DigestFunction_Value
		want string
	}{
		{&repb.Digest{Hash: "xyz", SizeBytes: 1}, 0, "3 characters"},
		{&repb.Digest{Hash: strings.ToUpper(hashP), SizeBytes: 7}, 0, "lowercase"},
		{&repb.Digest{Hash: hashP, SizeBytes: -7}, 0, "negative"},
		{&repb.Digest{}, 0, "missing"},
		{digestFor(blobP), repb.DigestFunction_BLAKE3, "BLAKE3"},
		{digestFor(blobP), repb.DigestFunction_SHA512, "SHA512"},
	} {
		_, err := r.cas.FindMissingBlobs(r.ctx, &repb.FindMissingBlobsRequest{BlobDigests: []*repb.Digest{c.d}, DigestFunction: c.f})
		r.wantCode(err, codes.InvalidArgument, c.want)
		_, err = r.cas.BatchReadBlobs(r.ctx, &repb.BatchReadBlobsRequest{Digests: []*repb.Digest{c.d}, DigestFunction: c.f})
		r.wantCode(err, codes.InvalidArgument, c.want)
		_, err = r.cas.GetTree(r.ctx, &repb.GetTreeRequest{RootDigest: c.d, DigestFunction: c.f})
		if err == nil {
			st, _ := r.cas.GetTree(r.ctx, &repb.GetTreeRequest{RootDigest: c.d, DigestFunction: c.f})
			_, err = st.Recv()
		}
		r.wantCode(err, codes.InvalidArgument, c.want)
		_, err = r.ac.GetActionResult(r.ctx, &repb.GetActionResultRequest{ActionDigest: c.d, DigestFunction: c.f})
		r.wantCode(err, codes.InvalidArgument, c.want)
	}
	_, err := r.cas.BatchUpdateBlobs(r.ctx, &repb.BatchUpdateBlobsRequest{DigestFunction: repb.DigestFunction_BLAKE3,
		Requests: []*repb.BatchUpdateBlobsRequest_Request{request(blobP)}})
	r.wantCode(err, codes.InvalidArgument, "BLAKE3")
	_, err = r.cas.FindMissingBlobs(r.ctx, &repb.FindMissingBlobsRequest{InstanceName: "git"})
	r.wantCode(err, codes.InvalidArgument, "reserved")
}

func TestCapabilitiesSayWhatIsServed(t *testing.T) {
	r := newGRPCRig(t, nil)
	resp, err := r.caps.GetCapabilities(r.ctx, &repb.GetCapabilitiesRequest{InstanceName: "main"})
	r.must(err)
	c := resp.CacheCapabilities
	if len(c.DigestFunctions) != 1 || c.DigestFunctions[0] != repb.DigestFunction_SHA256 || !c.ActionCacheUpdateCapabilities.UpdateEnabled ||
		len(c.SupportedCompressors) != 1 || len(c.SupportedBatchUpdateCompressors) != 1 || resp.LowApiVersion.Major != 2 || resp.HighApiVersion.Minor != 3 ||
		resp.ExecutionCapabilities != nil {
		t.Errorf("%v", resp)
	}
	_, err = r.caps.GetCapabilities(r.ctx, &repb.GetCapabilitiesRequest{InstanceName: "status"})
	r.wantCode(err, codes.InvalidArgument)
}
