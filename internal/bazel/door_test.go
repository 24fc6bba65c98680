package bazel

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/genproto/googleapis/bytestream"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/leveehq/levee/gate"
	"github.com/leveehq/levee/internal/accesslog"
	"github.com/leveehq/levee/internal/rpc"
)

// startWrites begins n writes that stay in the middle, and returns what ends them.
func (r *grpcRig) startWrites(bs bytestream.ByteStreamClient, n int) (end func()) {
	r.Helper()
	ctx, cancel := context.WithCancel(r.ctx)
	for i := range n {
		b := randomBytes(uint64(1000+i), 100)
		w, err := bs.Write(ctx)
		r.must(err)
		r.must(w.Send(&bytestream.WriteRequest{ResourceName: r.writeName(b), Data: b[:50]}))
	}
	return cancel
}

func TestWritesBeyondHalfOfAConnectionAreShedOnlyWhileTheGateIsFull(t *testing.T) {
	r := newGRPCRig(t, func(o *Options) {
		o.MaxWrites, o.MaxStreamsPerConnection, o.WriteWait = 8, 10, 50*time.Second
	})
	end := r.startWrites(r.bs, 7) // beyond half, with free permits; the eighth is another key's
	eventually(t, "all are admitted", func() bool { return r.s.gates.write.Stats().Held == 7 })
	_, err := r.write(r.writeName(blobP), blobP, 10)
	r.wantCode(err, codes.FailedPrecondition, "write")
	for _, d := range status.Convert(err).Details() {
		t.Errorf("a shed write carries %v", d)
	}
	if _, err := r.cas.FindMissingBlobs(r.ctx, &repb.FindMissingBlobsRequest{BlobDigests: []*repb.Digest{digestFor(blobP)}}); err != nil {
		t.Errorf("a look-up beside the writes: %v", err)
	}
	other := make(chan error, 1)
	go func() { // on another connection it waits
		_, err := writeTo(r.ctx, bytestream.NewByteStreamClient(r.dial()), r.writeName(blobP), 0, blobP, 10)
		other <- err
	}()
	eventually(t, "the other waits", func() bool { return r.s.gates.write.Stats().Queued == 1 })
	end()
	if err := <-other; err != nil {
		t.Errorf("a write that waited: %v", err)
	}
}

func TestTheDoorShedsByClassAndKeepsAReserve(t *testing.T) {
	r := newGRPCRig(t, func(o *Options) { o.MaxStreams, o.MaxStreamsPerConnection, o.MaxWrites = 8, 8, 8 })
	conn2 := r.dial()
	end := r.startWrites(r.bs, 7)
	defer end()
	eventually(t, "the door is full for this peer", func() bool { return r.s.gates.streams.Stats().InUse == 7 })
	bs := bytestream.NewByteStreamClient(conn2)
	_, err := writeTo(r.ctx, bs, r.writeName(blobP), 0, blobP, 10)
	r.wantCode(err, codes.FailedPrecondition, "streams")
	_, err = readFrom(r.ctx, bs, "blobs/"+blobName(blobP), 0, 0)
	r.wantCode(err, codes.ResourceExhausted, "streams")
	if len(status.Convert(err).Details()) != 1 {
		t.Errorf("a shed read carries %v, want RetryInfo", status.Convert(err).Details())
	}
	_, err = repb.NewActionCacheClient(conn2).GetActionResult(r.ctx, &repb.GetActionResultRequest{ActionDigest: action(1)})
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a shed look-up: %v", err)
	}
	_, err = repb.NewCapabilitiesClient(conn2).GetCapabilities(r.ctx, &repb.GetCapabilitiesRequest{})
	r.must(err)
	_, err = bs.QueryWriteStatus(r.ctx, &bytestream.QueryWriteStatusRequest{ResourceName: r.writeName(blobP)})
	r.must(err)
	_, err = healthpb.NewHealthClient(conn2).Check(r.ctx, &healthpb.HealthCheckRequest{})
	r.must(err)
}

func TestTwoPeersShareTheDoor(t *testing.T) {
	s, err := New(Options{Kernel: newTestKernel(t, 512*mib), Store: newMemStore(), MaxStreams: 100})
	if err != nil {
		t.Fatal(err)
	}
	open := func(peer string) bool {
		_, err := s.door(rpc.StreamInfo{Method: methodRead, Peer: peer, MaxConcurrentStreams: 100})
		return err == nil
	}
	greedy := 0
	for open("127.0.0.2") {
		greedy++
	}
	modest := 0
	for open("127.0.0.3") {
		modest++
	}
	if greedy != 88 || modest != 12 {
		t.Errorf("one peer alone opened %d of 100 streams, and another %d then", greedy, modest)
	}
}

