package bazel

import (
	"encoding/json"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/leveehq/levee/internal/buildinfo"
)

// httpStatus is the answer to /status. It has bazel-remote's fields, under its names, because dashboards read them; what
// Levee knows beyond them is in the admin listener's Status.
type httpStatus struct {
	CurrSize         int64  // bytes that the blobs count for, each rounded up to the disk's blocks
	UncompressedSize int64  // the same: blobs are stored as they are
	ReservedSize     int64  // bytes of unfinished uploads
	MaxSize          int64  // bytes at which the least recently used blob is evicted
	NumFiles         int    // blobs
	ServerTime       int64  // seconds since 1970
	GitCommit        string // that the binary was built from
	GitTags          string // its version
	NumGoroutines    int
}

// build fills in what does not come from the store.
func (s httpStatus) build() httpStatus {
	s.UncompressedSize = s.CurrSize
	s.ServerTime = time.Now().Unix()
	s.NumGoroutines = runtime.NumGoroutine()
	b := buildInfo()
	s.GitCommit, s.GitTags = b.Revision, b.Version
	return s
}

var buildInfo = sync.OnceValue(buildinfo.Read)

func (c *httpCall) serveStatus() error {
	if c.r.Method != http.MethodGet && c.r.Method != http.MethodHead {
		return c.notAllowed("GET, HEAD")
	}
	body, err := json.MarshalIndent(c.status().build(), "", " ")
	if err != nil {
		return err
	}
	body = append(body, '\n')
	c.setBlobHeaders(int64(len(body)))
	c.w.Header().Set("Content-Type", "application/json")
	c.begin(http.StatusOK)
	if c.r.Method == http.MethodHead {
		return nil
	}
	_, err = c.w.Write(body)
	return err
}

// HTTPCount is the number of requests that were answered alike.
type HTTPCount struct {
	Method string // GET, HEAD, PUT, other
	Kind   string // ac, cas, status, other
	Code   int    // HTTP status; 499 if the client left
	N      uint64
}

type httpCountKey struct {
	method, kind string
	code         int
}

// httpCounters count answers. Method and kind are of closed sets and the codes are ours, so a client cannot make it grow.
type httpCounters struct {
	mu struct {
		sync.Mutex
		n map[httpCountKey]uint64
	}
}

func (c *httpCounters) add(method, kind string, code int) {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPut:
	default:
		method = "other"
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.n == nil {
		c.mu.n = map[httpCountKey]uint64{}
	}
	c.mu.n[httpCountKey{method, kind, code}]++
}

// snapshot is in no order.
func (c *httpCounters) snapshot() []HTTPCount {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]HTTPCount, 0, len(c.mu.n))
	for k, n := range c.mu.n {
		out = append(out, HTTPCount{Method: k.method, Kind: k.kind, Code: k.code, N: n})
	}
	return out
}
