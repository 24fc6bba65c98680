package cases

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"github.com/klauspost/compress/zstd"
	bspb "google.golang.org/genproto/googleapis/bytestream"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

func cutUploads(c *Client) error {
	b, key := c.Blob(6000), c.key()
	result, err := proto.Marshal(&repb.ActionResult{ExitCode: 3, StdoutRaw: b[:100]})
	if err != nil {
		return err
	}
	for _, cut := range []struct{ path, framing, sent string }{
		{"/ac/" + key, fmt.Sprintf("Content-Length: %d", len(result)), string(result[:len(result)/2])},
		{"/cas/" + Hash(b), fmt.Sprintf("Content-Length: %d", len(b)), string(b[:3000])},
		{"/cas/" + Hash(b), "Transfer-Encoding: chunked", fmt.Sprintf("%x\r\n%s\r\n", len(b), b)}, // all but the last chunk
	} {
		if err := c.raw("PUT " + cut.path + " HTTP/1.1\r\nHost: localhost\r\n" + cut.framing + "\r\n\r\n" + cut.sent); err != nil {
			return err
		}
		if err := c.want(http.StatusNotFound, nil, "GET", cut.path, nil); err != nil {
			return fmt.Errorf("after %d bytes of an upload with %s: %w", len(cut.sent), cut.framing, err)
		}
	}
	return errors.Join(
		c.want(http.StatusOK, nil, "PUT", "/ac/"+key, result), c.want(http.StatusOK, result, "GET", "/ac/"+key, nil),
		c.want(http.StatusOK, nil, "PUT", "/cas/"+Hash(b), b), c.want(http.StatusOK, b, "GET", "/cas/"+Hash(b), nil))
}

func wrongBytes(c *Client) error {
	right, wrong, good := c.Blob(600), c.Blob(600), c.Blob(600)
	if err := errors.Join(
		c.want(http.StatusBadRequest, nil, "PUT", "/cas/"+Hash(right), wrong),
		c.want(http.StatusNotFound, nil, "GET", "/cas/"+Hash(right), nil)); err != nil {
		return err
	}
	resp, err := unary(c.CAS.BatchUpdateBlobs, &repb.BatchUpdateBlobsRequest{Requests: []*repb.BatchUpdateBlobsRequest_Request{
		{Digest: Digest(right), Data: wrong}, {Digest: Digest(good), Data: good},
	}})
	if err != nil || len(resp.Responses) != 2 {
		return fmt.Errorf("the batch: %v, %w", resp, err)
	}
	for i, want := range []codes.Code{codes.InvalidArgument, codes.OK} {
		if got := codes.Code(resp.Responses[i].Status.GetCode()); got != want {
			return fmt.Errorf("blob %d of the batch: %s, want %s", i, got, want)
		}
	}
	missing, err := c.missing(Digest(right), Digest(good))
	if err != nil || len(missing) != 1 || missing[0] != Hash(right) {
		return fmt.Errorf("missing after the batch: %v, %w", missing, err)
	}
	return nil
}

// sameNameTwice: each ends well or with a code that is tried again, and the server answers others meanwhile.
func sameNameTwice(c *Client) error {
	b := c.Blob(300 << 10)
	name := c.UploadName(b)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var begun, done sync.WaitGroup
	errs := make([]error, 2)
	begun.Add(2)
	for i := range errs {
		done.Go(func() {
			w, err := c.BS.Write(ctx)
			if err == nil {
				err = w.Send(&bspb.WriteRequest{ResourceName: name, Data: b[:100<<10]})
			}
			begun.Done()
			begun.Wait() // both are in the middle
			if err == nil {
				err = w.Send(&bspb.WriteRequest{WriteOffset: 100 << 10, Data: b[100<<10:], FinishWrite: true})
			}
			if err == nil || err == io.EOF {
				_, err = w.CloseAndRecv()
			}
			errs[i] = err
		})
	}
	begun.Wait()
	other := c.Blob(1000)
	err := c.store(other)
	done.Wait()
	for _, e := range errs {
		switch status.Code(e) {
		case codes.OK, codes.Aborted, codes.Unavailable:
		default:
			err = errors.Join(err, fmt.Errorf("one of the two ends with %w", e))
		}
	}
	missing, e := c.missing(Digest(b))
	if err = errors.Join(err, e); err == nil && len(missing) > 0 {
		err = fmt.Errorf("neither stored it: %v", errs)
	}
	return err
}

func secondUploader(c *Client) error {
	b := c.Blob(4 << 20)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	first, err := c.BS.Write(ctx)
	if err == nil {
		err = first.Send(&bspb.WriteRequest{ResourceName: c.UploadName(b), Data: b[:2<<20]})
	}
	if err == nil {
		err = c.store(b)
	}
	if err != nil {
		return err
	}
	missing, err := c.missing(Digest(b))
	if err != nil || len(missing) > 0 {
		return fmt.Errorf("told that it is stored, and then that it is missing: %w", err)
	}
	first.Send(&bspb.WriteRequest{WriteOffset: 2 << 20, Data: b[2<<20:], FinishWrite: true}) // it may have its answer already
	var resp bspb.WriteResponse
	if err := first.RecvMsg(&resp); err != nil || resp.CommittedSize != int64(len(b)) {
		return fmt.Errorf("the first uploader: %d, %w", resp.CommittedSize, err)
	}
	return nil
}

// Bomb is the smallest frame that we can make of a gibibyte of zeros.
var Bomb = sync.OnceValue(func() []byte {
	var out bytes.Buffer
	e, err := zstd.NewWriter(&out, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(8<<20))
	if err != nil {
		panic("cases: " + err.Error()) // its options are constants
	}
	zeros := make([]byte, 1<<20)
	for range 1 << 10 {
		e.Write(zeros) // into memory
	}
	e.Close()
	return out.Bytes()
})

func bomb(c *Client) error {
	b := c.Blob(7)
	_, err := c.write(c.upload("compressed-blobs/zstd", Name(b)), Bomb())
	if err := code("a gibibyte as seven bytes", err, codes.InvalidArgument); err != nil {
		return err
	}
	// A frame that asks for a window of 2 GiB, and for no more than 14 MiB of content.
	header := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 21 << 3, 0x01, 0, 0}
	_, err = c.write(c.upload("compressed-blobs/zstd", Hash(b)+"/14000000"), header)
	return code("a window of 2 GiB", err, codes.InvalidArgument)
}
