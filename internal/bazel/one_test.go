package bazel

import (
	"bytes"
	"fmt"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/protobuf/proto"
)

// exercise uses everything once, with content of its own. What the door sheds is asked for again.
func (r *grpcRig) exercise(client int) error {
	again := func(call func() error) error {
		for {
			err := call()
			if err == nil || !strings.Contains(err.Error(), "shed by gate streams") && !strings.Contains(err.Error(), "shed by gate write: busy") {
				return err
			}
		}
	}
	seed := uint64(client * 100)
	plain := append(randomBytes(seed, 300*kib), make([]byte, 300*kib)...)
	packed := randomBytes(seed+1, 200*kib)
	small := [][]byte{randomBytes(seed+2, 100), randomBytes(seed+3, 50*kib)}
	child, _ := proto.Marshal(&repb.Directory{Files: []*repb.FileNode{{Name: fmt.Sprint(client), Digest: digestFor(plain)}}})
	root, _ := proto.Marshal(&repb.Directory{Directories: []*repb.DirectoryNode{{Name: "d", Digest: digestFor(child)}}})
	result := &repb.ActionResult{
		OutputFiles:       []*repb.OutputFile{{Path: "f", Digest: digestFor(small[0])}},
		OutputDirectories: []*repb.OutputDirectory{{Path: "d", RootDirectoryDigest: digestFor(root)}},
		StdoutDigest:      digestFor(small[1]),
	}
	steps := []func() error{
		func() error { _, err := r.write(r.writeName(plain), plain, 16*kib); return err },
		func() error {
			_, err := r.write("uploads/u/compressed-blobs/zstd/"+blobName(packed), compress(r, packed), 16*kib)
			return err
		},
		func() error {
			req := &repb.BatchUpdateBlobsRequest{}
			for _, b := range append(small, child, root) {
				q := request(b)
				q.Data, q.Compressor = compress(r, b), repb.Compressor_ZSTD
				req.Requests = append(req.Requests, q)
			}
			resp, err := r.cas.BatchUpdateBlobs(r.ctx, req)
			for _, a := range resp.GetResponses() {
				if a.Status.GetCode() != 0 {
					return fmt.Errorf("batch: %v", a.Status)
				}
			}
			return err
		},
		func() error {
			got, err := r.read("compressed-blobs/zstd/"+blobName(plain), 0, 0)
			if err == nil {
				got, err = decodeAll(got)
			}
			if err == nil && !bytes.Equal(got, plain) {
				err = fmt.Errorf("read %d bytes", len(got))
			}
			return err
		},
		func() error {
			resp, err := r.cas.BatchReadBlobs(r.ctx, &repb.BatchReadBlobsRequest{Digests: []*repb.Digest{digestFor(small[0]), digestFor(packed)}})
			if err == nil && (len(resp.Responses) != 2 || !bytes.Equal(resp.Responses[1].Data, packed)) {
				err = fmt.Errorf("batch read: %d", len(resp.Responses))
			}
			return err
		},
		func() error {
			resp, err := r.cas.FindMissingBlobs(r.ctx, &repb.FindMissingBlobsRequest{BlobDigests: []*repb.Digest{digestFor(plain), {Hash: actionKey(9), SizeBytes: 1}}})
			if err == nil && len(resp.MissingBlobDigests) != 1 {
				err = fmt.Errorf("missing: %v", resp)
			}
			return err
		},
		func() error {
			got, err := r.tree(&repb.GetTreeRequest{RootDigest: digestFor(root)})
			if err == nil && len(got.dirs) != 2 {
				err = fmt.Errorf("tree: %v", got)
			}
			return err
		},
		func() error { return r.update(fmt.Sprint(client), 1, result) },
		func() error {
			got, err := r.ac.GetActionResult(r.ctx, &repb.GetActionResultRequest{InstanceName: fmt.Sprint(client), ActionDigest: action(1), InlineStdout: true})
			if err == nil && !bytes.Equal(got.StdoutRaw, small[1]) {
				err = fmt.Errorf("inlined %d bytes", len(got.StdoutRaw))
			}
			return err
		},
	}
	for i, step := range steps {
		if err := again(step); err != nil {
			return fmt.Errorf("client %d, step %d: %w", client, i, err)
		}
	}
	return nil
}

func TestEverythingWorksWithEveryLimitAtOne(t *testing.T) { // O5
	for _, clients := range []int{1, 2, 20} {
		t.Run(fmt.Sprint(clients), func(t *testing.T) {
			r := newGRPCRig(t, func(o *Options) {
				store := o.Store
				*o = tinyOptions(o.Kernel, store)
				o.MaxStreams, o.WriteWait, o.ReadWait = clients, 30*time.Second, 30*time.Second
				o.WriteQueue = clients
			})
			var stacks strings.Builder
			watchdog := time.AfterFunc(30*time.Second, func() { _ = pprof.Lookup("goroutine").WriteTo(&stacks, 2); _ = r.conn.Close() })
			defer func() {
				if !watchdog.Stop() {
					t.Errorf("no progress for 30 s:\n%s", stacks.String())
				}
			}()
			var wg sync.WaitGroup
			for i := range clients {
				wg.Go(func() {
					if err := r.exercise(i); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
		})
	}
}
