package cases

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

// results makes two action results: of a file, and of a directory with the same file in it.
func results(file []byte) (flat, deep *repb.ActionResult, tree []byte, err error) {
	tree, err = proto.Marshal(&repb.Tree{Root: &repb.Directory{Files: []*repb.FileNode{{Name: "f", Digest: Digest(file)}}}})
	flat = &repb.ActionResult{OutputFiles: []*repb.OutputFile{{Path: "out", Digest: Digest(file)}}}
	deep = &repb.ActionResult{OutputDirectories: []*repb.OutputDirectory{{Path: "dir", TreeDigest: Digest(tree)}}}
	return flat, deep, tree, err
}

func hiddenUntilComplete(c *Client) error {
	file := c.Blob(700)
	flat, deep, tree, err := results(file)
	if err != nil {
		return err
	}
	flatBody, err1 := proto.Marshal(flat)
	deepBody, err2 := proto.Marshal(deep)
	k1, k2 := c.key(), c.key()
	found := func(key string, want codes.Code) error {
		_, err := unary(c.AC.GetActionResult, &repb.GetActionResultRequest{ActionDigest: &repb.Digest{Hash: key, SizeBytes: 1}})
		return code("GetActionResult", err, want)
	}
	if err := errors.Join(err1, err2,
		c.want(http.StatusOK, nil, "PUT", "/ac/"+k1, flatBody),
		c.want(http.StatusNotFound, nil, "GET", "/ac/"+k1, nil), found(k1, codes.NotFound),
		c.want(http.StatusOK, nil, "PUT", "/cas/"+Hash(tree), tree),
		c.want(http.StatusOK, nil, "PUT", "/ac/"+k2, deepBody),
		c.want(http.StatusNotFound, nil, "GET", "/ac/"+k2, nil), found(k2, codes.NotFound)); err != nil {
		return fmt.Errorf("while the file is absent: %w", err)
	}
	return errors.Join(
		c.want(http.StatusOK, nil, "PUT", "/cas/"+Hash(file), file),
		c.want(http.StatusOK, flatBody, "GET", "/ac/"+k1, nil), found(k1, codes.OK),
		c.want(http.StatusOK, deepBody, "GET", "/ac/"+k2, nil), found(k2, codes.OK))
}

func danglingRefused(c *Client) error {
	file := c.Blob(700)
	flat, deep, tree, err := results(file)
	if err != nil {
		return err
	}
	if err := c.store(tree); err != nil {
		return err
	}
	for _, r := range []*repb.ActionResult{flat, deep} {
		_, err := unary(c.AC.UpdateActionResult, &repb.UpdateActionResultRequest{ActionDigest: &repb.Digest{Hash: c.key(), SizeBytes: 1}, ActionResult: r})
		if err := code("UpdateActionResult", err, codes.FailedPrecondition); err != nil {
			return err
		}
		if !bytes.Contains([]byte(err.Error()), []byte(Hash(file))) {
			return fmt.Errorf("the absent digest is not named: %w", err)
		}
	}
	return nil
}

func instances(c *Client) error {
	file, key := c.Blob(700), c.key()
	flat, _, _, err := results(file)
	if err != nil {
		return err
	}
	body, err := proto.Marshal(flat)
	if err := errors.Join(err, c.store(file)); err != nil {
		return err
	}
	action := &repb.Digest{Hash: key, SizeBytes: 1}
	if _, err := unary(c.AC.UpdateActionResult, &repb.UpdateActionResultRequest{InstanceName: "a", ActionDigest: action, ActionResult: flat}); err != nil {
		return err
	}
	for name, want := range map[string]codes.Code{"a": codes.OK, "b": codes.NotFound, "": codes.NotFound} {
		_, err := unary(c.AC.GetActionResult, &repb.GetActionResultRequest{InstanceName: name, ActionDigest: action})
		if err := code("instance "+name, err, want); err != nil {
			return err
		}
	}
	opaque := c.key() // stored as it is, without a look into it
	return errors.Join(
		c.want(http.StatusOK, body, "GET", "/a/ac/"+key, nil),
		c.want(http.StatusNotFound, nil, "GET", "/b/ac/"+key, nil),
		c.want(http.StatusOK, nil, "PUT", "/a/ac/"+opaque, []byte("\xcc\xac of another tool")),
		c.want(http.StatusNotFound, nil, "GET", "/b/ac/"+opaque, nil),
		c.want(http.StatusNotFound, nil, "GET", "/ac/"+opaque, nil),
		c.want(http.StatusOK, nil, "GET", "/a/ac/"+opaque, nil))
}
