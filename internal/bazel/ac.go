package bazel

import (
	"context"
	"errors"
	"io"
	"time"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/leveehq/levee/gate"
	"github.com/leveehq/levee/internal/blobstore"
	"github.com/leveehq/levee/internal/shedcode"
)

const (
	// maxACRequest bounds what a client says about the result it wants: the paths to inline.
	maxACRequest = 64 * kib

	// acWait is how long a look-up waits. It is long, because a miss turns a cheap read into an execution and an upload,
	// and short of Bazel's 60 s, because a call that times out is made again.
	acWait = 45 * time.Second
)

// getActionResult answers from the action cache, and only with a result that is complete: a client that is told of a hit
// relies on every blob in it.
//
// A miss is told from memory and waits for nothing. A hit pays for the result's size, which is known by then.
func (s *Service) getActionResult(c *call) error {
	n, err := c.message(maxACRequest, "ask for fewer files to be inlined")
	if err != nil {
		return err
	}
	g := acCall{c: c}
	defer func() { g.p.Release() }()
	if n > smallMessage { // the request itself is worth a permit; the one for the largest result covers it
		if err := g.pay(s.opt.maxACCost()); err != nil {
			return err
		}
	}
	var req repb.GetActionResultRequest
	if err := c.unmarshal(n, &req); err != nil {
		return err
	}
	d, err := parseDigest(req.ActionDigest)
	if err != nil {
		return status.Errorf(codes.InvalidArgument, "action digest: %v", err)
	}
	key, err := acRequest(c, req.InstanceName, d, req.DigestFunction)
	if err != nil {
		return err
	}
	g.key, g.inline = key, wantedInline(&req)
	return g.serve()
}

// acRequest checks what every action cache call says.
func acRequest(c *call, instance string, action digest, f repb.DigestFunction_Value) (blobstore.Key, error) {
	if err := c.setInstance(instance); err != nil {
		return blobstore.Key{}, err
	}
	if err := checkFunction(f); err != nil {
		return blobstore.Key{}, invalid(err)
	}
	return acKey(instance, action.hash), nil
}

// acCall is one look-up.
type acCall struct {
	c      *call
	p      *gate.Permit
	key    blobstore.Key
	inline inlineWant
}

// pay has the call's permit cover cost. It never holds one permit while it waits for another: the old one, and all that
// it stood for, is given up first.
func (g *acCall) pay(cost int64) (err error) {
	if g.p != nil && g.p.Cost() >= cost {
		return nil
	}
	g.p.Release()
	g.p = nil
	g.p, err = g.c.admit(g.c.s.gates.ac, shedcode.BazelAC, cost)
	if err != nil && status.Code(err) == codes.NotFound {
		g.c.s.count.acMissesShed.Add(1)
	}
	return err
}

func (g *acCall) serve() error {
	s := g.c.s
	for extra := int64(0); ; {
		size := s.entrySize(g.key)
		if size < 0 || size > s.opt.maxACBody() {
			return g.miss("the action is not in the cache")
		}
		if err := g.pay(s.opt.acCost(size) + extra); err != nil {
			return err
		}
		a, err := g.load(size)
		if a == nil {
			return err
		}
		// What is to be inlined is known only now. If the permit does not cover it, all is let go and begun again.
		if need := g.inline.size(a, s.opt.MaxBatch); need > extra && s.opt.acCost(size)+need > g.p.Cost() {
			extra = need
			continue
		}
		s.count.acHits.Add(1)
		out, err := g.inline.apply(g.c, a, s.opt.MaxBatch)
		if err != nil {
			return err
		}
		return g.c.st.Reply(out...)
	}
}

// load reads and checks the result. A nil result with a status ends the call.
func (g *acCall) load(size int64) (*actionResult, error) {
	s, ctx := g.c.s, g.c.ctx()
	body, err := s.readEntry(ctx, g.key, size)
	if errors.Is(err, blobstore.ErrNotExist) {
		return nil, g.miss("the action is not in the cache")
	}
	if err != nil {
		return nil, acError(err)
	}
	a, err := parseActionResult(body)
	if err != nil {
		return nil, g.miss("the entry was stored over HTTP and is not an ActionResult")
	}
	extra := extraPermits{s: s, g: s.gates.ac, key: g.c.key()}
	defer extra.release()
	err = s.checkComplete(ctx, g.key, a, extra.grow)
	if absent := (errAbsent{}); errors.As(err, &absent) {
		s.count.acIncomplete.Add(1)
		return nil, g.miss("the action's result is incomplete: " + absent.Error())
	}
	if err != nil {
		return nil, acError(err)
	}
	return a, nil
}

