package blobstoretest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/leveehq/levee/internal/blobstore"
	"pgregory.net/rapid"
)

// model is what a store does, without a disk: a list in order of use, and uploads that hold bytes.
type model struct {
	limits Limits
	blobs  []modelBlob // least recently used first
	parked []*modelUpload
	active []*modelUpload
}

type modelBlob struct {
	key  blobstore.Key
	data []byte
}

type modelUpload struct {
	u      blobstore.Upload
	key    blobstore.Key
	name   string
	data   []byte // what it is to become
	n      int    // bytes written
	charge int64
}

func charge(n int) int64 { return max(4096, (int64(n)+4095)/4096*4096) }

func (m *model) used() (n int64) {
	for _, b := range m.blobs {
		n += charge(len(b.data))
	}
	for _, u := range append(slices.Clone(m.parked), m.active...) {
		n += u.charge
	}
	return n
}

// reserve makes room for n more bytes, or says that only uploads that are under way are left.
func (m *model) reserve(n int64) bool {
	for m.used()+n > m.limits.MaxSize {
		switch {
		case len(m.parked) > 0:
			m.parked = m.parked[1:]
		case len(m.blobs) > 0:
			m.blobs = m.blobs[1:]
		default:
			return false
		}
	}
	return true
}

func (m *model) find(k blobstore.Key) int {
	return slices.IndexFunc(m.blobs, func(b modelBlob) bool { return b.key == k })
}

func (m *model) touch(i int) {
	b := m.blobs[i]
	m.blobs = append(slices.Delete(m.blobs, i, i+1), b)
}

// commit turns reserved bytes, which the caller no longer counts, into a blob.
func (m *model) commit(k blobstore.Key, data []byte) {
	if i := m.find(k); i >= 0 && k.Kind == blobstore.CAS {
		m.touch(i)
		return
	}
	for len(m.blobs) >= m.limits.MaxBlobs {
		m.blobs = m.blobs[1:]
	}
	if i := m.find(k); i >= 0 {
		m.blobs = slices.Delete(m.blobs, i, i+1)
	}
	m.blobs = append(m.blobs, modelBlob{k, data})
}

// Model does at random what callers do, to a store and to a model, and compares them. It opens a hundred stores, so
// they had better be cheap to open.
func Model(t *testing.T, open Opener) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &model{limits: Limits{MaxSize: 16 * 4096, MaxBlobs: 9}}
		s := open(t, m.limits)
		rt.Repeat(map[string]func(*rapid.T){
			"":       func(rt *rapid.T) { m.check(rt, s) },
			"put":    func(rt *rapid.T) { m.put(rt, s) },
			"lookup": func(rt *rapid.T) { m.lookup(rt, s) },
			"open":   func(rt *rapid.T) { m.open(rt, s) },
			"create": func(rt *rapid.T) { m.create(rt, s) },
			"write":  m.write,
			"end":    m.end,
			"resume": func(rt *rapid.T) { m.resume(rt, s) },
		})
		for _, u := range m.active {
			u.u.Abort()
		}
	})
}

// draw picks one of a few keys, and bytes for it.
func draw(rt *rapid.T) (blobstore.Key, []byte) {
	i := rapid.IntRange(0, 15).Draw(rt, "key")
	sizes := []int{0, 1, 100, 4096, 4097, 9000, 20_000, 40_000}
	if i >= 4 {
		data := Bytes(uint64(i), sizes[i%len(sizes)])
		return CAS(data), data
	}
	n := rapid.SampledFrom(sizes).Draw(rt, "size")
	return AC(fmt.Sprint(i)), Bytes(rapid.Uint64Range(100, 200).Draw(rt, "bytes"), n)
}

// check compares sizes of everything that may be there, in the model's order, which a look-up of all leaves as it is.
func (m *model) check(rt *rapid.T, s blobstore.Store) {
	keys := make([]blobstore.Key, len(m.blobs))
	for i, b := range m.blobs {
		keys[i] = b.key
	}
	sizes := make([]int64, len(keys))
	s.Lookup(keys, sizes)
	for i, b := range m.blobs {
		if sizes[i] != int64(len(b.data)) {
			rt.Fatalf("blob %d of %d is %d bytes, want %d", i, len(keys), sizes[i], len(b.data))
		}
	}
	for _, p := range m.parked {
		if n, ok := s.Committed(p.name); !ok || n != int64(p.n) {
			rt.Fatalf("parked %s has %d bytes (%v), want %d", p.name, n, ok, p.n)
		}
	}
}

func (m *model) put(rt *rapid.T, s blobstore.Store) {
	k, data := draw(rt)
	err := s.Put(context.Background(), k, data)
	if i := m.find(k); i >= 0 && k.Kind == blobstore.CAS {
		m.touch(i)
	} else if !m.reserve(charge(len(data))) {
		wantFull(rt, err)
		return
	} else {
		m.commit(k, data)
	}
	if err != nil {
		rt.Fatal(err)
	}
}

