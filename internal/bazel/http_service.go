package bazel

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/leveehq/levee/internal/blobstore"
	"github.com/leveehq/levee/internal/listen"
)

// HTTPCache serves Bazel's HTTP cache protocol over a Service's store, through its gates. It is an http.Handler.
type HTTPCache struct {
	httpCache
	listen listen.Options
}

// HTTP returns the HTTP front end. Its answers are counted per HTTPCache, so a process makes one.
func (s *Service) HTTP() *HTTPCache {
	return &HTTPCache{
		httpCache: httpCache{
			store: s.store, write: s.gates.write, read: s.gates.read, ac: s.gates.ac,
			codes: s.codes, log: s.log, counts: &s.count,
			crowd:   int64(s.opt.MaxHTTPConnections) * 3 / 4,
			maxBlob: s.opt.MaxBlob, maxAC: s.opt.maxACBody(), stall: s.opt.ReadStall,
			key: s.key, acCost: s.opt.acCost, complete: s.httpComplete, status: s.httpStatus,
		},
		listen: httpListen(s.gates.httpConnections),
	}
}

// ListenOptions bound the connections that Server is given: listen.Wrap(l, h.ListenOptions()).
func (h *HTTPCache) ListenOptions() listen.Options { return h.listen }

// Server returns a server with the time-outs and bounds that the plan assumes. handler is h, or h behind what must see a
// request first. ListenAndServe would make a listener without ListenOptions: use Serve.
func (h *HTTPCache) Server(handler http.Handler, logger *slog.Logger) *http.Server {
	return newHTTPServer(&h.httpCache, handler, logger)
}

// Counts returns the answers so far by method, kind and status, in no order.
func (h *HTTPCache) Counts() []HTTPCount { return h.count.snapshot() }

// httpComplete tells whether all blobs that an encoded ActionResult names are there, and refreshes them with its entry.
func (s *Service) httpComplete(ctx context.Context, key string, entry blobstore.Key, body []byte) (bool, error) {
	a, err := parseActionResult(body)
	if errors.Is(err, errMalformed) && !errors.Is(err, errDigest) {
		return true, nil // the form of an ActionResult by chance, and only outside: another tool's entry, which names nothing
	}
	if err != nil {
		return false, nil // it has an ActionResult's fields, and in them no digests that could be looked up
	}
	extra := extraPermits{s: s, g: s.gates.ac, key: key}
	defer extra.release()
	err = s.checkComplete(ctx, entry, a, extra.grow)
	if errors.As(err, new(errAbsent)) {
		return false, nil
	}
	return err == nil, err
}

func (s *Service) httpStatus() (st httpStatus) {
	if d, ok := s.store.(interface{ Stats() blobstore.Stats }); ok {
		n := d.Stats()
		st = httpStatus{CurrSize: n.Bytes, ReservedSize: n.Reserved, MaxSize: n.MaxSize, NumFiles: n.Blobs}
	}
	return st
}