func (g *acCall) miss(why string) error {
	g.c.s.count.acMisses.Add(1)
	g.c.miss = true
	return status.Error(codes.NotFound, why)
}

// acError is trouble. It is never a miss.
func acError(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, gate.ErrShed) {
		return err
	}
	return status.Errorf(codes.Unavailable, "the action's result cannot be checked now: %v", err)
}

// entrySize is the size of what is stored under a key, or -1.
func (s *Service) entrySize(k blobstore.Key) int64 {
	keys, sizes := [1]blobstore.Key{k}, [1]int64{}
	s.store.Lookup(keys[:], sizes[:])
	return sizes[0]
}

// readEntry reads an entry of at most the size that was paid for. One that was replaced by a larger one meanwhile is
// reported as not existing: to the client it is a miss in a race that it could have lost anyway.
func (s *Service) readEntry(ctx context.Context, k blobstore.Key, size int64) ([]byte, error) {
	blob, err := s.store.Open(ctx, k)
	if err != nil {
		return nil, err
	}
	defer blob.Close()
	if blob.Size() > size {
		return nil, blobstore.ErrNotExist
	}
	b := make([]byte, blob.Size())
	if n, err := blob.ReadAt(b, 0); err != nil && (err != io.EOF || n < len(b)) {
		return nil, noEOF(err)
	}
	return b, nil
}

// updateActionResult stores a result, if all that it refers to is there.
func (s *Service) updateActionResult(c *call) error {
	n, err := c.message(s.opt.maxACBody()+maxACRequest, "an action result this large cannot be served over gRPC")
	if err != nil {
		return err
	}
	p, err := c.admit(s.gates.batchUpdate, shedcode.BazelWrite, s.opt.acUpdateCost(n))
	if err != nil {
		return err
	}
	defer p.Release()
	c.st.GrowWindow(int(s.opt.messageWindow(n)))
	b := make([]byte, n)
	if _, err := io.ReadFull(c.st, b); err != nil {
		return messageError(err)
	}
	c.bytes = n
	key, body, err := parseUpdate(c, b)
	if err != nil {
		return err
	}
	a, err := parseActionResult(body)
	if err != nil {
		return status.Error(codes.InvalidArgument, "action_result is not the protobuf message it should be")
	}
	extra := extraPermits{s: s, g: s.gates.batchUpdate, key: c.key()}
	defer extra.release()
	err = s.checkComplete(c.ctx(), blobstore.Key{}, a, extra.grow)
	if absent := (errAbsent{}); errors.As(err, &absent) {
		s.count.acUpdatesIncomplete.Add(1)
		return status.Errorf(codes.FailedPrecondition, "the action result refers to what cannot be served: %v", absent)
	}
	if err != nil {
		return acError(err)
	}
	if err := s.store.Put(c.ctx(), key, body); err != nil {
		return s.writeError(digest{hash: key.Hash, size: int64(len(body))}, err)
	}
	s.count.acUpdates.Add(1)
	return c.st.Reply(body)
}

// parseUpdate reads UpdateActionResultRequest { string instance_name = 1; Digest action_digest = 2; ActionResult
// action_result = 3; …; DigestFunction.Value digest_function = 5 } and returns the encoded result as it lies in b.
func parseUpdate(c *call, b []byte) (key blobstore.Key, body []byte, err error) {
	f := bytesFields(b)
	var instance string
	var action *digest
	var function uint64
	for f.more() {
		num, typ, err := f.tag()
		var v []byte
		switch {
		case err != nil:
		case num == 1 && typ == protowire.BytesType:
			v, err = f.short(maxInstance, "instance_name")
			instance = string(v)
		case num == 2 && typ == protowire.BytesType:
			var d digest
			d, err = f.digestField()
			action = &d
		case num == 3 && typ == protowire.BytesType:
			body, err = f.short(len(b), "action_result")
		case num == 5 && typ == protowire.VarintType:
			function, err = f.uvarint()
		case num <= 3 || num == 5:
			err = errMalformed
		default:
			err = f.skip(typ)
		}
		if err != nil {
			return key, nil, messageError(err)
		}
	}
	if action == nil {
		return key, nil, status.Error(codes.InvalidArgument, "the request lacks action_digest")
	}
	if body == nil {
		return key, nil, status.Error(codes.InvalidArgument, "the request lacks action_result")
	}
	key, err = acRequest(c, instance, *action, repb.DigestFunction_Value(function))
	return key, body, err
}
