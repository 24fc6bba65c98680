package crash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"github.com/klauspost/compress/zstd"
	"github.com/leveehq/levee/internal/e2e/rig"
	bspb "google.golang.org/genproto/googleapis/bytestream"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// client talks to one life of the server.
type client struct {
	conn *grpc.ClientConn
	http *http.Client
	base string
	bs   bspb.ByteStreamClient
	cas  repb.ContentAddressableStorageClient
	ac   repb.ActionCacheClient
}

var encoder = func() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		panic("crash: " + err.Error()) // its options are constants
	}
	return e
}()

func newClient(s *rig.Server) (*client, error) {
	conn, err := grpc.NewClient("passthrough:///"+s.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
	if err != nil {
		return nil, err
	}
	return &client{
		conn: conn, base: "http://" + s.HTTP, http: &http.Client{Transport: &http.Transport{}},
		bs: bspb.NewByteStreamClient(conn), cas: repb.NewContentAddressableStorageClient(conn), ac: repb.NewActionCacheClient(conn),
	}, nil
}

func (c *client) close() {
	c.conn.Close()
	c.http.CloseIdleConnections()
}

const message = 16 << 10

// write sends body under the resource name and expects it to be acknowledged.
func (c *client) write(ctx context.Context, name string, body []byte) error {
	stream, err := c.bs.Write(ctx)
	if err != nil {
		return err
	}
	for off, first := 0, true; first || off < len(body); first = false {
		part := body[off:min(off+message, len(body))]
		req := &bspb.WriteRequest{WriteOffset: int64(off), Data: part, FinishWrite: off+len(part) == len(body)}
		if first {
			req.ResourceName = name
		}
		if stream.Send(req) != nil {
			break // CloseAndRecv says why
		}
		off += len(part)
	}
	_, err = stream.CloseAndRecv()
	return err
}

func (c *client) put(ctx context.Context, path string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, c.base+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, resp.Body)
	if resp.StatusCode/100 != 2 {
		return errors.New(resp.Status)
	}
	return nil
}

// get returns errAbsent for a 404.
func (c *client) get(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	switch {
	case resp.StatusCode == http.StatusNotFound:
		return nil, errAbsent
	case resp.StatusCode != http.StatusOK:
		return nil, errors.New(resp.Status)
	}
	return body, err
}

var errAbsent = errors.New("absent")

// read returns errAbsent for NOT_FOUND.
func (c *client) read(ctx context.Context, b content) ([]byte, error) {
	stream, err := c.bs.Read(ctx, &bspb.ReadRequest{ResourceName: fmt.Sprintf("blobs/%s/%d", b.hash, b.size)})
	if err != nil {
		return nil, err
	}
	var body []byte
	for {
		resp, err := stream.Recv()
		switch {
		case err == io.EOF:
			return body, nil
		case status.Code(err) == codes.NotFound:
			return nil, errAbsent
		case err != nil:
			return nil, err
		}
		body = append(body, resp.Data...)
	}
}

// result reads the one output of an action result.
func (c *client) result(ctx context.Context, key string) (*repb.Digest, error) {
	r, err := c.ac.GetActionResult(ctx, &repb.GetActionResultRequest{ActionDigest: &repb.Digest{Hash: key, SizeBytes: 1}})
	switch {
	case status.Code(err) == codes.NotFound:
		return nil, errAbsent
	case err != nil:
		return nil, err
	case len(r.OutputFiles) != 1:
		return nil, fmt.Errorf("a result of %d files", len(r.OutputFiles))
	}
	return r.OutputFiles[0].Digest, nil
}

// missing asks for all at once, in calls of a size that Bazel uses.
func (c *client) missing(ctx context.Context, all []content) ([]string, error) {
	const perCall = 10_000
	var missing []string
	for len(all) > 0 {
		part := all[:min(len(all), perCall)]
		all = all[len(part):]
		req := &repb.FindMissingBlobsRequest{}
		for _, b := range part {
			req.BlobDigests = append(req.BlobDigests, b.digest())
		}
		resp, err := c.cas.FindMissingBlobs(ctx, req)
		if err != nil {
			return nil, err
		}
		for _, d := range resp.MissingBlobDigests {
			missing = append(missing, d.Hash)
		}
	}
	return missing, nil
}
