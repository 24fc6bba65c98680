package mirror

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/leveehq/levee/internal/git/upstream"
)

// snapshot is what upstream advertised at one moment. It is never changed.
type snapshot struct {
	refs  *upstream.Refs
	seq   uint64    // later refs have a higher one; equal refs keep it
	gen   uint64    // of a mirror that has just got them
	began time.Time // when the question began that was last answered so
}

func (s *snapshot) at(began time.Time) *snapshot {
	again := *s
	again.began = began
	return &again
}

// bytes is about what the list takes in memory.
func (s *snapshot) bytes() (n int64) {
	for _, r := range s.refs.List {
		n += refBytes + int64(len(r.Name)+len(r.OID)+len(r.Peeled)+len(r.Symref))
	}
	return n
}

const (
	refBytes     = 64 + 32 // four strings' headers, and what the allocator adds to their bytes
	suspectBytes = 24 + 32
)

func sameRefs(a, b *upstream.Refs) bool {
	return a.ObjectFormat == b.ObjectFormat && slices.Equal(a.List, b.List)
}

// oids are the objects that refs name, each once.
func oids(r *upstream.Refs) []string {
	seen := make(map[string]struct{}, len(r.List))
	var list []string
	for _, ref := range r.List {
		if _, ok := seen[ref.OID]; ok || ref.OID == "" {
			continue
		}
		seen[ref.OID] = struct{}{}
		list = append(list, ref.OID)
	}
	return list
}

// checkRefs keeps out what could not be written to packed-refs, or would mean something else there.
func checkRefs(r *upstream.Refs) error {
	if r.ObjectFormat == "" {
		r.ObjectFormat = "sha1"
	}
	n := hashLen(r.ObjectFormat)
	if n == 0 {
		return malformed("advertises the object format %.40q, which is not known", r.ObjectFormat)
	}
	seen := make(map[string]struct{}, len(r.List))
	// Of a repository within a namespace (gitnamespaces(7)) git names the HEAD of all besides the namespace's own, which is first.
	heads := 0
	r.List = slices.DeleteFunc(r.List, func(ref upstream.Ref) bool {
		if ref.Name == "HEAD" {
			heads++
		}
		return ref.Name == "HEAD" && heads > 1
	})
	for _, ref := range r.List {
		if _, twice := seen[ref.Name]; twice {
			return malformed("advertises %.200q twice", ref.Name)
		}
		seen[ref.Name] = struct{}{}
		switch {
		case ref.Name != "HEAD" && !validName(ref.Name):
			return malformed("advertises a ref with a name that git does not allow: %.200q", ref.Name)
		case ref.Symref != "" && !validName(ref.Symref):
			return malformed("advertises %.200q as a symbolic ref to %.200q, which is no name of a ref", ref.Name, ref.Symref)
		case ref.OID == "" && ref.Name != "HEAD", ref.OID != "" && !validOID(ref.OID, n), ref.Peeled != "" && !validOID(ref.Peeled, n):
			return malformed("advertises %.200q with no valid object id", ref.Name)
		}
	}
	return nil
}

func malformed(format string, args ...any) error {
	return &upstream.Failure{Kind: upstream.Malformed, Err: fmt.Errorf("upstream "+format, args...)}
}

func validOID(s string, n int) bool {
	return len(s) == 2*n && strings.Trim(s, "0123456789abcdef") == ""
}

// validName is git-check-ref-format(1), for names below refs/.
func validName(name string) bool {
	if !strings.HasPrefix(name, "refs/") || strings.HasSuffix(name, ".") || len(name) > 4096 ||
		strings.Contains(name, "..") || strings.Contains(name, "@{") {
		return false
	}
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c == 0x7f || strings.IndexByte(`~^:?*[\`, c) >= 0 {
			return false
		}
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part[0] == '.' || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return true
}

// writeRefs replaces all refs of a repository. HEAD comes second, so it may lag; the caller notes that refs are changing.
func writeRefs(dir string, r *upstream.Refs) error {
	list := slices.Clone(r.List)
	slices.SortFunc(list, func(a, b upstream.Ref) int { return strings.Compare(a.Name, b.Name) })
	var b bytes.Buffer
	b.WriteString("# pack-refs with: peeled fully-peeled sorted \n")
	head := "ref: " + noHead
	for _, ref := range list {
		switch {
		case ref.Name == "HEAD" && ref.Symref != "":
			head = "ref: " + ref.Symref
		case ref.Name == "HEAD" && ref.OID != "":
			head = ref.OID
		case ref.Name != "HEAD":
			fmt.Fprintf(&b, "%s %s\n", ref.OID, ref.Name)
			if ref.Peeled != "" {
				fmt.Fprintf(&b, "^%s\n", ref.Peeled)
			}
		}
	}
	if err := replaceFile(filepath.Join(dir, "packed-refs"), b.Bytes()); err != nil {
		return err
	}
	return replaceFile(filepath.Join(dir, "HEAD"), []byte(head+"\n"))
}

// symrefs are those but HEAD, which git's files do not keep here.
func symrefs(r *upstream.Refs) map[string]string {
	links := map[string]string{}
	for _, ref := range r.List {
		if ref.Symref != "" && ref.Name != "HEAD" {
			links[ref.Name] = ref.Symref
		}
	}
	return links
}

// readRefs is what writeRefs wrote.
func readRefs(dir, format string, links map[string]string) (*upstream.Refs, error) {
	r := &upstream.Refs{ObjectFormat: format}
	byName := map[string]string{}
	b, err := os.ReadFile(filepath.Join(dir, "packed-refs"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	lines := bufio.NewScanner(bytes.NewReader(b))
	lines.Buffer(nil, 8<<10)
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "#") {
			continue
		}
		if peeled, ok := strings.CutPrefix(line, "^"); ok && len(r.List) > 0 {
			r.List[len(r.List)-1].Peeled = peeled
			continue
		}
		oid, name, _ := strings.Cut(line, " ")
		r.List = append(r.List, upstream.Ref{Name: name, OID: oid, Symref: links[name]})
		byName[name] = oid
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("packed-refs: %w", err)
	}
	head, err := readHead(dir, byName)
	if err != nil {
		return nil, err
	}
	r.List = append(head, r.List...)
	return r, checkRefs(r)
}

func readHead(dir string, byName map[string]string) ([]upstream.Ref, error) {
	b, err := os.ReadFile(filepath.Join(dir, "HEAD"))
	if err != nil {
		return nil, err
	}
	text := strings.TrimSpace(string(b))
	target, symbolic := strings.CutPrefix(text, "ref: ")
	switch {
	case target == noHead:
		return nil, nil
	case symbolic:
		return []upstream.Ref{{Name: "HEAD", OID: byName[target], Symref: target}}, nil
	}
	return []upstream.Ref{{Name: "HEAD", OID: text}}, nil
}

// change is what a move from one set of refs to another does to objects.
type change struct {
	added []string // tips that were none before
	lost  []string // tips that are none any more
}

func compare(from, to *upstream.Refs) (c change) {
	was, is := map[string]bool{}, map[string]bool{}
	for _, o := range oids(from) {
		was[o] = true
	}
	for _, o := range oids(to) {
		is[o] = true
	}
	for o := range maps.Keys(is) {
		if !was[o] {
			c.added = append(c.added, o)
		}
	}
	for o := range maps.Keys(was) {
		if !is[o] {
			c.lost = append(c.lost, o)
		}
	}
	return c
}

func rawOID(oid string) []byte {
	b, err := hex.DecodeString(oid)
	if err != nil {
		return nil
	}
	return b
}
