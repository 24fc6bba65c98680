package bazel

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/leveehq/levee/gate"
	"github.com/leveehq/levee/internal/blobstore"
	"github.com/leveehq/levee/internal/shedcode"
)

// treeCost is what a GetTree call pays before it begins: its walk, a page, and the directory that did not fit into it.
const treeCost = walkBase + 2*treePage + 32*kib

// maxTreeCost is never asked for at once: what a larger tree takes is tried for bit by bit.
func (o *Options) maxTreeCost() int64 { return treeCost }

// getTree streams a tree in pages until it ends. The last page alone has no token, so a client that follows tokens and one
// that only reads the stream both see every directory once. What is missing is left out (REAPI), except for the root.
func (s *Service) getTree(c *call) error {
	var req repb.GetTreeRequest
	if err := c.small(&req); err != nil {
		return err
	}
	root, err := treeRequest(c, &req)
	if err != nil {
		return err
	}
	skip, err := parsePageToken(req.PageToken, root)
	if err != nil {
		return err
	}
	p, err := c.admit(s.gates.batchRead, shedcode.BazelRead, treeCost)
	if err != nil {
		return err
	}
	defer p.Release()
	extra := extraPermits{s: s, g: s.gates.batchRead, key: c.key()}
	defer extra.release()
	t := treeCall{c: c, root: root, skip: skip, most: int(req.PageSize), walk: newDirWalk(s, []digest{root}, extra.grow)}
	return t.run(c.ctx())
}

func treeRequest(c *call, req *repb.GetTreeRequest) (root digest, err error) {
	if err := c.setInstance(req.InstanceName); err != nil {
		return root, err
	}
	if err := checkFunction(req.DigestFunction); err != nil {
		return root, invalid(err)
	}
	if req.PageSize < 0 {
		return root, status.Errorf(codes.InvalidArgument, "page_size %d is negative", req.PageSize)
	}
	if root, err = parseDigest(req.RootDigest); err != nil {
		return root, status.Errorf(codes.InvalidArgument, "root digest: %v", err)
	}
	return root, nil
}

type treeCall struct {
	c    *call
	root digest
	walk *dirWalk
	skip uint64 // directories of the pages that the client has
	most int    // directories of a page; 0 = what fits

	done  uint64 // directories sent or skipped
	count int    // directories in the page
	page  parts
}

func (t *treeCall) run(ctx context.Context) error {
	for {
		d, data, err := t.walk.next(ctx)
		switch {
		case err == io.EOF:
			return t.send("")
		case err != nil && d == t.root:
			return rootError(d, err)
		case errors.Is(err, blobstore.ErrNotExist), errors.Is(err, errMalformed):
			continue
		case errors.Is(err, gate.ErrShed):
			return err
		case err != nil:
			return readError(d, err)
		}
		if t.done < t.skip {
			t.done++
			continue
		}
		if t.count > 0 && (t.count == t.most || t.page.size+int64(len(data)) > treePage) {
			if err := t.send(pageToken(t.root, t.done)); err != nil {
				return err
			}
		}
		t.add(data)
		t.done++
	}
}

func rootError(d digest, err error) error {
	if errors.Is(err, errMalformed) {
		return status.Errorf(codes.InvalidArgument, "blob %v is not a Directory", d)
	}
	if errors.Is(err, gate.ErrShed) {
		return err
	}
	return readError(d, err)
}

// add puts a directory into the page: repeated Directory directories = 1.
func (t *treeCall) add(data []byte) {
	p := t.page.room(16)
	*p = protowire.AppendTag(*p, 1, protowire.BytesType)
	*p = protowire.AppendVarint(*p, uint64(len(data)))
	t.page.attach(data)
	t.page.size += int64(len(data)) + 64
	t.count++
}

// send sends the page: string next_page_token = 2.
func (t *treeCall) send(token string) error {
	if token != "" {
		p := t.page.room(len(token) + 8)
		*p = protowire.AppendTag(*p, 2, protowire.BytesType)
		*p = protowire.AppendString(*p, token)
	}
	err := t.c.st.SendMessage(t.page.list...)
	t.c.bytes += t.page.size
	t.page, t.count = parts{}, 0
	return err
}

// A page token says how many directories of which tree were sent. The walk's order depends on nothing but the tree, so
// that another server, or this one after a restart, goes on at the same place.
const tokenVersion = 1

func pageToken(root digest, done uint64) string {
	b := append([]byte{tokenVersion}, root.hash[:8]...)
	return base64.RawURLEncoding.EncodeToString(binary.AppendUvarint(b, done))
}

func parsePageToken(token string, root digest) (uint64, error) {
	if token == "" {
		return 0, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err == nil && len(b) > 9 && b[0] == tokenVersion && string(b[1:9]) == string(root.hash[:8]) {
		if n, m := binary.Uvarint(b[9:]); m == len(b)-9 {
			return n, nil
		}
	}
	return 0, status.Error(codes.InvalidArgument, "page_token is not one that this server gave for this tree: begin without one")
}

// extraPermits are what a call adds to its permit bit by bit. They are tried for, never waited for: a call that holds and
// waits could wait for itself.
type extraPermits struct {
	s   *Service
	g   *gate.Gate
	key string
	ps  []*gate.Permit
}

func (e *extraPermits) grow(bytes int64) error {
	p, err := e.g.TryAdmit(e.key, bytes)
	if err != nil {
		return e.s.codes.GRPC(shedcode.BazelRead, err)
	}
	e.ps = append(e.ps, p)
	return nil
}

func (e *extraPermits) release() {
	for _, p := range e.ps {
		p.Release()
	}
}
