package bazel

import (
	"bytes"
	"fmt"
	"testing"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/leveehq/levee/internal/blobstore"
)

// action is the digest of the n-th action.
func action(n int) *repb.Digest { return &repb.Digest{Hash: actionKey(n), SizeBytes: 100} }

func parseResult(t testing.TB, b []byte) *repb.ActionResult {
	t.Helper()
	var ar repb.ActionResult
	if err := proto.Unmarshal(b, &ar); err != nil {
		t.Fatal(err)
	}
	return &ar
}

func (r *grpcRig) update(instance string, n int, ar *repb.ActionResult) error {
	_, err := r.ac.UpdateActionResult(r.ctx, &repb.UpdateActionResultRequest{InstanceName: instance, ActionDigest: action(n), ActionResult: ar})
	return err
}

// putResult stores an encoded result with the blobs that it refers to.
func (r *grpcRig) putResult(instance string, n int, body []byte, blobs ...[]byte) int {
	r.Helper()
	for _, b := range blobs {
		r.put(b)
	}
	r.must(r.update(instance, n, parseResult(r, body)))
	return n
}

func (r *grpcRig) getResult(instance string, n int) (*repb.ActionResult, error) {
	return r.ac.GetActionResult(r.ctx, &repb.GetActionResultRequest{InstanceName: instance, ActionDigest: action(n)})
}

// putOpaque stores an entry as the HTTP cache does: whatever it is.
func (r *grpcRig) putOpaque(instance string, n int, body []byte) {
	r.Helper()
	r.must(r.disk.Put(r.ctx, acKey(instance, unhexMust(actionKey(n))), body))
}

func TestAHitIsCompleteOrAMiss(t *testing.T) { // B3
	r := newGRPCRig(t, nil)
	r.putOpaque("", 1, unhexString(t, hexARH))
	_, err := r.getResult("", 1)
	r.wantCode(err, codes.NotFound, hashH)
	r.put(blobH)
	ar, err := r.getResult("", 1)
	r.must(err)
	if !proto.Equal(ar, parseResult(t, unhexString(t, hexARH))) {
		t.Errorf("%v", ar)
	}

	r.put(unhexString(t, hexT))
	r.putOpaque("", 2, unhexString(t, hexART))
	_, err = r.getResult("", 2)
	r.wantCode(err, codes.NotFound, hashP)
	r.put(blobP)
	_, err = r.getResult("", 2)
	r.must(err)
	_, err = r.getResult("", 3)
	r.wantCode(err, codes.NotFound)
	if c := r.s.Counters(); c.ACHits != 2 || c.ACMisses != 3 || c.ACIncomplete != 2 {
		t.Errorf("counted %+v", c)
	}
}

func TestADanglingResultIsRefusedWithTheFirstAbsentDigest(t *testing.T) { // B3d
	r := newGRPCRig(t, nil)
	r.wantCode(r.update("", 1, parseResult(t, unhexString(t, hexARH))), codes.FailedPrecondition, hashH+"/6")
	r.wantCode(r.update("", 2, parseResult(t, unhexString(t, hexART))), codes.FailedPrecondition, hashT+"/77")
	r.put(unhexString(t, hexT))
	r.wantCode(r.update("", 2, parseResult(t, unhexString(t, hexART))), codes.FailedPrecondition, hashP+"/7")
	ar := &repb.ActionResult{StdoutDigest: digestFor(blobX)}
	r.wantCode(r.update("", 3, ar), codes.FailedPrecondition, hashOf(blobX))
	ar = &repb.ActionResult{StderrDigest: digestFor(blobX)}
	r.wantCode(r.update("", 3, ar), codes.FailedPrecondition, hashOf(blobX))
	r.put(blobX)
	r.must(r.update("", 3, ar))
	r.must(r.update("", 4, &repb.ActionResult{})) // refers to nothing
	if got, err := r.getResult("", 4); err != nil || !proto.Equal(got, &repb.ActionResult{}) {
		t.Errorf("a result of nothing: %v, %v", got, err)
	}
}

