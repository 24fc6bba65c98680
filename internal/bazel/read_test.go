package bazel

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/bytestream"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestAReadHasItsOffsetAndLimit(t *testing.T) { // B6
	r := newGRPCRig(t, nil)
	r.put(blobP)
	for _, c := range []struct {
		zstd       bool
		off, limit int64
		want       string
		code       codes.Code
	}{
		{false, 0, 0, "abcdefg", codes.OK},
		{false, 3, 0, "defg", codes.OK},
		{false, 1, 2, "bc", codes.OK},
		{false, 5, 100, "fg", codes.OK},
		{false, 7, 0, "", codes.OK},
		{false, 8, 0, "", codes.OutOfRange},
		{false, -1, 0, "", codes.OutOfRange},
		{false, 0, -1, "", codes.InvalidArgument},
		{true, 0, 1, "", codes.InvalidArgument},
		{true, 3, 0, "defg", codes.OK},
		{true, 7, 0, "", codes.OK},
	} {
		name := "blobs/" + blobName(blobP)
		if c.zstd {
			name = "compressed-blobs/zstd/" + blobName(blobP)
		}
		got, err := r.read(name, c.off, c.limit)
		if c.zstd && err == nil {
			got, err = decodeAll(got)
		}
		if status.Code(err) != c.code || string(got) != c.want {
			t.Errorf("zstd %v, offset %d, limit %d: %q, %v; want %q, %v", c.zstd, c.off, c.limit, got, err, c.want, c.code)
		}
	}
}

func TestTroubleIsNotReportedAsMissing(t *testing.T) { // B17
	store := newMemStore()
	r := newGRPCRig(t, func(o *Options) { o.Store = store })
	r.put(blobP)
	action := r.putResult("", 1, unhexString(t, hexARH), blobH)
	store.openErr = &os.PathError{Op: "open", Path: "x", Err: syscall.EMFILE}
	_, err := r.read("blobs/"+blobName(blobP), 0, 0)
	r.wantCode(err, codes.Unavailable)
	_, err = r.getResult("", action)
	r.wantCode(err, codes.Unavailable)
	if st := r.batchRead(false, digestFor(blobP)); st[0].Status.Code != int32(codes.Unavailable) {
		t.Errorf("in a batch: %v", st[0].Status)
	}
	store.openErr = nil
	_, err = r.read("blobs/"+blobName(blobX), 0, 0)
	r.wantCode(err, codes.NotFound)
	_, err = r.read("blobs/"+hashP+"/8", 0, 0) // the hash with another size is another blob
	r.wantCode(err, codes.NotFound)
}

func TestAFileRemovedByHandIsAMissAndCanComeBack(t *testing.T) { // B17b
	r := newGRPCRig(t, nil)
	b := randomBytes(1, 100*kib)
	r.put(b)
	removed := 0
	r.must(filepath.WalkDir(r.dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.Contains(path, "/cas/") {
			removed++
			return os.Remove(path)
		}
		return err
	}))
	if removed == 0 {
		t.Fatal("no file found to remove")
	}
	_, err := r.read("blobs/"+blobName(b), 0, 0)
	r.wantCode(err, codes.NotFound)
	if len(r.missing(digestFor(b))) != 1 {
		t.Error("the blob is still said to be there")
	}
	r.put(b)
	got, err := r.read("blobs/"+blobName(b), 0, 0)
	if err != nil || len(got) != len(b) {
		t.Errorf("after uploading it again: %d bytes, %v", len(got), err)
	}
}

func TestSlowReadersHoldNoPermitAndStopNobody(t *testing.T) { // B1, small
	r := newGRPCRig(t, func(o *Options) { o.ReadStall, o.WriteWait, o.ReadMemory = 2*time.Second, time.Second, 256*kib })
	b := randomBytes(1, 8*mib)
	r.put(b)
	r.put(blobP)
	var slow sync.WaitGroup
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	for range 3 {
		bs := bytestream.NewByteStreamClient(r.dial(grpc.WithInitialWindowSize(64*kib), grpc.WithInitialConnWindowSize(64*kib)))
		for range 20 {
			slow.Go(func() {
				st, err := bs.Read(ctx, &bytestream.ReadRequest{ResourceName: "blobs/" + blobName(b)})
				if err == nil {
					_, err = st.Recv()
				}
				if err != nil && ctx.Err() == nil && status.Code(err) != codes.ResourceExhausted && status.Code(err) != codes.Unavailable {
					t.Errorf("a slow reader ends with %v", err)
				}
				<-ctx.Done() // and reads no more
			})
		}
	}
	eventually(t, "the slow readers are all there", func() bool { return r.s.gates.streams.Stats().InUse >= 20 })
	start := time.Now()
	got, err := readFrom(r.ctx, bytestream.NewByteStreamClient(r.dial()), "blobs/"+blobName(blobP), 0, 0)
	if err != nil || string(got) != "abcdefg" || time.Since(start) > time.Second {
		t.Errorf("beside slow readers: %q, %v after %v", got, err, time.Since(start))
	}
	cancel()
	slow.Wait()
	r.nothingHeld()
}

func TestAReaderThatStopsReadingIsCut(t *testing.T) { // O8
	r := newGRPCRig(t, func(o *Options) { o.ReadStall, o.WriteWait = 500*time.Millisecond, 100*time.Millisecond })
	b := randomBytes(1, 8*mib)
	r.put(b)
	bs := bytestream.NewByteStreamClient(r.dial(grpc.WithInitialWindowSize(64*kib), grpc.WithInitialConnWindowSize(64*kib)))
	st, err := bs.Read(r.ctx, &bytestream.ReadRequest{ResourceName: "blobs/" + blobName(b)})
	r.must(err)
	_, err = st.Recv()
	r.must(err)
	r.nothingHeld() // the stream's own place behind the door included
	for err == nil {
		_, err = st.Recv()
	}
	if errors.Is(err, context.DeadlineExceeded) || status.Code(err) == codes.OK {
		t.Errorf("%v", err)
	}
}
