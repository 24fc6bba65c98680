package bazel

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/leveehq/levee/gate"
	"github.com/leveehq/levee/internal/accesslog"
	"github.com/leveehq/levee/internal/blobstore"
	"github.com/leveehq/levee/internal/rpc"
	"github.com/leveehq/levee/internal/shedcode"
)

// call is one gRPC call of this package's own handlers, with what its access record will say.
type call struct {
	s        *Service
	st       *rpc.Stream
	instance string
	bytes    int64
	waited   time.Duration
	miss     bool
}

// wrap makes a handler that leaves one access record. A panic is the transport's to turn into a status; the record says
// Internal, since the deferred function sees no error of the handler.
func (s *Service) wrap(h func(*call) error) rpc.Handler {
	return func(st *rpc.Stream) (err error) {
		st.DropMetadata() // nothing here asks for it, and a call may wait long
		c := &call{s: s, st: st}
		start := time.Now()
		done := false
		defer func() {
			if !done {
				err = status.Error(codes.Internal, "the server failed inside this call")
			}
			s.record(c, err, time.Since(start))
		}()
		err = h(c)
		done = true
		return err
	}
}

func (s *Service) record(c *call, err error, took time.Duration) {
	if s.log == nil {
		return
	}
	s.log.Call(c.ctx(), accesslog.Record{
		Proto: "grpc", Method: c.st.Method(), Code: rpcCode(err).String(), Key: c.key(), Instance: c.instance,
		Bytes: c.bytes, Took: took, Waited: c.waited, Miss: c.miss, Err: err,
	})
}

func rpcCode(err error) codes.Code {
	if errors.Is(err, context.Canceled) {
		return codes.Canceled
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return codes.DeadlineExceeded
	}
	return status.Code(err)
}

func (c *call) ctx() context.Context { return c.st.Context() }

func (c *call) key() string { return c.s.key(c.st.Principal(), c.instance) }

// admit waits for a permit. Its error ends the call: a shed with the class's code, or the caller's own cancellation.
func (c *call) admit(g *gate.Gate, class shedcode.Class, cost int64) (*gate.Permit, error) {
	p, err := g.Admit(c.ctx(), c.key(), cost)
	if err == nil {
		c.waited += p.Waited()
		return p, nil
	}
	var shed *gate.Shed
	if errors.As(err, &shed) {
		c.waited += shed.Waited
		return nil, c.s.codes.GRPC(class, err)
	}
	return nil, err
}

// message waits for the next message and returns its length. One longer than most is refused before it is read.
func (c *call) message(most int64, what string) (int64, error) {
	c.st.SetReadDeadline(time.Now().Add(c.s.opt.MessageWait))
	n, err := c.st.NextMessage()
	if err == io.EOF {
		return 0, status.Error(codes.InvalidArgument, "the call carries no message")
	}
	if err != nil {
		return 0, err
	}
	if n > most {
		return 0, status.Errorf(codes.InvalidArgument, "the message has %d bytes, and at most %d are accepted: %s", n, most, what)
	}
	return n, nil
}

// smallMessage is what a handler reads without a permit: it only moves from the stream's door window to the handler.
const smallMessage = 4 * kib

// small reads a request that is small by nature.
func (c *call) small(m proto.Message) error {
	n, err := c.message(smallMessage, "this call's request is small by nature")
	if err != nil {
		return err
	}
	return c.unmarshal(n, m)
}

// unmarshal reads the message of n bytes whole; the caller holds a permit for it or knows it to be small.
func (c *call) unmarshal(n int64, m proto.Message) error {
	b := make([]byte, n)
	if _, err := io.ReadFull(c.st, b); err != nil {
		return messageError(err)
	}
	if err := proto.Unmarshal(b, m); err != nil {
		return status.Errorf(codes.InvalidArgument, "the request is not the protobuf message it should be: %v", err)
	}
	return nil
}

func (c *call) reply(m proto.Message) error {
	b, err := proto.Marshal(m)
	if err != nil {
		return status.Errorf(codes.Internal, "the response cannot be encoded: %v", err)
	}
	return c.st.Reply(b)
}

func (c *call) setInstance(name string) error {
	c.instance = name
	return invalid(checkInstance(name))
}

// invalid makes err, if any, the client's fault.
func invalid(err error) error {
	if err == nil {
		return nil
	}
	return status.Error(codes.InvalidArgument, err.Error())
}

// messageError says what became of reading a message: it was malformed, it stopped in the middle, or the stream failed.
func messageError(err error) error {
	switch {
	case errors.Is(err, errMalformed):
		return status.Error(codes.InvalidArgument, err.Error())
	case err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF):
		return status.Error(codes.InvalidArgument, "the client ended the stream inside a message")
	}
	return err
}

// readError turns the store's error for a read. Trouble is never reported as a miss: a client that is told NOT_FOUND
// forgets the blob, and the build may fail for what is on disk all along.
func readError(d digest, err error) error {
	switch {
	case errors.Is(err, blobstore.ErrNotExist):
		return status.Errorf(codes.NotFound, "blob %v is not in the cache", d)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return status.Errorf(codes.Unavailable, "blob %v cannot be read now: %v", d, err)
}

// noSpace lets the store's refusal be logged and answered as a shed.
type noSpace struct{ *blobstore.NoSpace }

func (e noSpace) ShedReason() string { return e.Reason }

// writeError turns the store's error for a write. Wrong content is the client's fault and INVALID_ARGUMENT: Bazel retries
// INTERNAL and UNKNOWN, which would send the same wrong bytes again.
func (s *Service) writeError(d digest, err error) error {
	var full *blobstore.NoSpace
	switch {
	case errors.As(err, &full):
		return s.codes.GRPC(shedcode.BazelWrite, noSpace{full})
	case errors.Is(err, blobstore.ErrDigest), errors.Is(err, blobstore.ErrSize), errors.Is(err, blobstore.ErrTooLarge):
		return status.Errorf(codes.InvalidArgument, "blob %v: %v", d, err)
	case errors.Is(err, blobstore.ErrBusy):
		return status.Errorf(codes.Aborted, "blob %v: %v: query its write status and go on from there", d, err)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return status.Errorf(codes.Unavailable, "blob %v cannot be stored now: %v", d, err)
}
