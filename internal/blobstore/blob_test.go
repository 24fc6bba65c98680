package blobstore

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
)

// fileTaker is what net/http's ResponseWriter is to a blob: it uses sendfile if it is given a part of a file.
type fileTaker struct {
	bytes.Buffer
	calls int
	bad   bool
}

func (w *fileTaker) ReadFrom(r io.Reader) (int64, error) {
	w.calls++
	l, ok := r.(*io.LimitedReader)
	if ok {
		_, ok = l.R.(*os.File)
	}
	w.bad = w.bad || !ok
	return w.Buffer.ReadFrom(r)
}

func TestSendToHandsOverPartsOfTheFile(t *testing.T) {
	d := testDisk(t, Options{})
	k, data := put(t, d, 3*sendLen+5, 1)
	b, err := d.Open(t.Context(), k)
	must(t, err)
	defer b.Close()
	var w fileTaker
	n, err := b.SendTo(&w, 7, b.Size()-7)
	must(t, err)
	if w.bad || w.calls != 3 || n != b.Size()-7 || !bytes.Equal(w.Bytes(), data[7:]) {
		t.Fatalf("%d bytes in %d calls, not files: %v", n, w.calls, w.bad)
	}
}

func TestABlobGoesOutOverHTTP(t *testing.T) {
	d := testDisk(t, Options{})
	k, data := put(t, d, 3<<20, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := d.Open(r.Context(), k)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		defer b.Close()
		w.Header().Set("Content-Type", "application/octet-stream")
		if _, err := b.SendTo(w, 0, b.Size()); err != nil {
			t.Error(err)
		}
	}))
	defer s.Close()
	r, err := http.Get(s.URL)
	must(t, err)
	defer r.Body.Close()
	got, err := io.ReadAll(r.Body)
	if must(t, err); !bytes.Equal(got, data) {
		t.Fatalf("%d bytes arrived", len(got))
	}
}

func TestABlobCutWhileOpenIsAnErrorAndNotAnEnd(t *testing.T) {
	d := testDisk(t, Options{})
	k, data := put(t, d, 300_000, 1)
	b, err := d.Open(t.Context(), k)
	must(t, err)
	defer b.Close()
	slot, _ := d.mu.idx.find(k)
	must(t, os.Truncate(d.blobPath(k, d.mu.idx.at(slot).gen), 1000))
	if n, err := b.ReadAt(make([]byte, len(data)), 0); n != 1000 || err != io.ErrUnexpectedEOF {
		t.Fatalf("read %d, %v", n, err)
	}
	for _, w := range []io.Writer{new(bytes.Buffer), &fileTaker{}} {
		if _, err := b.SendTo(w, 0, b.Size()); err != io.ErrUnexpectedEOF {
			t.Fatalf("error %v", err)
		}
	}
}
