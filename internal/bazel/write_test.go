package bazel

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/genproto/googleapis/bytestream"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var blobP, blobH, blobX = []byte("abcdefg"), []byte("hello\n"), []byte("other\n")

func TestABlobIsWrittenAndReadBackWhateverTheMessages(t *testing.T) {
	r := newGRPCRig(t, nil)
	for i, c := range []struct{ size, message int }{{1, 1}, {7, 3}, {5000, 1}, {100 * kib, 16 * kib}, {300 * kib, 64 * kib}, {3 * mib, 2 * mib}, {3*mib + 1, 16 * kib}} {
		b := randomBytes(uint64(i), c.size)
		resp, err := r.write(r.writeName(b), b, c.message)
		r.must(err)
		if resp.CommittedSize != int64(c.size) {
			t.Fatalf("%d bytes: committed %d", c.size, resp.CommittedSize)
		}
		got, err := r.read("blobs/"+blobName(b), 0, 0)
		r.must(err)
		if !bytes.Equal(got, b) {
			t.Fatalf("%d bytes in messages of %d come back as %d others", c.size, c.message, len(got))
		}
	}
}

func TestABlobThatIsThereIsAnsweredAtOnce(t *testing.T) {
	r := newGRPCRig(t, nil)
	b := randomBytes(1, mib)
	r.put(b)
	for _, c := range []struct {
		name string
		want int64
	}{{r.writeName(b), mib}, {"uploads/x/compressed-blobs/zstd/" + blobName(b), -1}} {
		w, err := r.bs.Write(r.ctx)
		r.must(err)
		r.must(w.Send(&bytestream.WriteRequest{ResourceName: c.name, Data: []byte("a")}))
		var resp bytestream.WriteResponse
		r.must(w.RecvMsg(&resp)) // without finishing
		if resp.CommittedSize != c.want {
			t.Errorf("%s: committed size %d, want %d", c.name, resp.CommittedSize, c.want)
		}
	}
}

func TestWrongContentIsTheClientsFault(t *testing.T) { // B5
	r := newGRPCRig(t, nil)
	name := "uploads/u/blobs/" + blobName(blobH)
	_, err := r.write(name, blobX, 10)
	r.wantCode(err, codes.InvalidArgument, hashH)
	_, err = r.write(name, blobH[:3], 10)
	r.wantCode(err, codes.InvalidArgument)
	_, err = r.write(name, append(blobH[:6:6], 'x'), 10)
	r.wantCode(err, codes.InvalidArgument)
	if got := r.missing(digestFor(blobH)); len(got) != 1 {
		t.Error("a blob that never came right is there")
	}
	r.put(blobH)
	_, err = r.write("uploads/u/blobs/"+hashH+"/7", append(blobH[:6:6], 'x'), 10)
	r.wantCode(err, codes.InvalidArgument, "has 6 bytes")
}

func TestWriteRequestsThatBreakTheProtocolAreRefusedByName(t *testing.T) {
	r := newGRPCRig(t, nil)
	b := randomBytes(1, 1000)
	name := r.writeName(b)
	for _, c := range []struct {
		what string
		ms   []*bytestream.WriteRequest
		want string
	}{
		{"no name", []*bytestream.WriteRequest{{Data: b[:1]}}, "before resource_name"},
		{"nothing", []*bytestream.WriteRequest{{}}, "lacks resource_name"},
		{"an offset of nothing", []*bytestream.WriteRequest{{ResourceName: name, WriteOffset: 5, Data: b[5:], FinishWrite: true}}, "nothing of this upload is held"},
		{"negative offset", []*bytestream.WriteRequest{{ResourceName: name, WriteOffset: -5, Data: b}}, "negative"},
		{"a gap", []*bytestream.WriteRequest{{ResourceName: name, Data: b[:500]}, {WriteOffset: 501, Data: b[501:], FinishWrite: true}}, "ends at 500"},
		{"another name", []*bytestream.WriteRequest{{ResourceName: name, Data: b[:500]}, {ResourceName: name + "x", WriteOffset: 500, Data: b[500:], FinishWrite: true}}, "changed"},
		{"more after the end", []*bytestream.WriteRequest{{ResourceName: name, Data: b, FinishWrite: true}, {WriteOffset: 1000, Data: b[:1]}}, "follows the one with finish_write"},
		{"blake3", []*bytestream.WriteRequest{{ResourceName: "uploads/u/blobs/blake3/" + blobName(b), Data: b}}, "blake3"},
	} {
		w, err := r.bs.Write(r.ctx)
		r.must(err)
		for _, m := range c.ms {
			if err := w.Send(m); err != nil {
				break // answered
			}
		}
		_, err = w.CloseAndRecv()
		if status.Code(err) != codes.InvalidArgument || !bytes.Contains([]byte(err.Error()), []byte(c.want)) {
			t.Errorf("%s: %v, want InvalidArgument with %q", c.what, err, c.want)
		}
	}
}

