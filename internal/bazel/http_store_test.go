package bazel

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leveehq/levee/gate"
	"github.com/leveehq/levee/internal/blobstore"
)

// B3 c: a hit keeps what it promised.
func TestAHitRefreshesEverythingThatItNames(t *testing.T) {
	d := newTestDisk(t, blobstore.Options{MaxSize: 32 * 4 * kib})
	r := newHTTPRig(t, d, nil)
	r.want(r.put("/cas/"+hashT, unhexString(t, hexT)), 200)
	r.want(r.put("/cas/"+hashP, []byte("abcdefg")), 200)
	r.want(r.put("/ac/"+actionKey(2), unhexString(t, hexART)), 200)
	r.want(r.put("/cas/"+hashH, []byte("hello\n")), 200)
	fill := func(from, to int) {
		for i := from; i < to; i++ {
			b := fmt.Appendf(nil, "filler %d", i)
			r.want(r.put("/cas/"+hashOf(b), b), 200)
		}
	}
	fill(0, 20)
	r.want(r.get("/ac/"+actionKey(2)), 200)
	fill(20, 40)
	r.want(r.do("HEAD", "/cas/"+hashH, nil), 404) // older and untouched
	r.want(r.get("/ac/"+actionKey(2)), 200)
	r.want(r.get("/cas/"+hashT), 200)
	r.want(r.get("/cas/"+hashP), 200)
}

// B11: uploads that are evicted for, finished late or turned away leave the books in order.
func TestUploadsThatOverfillTheStoreEndOneWayOrTheOther(t *testing.T) {
	const limit = 64 * mib
	dir := t.TempDir()
	d := newTestDisk(t, blobstore.Options{Dir: dir, MaxSize: limit})
	r := newHTTPRig(t, d, nil)
	blob := func(i int) []byte { return bytes.Repeat(fmt.Appendf(nil, "%08d", i), mib) }
	var held []*rawConn
	for i := range 10 {
		b := blob(i)
		c := r.dial()
		c.send(fmt.Sprintf("PUT /cas/%s HTTP/1.1\nContent-Length: %d", hashOf(b), len(b)), "")
		go func() { _, _ = c.Write(b[:len(b)-1]) }() // fails for those that are turned away
		held = append(held, c)
	}
	for i := 10; i < 18; i++ {
		if a := r.put("/cas/"+hashOf(blob(i)), blob(i)); a.code != 200 && a.code != 507 {
			t.Fatalf("%d %s", a.code, a.body)
		}
	}
	for i, c := range held {
		b := blob(i)
		if _, err := c.Write(b[len(b)-1:]); err != nil {
			continue // cut after its answer
		}
		a := c.answer("PUT")
		switch {
		case a.code == 200:
			r.want(r.get("/cas/"+hashOf(b)), 200, string(b))
		case a.code != 507:
			t.Fatalf("%d %s", a.code, a.body)
		}
	}
	eventually(t, "no upload is open", func() bool { n := d.Stats(); return n.UploadsActive == 0 && n.Unlinking == 0 })
	n := d.Stats()
	if on := bytesOnDisk(t, dir); on > limit+mib || n.Bytes+n.Reserved > limit {
		t.Errorf("%d bytes are on disk, %d counted, the limit is %d", on, n.Bytes+n.Reserved, limit)
	}
}

func bytesOnDisk(t *testing.T, dir string) (n int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		i, err := e.Info()
		if err == nil {
			n += i.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// B17 b
func TestABlobThatWasDeletedByHandIsAMissAndCanBePutAgain(t *testing.T) {
	dir := t.TempDir()
	r := newHTTPRig(t, newTestDisk(t, blobstore.Options{Dir: dir}), nil)
	r.want(r.put("/cas/"+hashP, []byte("abcdefg")), 200)
	removed := 0
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && strings.Contains(filepath.Base(path), hashP[2:20]) {
			removed++
			return os.Remove(path)
		}
		return err
	})
	if err != nil || removed != 1 {
		t.Fatalf("removed %d files: %v", removed, err)
	}
	r.want(r.get("/cas/"+hashP), 404)
	r.want(r.do("HEAD", "/cas/"+hashP, nil), 404)
	r.want(r.put("/cas/"+hashP, []byte("abcdefg")), 200)
	r.want(r.get("/cas/"+hashP), 200, "abcdefg")
}

// stalledStore is a disk that takes no bytes until resume is closed.
type stalledStore struct {
	blobstore.Store
	resume chan struct{}
}

func (s stalledStore) Put(ctx context.Context, k blobstore.Key, b []byte) error {
	select {
	case <-s.resume:
		return s.Store.Put(ctx, k, b)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// B2, the front end's part: while the disk takes nothing, surplus writes are shed with the final code and everything else
// goes on. (That the store's threads stay bounded is the store's part.)
func TestAStalledDiskShedsWritesAndNothingElse(t *testing.T) {
	s := stalledStore{newTestDisk(t, blobstore.Options{}), make(chan struct{})}
	r := newHTTPRig(t, s, func(h *httpCache) {
		h.write = newTestGate(t, gate.Options{Name: "write", Limit: 8 * copyBuffer, Queue: 16, Wait: 100 * time.Millisecond})
	})
	if err := s.Store.Put(t.Context(), blobstore.Key{Hash: unhexMust(hashP)}, []byte("abcdefg")); err != nil {
		t.Fatal(err)
	}
	const offered = 100
	codes := make(chan int, offered)
	var writers sync.WaitGroup
	for i := range offered {
		writers.Go(func() {
			b := bytes.Repeat(fmt.Appendf(nil, "%08d", i), 512)
			codes <- r.put("/cas/"+hashOf(b), b).code
		})
	}
	for range offered - 8 { // all but the admitted are turned away while the disk still stalls
		if code := <-codes; code != 507 {
			t.Fatalf("a surplus write got %d", code)
		}
		r.want(r.get("/cas/"+hashP), 200, "abcdefg")
	}
	r.want(r.get("/status"), 200)
	close(s.resume)
	writers.Wait()
	for range 8 {
		if code := <-codes; code != 200 {
			t.Fatalf("an admitted write got %d", code)
		}
	}
	if n := r.cache.write.Stats(); n.InUse != 0 || n.Queued != 0 {
		t.Errorf("%d bytes are held, %d wait", n.InUse, n.Queued)
	}
}

// What net/http says for a handler that says nothing is 200, and a client that has closed its sending side would take its
// upload for stored.
func TestAnUploadThatWasCancelledIsNeverAcknowledged(t *testing.T) {
	s := stalledStore{newTestDisk(t, blobstore.Options{}), make(chan struct{})}
	r := newHTTPRig(t, s, nil)
	c := r.dial()
	c.send("PUT /cas/"+hashH+" HTTP/1.1\nContent-Length: 6", "hello\n")
	if err := c.Conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	r.want(c.answer("PUT"), statusClientGone)
	r.want(r.get("/cas/"+hashH), 404)
}

func TestNearTheLimitAnAnswerEndsItsConnection(t *testing.T) {
	r, _ := newDiskRig(t, func(h *httpCache) { h.crowd = 2 })
	for i := range 4 {
		c := r.dial()
		c.send("HEAD /cas/"+hashE+" HTTP/1.1", "")
		a := c.answer("HEAD")
		r.want(a, 200)
		if a.closes != (i >= 2) {
			t.Errorf("answer %d ends the connection: %v", i+1, a.closes)
		}
		if i >= 2 {
			eventually(t, "the connection is closed", func() bool { return r.cache.open.Load() == 2 })
		}
	}
}
