package bazel

import (
	"fmt"
	"io"
	"testing"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

// putDirs stores directories and returns the last one's digest.
func (r *grpcRig) putDirs(dirs ...*repb.Directory) (last *repb.Digest) {
	r.Helper()
	for _, d := range dirs {
		b, err := proto.Marshal(d)
		r.must(err)
		last = r.put(b)
	}
	return last
}

type treePages struct {
	dirs   []*repb.Directory
	pages  int
	tokens []string
}

func (r *grpcRig) tree(req *repb.GetTreeRequest) (p treePages, err error) {
	st, err := r.cas.GetTree(r.ctx, req)
	if err != nil {
		return p, err
	}
	for {
		m, err := st.Recv()
		if err == io.EOF {
			return p, nil
		}
		if err != nil {
			return p, err
		}
		p.pages++
		p.dirs = append(p.dirs, m.Directories...)
		p.tokens = append(p.tokens, m.NextPageToken)
	}
}

// wideTree has a root, 10 directories in it, and in each of those 10 more and an empty one that all share.
func (r *grpcRig) wideTree(pad int) (root *repb.Digest, distinct int) {
	r.Helper()
	name := func(i int) string { return fmt.Sprintf("%0*d", pad+1, i) }
	top := &repb.Directory{}
	for i := range 10 {
		mid := &repb.Directory{}
		for j := range 10 {
			leaf := &repb.Directory{Files: []*repb.FileNode{{Name: name(i*10 + j), Digest: digestFor(blobP)}}}
			mid.Directories = append(mid.Directories, &repb.DirectoryNode{Name: name(j), Digest: r.putDirs(leaf)})
		}
		mid.Directories = append(mid.Directories, &repb.DirectoryNode{Name: "empty", Digest: digestFor(nil)})
		top.Directories = append(top.Directories, &repb.DirectoryNode{Name: name(i), Digest: r.putDirs(mid)})
	}
	return r.putDirs(top), 1 + 10 + 100 + 1
}

func TestATreeComesInPagesThatCanBeResumed(t *testing.T) {
	r := newGRPCRig(t, nil)
	root, distinct := r.wideTree(10 * kib)
	whole, err := r.tree(&repb.GetTreeRequest{RootDigest: root})
	r.must(err)
	if len(whole.dirs) != distinct || whole.pages < 4 || whole.tokens[whole.pages-1] != "" {
		t.Fatalf("%d directories in %d pages, last token %q; want %d in several", len(whole.dirs), whole.pages, whole.tokens[whole.pages-1], distinct)
	}
	root, _ = r.wideTree(1)
	whole, err = r.tree(&repb.GetTreeRequest{RootDigest: root})
	r.must(err)
	small, err := r.tree(&repb.GetTreeRequest{RootDigest: root, PageSize: 7})
	r.must(err)
	if len(small.dirs) != distinct || small.pages != (distinct+6)/7 {
		t.Errorf("%d directories in %d pages of 7", len(small.dirs), small.pages)
	}
	for i, token := range small.tokens[:len(small.tokens)-1] {
		rest, err := r.tree(&repb.GetTreeRequest{RootDigest: root, PageToken: token})
		r.must(err)
		if len(rest.dirs) != distinct-7*(i+1) || !proto.Equal(rest.dirs[0], whole.dirs[7*(i+1)]) {
			t.Errorf("after page %d there are %d directories", i, len(rest.dirs))
		}
	}
}

func TestWhatIsMissingOfATreeIsLeftOut(t *testing.T) {
	r := newGRPCRig(t, nil)
	_, err := r.tree(&repb.GetTreeRequest{RootDigest: digestFor(blobH)})
	r.wantCode(err, codes.NotFound)
	r.put([]byte("\x0a\xffno directory"))
	_, err = r.tree(&repb.GetTreeRequest{RootDigest: digestFor([]byte("\x0a\xffno directory"))})
	r.wantCode(err, codes.InvalidArgument, "not a Directory")
	there := &repb.Directory{Symlinks: []*repb.SymlinkNode{{Name: "l", Target: "t"}}}
	root := r.putDirs(there, &repb.Directory{Directories: []*repb.DirectoryNode{
		{Name: "gone", Digest: digestFor(blobH)}, {Name: "there", Digest: r.putDirs(there)}}})
	got, err := r.tree(&repb.GetTreeRequest{RootDigest: root})
	r.must(err)
	if len(got.dirs) != 2 || !proto.Equal(got.dirs[1], there) {
		t.Errorf("%v", got.dirs)
	}
	got, err = r.tree(&repb.GetTreeRequest{RootDigest: digestFor(nil)})
	if err != nil || len(got.dirs) != 1 {
		t.Errorf("the empty directory: %v, %v", got, err)
	}
}

func TestPageTokensThatAreNotOursAreRefused(t *testing.T) {
	r := newGRPCRig(t, nil)
	root, _ := r.wideTree(1)
	other, _ := r.wideTree(2)
	pages, err := r.tree(&repb.GetTreeRequest{RootDigest: other, PageSize: 3})
	r.must(err)
	for _, token := range []string{"x", "AAAA", "!!!", pages.tokens[0], pages.tokens[0] + "AAAA", string(make([]byte, 100))} {
		_, err := r.tree(&repb.GetTreeRequest{RootDigest: root, PageToken: token})
		r.wantCode(err, codes.InvalidArgument, "page_token")
	}
	_, err = r.tree(&repb.GetTreeRequest{RootDigest: root, PageSize: -1})
	r.wantCode(err, codes.InvalidArgument, "page_size")
	all, err := r.tree(&repb.GetTreeRequest{RootDigest: root, PageToken: pageToken(mustDigest(root), 1<<60)})
	if err != nil || len(all.dirs) != 0 {
		t.Errorf("past the end: %v, %v", all, err)
	}
}

func mustDigest(p *repb.Digest) digest {
	d, err := parseDigest(p)
	if err != nil {
		panic(err)
	}
	return d
}

func TestATreeWithoutEndIsBounded(t *testing.T) {
	// Each directory has the next one twice: 2^60 paths, 61 distinct directories.
	r := newGRPCRig(t, nil)
	d := r.putDirs(&repb.Directory{Files: []*repb.FileNode{{Name: "f", Digest: digestFor(blobP)}}})
	for range 60 {
		d = r.putDirs(&repb.Directory{Directories: []*repb.DirectoryNode{{Name: "a", Digest: d}, {Name: "b", Digest: d}}})
	}
	got, err := r.tree(&repb.GetTreeRequest{RootDigest: d})
	if err != nil || len(got.dirs) != 61 {
		t.Errorf("%d directories, %v", len(got.dirs), err)
	}
}
