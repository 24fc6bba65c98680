package storm

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	bspb "google.golang.org/genproto/googleapis/bytestream"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// Static windows of the generator's own connections: without them grpc-go grows each stream's window to 16 MiB.
const (
	clientStreamWindow = 64 << 10
	clientConnWindow   = 1 << 20
)

// pool is a set of connections that streams are spread over.
type pool struct {
	conns []*grpc.ClientConn
}

// dialPool opens n connections from local addresses in turn (an IP each, or "" for the system's choice).
func dialPool(target string, n int, from ...string) (*pool, error) {
	p := &pool{}
	for i := range n {
		dialer := &net.Dialer{Timeout: 10 * time.Second}
		if source := from[i%len(from)]; source != "" {
			dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(source)}
		}
		c, err := grpc.NewClient("passthrough:///"+target,
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
				return dialer.DialContext(ctx, "tcp", addr)
			}),
			grpc.WithInitialWindowSize(clientStreamWindow),
			grpc.WithInitialConnWindowSize(clientConnWindow),
			grpc.WithReadBufferSize(16<<10),
			grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 2, Jitter: 0.1, MaxDelay: time.Second}, MinConnectTimeout: 5 * time.Second}),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)),
		)
		if err != nil {
			return nil, errors.Join(err, p.Close())
		}
		p.conns = append(p.conns, c)
	}
	return p, nil
}

// sourceAddresses are n loopback addresses to connect from: a server takes each for another machine. A single one is the
// system's choice.
func sourceAddresses(n int) []string {
	if n == 1 {
		return []string{""}
	}
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("127.0.0.%d", i+2))
	}
	return all
}