func TestAWriteGoesOnWhereItBroke(t *testing.T) {
	r := newGRPCRig(t, nil)
	b := randomBytes(1, 500*kib)
	name := r.writeName(b)
	status := func() *bytestream.QueryWriteStatusResponse {
		resp, err := r.bs.QueryWriteStatus(r.ctx, &bytestream.QueryWriteStatusRequest{ResourceName: name})
		r.must(err)
		return resp
	}
	if s := status(); s.CommittedSize != 0 || s.Complete {
		t.Fatalf("before: %v", s)
	}
	ctx, cancel := context.WithCancel(r.ctx)
	w, err := r.bs.Write(ctx)
	r.must(err)
	for at := 0; at < 200*kib; at += 10 * kib {
		m := &bytestream.WriteRequest{WriteOffset: int64(at), Data: b[at : at+10*kib]}
		if at == 0 {
			m.ResourceName = name
		}
		r.must(w.Send(m))
	}
	eventually(t, "most of it has arrived", func() bool { return status().CommittedSize >= 128*kib })
	cancel()
	eventually(t, "the broken write is parked", func() bool { return r.disk.Stats().UploadsParked == 1 })
	at := int(status().CommittedSize)
	if at < 128*kib || at > 200*kib {
		t.Fatalf("committed %d", at)
	}
	_, err = writeTo(r.ctx, r.bs, name, at+1, b[at+1:], 10*kib)
	r.wantCode(err, codes.InvalidArgument, fmt.Sprintf("%d bytes of this upload are held", at))
	resp, err := writeTo(r.ctx, r.bs, name, at, b[at:], 10*kib)
	r.must(err)
	if resp.CommittedSize != int64(len(b)) {
		t.Fatalf("committed %d", resp.CommittedSize)
	}
	if s := status(); s.CommittedSize != int64(len(b)) || !s.Complete {
		t.Fatalf("after: %v", s)
	}
	got, err := r.read("blobs/"+blobName(b), 0, 0)
	r.must(err)
	if !bytes.Equal(got, b) {
		t.Fatal("what comes back is not what was sent in two parts")
	}
}

func TestTheSameNameTwiceAtOnceHangsNobody(t *testing.T) { // B10a
	r := newGRPCRig(t, nil)
	b := randomBytes(1, 300*kib)
	name := r.writeName(b)
	var begun, done sync.WaitGroup
	errs := make([]error, 2)
	begun.Add(2)
	for i := range errs {
		done.Go(func() {
			w, err := r.bs.Write(r.ctx)
			if err == nil {
				err = w.Send(&bytestream.WriteRequest{ResourceName: name, Data: b[:100*kib]})
			}
			begun.Done()
			begun.Wait() // both are in the middle
			if err == nil {
				err = w.Send(&bytestream.WriteRequest{WriteOffset: 100 * kib, Data: b[100*kib:], FinishWrite: true})
			}
			if err == nil || err == io.EOF {
				_, err = w.CloseAndRecv()
			}
			errs[i] = err
		})
	}
	done.Wait()
	for _, err := range errs {
		switch status.Code(err) {
		case codes.OK, codes.Aborted, codes.Unavailable:
		default:
			t.Errorf("one of the two ends with %v", err)
		}
	}
	if errs[0] != nil && errs[1] != nil || len(r.missing(digestFor(b))) != 0 {
		t.Errorf("nobody stored it: %v", errs)
	}
}

