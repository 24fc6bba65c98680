package bazel

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/leveehq/levee/gate"
	"github.com/leveehq/levee/internal/blobstore"
)

const (
	// httpReadCost is the permit of a GET: a chunk on its way from the disk's pages into the socket.
	httpReadCost = 64 * kib

	// httpSendChunk is sent between two looks at the clock: a peer that takes less than this in the time allowed, but
	// takes something, goes on.
	httpSendChunk = 1 * mib
)

// setHeaders sets what every answer has. A blob is somebody's bytes: a browser must not guess that they are a page.
func (c *httpCall) setHeaders() {
	c.w.Header().Set("X-Content-Type-Options", "nosniff")
}

func (c *httpCall) setBlobHeaders(n int64) {
	c.setHeaders()
	h := c.w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Length", strconv.FormatInt(n, 10))
}

// getCAS answers GET and HEAD of a blob. A miss and a HEAD are answered from the index, without a permit.
func (c *httpCall) getCAS() error {
	if c.path.hash == emptyHash {
		c.setBlobHeaders(0)
		c.begin(http.StatusOK)
		return nil
	}
	size, found := c.lookup(c.storeKey())
	if !found {
		return blobstore.ErrNotExist
	}
	c.w.Header().Set("Accept-Ranges", "bytes")
	if c.r.Method == http.MethodHead {
		c.setBlobHeaders(size)
		c.begin(http.StatusOK)
		return nil
	}
	return c.sendFile(c.storeKey(), true)
}

func (c *httpCall) lookup(key blobstore.Key) (size int64, found bool) {
	var sizes [1]int64
	c.store.Lookup([]blobstore.Key{key}, sizes[:])
	return sizes[0], sizes[0] >= 0
}

// sendFile admits the read, opens the blob, and sends it or the range that was asked for.
func (c *httpCall) sendFile(key blobstore.Key, ranges bool) error {
	p, err := c.admit(c.read, httpReadCost)
	if err != nil {
		return err
	}
	defer p.Release()
	blob, err := c.store.Open(c.r.Context(), key)
	if err != nil {
		return err
	}
	defer blob.Close()

	part, ok := httpRange{n: blob.Size()}, true
	if ranges {
		part, ok = parseHTTPRange(c.r.Header, blob.Size())
	}
	if !ok {
		c.w.Header().Set("Content-Range", fmt.Sprintf("bytes */%d", blob.Size()))
		return &httpError{status: http.StatusRequestedRangeNotSatisfiable,
			text: fmt.Sprintf("the range %q lies outside of the blob, which has %d bytes", c.r.Header.Get("Range"), blob.Size())}
	}
	c.setBlobHeaders(part.n)
	code := http.StatusOK
	if part.partial {
		code = http.StatusPartialContent
		c.w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", part.off, part.off+part.n-1, blob.Size()))
	}
	c.begin(code)
	return c.send(blob, part.off, part.n, p)
}

// send is the answer's body. The permit goes back once the first chunk is in the socket: an answer that has begun cannot be
// shed any more, and from then on a slow reader costs nothing but its connection, which is charged.
func (c *httpCall) send(blob blobstore.Blob, off, n int64, p *gate.Permit) error {
	for end := off + n; off < end; {
		if err := c.rc.SetWriteDeadline(time.Now().Add(c.stall)); err != nil {
			return err
		}
		chunk := min(end-off, httpSendChunk)
		if p != nil {
			chunk = min(chunk, httpReadCost)
		}
		m, err := blob.SendTo(c.w, off, chunk)
		off += m
		c.bytes += m
		if err != nil && !(isTimeout(err) && m > 0) {
			return err
		}
		p.Release()
		p = nil
	}
	return nil
}