func (p *pool) Close() error {
	var errs []error
	for _, c := range p.conns {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

func (p *pool) conn(i int) *grpc.ClientConn { return p.conns[i%len(p.conns)] }

// client is one of the many that share a pool. It is used by one goroutine.
type client struct {
	o     *BazelOptions
	conn  *grpc.ClientConn
	tally *tally
	buf   []byte // one message
}

func (r *run) client(p *pool, i int, t *tally) *client {
	return &client{o: &r.o, conn: p.conn(i), tally: t, buf: make([]byte, r.o.MessageSize)}
}

// upload writes b as Bazel does, with its retries if they are on. The error is the last answer.
func (c *client) upload(ctx context.Context, b *blob) error {
	began := time.Now()
	name := b.uploadName(c.o.Instance, newUUID())
	l := newLadder(c.retries())
	var from int64
	for {
		committed, err := c.write(ctx, b, name, from)
		if err == nil && committed != b.size && committed != -1 {
			err = status.Errorf(codes.DataLoss, "acknowledged with a committed size of %d, the blob has %d", committed, b.size)
			c.tally.breaks("a write was acknowledged with a wrong committed size")
		}
		if err == nil {
			c.tally.admitted(b, began)
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		c.tally.answer(err)
		c.checkShed(err)
		pause, again := l.next(status.Code(err))
		if !again {
			return err
		}
		c.tally.retries.Add(1)
		if !sleep(ctx, pause) {
			return context.Cause(ctx)
		}
		done, at := c.committed(ctx, name)
		if done {
			c.tally.admitted(b, began)
			return nil
		}
		if at > from {
			l.reset()
		}
		from = min(at, b.size)
	}
}

func (c *client) retries() int {
	if !c.o.Retry {
		return 0
	}
	return c.o.Retries
}

// checkShed holds the server to the code that a shed write must carry.
func (c *client) checkShed(err error) {
	want, _ := parseCode(c.o.WriteShed) // validated
	if isShed(err) && status.Code(err) != want {
		c.tally.breaks(fmt.Sprintf("a shed write was answered %s instead of %s: %s", codeName(status.Code(err)), c.o.WriteShed, status.Convert(err).Message()))
	}
}

// write is one call. It sends the bytes of b from the offset from on.
func (c *client) write(ctx context.Context, b *blob, name string, from int64) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, c.o.CallTimeout)
	defer cancel()
	stream, err := bspb.NewByteStreamClient(c.conn).Write(ctx)
	if err != nil {
		return 0, err
	}
	for off, first := from, true; first || off < b.size; first = false {
		part := c.buf[:min(int64(len(c.buf)), b.size-off)]
		b.readAt(part, off)
		req := &bspb.WriteRequest{WriteOffset: off, Data: part}
		off += int64(len(part))
		req.FinishWrite = off == b.size
		if first {
			req.ResourceName = name
		}
		if err := stream.Send(req); err != nil {
			break // the server has answered already: CloseAndRecv says what
		}
	}
	resp, err := stream.CloseAndRecv()
	if err != nil {
		return 0, err
	}
	return resp.CommittedSize, nil
}

// committed asks, as Bazel does between two tries, how much of the upload has arrived. A failure means from the start.
func (c *client) committed(ctx context.Context, name string) (done bool, at int64) {
	ctx, cancel := context.WithTimeout(ctx, c.o.CallTimeout)
	defer cancel()
	resp, err := bspb.NewByteStreamClient(c.conn).QueryWriteStatus(ctx, &bspb.QueryWriteStatusRequest{ResourceName: name})
	if err != nil {
		return false, 0
	}
	return resp.Complete, resp.CommittedSize
}

// readBack compares what the server serves for b with b. It returns the number of bytes read; a limiter, if any, is
// waited for before each message is taken.
func (c *client) readBack(ctx context.Context, b *blob, pace func(context.Context, int) error) (int64, error) {
	stream, err := bspb.NewByteStreamClient(c.conn).Read(ctx, &bspb.ReadRequest{ResourceName: b.readName(c.o.Instance)})
	if err != nil {
		return 0, err
	}
	var off int64
	for {
		resp, err := stream.Recv()
		if err == io.EOF {
			if off != b.size {
				return off, errWrongBytes
			}
			return off, nil
		}
		if err != nil {
			return off, err
		}
		if off+int64(len(resp.Data)) > b.size || !c.same(b, off, resp.Data) {
			return off, errWrongBytes
		}
		off += int64(len(resp.Data))
		if pace == nil {
			continue
		}
		if err := pace(ctx, len(resp.Data)); err != nil {
			return off, err
		}
	}
}

var errWrongBytes = errors.New("the server served other bytes than were written")

func (c *client) same(b *blob, off int64, got []byte) bool {
	for len(got) > 0 {
		part := c.buf[:min(len(c.buf), len(got))]
		b.readAt(part, off)
		if !bytes.Equal(part, got[:len(part)]) {
			return false
		}
		got, off = got[len(part):], off+int64(len(part))
	}
	return true
}

// verify reads b back after its write was acknowledged and counts what comes of it.
func (c *client) verify(ctx context.Context, b *blob) {
	l := newLadder(5)
	for {
		callCtx, cancel := context.WithTimeout(ctx, c.o.CallTimeout)
		_, err := c.readBack(callCtx, b, nil)
		cancel()
		switch {
		case err == nil:
			c.tally.verified.Add(1)
			return
		case errors.Is(err, errWrongBytes):
			c.tally.wrong.Add(1)
			c.tally.breaks("wrong bytes were served for " + b.hex())
			return
		case ctx.Err() != nil:
			return
		}
		pause, again := l.next(status.Code(err))
		if !again || !sleep(ctx, pause) {
			c.tally.lost.Add(1)
			c.tally.breaks(fmt.Sprintf("an acknowledged blob is not served: %v", err))
			return
		}
	}
}

// putResult stores an action result that names b, under an action digest of its own.
func (c *client) putResult(ctx context.Context, action, b *blob) error {
	ctx, cancel := context.WithTimeout(ctx, c.o.CallTimeout)
	defer cancel()
	_, err := repb.NewActionCacheClient(c.conn).UpdateActionResult(ctx, &repb.UpdateActionResultRequest{
		InstanceName: c.o.Instance,
		ActionDigest: action.digest(),
		ActionResult: &repb.ActionResult{OutputFiles: []*repb.OutputFile{{Path: "out", Digest: b.digest()}}},
	})
	return err
}

// newUUID is a random one, as Bazel puts into upload names.
func newUUID() string {
	var u [16]byte
	rand.Read(u[:])
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	s := hex.EncodeToString(u[:])
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}

// sleep waits for d; false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