func TestTheSecondUploaderDoesNotWaitForTheFirst(t *testing.T) { // B10b
	r := newGRPCRig(t, nil)
	b := randomBytes(1, 4*mib)
	stalled, err := r.bs.Write(r.ctx)
	r.must(err)
	r.must(stalled.Send(&bytestream.WriteRequest{ResourceName: "uploads/first/blobs/" + blobName(b), Data: b[:2*mib]}))
	resp, err := r.write("uploads/second/blobs/"+blobName(b), b, mib)
	r.must(err)
	if resp.CommittedSize != int64(len(b)) || len(r.missing(digestFor(b))) != 0 {
		t.Fatalf("the second was told %v, and the blob is missing: %v", resp, r.missing(digestFor(b)))
	}
}

func TestTheEmptyBlobIsAlwaysThereOverGRPC(t *testing.T) { // B12
	r := newGRPCRig(t, nil)
	empty := digestFor(nil)
	if got := r.missing(empty); len(got) != 0 {
		t.Error("FindMissingBlobs misses it")
	}
	got, err := r.read("blobs/"+hashE+"/0", 0, 0)
	r.must(err)
	frame, err := r.read("compressed-blobs/zstd/"+hashE+"/0", 0, 0)
	r.must(err)
	plain, err := decodeAll(frame)
	if err != nil || len(got)+len(plain) != 0 {
		t.Errorf("reads give %d bytes, and compressed %d, %v", len(got), len(plain), err)
	}
	resp, err := r.write("uploads/u/blobs/"+hashE+"/0", nil, 1)
	r.must(err)
	if resp.CommittedSize != 0 {
		t.Errorf("a write commits %d", resp.CommittedSize)
	}
	_, err = r.write("uploads/u/blobs/"+hashE+"/103", make([]byte, 103), 1000)
	r.wantCode(err, codes.InvalidArgument)
	empty.SizeBytes = 103
	if got := r.missing(empty); len(got) != 1 {
		t.Error("the empty hash with 103 bytes is said to be there")
	}
	_, err = r.read("blobs/"+hashE+"/103", 0, 0)
	r.wantCode(err, codes.NotFound)
}

func TestATooLargeBlobIsRefusedAtItsFirstMessage(t *testing.T) { // B19, O11
	r := newGRPCRig(t, func(o *Options) { o.MaxBlob = mib })
	for _, name := range []string{"uploads/u/blobs/" + hashP + "/67108864", "uploads/u/compressed-blobs/zstd/" + hashP + "/67108864"} {
		w, err := r.bs.Write(r.ctx)
		r.must(err)
		r.must(w.Send(&bytestream.WriteRequest{ResourceName: name, Data: []byte("x")}))
		err = w.RecvMsg(new(bytestream.WriteResponse)) // before the client has ended
		r.wantCode(err, codes.InvalidArgument, "67108864", "1048576")
	}
	resp, err := r.caps.GetCapabilities(r.ctx, nil)
	r.must(err)
	if resp.CacheCapabilities.MaxCasBlobSizeBytes != mib {
		t.Error("the largest blob is not announced")
	}
}

func TestAWriterThatStallsIsCutAndItsPermitFreed(t *testing.T) { // O8
	r := newGRPCRig(t, func(o *Options) { o.ReadStall, o.WriteWait = 300*time.Millisecond, 200*time.Millisecond })
	w, err := r.bs.Write(r.ctx)
	r.must(err)
	b := randomBytes(1, mib)
	r.must(w.Send(&bytestream.WriteRequest{ResourceName: r.writeName(b), Data: b[:mib/2]}))
	err = w.RecvMsg(new(bytestream.WriteResponse))
	r.wantCode(err, codes.DeadlineExceeded)
	r.nothingHeld()
}

