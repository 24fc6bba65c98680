package bazel

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/leveehq/levee/internal/blobstore"
)

// put stores a body. Everything that can be said from the headers is said before the body is asked for: a client that sent
// "Expect: 100-continue" then never sends it.
func (c *httpCall) put() error {
	size := c.r.ContentLength // -1 if chunked
	if enc := c.r.Header.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		c.w.Header().Set("Accept-Encoding", "identity")
		return &httpError{status: http.StatusUnsupportedMediaType,
			text: fmt.Sprintf("bodies encoded as %q are not taken over HTTP; send them as they are, or compressed over gRPC", enc)}
	}
	if c.maxBlob > 0 && size > c.maxBlob {
		return tooLarge(size, c.maxBlob)
	}
	if c.path.kind == blobstore.CAS {
		if stored, err := c.alreadyThere(size); stored || err != nil {
			return err
		}
	}
	p, err := c.admit(c.write, copyBuffer)
	if err != nil {
		return err
	}
	defer p.Release()
	c.quickAck()
	if err := c.receive(size); err != nil {
		return err
	}
	c.stored()
	return nil
}

// alreadyThere answers for a blob that is stored, without a permit: there is nothing to hold. Bazel's HTTP client does not
// ask what is missing, so in a warm cache most uploads end here. The body is read and thrown away where the client is
// sending it anyhow.
func (c *httpCall) alreadyThere(size int64) (bool, error) {
	have, found := c.lookup(c.storeKey())
	if c.path.hash == emptyHash {
		have, found = 0, true
	}
	if !found {
		return false, nil
	}
	c.counts.writesPresent.Add(1)
	if size >= 0 && size != have {
		return false, fmt.Errorf("%w: the blob of this digest has %d bytes, the body %d", blobstore.ErrSize, have, size)
	}
	if c.body.expected() {
		c.stored()
		return true, nil
	}
	c.quickAck()
	n, err := c.body.discard(have)
	if err != nil {
		return false, err
	}
	if n != have {
		return false, fmt.Errorf("%w: the blob of this digest has %d bytes, the body not", blobstore.ErrSize, have)
	}
	c.stored()
	return true, nil
}

// receive stores the body. One that fits into the buffer takes the store's shorter way, unless its client waits to be
// told whether to send it: then the store is asked first.
func (c *httpCall) receive(size int64) error {
	buf := getBuffer(copyBuffer)
	defer putBuffer(buf)
	if size >= 0 && size <= copyBuffer && !c.body.expected() {
		n, err := c.body.fill(*buf)
		if err != nil {
			return err
		}
		c.bytes = int64(n)
		return c.store.Put(c.r.Context(), c.storeKey(), (*buf)[:n])
	}
	up, err := c.store.Create(c.r.Context(), c.storeKey(), size, c.maxBlob)
	if err != nil {
		return err
	}
	defer up.Abort()
	for !c.body.eof {
		n, err := c.body.fill(*buf)
		if err != nil {
			return err
		}
		if _, err := up.Write((*buf)[:n]); err != nil {
			return err
		}
		c.bytes += int64(n)
	}
	return up.Commit(c.r.Context())
}

// quickAck has the kernel acknowledge the header now. A client that sends header and body in two writes with Nagle's
// algorithm on (ccache does) holds the body back until then, and the kernel would wait 40 ms for an answer to ride along.
func (c *httpCall) quickAck() {
	conn, ok := c.r.Context().Value(httpConnKey{}).(httpConn)
	if !ok {
		return
	}
	sc, ok := conn.conn.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_QUICKACK, 1) // a hint: without it all is right, only later
	})
}

func (c *httpCall) stored() {
	c.setHeaders()
	c.w.Header().Set("Content-Length", "0")
	c.begin(http.StatusOK)
}
