package packs

import (
	"compress/gzip"
	"io"
	"net/http"
)

func decode(q *http.Request) ([]byte, error) {
	if q.Header.Get("Content-Encoding") != "gzip" {
		return io.ReadAll(q.Body)
	}
	z, err := gzip.NewReader(q.Body)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

type httpOut struct{ http.ResponseWriter }

func (o httpOut) Flush() error { return http.NewResponseController(o.ResponseWriter).Flush() }
func (httpOut) Progress()      {}
