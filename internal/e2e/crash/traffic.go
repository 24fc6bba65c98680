package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/protobuf/proto"
)

const (
	workers     = 12
	mostBlob    = 256 << 10
	actions     = 64      // keys, replaced over and over
	roundBudget = 8 << 20 // bytes written in one life at most, so that many lives fit a disk
	batchBlobs  = 8
)

// traffic runs until ctx ends or the budget is used up, which the kill of the server does not wait for. Errors of
// calls are what a dying server's clients see; only wrong bytes count.
type traffic struct {
	c     *client
	books *books
	wrong func(format string, args ...any)
	mu    struct {
		sync.Mutex
		left int
	}
}

func (t *traffic) run(ctx context.Context) {
	t.mu.left = roundBudget
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for ctx.Err() == nil {
				kinds[rand.IntN(len(kinds))](t, ctx)
			}
		})
	}
	wg.Wait()
}

var kinds = []func(*traffic, context.Context){
	(*traffic).stream, (*traffic).compressed, (*traffic).batch, (*traffic).overHTTP,
	(*traffic).actionResult, (*traffic).opaque, (*traffic).abandoned, (*traffic).check,
}

// content begins a blob of a random size, mostly small; false when the round has written enough.
func (t *traffic) content() (content, bool) {
	size := 1 + rand.IntN(1<<(4+rand.IntN(15)))
	size = min(size, mostBlob)
	t.mu.Lock()
	t.mu.left -= size
	enough := t.mu.left < 0
	t.mu.Unlock()
	if enough {
		return content{}, false
	}
	return t.books.begin(size), true
}

func (t *traffic) stream(ctx context.Context) {
	b, ok := t.content()
	if ok && t.c.write(ctx, fmt.Sprintf("uploads/%s/blobs/%s/%d", uuid(), b.hash, b.size), b.bytes()) == nil {
		t.books.acknowledged(b)
	}
}

func (t *traffic) compressed(ctx context.Context) {
	b, ok := t.content()
	if ok && t.c.write(ctx, fmt.Sprintf("uploads/%s/compressed-blobs/zstd/%s/%d", uuid(), b.hash, b.size), encoder.EncodeAll(b.bytes(), nil)) == nil {
		t.books.acknowledged(b)
	}
}

func (t *traffic) batch(ctx context.Context) {
	req := &repb.BatchUpdateBlobsRequest{}
	var blobs []content
	for range batchBlobs {
		b, ok := t.content()
		if !ok {
			break
		}
		blobs = append(blobs, b)
		req.Requests = append(req.Requests, &repb.BatchUpdateBlobsRequest_Request{Digest: b.digest(), Data: b.bytes()})
	}
	resp, err := t.c.cas.BatchUpdateBlobs(ctx, req)
	if err != nil || len(resp.Responses) != len(blobs) {
		return
	}
	for i, r := range resp.Responses {
		if r.Status.GetCode() == 0 && r.Digest.GetHash() == blobs[i].hash {
			t.books.acknowledged(blobs[i])
		}
	}
}

func (t *traffic) overHTTP(ctx context.Context) {
	b, ok := t.content()
	if ok && t.c.put(ctx, "/cas/"+b.hash, b.bytes()) == nil {
		t.books.acknowledged(b)
	}
}

// actionResult stores a blob and makes it an action's result. One worker at a time uses a key, else nobody could say
// which value it must hold.
func (t *traffic) actionResult(ctx context.Context) {
	n := rand.IntN(actions)
	if !locks[n].TryLock() {
		return
	}
	defer locks[n].Unlock()
	b, ok := t.content()
	if !ok || t.c.put(ctx, "/cas/"+b.hash, b.bytes()) != nil {
		return
	}
	t.books.acknowledged(b)
	key := actionKey(n)
	t.books.offered(key, b)
	_, err := t.c.ac.UpdateActionResult(ctx, &repb.UpdateActionResultRequest{
		ActionDigest: &repb.Digest{Hash: key, SizeBytes: 1}, ActionResult: resultOf(b),
	})
	if err == nil {
		t.books.settled(key, b)
	}
}

// locks of the action keys of both kinds.
var locks [2 * actions]sync.Mutex

func resultOf(b content) *repb.ActionResult {
	return &repb.ActionResult{OutputFiles: []*repb.OutputFile{{Path: "out", Digest: b.digest()}}}
}

// opaque puts bytes that are no action result under /ac/, as ccache does.
func (t *traffic) opaque(ctx context.Context) {
	n := actions + rand.IntN(actions)
	if !locks[n].TryLock() {
		return
	}
	defer locks[n].Unlock()
	b, ok := t.content()
	if !ok || proto.Unmarshal(b.bytes(), &repb.ActionResult{}) == nil {
		return // by chance it is one
	}
	key := actionKey(n)
	t.books.offered(key, b)
	if t.c.put(ctx, "/ac/"+key, b.bytes()) == nil {
		t.books.settled(key, b)
	}
}

// abandoned begins an upload and leaves.
func (t *traffic) abandoned(ctx context.Context) {
	b, ok := t.content()
	if !ok {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	if t.c.write(ctx, fmt.Sprintf("uploads/%s/blobs/%s/%d", uuid(), b.hash, b.size), b.bytes()) == nil {
		t.books.acknowledged(b)
	}
}

// check reads what was acknowledged, in this life or an earlier one.
func (t *traffic) check(ctx context.Context) {
	for _, b := range t.books.some(4) {
		body, err := t.c.read(ctx, b)
		switch {
		case errors.Is(err, errAbsent):
			t.wrong("the acknowledged blob %s of %d bytes is absent", b.hash, b.size)
		case err == nil && !b.is(body):
			t.wrong("%d wrong bytes were served for the blob %s of %d bytes", len(body), b.hash, b.size)
		}
	}
}

func uuid() string {
	return fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", rand.Uint32(), rand.IntN(1<<16), rand.IntN(1<<12), rand.IntN(1<<12), rand.Int64N(1<<48))
}
