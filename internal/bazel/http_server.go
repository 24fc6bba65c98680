package bazel

import (
	"fmt"
	"log/slog"
	"net/http"
	"time"
)

// newHTTPServer is a net/http server whose connections cost what the plan says. It speaks HTTP/1.1 only: net/http's HTTP/2
// would put many requests on one connection, and the line http_connections counts on one.
//
// handler is h, or h behind what must see a request first.
func newHTTPServer(h *httpCache, handler http.Handler, logger *slog.Logger) *http.Server {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	s := &http.Server{
		Handler:           handler,
		Protocols:         p,
		ReadHeaderTimeout: 10 * time.Second,
		WriteTimeout:      h.stall, // until the handler knows better: it moves the deadline with every chunk
		IdleTimeout:       60 * time.Second,
		MaxHeaderBytes:    httpMaxHeader,
		ConnContext:       withHTTPConn,
		ConnState:         h.connState,
	}
	if logger != nil {
		s.ErrorLog = slog.NewLogLogger(logger.Handler(), slog.LevelWarn)
	}
	return s
}

const (
	// httpMaxHeader is what net/http adds its own 4 KiB to. Headers are the cheapest way to make a server hold memory: a
	// field of six bytes costs eighty in the parsed map. 4 KiB have room for a token of 3 KiB.
	httpMaxHeader = 1

	// httpSmallRead is listen.Options.SmallRead: the header of an honest request comes in one read.
	httpSmallRead = 1 * kib

	// httpMaxFields bounds the header fields of a request that may go on. Clients of a cache send about ten.
	httpMaxFields = 64
)

// tooManyFields keeps the map of a hostile header from living as long as a slow download.
func tooManyFields(h http.Header) error {
	n := 0
	for _, v := range h {
		n += len(v)
	}
	if n <= httpMaxFields {
		return nil
	}
	return &httpError{status: http.StatusRequestHeaderFieldsTooLarge,
		text: fmt.Sprintf("the request has %d header fields, and at most %d are taken", n, httpMaxFields)}
}