func TestFilesBelowATreesChildrenAreChecked(t *testing.T) {
	r := newGRPCRig(t, nil)
	child := &repb.Directory{Files: []*repb.FileNode{{Name: "g", Digest: digestFor(blobX)}}}
	cb, _ := proto.Marshal(child)
	tree := &repb.Tree{Root: &repb.Directory{Files: []*repb.FileNode{{Name: "f", Digest: digestFor(blobP)}},
		Directories: []*repb.DirectoryNode{{Name: "d", Digest: digestFor(cb)}}}, Children: []*repb.Directory{child}}
	tb, _ := proto.Marshal(tree)
	ar := &repb.ActionResult{OutputDirectories: []*repb.OutputDirectory{{Path: "dir", TreeDigest: digestFor(tb)}},
		OutputSymlinks: []*repb.OutputSymlink{{Path: "l", Target: "dir"}}}
	r.put(tb)
	r.put(blobP)
	r.wantCode(r.update("", 1, ar), codes.FailedPrecondition, hashOf(blobX))
	r.put(blobX)
	r.must(r.update("", 1, ar)) // the child directory itself is in the tree, not in the cache
	_, err := r.getResult("", 1)
	r.must(err)

	ar.OutputDirectories[0].TreeDigest = digestFor(blobX) // no tree
	r.wantCode(r.update("", 2, ar), codes.FailedPrecondition, hashOf(blobX), "is not a Tree")
	ar.OutputDirectories[0].TreeDigest = nil // stored as directories, one by one
	root, _ := proto.Marshal(tree.Root)
	ar.OutputDirectories[0].RootDirectoryDigest = digestFor(root)
	r.wantCode(r.update("", 3, ar), codes.FailedPrecondition, hashOf(root))
	r.put(root)
	r.wantCode(r.update("", 3, ar), codes.FailedPrecondition, hashOf(cb))
	r.put(cb)
	r.must(r.update("", 3, ar))
	ar.OutputDirectories[0].RootDirectoryDigest = digestFor(blobX)
	r.wantCode(r.update("", 4, ar), codes.FailedPrecondition, hashOf(blobX), "is not a Directory")
}

func TestAHitRefreshesAllThatItPromises(t *testing.T) { // B3c
	r := newGRPCRig(t, func(o *Options) {
		rig := &grpcRig{TB: t}
		rig.openDisk(blobstore.Options{MaxSize: 100 * 4096})
		o.Store = rig.disk
	})
	r.putResult("", 1, unhexString(t, hexART), unhexString(t, hexT), blobP)
	old := r.put([]byte("old and not in use"))
	fill := func(n int) {
		for i := range n {
			r.put([]byte(fmt.Sprintf("filler %d of %d", i, n)))
		}
	}
	fill(70)
	_, err := r.getResult("", 1)
	r.must(err)
	fill(71) // the first filler and the old blob are gone now, if recency is what decides
	if got := r.missing(old, digestFor(blobP), digestFor(unhexString(t, hexT))); len(got) != 1 || got[0] != old.Hash {
		t.Errorf("missing: %v, want only the old blob", got)
	}
	_, err = r.getResult("", 1)
	r.must(err)
}

func TestInstancesHaveTheirOwnResults(t *testing.T) { // B16
	r := newGRPCRig(t, nil)
	r.putResult("a", 6, unhexString(t, hexARH), blobH)
	for instance, want := range map[string]codes.Code{"a": codes.OK, "b": codes.NotFound, "": codes.NotFound, "a/a": codes.NotFound} {
		if _, err := r.getResult(instance, 6); status.Code(err) != want {
			t.Errorf("instance %q: %v, want %v", instance, err, want)
		}
	}
	for _, name := range []string{"git", "v8/x", "a/blobs", "x//y"} {
		_, err := r.getResult(name, 6)
		r.wantCode(err, codes.InvalidArgument, "instance name")
		r.wantCode(r.update(name, 6, &repb.ActionResult{}), codes.InvalidArgument, "instance name")
	}
}