// Neither messages without data nor a byte now and then hold a permit: both are cut at the stall time, and not kept alive.
func TestAWriterThatTricklesIsCutAndItsPermitFreed(t *testing.T) {
	for what, data := range map[string]int{"empty messages": 0, "single bytes": 1} {
		t.Run(what, func(t *testing.T) {
			r := newGRPCRig(t, func(o *Options) { o.ReadStall, o.WriteWait = 400*time.Millisecond, 200*time.Millisecond })
			b := randomBytes(1, mib)
			w, err := r.bs.Write(r.ctx)
			r.must(err)
			r.must(w.Send(&bytestream.WriteRequest{ResourceName: r.writeName(b), Data: b[:100]}))
			began, tick := time.Now(), time.NewTicker(20*time.Millisecond)
			defer tick.Stop()
			for at := 100; ; at += data {
				<-tick.C
				if w.Send(&bytestream.WriteRequest{WriteOffset: int64(at), Data: b[at : at+data]}) != nil {
					break
				}
				if time.Since(began) > 20*time.Second {
					t.Fatal("a trickle is kept alive")
				}
			}
			r.wantCode(w.RecvMsg(new(bytestream.WriteResponse)), codes.DeadlineExceeded)
			r.nothingHeld()
		})
	}
}

func TestASlowWriterOutlastsTheStallTimeAsLongAsItBringsData(t *testing.T) {
	r := newGRPCRig(t, func(o *Options) { o.ReadStall, o.WriteWait = time.Second, 500*time.Millisecond })
	b := randomBytes(1, 40*minProgress)
	w, err := r.bs.Write(r.ctx)
	r.must(err)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for at := 0; at < len(b); at += minProgress {
		m := &bytestream.WriteRequest{WriteOffset: int64(at), Data: b[at : at+minProgress], FinishWrite: at+minProgress == len(b)}
		if at == 0 {
			m.ResourceName = r.writeName(b)
		}
		if err := w.Send(m); err != nil {
			break // CloseAndRecv says why
		}
		<-tick.C
	}
	resp, err := w.CloseAndRecv()
	r.must(err)
	if resp.CommittedSize != int64(len(b)) {
		t.Errorf("committed %d", resp.CommittedSize)
	}
}

func TestAWriteWithoutAMessageIsCutAsSoonAsAUnaryCall(t *testing.T) {
	r := newGRPCRig(t, func(o *Options) { o.MessageWait = 100 * time.Millisecond })
	w, err := r.bs.Write(r.ctx)
	r.must(err)
	r.wantCode(w.RecvMsg(new(bytestream.WriteResponse)), codes.DeadlineExceeded)
	_, err = r.cas.FindMissingBlobs(r.ctx, &repb.FindMissingBlobsRequest{})
	r.must(err)
}

func TestAHalfClosedStreamIsNoFinishedBlob(t *testing.T) { // B4
	r := newGRPCRig(t, nil)
	b := randomBytes(1, 1000)
	w, err := r.bs.Write(r.ctx)
	r.must(err)
	r.must(w.Send(&bytestream.WriteRequest{ResourceName: r.writeName(b), Data: b[:400]}))
	_, err = w.CloseAndRecv()
	r.wantCode(err, codes.InvalidArgument, "byte 400 of 1000")
	s, err := r.bs.QueryWriteStatus(r.ctx, &bytestream.QueryWriteStatusRequest{ResourceName: r.writeName(b)})
	r.must(err)
	if s.CommittedSize != 400 || s.Complete {
		t.Fatalf("%v", s)
	}
	if resp, err := writeTo(r.ctx, r.bs, r.writeName(b), 400, b[400:], 1000); err != nil || resp.CommittedSize != 1000 {
		t.Fatalf("%v, %v", resp, err)
	}
}
