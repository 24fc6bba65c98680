package bazel

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/leveehq/levee/gate"
	"github.com/leveehq/levee/internal/accesslog"
	"github.com/leveehq/levee/internal/blobstore"
	"github.com/leveehq/levee/internal/listen"
	"github.com/leveehq/levee/internal/shedcode"
)

// httpCache serves Bazel's HTTP cache protocol: GET, HEAD and PUT of /[instance/]{ac,cas}/<hash>, and /status.
//
// An HTTP/1.1 connection does one thing at a time, so all that net/http holds for the busiest moment of a connection is in
// the line http_connections. What a permit stands for comes on top of it: the copy buffer of an upload, the body of an
// action result that is being checked.
type httpCache struct {
	store           blobstore.Store
	write, read, ac *gate.Gate
	codes           shedcode.Codes
	log             *accesslog.Log // nil writes none
	counts          *counters      // of both front ends
	count           httpCounters

	open  atomic.Int64 // connections
	crowd int64        // above so many, an answer ends its connection; 0 = never

	maxBlob int64         // the largest upload taken; 0 leaves it to the store
	maxAC   int64         // the largest entry that is checked as an action result
	stall   time.Duration // a peer that moves nothing for so long is cut

	// key is the fairness key of a peer's request for an instance.
	key func(peer, instance string) string
	// acCost is what checking a result of n bytes holds.
	acCost func(n int64) int64
	// complete tells whether every blob that an entry, an encoded ActionResult, names is there, and refreshes them all.
	complete func(ctx context.Context, fairKey string, entry blobstore.Key, body []byte) (bool, error)
	// status is the answer to /status.
	status func() httpStatus
}

// httpCall is one request on its way through.
type httpCall struct {
	*httpCache
	w    http.ResponseWriter
	r    *http.Request
	rc   *http.ResponseController
	what string // ac, cas, status, other: a bounded word for logs and metrics
	path httpPath
	peer string
	body httpBody

	begun  bool // the status is out: from here on an error can only cut the connection
	code   int
	bytes  int64 // of payload
	waited time.Duration
}

// ServeHTTP answers one request and accounts for it.
func (h *httpCache) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	c := &httpCall{httpCache: h, w: w, r: r, rc: http.NewResponseController(w), peer: httpPeer(r)}
	c.body = httpBody{call: c, r: r.Body}
	if h.crowd > 0 && h.open.Load() > h.crowd {
		// Near the limit, connections that idle keep others out. Ending them with an answer loses no request, as closing
		// idle ones could.
		w.Header().Set("Connection", "close")
	}
	err := c.serve()
	if err != nil {
		err = c.fail(err)
	}
	c.tally()
	// What net/http still has to flush after us gets the same patience as everything before.
	_ = c.rc.SetWriteDeadline(time.Now().Add(h.stall))

	h.count.add(r.Method, c.what, c.code)
	if h.log != nil {
		h.log.Call(r.Context(), accesslog.Record{Proto: "http", Method: r.Method + " " + c.what, Code: strconv.Itoa(c.code),
			Key: c.fairKey(), Instance: c.path.instance, Bytes: c.bytes, Took: time.Since(start), Waited: c.waited,
			Miss: c.code == http.StatusNotFound, Err: err})
	}
}

// tally counts for both front ends together; bytes of an upload count only if they were stored.
func (c *httpCall) tally() {
	ok := c.code == http.StatusOK || c.code == http.StatusPartialContent
	miss := c.code == http.StatusNotFound
	hits, misses := &c.counts.readHits, &c.counts.readMisses
	if c.path.kind == blobstore.AC {
		hits, misses = &c.counts.acHits, &c.counts.acMisses
	}
	switch {
	case c.what == "other" || c.what == "status":
	case c.r.Method == http.MethodPut && ok:
		c.counts.bytesIn.Add(c.bytes)
		if c.path.kind == blobstore.AC {
			c.counts.acUpdates.Add(1)
		}
	case c.r.Method == http.MethodGet && ok:
		hits.Add(1)
		c.counts.bytesOut.Add(c.bytes)
	case c.r.Method == http.MethodGet && miss:
		misses.Add(1)
	}
}

// serve routes.
func (c *httpCall) serve() (err error) {
	c.what = "other"
	if cut := listen.CutOf(c.r.Context()); cut != nil {
		return &httpError{status: http.StatusRequestHeaderFieldsTooLarge, text: cut.Err.Error()}
	}
	if err := tooManyFields(c.r.Header); err != nil {
		return err
	}
	if c.r.URL.Path == "/status" {
		c.what = "status"
		return c.serveStatus()
	}
	if c.path, err = parseHTTPPath(c.r.URL.Path); err != nil {
		return err
	}
	c.what = httpKind(c.path.kind)
	switch {
	case c.r.Method == http.MethodPut:
		return c.put()
	case c.r.Method != http.MethodGet && c.r.Method != http.MethodHead:
		return c.notAllowed("GET, HEAD, PUT")
	case c.path.kind == blobstore.AC:
		return c.getAC()
	}
	return c.getCAS()
}

func (c *httpCall) notAllowed(methods string) error {
	c.w.Header().Set("Allow", methods)
	return &httpError{status: http.StatusMethodNotAllowed,
		text: "this path does not take " + strconv.Quote(c.r.Method) + ", only " + methods}
}

// storeKey is the name of what the path names.
func (c *httpCall) storeKey() blobstore.Key {
	if c.path.kind == blobstore.AC {
		return acKey(c.path.instance, c.path.hash)
	}
	return blobstore.Key{Kind: blobstore.CAS, Hash: c.path.hash}
}

func (c *httpCall) fairKey() string { return c.key(c.peer, c.path.instance) }

// admit waits at g for cost bytes.
func (c *httpCall) admit(g *gate.Gate, cost int64) (*gate.Permit, error) {
	p, err := g.Admit(c.r.Context(), c.fairKey(), cost)
	if err == nil {
		c.waited += p.Waited()
	}
	return p, err
}

// begin sends the status and the headers set so far.
func (c *httpCall) begin(code int) {
	c.begun, c.code = true, code
	_ = c.rc.SetWriteDeadline(time.Now().Add(c.stall))
	c.w.WriteHeader(code)
}

// httpConnKey is the context key of the request's connection.
type httpConnKey struct{}

// httpConn is what is known of a connection once, at its start.
type httpConn struct {
	conn net.Conn
	peer string
}

func httpPeer(r *http.Request) string {
	if c, ok := r.Context().Value(httpConnKey{}).(httpConn); ok {
		return c.peer
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// connState is the server's ConnState: it counts.
func (h *httpCache) connState(c net.Conn, s http.ConnState) {
	switch s {
	case http.StateIdle:
		listen.NextRequest(c)
	case http.StateNew:
		h.open.Add(1)
	case http.StateClosed, http.StateHijacked:
		h.open.Add(-1)
	}
}

// withHTTPConn is the server's ConnContext.
func withHTTPConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, httpConnKey{}, httpConn{conn: c, peer: listen.Peer(c.RemoteAddr())})
}