func TestOpaqueEntriesAreMissesOverGRPC(t *testing.T) {
	r := newGRPCRig(t, nil)
	for i, body := range []string{"cCrS\x00\x01\x02 a compiler's cache entry", "plain text", "\x00\x00\x00", "{\"json\": true}", "\x12\xff\xff\xff\xff\x0f"} {
		r.putOpaque("", 1, []byte(body))
		if _, err := r.getResult("", 1); status.Code(err) != codes.NotFound {
			t.Errorf("entry %d: %v", i, err)
		}
	}
}

func TestWhatIsAskedForIsInlined(t *testing.T) {
	r := newGRPCRig(t, nil)
	out, errOut, big := []byte("the output"), []byte("the errors"), randomBytes(1, 3*mib)
	ar := &repb.ActionResult{
		OutputFiles: []*repb.OutputFile{
			{Path: "a.d", Digest: digestFor(blobH), IsExecutable: true}, {Path: "b.o", Digest: digestFor(blobX)}, {Path: "big", Digest: digestFor(big)},
			{Path: "empty", Digest: digestFor(nil)},
		},
		StdoutDigest: digestFor(out), StderrDigest: digestFor(errOut), ExitCode: 3,
	}
	for _, b := range [][]byte{out, errOut, big, blobH, blobX} {
		r.put(b)
	}
	r.must(r.update("", 1, ar))
	plain, err := r.getResult("", 1)
	r.must(err)
	if !proto.Equal(plain, ar) {
		t.Errorf("unasked: %v", plain)
	}
	got, err := r.ac.GetActionResult(r.ctx, &repb.GetActionResultRequest{ActionDigest: action(1), InlineStdout: true, InlineStderr: true,
		InlineOutputFiles: []string{"a.d", "big", "empty", "nowhere"}})
	r.must(err)
	want := proto.Clone(ar).(*repb.ActionResult)
	want.StdoutRaw, want.StderrRaw = out, errOut
	want.OutputFiles[0].Contents = blobH // "big" does not fit into a message, and need not
	if !proto.Equal(got, want) {
		t.Errorf("got %v", got)
	}

	paths := []string{"a.d"}
	for i := range 200 { // a request that is itself large
		paths = append(paths, fmt.Sprintf("some/long/path/to/a/file/that/nobody/made/%d", i))
	}
	got, err = r.ac.GetActionResult(r.ctx, &repb.GetActionResultRequest{ActionDigest: action(1), InlineOutputFiles: paths})
	r.must(err)
	if !bytes.Equal(got.OutputFiles[0].Contents, blobH) {
		t.Errorf("a long list: %v", got)
	}
}

func TestUpdatesWithoutTheirPartsAreRefused(t *testing.T) {
	r := newGRPCRig(t, nil)
	_, err := r.ac.UpdateActionResult(r.ctx, &repb.UpdateActionResultRequest{ActionDigest: action(1)})
	r.wantCode(err, codes.InvalidArgument, "action_result")
	_, err = r.ac.UpdateActionResult(r.ctx, &repb.UpdateActionResultRequest{ActionResult: &repb.ActionResult{}})
	r.wantCode(err, codes.InvalidArgument, "action_digest")
	_, err = r.ac.UpdateActionResult(r.ctx, &repb.UpdateActionResultRequest{ActionDigest: action(1), ActionResult: &repb.ActionResult{}, DigestFunction: repb.DigestFunction_SHA1})
	r.wantCode(err, codes.InvalidArgument, "SHA1")
}

func FuzzActionResult(f *testing.F) {
	f.Add([]byte{})
	f.Add(unhexString(f, hexARH))
	f.Add(unhexString(f, hexART))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := parseActionResult(b)
		if err != nil {
			return
		}
		var ar repb.ActionResult
		if proto.Unmarshal(b, &ar) != nil {
			return // only what protobuf itself would refuse for other reasons, such as text that is not UTF-8
		}
		trees := 0
		for _, d := range ar.OutputDirectories {
			if d.TreeDigest != nil {
				trees++
			}
		}
		if len(ar.OutputFiles) < len(a.blobs)-2 || len(a.trees) < trees {
			t.Errorf("found %d blobs and %d trees in %v", len(a.blobs), len(a.trees), &ar)
		}
	})
}
