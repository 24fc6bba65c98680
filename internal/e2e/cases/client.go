package cases

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"github.com/klauspost/compress/zstd"
	"github.com/leveehq/levee/internal/e2e/rig"
	bspb "google.golang.org/genproto/googleapis/bytestream"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// Client of one server. Those that For returns share its connections.
type Client struct {
	BS   bspb.ByteStreamClient
	CAS  repb.ContentAddressableStorageClient
	AC   repb.ActionCacheClient
	Caps repb.CapabilitiesClient

	address string // of the HTTP cache
	http    *http.Client
	conn    *grpc.ClientConn
	id      int
	made    *rand.Rand
}

// patience is how long a call is asked for again while it is shed.
const patience = time.Minute

// Connect is New for a test, which ends the client with it.
func Connect(t testing.TB, s *rig.Server) *Client {
	t.Helper()
	c, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// New connects to s.
func New(s *rig.Server) (*Client, error) {
	conn, err := grpc.NewClient("passthrough:///"+s.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(16<<20)))
	if err != nil {
		return nil, err
	}
	// A connection for each request: where one is all that a server takes, it must not be kept.
	web := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}, Timeout: patience}
	c := &Client{
		BS: bspb.NewByteStreamClient(conn), CAS: repb.NewContentAddressableStorageClient(conn),
		AC: repb.NewActionCacheClient(conn), Caps: repb.NewCapabilitiesClient(conn),
		address: s.HTTP, http: web, conn: conn,
	}
	return c.For(0), nil
}

// For is the same client with content of its own.
func (c *Client) For(id int) *Client {
	clone := *c
	clone.id, clone.made = id, rand.New(rand.NewPCG(uint64(id), rand.Uint64()))
	return &clone
}

// Close its connections.
func (c *Client) Close() error { return c.conn.Close() }

// Blob makes a blob of that size which nobody else has.
func (c *Client) Blob(size int) []byte {
	var seed [32]byte
	for i := range seed {
		seed[i] = byte(c.made.Uint32())
	}
	b := make([]byte, size)
	rand.NewChaCha8(seed).Read(b)
	return b
}

// key is the name of an action that nobody else has.
func (c *Client) key() string { return Hash(c.Blob(32)) }

// Hash of a blob as digests have it.
func Hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Digest of a blob.
func Digest(b []byte) *repb.Digest { return &repb.Digest{Hash: Hash(b), SizeBytes: int64(len(b))} }

// Name of a blob in resource names.
func Name(b []byte) string { return fmt.Sprintf("%s/%d", Hash(b), len(b)) }

// UploadName is a resource name for an upload of b, a new one for each call.
func (c *Client) UploadName(b []byte) string { return c.upload("blobs", Name(b)) }

func (c *Client) upload(kind, name string) string {
	u := c.Blob(16)
	return fmt.Sprintf("uploads/%x-%x-%x-%x-%x/%s/%s", u[:4], u[4:6], u[6:8], u[8:10], u[10:], kind, name)
}

// Compress makes a zstd frame.
func Compress(b []byte) []byte {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20))
	if err != nil {
		panic("cases: " + err.Error()) // its options are constants
	}
	defer e.Close()
	return e.EncodeAll(b, nil)
}

func decompress(b []byte) ([]byte, error) {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.DecodeAll(b, nil)
}

// Shed tells that a call was turned away, by a gate or by the store, from all other answers.
func Shed(err error) bool {
	text := status.Convert(err).Message()
	return err != nil && (strings.Contains(text, "shed by gate") || strings.HasPrefix(text, "shed: "))
}

// again calls until it is not shed.
func again(call func() error) error {
	for deadline := time.Now().Add(patience); ; <-time.After(5 * time.Millisecond) {
		if err := call(); !Shed(err) || time.Now().After(deadline) {
			return err
		}
	}
}

// unary is again for calls with an answer.
func unary[Q, A any](call func(context.Context, Q, ...grpc.CallOption) (A, error), q Q) (a A, err error) {
	err = again(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		a, err = call(ctx, q)
		return err
	})
	return a, err
}

const message = 64 << 10

