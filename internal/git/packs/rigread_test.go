package packs

import (
	"compress/gzip"
	"io"
	"net/http"

	"github.com/leveehq/levee/gate"
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

// seats taken in flights that are not settled, and at spools.
func (r *rig) seats() (n int) {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	for _, f := range r.c.mu.flights {
		n += len(f.seats)
	}
	for _, s := range r.c.mu.spools.oldest {
		n += s.seats
	}
	return n
}

// fill leaves no room in gates until what it returns is called.
func (r *rig) fill(gates ...*gate.Gate) (empty func()) {
	r.Helper()
	var held []*gate.Permit
	for _, g := range gates {
		p, err := g.TryAdmit("somebody else", g.Stats().Limit)
		if err != nil {
			r.Fatal(err)
		}
		held = append(held, p)
	}
	return func() {
		for _, p := range held {
			p.Release()
		}
	}
}
