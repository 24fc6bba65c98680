package cases

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/grpc/codes"
)

func resumedDownload(c *Client) error {
	b := c.Blob(7)
	if err := c.store(b); err != nil {
		return err
	}
	for _, q := range []struct {
		kind          string
		offset, limit int64
		want          []byte
		code          codes.Code
	}{
		{"blobs", 3, 0, b[3:], codes.OK},
		{"blobs", 1, 2, b[1:3], codes.OK},
		{"blobs", 7, 0, nil, codes.OK},
		{"blobs", 8, 0, nil, codes.OutOfRange},
		{"blobs", -1, 0, nil, codes.OutOfRange},
		{"blobs", 0, -1, nil, codes.InvalidArgument},
		{"compressed-blobs/zstd", 0, 1, nil, codes.InvalidArgument},
		{"compressed-blobs/zstd", 3, 0, b[3:], codes.OK},
	} {
		what := fmt.Sprintf("%s from %d, at most %d", q.kind, q.offset, q.limit)
		got, err := c.read(q.kind+"/"+Name(b), q.offset, q.limit)
		if err := code(what, err, q.code); err != nil {
			return err
		}
		if q.kind != "blobs" && q.code == codes.OK {
			if got, err = decompress(got); err != nil {
				return fmt.Errorf("%s: %w", what, err)
			}
		}
		if !bytes.Equal(got, q.want) {
			return fmt.Errorf("%s: %x, want %x", what, got, q.want)
		}
	}
	a, err := c.do("GET", "/cas/"+Hash(b), nil, "Range", "bytes=3-")
	if err != nil || a.code != http.StatusPartialContent || !bytes.Equal(a.body, b[3:]) {
		return fmt.Errorf("a range: %d, %x, %w", a.code, a.body, err)
	}
	return nil
}

func emptyBlob(c *Client) error {
	empty := Digest(nil)
	if err := errors.Join(
		c.want(http.StatusOK, []byte{}, "GET", "/cas/"+empty.Hash, nil),
		c.want(http.StatusOK, []byte{}, "HEAD", "/cas/"+empty.Hash, nil)); err != nil {
		return err
	}
	liar := &repb.Digest{Hash: empty.Hash, SizeBytes: 103}
	missing, err := c.missing(empty, liar)
	if err != nil || len(missing) != 1 {
		return fmt.Errorf("of the empty blob and of one that cannot be, %d are missing: %w", len(missing), err)
	}
	plain, err1 := c.read("blobs/"+empty.Hash+"/0", 0, 0)
	frame, err2 := c.read("compressed-blobs/zstd/"+empty.Hash+"/0", 0, 0)
	unpacked, err3 := decompress(frame)
	if err := errors.Join(err1, err2, err3); err != nil || len(plain)+len(unpacked) > 0 {
		return fmt.Errorf("read as %d and %d bytes: %w", len(plain), len(unpacked), err)
	}
	batch, err := unary(c.CAS.BatchReadBlobs, &repb.BatchReadBlobsRequest{Digests: []*repb.Digest{empty}})
	if err != nil || len(batch.Responses) != 1 || batch.Responses[0].Status.GetCode() != 0 {
		return fmt.Errorf("in a batch: %v, %w", batch, err)
	}
	_, err = c.write(c.upload("blobs", empty.Hash+"/103"), make([]byte, 103))
	return code("103 bytes under the empty hash", err, codes.InvalidArgument)
}

func announcedBatch(c *Client) error {
	caps, err := unary(c.Caps.GetCapabilities, &repb.GetCapabilitiesRequest{})
	if err != nil {
		return err
	}
	most := int(caps.CacheCapabilities.GetMaxBatchTotalSizeBytes())
	if most <= 0 {
		return errors.New("no limit is announced")
	}
	one := c.Blob(most)
	if err := c.batch(one); err != nil {
		return fmt.Errorf("one blob of %d bytes: %w", most, err)
	}
	many := make([][]byte, most/100)
	var digests []*repb.Digest
	for i := range many {
		many[i] = append(c.Blob(92), binary.BigEndian.AppendUint64(nil, uint64(i))...)
		digests = append(digests, Digest(many[i]))
	}
	if err := c.batch(many...); err != nil {
		return fmt.Errorf("%d blobs of 100 bytes: %w", len(many), err)
	}
	if err := code("one byte more", c.batch(c.Blob(most+1)), codes.InvalidArgument); err != nil {
		return err
	}
	for _, all := range [][]*repb.Digest{{Digest(one)}, digests} {
		resp, err := unary(c.CAS.BatchReadBlobs, &repb.BatchReadBlobsRequest{Digests: all})
		if err != nil {
			return err
		}
		total := 0
		for _, r := range resp.Responses {
			total += len(r.Data)
		}
		if want := most - most%100; total != want && total != most {
			return fmt.Errorf("a batch of %d blobs is read as %d bytes, want %d", len(all), total, want)
		}
	}
	return nil
}

// batch stores blobs with one call.
func (c *Client) batch(blobs ...[]byte) error {
	q := &repb.BatchUpdateBlobsRequest{}
	for _, b := range blobs {
		q.Requests = append(q.Requests, &repb.BatchUpdateBlobsRequest_Request{Digest: Digest(b), Data: b})
	}
	resp, err := unary(c.CAS.BatchUpdateBlobs, q)
	if err != nil {
		return err
	}
	for _, r := range resp.Responses {
		if r.Status.GetCode() != 0 {
			return fmt.Errorf("%s: %v", r.Digest.GetHash(), r.Status)
		}
	}
	return nil
}

func manyDigests(c *Client) error {
	there := c.Blob(9)
	if err := c.store(there); err != nil {
		return err
	}
	digests := []*repb.Digest{Digest(there)}
	for i := range 60_000 {
		digests = append(digests, Digest(fmt.Appendf(nil, "client %d, digest %d", c.id, i)))
	}
	missing, err := c.missing(digests...)
	if err != nil || len(missing) != 60_000 {
		return fmt.Errorf("of 60001 digests, one of a stored blob, %d are missing: %w", len(missing), err)
	}
	return nil
}