// WriteOnce writes data under a resource name and returns the committed size.
func (c *Client) WriteOnce(ctx context.Context, name string, data []byte) (int64, error) {
	stream, err := c.BS.Write(ctx)
	if err != nil {
		return 0, err
	}
	for off, first := 0, true; first || off < len(data); first = false {
		part := data[off:min(off+message, len(data))]
		req := &bspb.WriteRequest{WriteOffset: int64(off), Data: part, FinishWrite: off+len(part) == len(data)}
		if first {
			req.ResourceName = name
		}
		if stream.Send(req) != nil {
			break // CloseAndRecv says why
		}
		off += len(part)
	}
	resp, err := stream.CloseAndRecv()
	return resp.GetCommittedSize(), err
}

// write is WriteOnce until it is not shed.
func (c *Client) write(name string, data []byte) (at int64, err error) {
	err = again(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		at, err = c.WriteOnce(ctx, name, data)
		return err
	})
	return at, err
}

// store writes a blob that must be stored.
func (c *Client) store(b []byte) error {
	at, err := c.write(c.UploadName(b), b)
	if err == nil && at != int64(len(b)) {
		err = fmt.Errorf("a write of %d bytes commits %d", len(b), at)
	}
	return err
}

func (c *Client) read(name string, offset, limit int64) (body []byte, err error) {
	err = again(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		body, err = c.ReadOnce(ctx, &bspb.ReadRequest{ResourceName: name, ReadOffset: offset, ReadLimit: limit})
		return err
	})
	return body, err
}

// ReadOnce reads to the end.
func (c *Client) ReadOnce(ctx context.Context, q *bspb.ReadRequest) (body []byte, err error) {
	stream, err := c.BS.Read(ctx, q)
	for err == nil {
		var resp *bspb.ReadResponse
		if resp, err = stream.Recv(); err == nil {
			body = append(body, resp.Data...)
		}
	}
	if err == io.EOF {
		err = nil
	}
	return body, err
}

// missing returns the hashes of those that are missing.
func (c *Client) missing(digests ...*repb.Digest) ([]string, error) {
	resp, err := unary(c.CAS.FindMissingBlobs, &repb.FindMissingBlobsRequest{BlobDigests: digests})
	var hashes []string
	for _, d := range resp.GetMissingBlobDigests() {
		hashes = append(hashes, d.Hash)
	}
	return hashes, err
}

// answer to an HTTP request.
type answer struct {
	code   int
	body   []byte
	header http.Header
}

// do repeats what was shed or met a server without a free connection.
func (c *Client) do(method, path string, body []byte, header ...string) (a answer, err error) {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-time.After(5 * time.Millisecond) {
		a, err = c.once(method, path, body, header)
		switch {
		case noConnection(err), err == nil && (a.code == http.StatusServiceUnavailable || a.code == http.StatusInsufficientStorage):
		default:
			return a, err
		}
	}
	return a, err
}

func (c *Client) once(method, path string, body []byte, header []string) (answer, error) {
	var r io.Reader = http.NoBody
	if body != nil {
		r = bytes.NewReader(body)
	}
	req, err := http.NewRequest(method, "http://"+c.address+path, r)
	if err != nil {
		return answer{}, err
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, text, resp.Header}, err
}

// noConnection is what a client sees whose connection was one too many: it ends, and how that looks depends on how far
// the request had come. A server that is not there is told from it.
func noConnection(err error) bool { return err != nil && !errors.Is(err, syscall.ECONNREFUSED) }

// want does an HTTP request and compares its status, and its body unless nil.
func (c *Client) want(code int, text []byte, method, path string, body []byte) error {
	a, err := c.do(method, path, body)
	switch {
	case err != nil:
		return fmt.Errorf("%s %s: %w", method, path, err)
	case a.code != code:
		return fmt.Errorf("%s %s: %d %s, want %d", method, path, a.code, a.body, code)
	case text != nil && !bytes.Equal(a.body, text):
		return fmt.Errorf("%s %s: %d bytes, want %d others", method, path, len(a.body), len(text))
	}
	return nil
}

// raw sends bytes to the HTTP listener, ends its sending side, and waits for the server to end the connection.
func (c *Client) raw(text string) error {
	conn, err := net.Dial("tcp", c.address)
	if err != nil {
		return err
	}
	defer conn.Close()
	io.WriteString(conn, text)
	conn.(*net.TCPConn).CloseWrite()
	conn.SetReadDeadline(time.Now().Add(patience))
	io.Copy(io.Discard, conn)
	return nil
}

// code compares an error's gRPC code.
func code(what string, err error, want codes.Code) error {
	if got := status.Code(err); got != want {
		return fmt.Errorf("%s: %w (%s), want %s", what, err, got, want)
	}
	return nil
}
