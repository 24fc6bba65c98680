package bazel

import (
	"bytes"
	"strings"
	"testing"
)

// B3 a, d
func TestAnActionResultIsHiddenUntilItsFilesAreThere(t *testing.T) {
	r, _ := newDiskRig(t, nil)
	ar := unhexString(t, hexARH)
	r.want(r.put("/ac/"+actionKey(1), ar), 200)
	r.want(r.get("/ac/"+actionKey(1)), 404)
	r.want(r.do("HEAD", "/ac/"+actionKey(1), nil), 404)
	r.want(r.put("/cas/"+hashH, []byte("hello\n")), 200)
	r.want(r.get("/ac/"+actionKey(1)), 200, string(ar))
	if a := r.do("HEAD", "/ac/"+actionKey(1), nil); a.code != 200 || a.length != 81 {
		t.Errorf("HEAD is %+v", a)
	}
}

// B3 b
func TestAnActionResultIsHiddenUntilTheFilesOfItsTreesAreThere(t *testing.T) {
	r, _ := newDiskRig(t, nil)
	ar := unhexString(t, hexART)
	r.want(r.put("/cas/"+hashT, unhexString(t, hexT)), 200)
	r.want(r.put("/ac/"+actionKey(2), ar), 200)
	r.want(r.get("/ac/"+actionKey(2)), 404)
	r.want(r.put("/cas/"+hashP, []byte("abcdefg")), 200)
	r.want(r.get("/ac/"+actionKey(2)), 200, string(ar))
}

// ccache with layout=bazel keeps its results and manifests under /ac/.
func TestOpaqueEntriesComeBackAsTheyWere(t *testing.T) {
	r, _ := newDiskRig(t, nil)
	for name, body := range map[string]string{
		"a ccache entry": "\xcc\xac\x00\x00\x00\x01zstd follows", "text": "opaque", "nothing": "", "json": `{"a": 1}`,
		"zstd": "\x28\xb5\x2f\xfd\x04\x58\x39\x00\x00abcdefg", "large": strings.Repeat("\xcc", httpInlineSend+1),
		"too large for an action result": strings.Repeat("\xcc", 3*mib),
	} {
		path := "/ac/" + hashOf([]byte(name))
		r.want(r.put(path, []byte(body)), 200)
		r.want(r.get(path), 200, body)
		if a := r.do("HEAD", path, nil); a.code != 200 || a.length != int64(len(body)) {
			t.Errorf("HEAD of %s is %+v", name, a)
		}
	}
	if in := r.cache.ac.Stats().InUse + r.cache.read.Stats().InUse; in != 0 {
		t.Errorf("%d bytes of permits are held", in)
	}
}

func TestAnEntryMayBeReplaced(t *testing.T) {
	r, _ := newDiskRig(t, nil)
	path := "/ac/" + actionKey(5)
	r.want(r.put(path, []byte("one")), 200)
	r.want(r.put(path, []byte("two")), 200)
	r.want(r.get(path), 200, "two")
}

func TestWhatCountsAsAnActionResult(t *testing.T) {
	for _, tt := range []struct {
		name string
		body []byte
		want bool
	}{
		{"one with a file", unhexString(t, hexARH), true},
		{"one with a tree", unhexString(t, hexART), true},
		{"an exit code alone", []byte{4<<3 | 0, 1}, true},
		{"an unknown field beside a known one", []byte{99<<3&0x7f | 0x80, 6, 1, 4<<3 | 0, 1}, true},
		{"nothing", nil, false},
		{"unknown fields only", []byte{1<<3 | 0, 1}, false},
		{"a known number with another type", []byte{4<<3 | 0, 1, 5<<3 | 0, 1}, false},
		{"a known field that is cut", []byte{2<<3 | 2, 5, 1}, false},
		{"a known field and then garbage", []byte{4<<3 | 0, 1, 0xff}, false},
		{"half a million empty messages", bytes.Repeat([]byte{2<<3 | 2, 0}, mib/2), true},
	} {
		got, err := isActionResult(memBlob{bytes.NewReader(tt.body)})
		if got != tt.want || err != nil {
			t.Errorf("%s: %v %v, want %v", tt.name, got, err, tt.want)
		}
	}
}

// A promise that cannot be checked is not made.
func TestAnActionResultThatIsTooLargeToBeCheckedIsHidden(t *testing.T) {
	r, _ := newDiskRig(t, func(h *httpCache) { h.maxAC = 80 })
	r.want(r.put("/cas/"+hashH, []byte("hello\n")), 200)
	r.want(r.put("/ac/"+actionKey(1), unhexString(t, hexARH)), 200)
	r.want(r.get("/ac/"+actionKey(1)), 404)
}

func TestAnActionResultWithDigestsThatAreNoneIsHidden(t *testing.T) {
	r, _ := newDiskRig(t, nil)
	body := []byte("\x12\x0c\x12\x0a\x0a\x06abcdef\x10\x06")
	r.want(r.put("/ac/"+actionKey(1), body), 200)
	r.want(r.get("/ac/"+actionKey(1)), 404)
}

func FuzzIsActionResult(f *testing.F) {
	f.Add(unhexString(f, hexARH))
	f.Add([]byte("\xcc\xac"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := isActionResult(memBlob{bytes.NewReader(b)}); err != nil {
			t.Error(err)
		}
	})
}

func FuzzHTTPPath(f *testing.F) {
	f.Add("/a/b/cas/" + hashP)
	f.Add("/status")
	f.Fuzz(func(t *testing.T, path string) {
		p, err := parseHTTPPath(path)
		if err == nil && (strings.HasPrefix(p.instance, "/") || strings.Contains(p.instance, "..")) && strings.Contains("/"+p.instance+"/", "/../") {
			t.Errorf("%q gave the instance %q", path, p.instance)
		}
	})
}
