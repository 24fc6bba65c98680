package mirror

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/leveehq/levee/internal/git/upstream"
)

func TestAnIndexIsReadAsGitReadsIt(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		w := newOrigin(t, "--object-format="+format)
		for i := range 700 {
			must(t, os.WriteFile(filepath.Join(w.dir, fmt.Sprint(i)), fmt.Append(nil, i), 0o600))
		}
		w.git("add", ".")
		w.commit("main")
		prune(t, w.origin)
		packs, err := openPacks(filepath.Join(w.origin, "objects", "pack"), hashLen(format))
		must(t, err)
		names := strings.Fields(git(t, w.origin, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)"))
		if len(packs) != 1 || packs[0].objects() != int64(len(names)) {
			t.Fatalf("%s: %d packs", format, len(packs))
		}
		strangers := make([]string, len(names))
		for i, n := range names {
			strangers[i] = n[:len(n)-1] + string("123456789abcdef0"[strings.IndexByte("0123456789abcdef", n[len(n)-1])])
		}
		got, err := absent(packs, append(names, strangers...))
		must(t, err)
		if !slices.Equal(got, strangers) {
			t.Errorf("%s: of %d names and as many strangers %d are absent", format, len(names), len(got))
		}
	}
}

// index makes one of n objects.
func index(n int) []byte {
	var names []string
	for i := range n {
		sum := sha1.Sum(fmt.Append(nil, i))
		names = append(names, string(sum[:]))
	}
	slices.Sort(names)
	b := []byte("\xfftOc\x00\x00\x00\x02")
	for i := range 256 {
		count := 0
		for _, name := range names {
			if int(name[0]) <= i {
				count++
			}
		}
		b = append(b, byte(count>>24), byte(count>>16), byte(count>>8), byte(count))
	}
	b = append(b, strings.Join(names, "")...)
	return append(b, make([]byte, 8*n+40)...)
}

func FuzzAnIndexFromDiskIsReadOrRefused(f *testing.F) {
	f.Add(index(0), []byte("x"))
	f.Add(index(300), bytes.Repeat([]byte("y"), 20))
	f.Fuzz(func(t *testing.T, b, name []byte) {
		p := &pack{base: "x", hash: 20}
		if err := p.readIndex(bytes.NewReader(b), int64(len(b))); err != nil {
			return
		}
		raw := append(name, make([]byte, 20)...)[:20]
		found, err := p.has(bytes.NewReader(b), raw)
		if err != nil {
			t.Fatal(err) // its length was checked
		}
		if found && !bytes.Contains(b, raw) {
			t.Error("found what is not there")
		}
	})
}

func FuzzRefsComeBackAsTheyWereWritten(f *testing.F) {
	f.Add("refs/heads/main", "refs/tags/v1", "refs/heads/main", "aa", "bb")
	f.Add("HEAD", "refs/heads/x.lock", "", "", "\n")
	f.Fuzz(func(t *testing.T, one, two, head, oid, peeled string) {
		name := func(s string) string { sum := sha1.Sum([]byte(s)); return hex.EncodeToString(sum[:]) }
		r := &upstream.Refs{List: []upstream.Ref{
			{Name: "HEAD", Symref: head, OID: name(oid)}, {Name: one, OID: name(oid)}, {Name: two, OID: name(oid), Peeled: name(peeled)},
		}}
		if checkRefs(r) != nil {
			return
		}
		dir := t.TempDir()
		must(t, writeRefs(dir, r))
		got, err := readRefs(dir, "sha1", nil)
		must(t, err)
		byName := func(list []upstream.Ref) []upstream.Ref {
			list = slices.Clone(list)[1:]
			slices.SortFunc(list, func(a, b upstream.Ref) int { return strings.Compare(a.Name, b.Name) })
			return list
		}
		if !slices.Equal(byName(got.List), byName(r.List)) {
			t.Errorf("wrote %+v, read %+v", r.List, got.List)
		}
	})
}

func TestNamesOfRefsAreWhatGitAllows(t *testing.T) {
	for _, name := range []string{"refs/heads/a", "refs/heads/ä", "refs/a", "refs/heads/a.b", "refs/heads/@", "refs/heads/a@b", "refs/heads/-a",
		"refs/heads/a..b", "refs/heads/.a", "refs/heads/a.", "refs/heads/a.lock", "refs/heads/a.lock/b", "refs/heads/a~b", "refs/heads/a b",
		"refs/heads//a", "refs/heads/a/", "refs/heads/a\\b", "refs/heads/a@{b", "refs/heads/a\x7f", "refs/heads/a*", "refs/heads/a[b", "refs/heads/\tx"} {
		_, err := tryGit("", "check-ref-format", name)
		if validName(name) != (err == nil) {
			t.Errorf("%q: git says %v", name, err)
		}
	}
}