// One address holds no gate whole, whatever its clients are stuck in, and all addresses together do.
func TestOneAddressLeavesRoomForAnother(t *testing.T) {
	for _, writes := range []int{1, 2, 10, 109, 2500} {
		s, err := New(Options{Kernel: newTestKernel(t, 8<<30), Store: newMemStore(), MaxWrites: writes, MaxStreams: 6000,
			MaxConnections: 80, MaxHTTPConnections: 16})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			g                *gate.Gate
			cost             int64
			greedy, together int
		}{
			{s.gates.write, s.opt.identityCost(), max(1, writes-(writes+15)/16), writes}, // a single one is somebody's
			{s.gates.connections, 1, 70, 80},
			{s.gates.httpConnections, 1, 14, 16},
		} {
			hold := func(key string) (n int) {
				for {
					if _, err := c.g.TryAdmit(key, c.cost); err != nil {
						return n
					}
					n++
				}
			}
			greedy, other := hold("127.0.0.2"), hold("127.0.0.3")
			if greedy != c.greedy || greedy+other != c.together {
				t.Errorf("of %d writes, gate %s: one address holds %d, and another then %d; want %d and %d together",
					writes, c.g.Name(), greedy, other, c.greedy, c.together)
			}
		}
	}
}

func TestAWriteThatWaitsTooLongIsShedAsFailedPrecondition(t *testing.T) {
	var log lockedBuffer
	r := newGRPCRig(t, func(o *Options) {
		o.MaxWrites, o.WriteWait = 1, 50*time.Millisecond
		o.Log = accesslog.New(accesslog.Options{Logger: slog.New(slog.NewJSONHandler(&log, nil)), SampleOK: 1})
	})
	end := r.startWrites(r.bs, 1)
	defer end()
	eventually(t, "the gate is full", func() bool { return r.s.gates.write.Stats().Held == 1 })
	_, err := r.write(r.writeName(blobP), blobP, 10)
	r.wantCode(err, codes.FailedPrecondition)
	if len(r.missing(digestFor(blobP))) != 1 {
		t.Error("what was shed is there")
	}
	// What is there, or wrong, never waits.
	if resp, err := r.write("uploads/u/blobs/"+hashE+"/0", nil, 1); err != nil || resp.CommittedSize != 0 {
		t.Errorf("the empty blob: %v, %v", resp, err)
	}
	_, err = r.write("uploads/u/blobs/x/1", nil, 1)
	r.wantCode(err, codes.InvalidArgument)

	var shed map[string]any
	eventually(t, "the shed is logged", func() bool {
		for line := range strings.Lines(log.String()) {
			var m map[string]any
			if json.Unmarshal([]byte(line), &m) == nil && m["msg"] == "GRPC BYTESTREAM WRITE SHED" {
				shed = m
				return true
			}
		}
		return false
	})
	for _, key := range []string{"gate", "reason", "key", "in_use", "limit", "queue", "pressure_level"} {
		if _, ok := shed[key]; !ok {
			t.Errorf("the record %v lacks %q", shed, key)
		}
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestALookUpIsAMissOnlyWhenItsQueueIsFull(t *testing.T) {
	r := newGRPCRig(t, nil)
	r.putResult("", 1, unhexString(t, hexARH), blobH)
	full, err := r.s.gates.ac.TryAdmit("nobody", r.s.gates.ac.Stats().Limit)
	r.must(err)
	_, err = r.getResult("", 2) // a true miss waits for nothing
	r.wantCode(err, codes.NotFound)
	got := make(chan error, 1)
	go func() {
		_, err := r.getResult("", 1)
		got <- err
	}()
	eventually(t, "the look-up waits", func() bool { return r.s.gates.ac.Stats().Queued == 1 })
	full.Release()
	if err := <-got; err != nil {
		t.Errorf("after its wait: %v", err)
	}
	if c := r.s.Counters(); c.ACMisses != 1 || c.ACHits != 1 || c.ACMissesShed != 0 {
		t.Errorf("%+v", c)
	}
}

func TestFairnessCanBeBetweenInstances(t *testing.T) {
	r := newGRPCRig(t, func(o *Options) { o.FairBy = FairByInstance })
	b := randomBytes(1, 100)
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	w, err := r.bs.Write(ctx)
	r.must(err)
	r.must(w.Send(&bytestream.WriteRequest{ResourceName: "main/" + r.writeName(b), Data: b[:50]}))
	eventually(t, "the write is admitted", func() bool { return r.s.gates.write.Stats().Held == 1 })
	if k := r.s.key("10.0.0.1", "main"); k != r.s.key("10.0.0.2", "main") || k == r.s.key("10.0.0.1", "other") {
		t.Errorf("key %q", k)
	}
}

func TestHealthAndReflectionAreServed(t *testing.T) {
	r := newGRPCRig(t, nil)
	h, err := healthpb.NewHealthClient(r.conn).Check(r.ctx, &healthpb.HealthCheckRequest{})
	if err != nil || h.Status != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("health: %v, %v", h, err)
	}
	st, err := reflectionpb.NewServerReflectionClient(r.conn).ServerReflectionInfo(r.ctx)
	r.must(err)
	r.must(st.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}))
	resp, err := st.Recv()
	r.must(err)
	names := resp.String()
	for _, want := range []string{"google.bytestream.ByteStream", "build.bazel.remote.execution.v2.ActionCache",
		"build.bazel.remote.execution.v2.ContentAddressableStorage", "build.bazel.remote.execution.v2.Capabilities", "grpc.health.v1.Health"} {
		if !strings.Contains(names, want) {
			t.Errorf("reflection does not list %s: %v", want, names)
		}
	}
	r.must(st.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{
		FileContainingSymbol: "google.bytestream.ByteStream"}}))
	resp, err = st.Recv()
	if err != nil || resp.GetFileDescriptorResponse() == nil {
		t.Errorf("the descriptor of ByteStream: %v, %v", resp, err)
	}
}
