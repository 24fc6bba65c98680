package bazel

import (
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/leveehq/levee/gate"
	"github.com/leveehq/levee/internal/listen"
)

// newHTTPServer is a net/http server whose connections cost what the plan says. It speaks HTTP/1.1 only: net/http's HTTP/2
// would put many requests on one connection, and the line http_connections counts on one.
//
// handler is h, or h behind what must see a request first.
func newHTTPServer(h *httpCache, handler http.Handler, logger *slog.Logger) *http.Server {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	s := &http.Server{
		Handler:           begun(handler),
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
	// httpMaxHeader is the longest header: tokens with many claims, browsers' cookies. Headers are the cheapest way to make a
	// server hold memory, and a field of six bytes costs eighty in the parsed map: with that many, httpFreeHeader is the most. A
	// connection is planned with the worst of both.
	httpMaxHeader  = 12 * kib
	httpFreeHeader = 4 * kib

	// httpSmallRead is listen.Options.SmallRead: the header of an honest request comes in one read.
	httpSmallRead = 1 * kib

	// httpMaxFields bounds the header fields of a request that may go on. Clients of a cache send about ten.
	httpMaxFields = 64
)

// httpListen is how a listener for newHTTPServer is wrapped.
func httpListen(connections *gate.Gate) listen.Options {
	return listen.Options{Connections: connections, Receive: httpSocketReceive, Send: httpSocketSend, SmallRead: httpSmallRead,
		Header: &listen.HeaderOptions{Free: httpFreeHeader, Max: httpMaxHeader, Fields: httpMaxFields}}
}

// begun tells the listener that a request's header has been read, and the handlers if its end is missing. Nothing more is taken from
// that connection.
func begun(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(httpConnKey{}).(httpConn); ok {
			if cut := listen.Begun(c.conn); cut != nil {
				w.Header().Set("Connection", "close")
				r = r.WithContext(listen.WithCut(r.Context(), cut))
			}
		}
		next.ServeHTTP(w, r)
	})
}

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
