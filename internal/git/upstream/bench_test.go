package upstream

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

func BenchmarkFetch(b *testing.B) {
	packet := lines(band(1, strings.Repeat("x", 65000)))
	const packets = 1000
	c, err := New(Options{Hosts: []Host{{URL: "http://h"}}, Transport: &stub{post: func(r *http.Request) *http.Response {
		readers := []io.Reader{strings.NewReader(lines("packfile"))}
		for range packets {
			readers = append(readers, strings.NewReader(packet))
		}
		resp := result(r, "")
		resp.Body = io.NopCloser(io.MultiReader(append(readers, strings.NewReader("0000"))...))
		return resp
	}}})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(packets * 65000)
	for b.Loop() {
		if err := c.Fetch(b.Context(), repoH, Credentials{}, Fetch{Wants: []string{oidA}, Pack: io.Discard}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAuthorizeKnown(b *testing.B) {
	c, err := New(Options{Hosts: []Host{{URL: "http://h"}}, AuthTTL: 1 << 60, Transport: &stub{}})
	if err != nil {
		b.Fatal(err)
	}
	cred := credentials("a", "b")
	for b.Loop() {
		if err := c.Authorize(b.Context(), repoH, cred); err != nil {
			b.Fatal(err)
		}
	}
}