func (m *model) lookup(rt *rapid.T, s blobstore.Store) {
	var keys []blobstore.Key
	for range rapid.IntRange(0, 6).Draw(rt, "keys") {
		k, _ := draw(rt)
		keys = append(keys, k)
	}
	sizes := make([]int64, len(keys))
	s.Lookup(keys, sizes)
	for i, k := range keys {
		want := int64(-1)
		if j := m.find(k); j >= 0 {
			want = int64(len(m.blobs[j].data))
			m.touch(j)
		}
		if sizes[i] != want {
			rt.Fatalf("Lookup says %d, want %d", sizes[i], want)
		}
	}
}

func (m *model) open(rt *rapid.T, s blobstore.Store) {
	k, _ := draw(rt)
	got, err := Read(s, k)
	i := m.find(k)
	if i < 0 {
		if !errors.Is(err, blobstore.ErrNotExist) {
			rt.Fatalf("opened a blob that is not there: %v", err)
		}
		return
	}
	if err != nil || !bytes.Equal(got, m.blobs[i].data) {
		rt.Fatalf("read %d bytes, %v, want %d", len(got), err, len(m.blobs[i].data))
	}
	m.touch(i)
}

func (m *model) create(rt *rapid.T, s blobstore.Store) {
	k, data := draw(rt)
	size := int64(len(data))
	if rapid.Bool().Draw(rt, "undeclared") {
		size = -1
	}
	u, err := s.Create(context.Background(), k, size, 0)
	if err != nil {
		rt.Fatal(err)
	}
	mu := &modelUpload{u: u, key: k, data: data, name: fmt.Sprint(rapid.IntRange(0, 3).Draw(rt, "name"))}
	isName := func(o *modelUpload) bool { return o.name == mu.name }
	busy := slices.ContainsFunc(m.active, isName)
	if err := u.Name(mu.name); errors.Is(err, blobstore.ErrBusy) != busy || err != nil && !busy {
		rt.Fatalf("Name: %v, busy is %v", err, busy)
	}
	if busy {
		u.Abort()
		return
	}
	m.parked = slices.DeleteFunc(m.parked, isName)
	m.active = append(m.active, mu)
}

func (m *model) pick(rt *rapid.T) *modelUpload {
	if len(m.active) == 0 {
		rt.Skip("no upload")
	}
	return rapid.SampledFrom(m.active).Draw(rt, "upload")
}

func (m *model) remove(u *modelUpload) {
	m.active = slices.DeleteFunc(m.active, func(o *modelUpload) bool { return o == u })
}

func (m *model) write(rt *rapid.T) {
	u := m.pick(rt)
	n := rapid.IntRange(0, len(u.data)-u.n).Draw(rt, "bytes")
	_, err := u.u.Write(u.data[u.n : u.n+n])
	if n > 0 {
		if more := charge(u.n+n) - u.charge; more > 0 {
			if !m.reserve(more) {
				wantFull(rt, err)
				u.u.Abort()
				m.remove(u)
				return
			}
			u.charge += more
		}
	}
	u.n += n
	if err != nil {
		rt.Fatal(err)
	}
}

func (m *model) end(rt *rapid.T) {
	u := m.pick(rt)
	switch rapid.SampledFrom([]string{"commit", "abort", "park"}).Draw(rt, "how") {
	case "abort":
		u.u.Abort()
		m.remove(u)
	case "park":
		u.u.Park()
		m.remove(u)
		m.parked = append(m.parked, u)
	case "commit":
		m.endCommit(rt, u)
	}
}

func (m *model) endCommit(rt *rapid.T, u *modelUpload) {
	err := u.u.Commit(context.Background())
	switch {
	case u.n < len(u.data) && u.key.Kind == blobstore.CAS:
		if !errors.Is(err, blobstore.ErrSize) && !errors.Is(err, blobstore.ErrDigest) {
			rt.Fatalf("a short upload ended with %v", err)
		}
		m.remove(u)
		return
	case u.n < len(u.data) && err != nil: // an action result of a declared size
		if !errors.Is(err, blobstore.ErrSize) {
			rt.Fatal(err)
		}
		m.remove(u)
		return
	case u.charge == 0 && !m.reserve(4096):
		wantFull(rt, err)
		m.remove(u)
		return
	}
	if err != nil {
		rt.Fatal(err)
	}
	m.remove(u)
	m.commit(u.key, u.data[:u.n])
}

func (m *model) resume(rt *rapid.T, s blobstore.Store) {
	if len(m.parked) == 0 {
		rt.Skip("nothing is parked")
	}
	i := rapid.IntRange(0, len(m.parked)-1).Draw(rt, "parked")
	p := m.parked[i]
	u, err := s.Resume(context.Background(), p.name)
	if err != nil || u.Written() != int64(p.n) {
		rt.Fatalf("Resume: %v", err)
	}
	p.u = u
	m.parked = slices.Delete(m.parked, i, i+1)
	m.active = append(m.active, p)
}

func wantFull(rt *rapid.T, err error) {
	var full *blobstore.NoSpace
	if !errors.As(err, &full) || full.Reason != "uploads" {
		rt.Fatalf("error %v, want a NoSpace because of uploads", err)
	}
}
