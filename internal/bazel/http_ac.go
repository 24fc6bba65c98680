package bazel

import (
	"bytes"
	"errors"
	"io"
	"net/http"

	"github.com/leveehq/levee/gate"
	"github.com/leveehq/levee/internal/blobstore"
)

const (
	// httpScanBuffer is what finding out whether an entry is an action result holds.
	httpScanBuffer = 16 * kib

	// httpInlineSend is the largest checked body that is sent from memory: the socket takes it without waiting for the
	// reader. A larger one is sent from the file, so that a slow reader does not pin what the check has read.
	httpInlineSend = 64 * kib
)

// getAC answers GET and HEAD of an action-cache entry. An entry that is an ActionResult exists only while all blobs that
// it names do: a client that was promised a file and cannot read it fails its build. Entries of other clients (ccache and
// its like) are opaque, and go out as they came.
func (c *httpCall) getAC() error {
	key := c.storeKey()
	size, found := c.lookup(key)
	if !found {
		return blobstore.ErrNotExist
	}
	p, err := c.admit(c.ac, c.acCost(min(size, c.maxAC)))
	if err != nil {
		return err
	}
	defer p.Release()
	blob, err := c.store.Open(c.r.Context(), key)
	if err != nil {
		return err
	}
	defer blob.Close()
	if blob.Size() > size {
		// Replaced since it was looked up, by a larger one than the permit is for. Whoever asks for an entry while it is
		// being written may as well have asked before.
		return blobstore.ErrNotExist
	}
	isResult, err := isActionResult(blob)
	if err != nil {
		return err
	}
	if isResult {
		return c.getResult(key, blob, p)
	}
	return c.answerFile(blob, p)
}

// getResult sends an action result if nothing that it names is absent.
func (c *httpCall) getResult(key blobstore.Key, blob blobstore.Blob, p *gate.Permit) error {
	if blob.Size() > c.maxAC {
		c.counts.acIncomplete.Add(1) // nothing that is too large to be checked is promised
		return blobstore.ErrNotExist
	}
	body := make([]byte, blob.Size())
	if n, err := blob.ReadAt(body, 0); n < len(body) {
		return noEOF(err)
	}
	ok, err := c.complete(c.r.Context(), c.fairKey(), key, body)
	if err != nil {
		return err
	}
	if !ok {
		c.counts.acIncomplete.Add(1)
		return blobstore.ErrNotExist
	}
	if len(body) > httpInlineSend {
		return c.answerFile(blob, p)
	}
	c.setBlobHeaders(int64(len(body)))
	c.begin(http.StatusOK)
	if c.r.Method == http.MethodHead {
		return nil
	}
	n, err := io.Copy(c.w, bytes.NewReader(body))
	c.bytes += n
	return err
}

// answerFile sends all of an open entry. p, the permit for what the check held, is given back first.
func (c *httpCall) answerFile(blob blobstore.Blob, p *gate.Permit) error {
	p.Release()
	if c.r.Method == http.MethodHead {
		c.setBlobHeaders(blob.Size())
		c.begin(http.StatusOK)
		return nil
	}
	p, err := c.admit(c.read, httpReadCost)
	if err != nil {
		return err
	}
	defer p.Release()
	c.setBlobHeaders(blob.Size())
	c.begin(http.StatusOK)
	return c.send(blob, 0, blob.Size(), p)
}

// isActionResult tells whether an entry parses as an ActionResult with at least one field that ActionResult has. It looks
// at the outermost fields only, as they come from the disk: bytes that mean something else break the form early. What
// follows a field that ActionResult has in another type is something else, too.
func isActionResult(blob blobstore.Blob) (bool, error) {
	buf := getBuffer(min(httpScanBuffer, blob.Size()))
	defer putBuffer(buf)
	f := newFields(io.NewSectionReader(blob, 0, blob.Size()), blob.Size(), *buf)
	known := false
	for f.more() {
		num, typ, err := f.tag()
		if err == nil {
			want, ok := arTypes[num]
			if ok && want != typ {
				return false, nil
			}
			known = known || ok
			err = f.skip(typ)
		}
		if errors.Is(err, errMalformed) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	return known, nil
}
