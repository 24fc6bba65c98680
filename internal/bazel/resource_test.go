package bazel

import (
	"strings"
	"testing"
)

func TestResourceNamesAreUnderstoodInAllTheirForms(t *testing.T) {
	const id = "f9c53b3a-5d0a-4d9b-9e3f-0d9a3f0c9e11"
	for _, c := range []struct {
		name   string
		zstd   bool
		inst   string
		upload string // empty for a read
	}{
		{"blobs/" + hashP + "/7", false, "", ""},
		{"a/b/blobs/" + hashP + "/7", false, "a/b", ""},
		{"a/blobs/sha256/" + hashP + "/7", false, "a", ""},
		{"compressed-blobs/zstd/" + hashP + "/7", true, "", ""},
		{"uploads/" + id + "/blobs/" + hashP + "/7", false, "", "uploads/" + id + "/blobs/" + hashP + "/7"},
		{"a/uploads/" + id + "/blobs/" + hashP + "/7/some/meta/data", false, "a", "a/uploads/" + id + "/blobs/" + hashP + "/7"},
		{"a/uploads/" + id + "/compressed-blobs/zstd/" + hashP + "/7", true, "a", "a/uploads/" + id + "/compressed-blobs/zstd/" + hashP + "/7"},
		{"uploads/blobs/blobs/" + hashP + "/7", false, "", "uploads/blobs/blobs/" + hashP + "/7"}, // a uuid like any other
	} {
		parse := parseWrite
		if c.upload == "" {
			parse = parseRead
		}
		r, err := parse(c.name)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if hexOf(r.digest) != hashP || r.size != 7 || r.zstd != c.zstd || r.instance != c.inst || r.upload != c.upload {
			t.Errorf("%s: %+v", c.name, r)
		}
	}
}

func TestWrongResourceNamesAreRefusedWithTheReason(t *testing.T) {
	up := "uploads/u/blobs/" + hashP
	for _, c := range []struct {
		name  string
		write bool
		want  string
	}{
		{"", false, "empty"},
		{"blobs/" + hashP, false, "lacks the hash or the size"},
		{"blobs/" + hashP + "/7/more", false, "nothing after the size"},
		{"blobs/" + strings.ToUpper(hashP) + "/7", false, "lowercase"},
		{"blobs/" + hashP[1:] + "/7", false, "63 characters"},
		{"blobs/" + hashP[:32] + "/7", false, "MD5"},
		{"blobs/" + hashP + "/-7", false, "not a number of bytes"},
		{"blobs/" + hashP + "/+7", false, "not a number of bytes"},
		{"blobs/" + hashP + "/99999999999999999999", false, "not a number of bytes"},
		{"blobs/blake3/" + hashP + "/7", false, `"blake3" is not supported`},
		{"compressed-blobs/deflate/" + hashP + "/7", false, `"deflate" is not supported`},
		{"compressed-blobs/" + hashP + "/7", false, "is not supported"},
		{up + "/7", false, "should be [instance/]blobs"},
		{"blobs/" + hashP + "/7", true, "should be [instance/]uploads"},
		{"uploads//blobs/" + hashP + "/7", true, "should be"},
		{"git/" + up + "/7", true, "reserved"},
		{"graphql/x/blobs/" + hashP + "/7", false, "reserved"},
		{"a//blobs/" + hashP + "/7", false, "empty or dotted"},
		{"a/../blobs/" + hashP + "/7", false, "empty or dotted"},
		{"actions/" + up + "/7", true, "Remote Execution API reserves"},
		{"a\x00/blobs/" + hashP + "/7", false, "cannot be printed"},
		{"\xff/blobs/" + hashP + "/7", false, "UTF-8"},
		{strings.Repeat("a/", 600) + "blobs/" + hashP + "/7", false, "at most 1024"},
	} {
		parse := parseRead
		if c.write {
			parse = parseWrite
		}
		if _, err := parse(c.name); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want an error with %q", c.name, err, c.want)
		}
	}
}

func TestReservedInstancesAreRefusedOnlyInFront(t *testing.T) {
	for _, name := range []string{"git", "git/x", "graphql", "v1", "v8", "status", "a/blobs", "uploads", "a/", "/a", strings.Repeat("x", 257)} {
		if checkInstance(name) == nil {
			t.Errorf("instance %q is accepted", name)
		}
	}
	for _, name := range []string{"", "a", "main/git", "v2", "ac", "grüße", strings.Repeat("x", 256)} {
		if err := checkInstance(name); err != nil {
			t.Errorf("instance %q: %v", name, err)
		}
	}
}

func FuzzResourceName(f *testing.F) {
	for _, s := range []string{"", "/", "blobs/" + hashP + "/7", "a/uploads/u/compressed-blobs/zstd/" + hashP + "/7/m", "uploads/blobs/blobs/x/1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if r, err := parseWrite(name); err == nil {
			again, err := parseWrite(r.upload)
			if err != nil || again.upload != r.upload || again.digest != r.digest || !strings.HasPrefix(name, r.upload) {
				t.Errorf("%q: the upload's name %q reads differently: %v", name, r.upload, err)
			}
		}
		if r, err := parseRead(name); err == nil && (r.size < 0 || checkInstance(r.instance) != nil) {
			t.Errorf("%q: %+v", name, r)
		}
	})
}

func hexOf(d digest) string { return strings.Split(d.String(), "/")[0] }
