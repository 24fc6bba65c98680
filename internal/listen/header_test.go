package listen

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// headed is a server that says how each request's header was cut, and how long its body is.
type headed struct {
	*testing.T
	addr string
}

type connKey struct{}

func startHeaded(t *testing.T) *headed {
	t.Helper()
	o := HeaderOptions{Free: 4 << 10, Max: 16 << 10, Fields: 64}
	l := listenTCP(t, Options{SmallRead: 512, Header: &o})
	h := &headed{T: t, addr: l.Addr().String()}
	s := &http.Server{
		MaxHeaderBytes: o.Max, Handler: http.HandlerFunc(h.answer),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
		ConnState: func(c net.Conn, s http.ConnState) {
			if s == http.StateIdle {
				NextRequest(c)
			}
		},
	}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return h
}

func (h *headed) answer(w http.ResponseWriter, r *http.Request) {
	cut := Begun(r.Context().Value(connKey{}).(net.Conn))
	if cut != nil {
		w.Header().Set("Connection", "close")
		http.Error(w, cut.Field+": "+cut.Err.Error(), http.StatusRequestHeaderFieldsTooLarge)
		return
	}
	body, err := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%d %d %v", len(r.Header.Get("Authorization")), len(body), err)
}

// client is a connection and what has come on it.
type client struct {
	net.Conn
	in *bufio.Reader
}

func (h *headed) dial() client {
	h.Helper()
	c, err := net.Dial("tcp", h.addr)
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() { c.Close() })
	return client{c, bufio.NewReader(c)}
}

// ask sends a request, and returns its status and text.
func (h *headed) ask(c client, request string) (status int, text string) {
	h.Helper()
	go io.WriteString(c, request)
	return h.read(c)
}

func (h *headed) read(c client) (status int, text string) {
	h.Helper()
	r, err := http.ReadResponse(c.in, nil)
	if err != nil {
		h.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		h.Fatal(err)
	}
	return r.StatusCode, string(b)
}

func (h *headed) want(c client, request string, status int, text string) {
	h.Helper()
	if s, got := h.ask(c, request); s != status || !strings.Contains(got, text) {
		h.Errorf("%d %q, want %d %q", s, got, status, text)
	}
}

func request(token, body int, more string) string {
	return fmt.Sprintf("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\nAuthorization: %s\r\n%s\r\n%s",
		body, strings.Repeat("t", token), more, strings.Repeat("b", body))
}

func TestALongHeaderIsTaken(t *testing.T) {
	h := startHeaded(t)
	c := h.dial()
	for range 3 {
		h.want(c, request(12<<10, 100<<10, ""), 200, "12288 102400 <nil>")
		h.want(c, request(100, 100<<10, ""), 200, "100 102400 <nil>")
	}
}

func TestAHeaderThatIsTooLongIsAnsweredAndItsFieldNamed(t *testing.T) {
	h := startHeaded(t)
	h.want(h.dial(), request(100<<10, 10, ""), 431, "Authorization: the request's header is longer than 16384 bytes")
	h.want(h.dial(), request(10, 10, "cookie: "+strings.Repeat("c", 20<<10)+"\r\n"), 431, "Cookie: ")
	h.want(h.dial(), request(10, 10, strings.Repeat("a: b\r\n", 3000)), 431, "more than 64 fields")
	h.want(h.dial(), "GET /"+strings.Repeat("p", 30<<10)+" HTTP/1.1\r\nHost: h\r\n\r\n", 400, "")
	h.want(h.dial(), request(10, 10, ""), 200, "10 10")
}

func TestAHeaderWithoutEndIsHungUpOn(t *testing.T) {
	h := startHeaded(t)
	c := h.dial()
	go func() {
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: h\r\nA: ")
		for range 3 << 10 {
			if _, err := io.WriteString(c, strings.Repeat("a", 1<<10)); err != nil {
				return
			}
		}
	}()
	if b, err := io.ReadAll(c); strings.Contains(string(b), " 200 ") {
		t.Errorf("%q, %v", b, err)
	}
}

// What is behind a request, in the same packet, may be the next one with its body.
func TestRequestsThatAreSentAtOnceKeepTheirBodies(t *testing.T) {
	h := startHeaded(t)
	c := h.dial()
	go func() {
		for range 20 {
			io.WriteString(c, "GET / HTTP/1.1\r\nHost: h\r\n\r\n"+request(100, 50<<10, "")+request(6<<10, 50<<10, ""))
		}
	}()
	for range 20 {
		for _, want := range []string{"0 0 <nil>", "100 51200 <nil>", "6144 51200 <nil>"} {
			if s, text := h.read(c); s != 200 || text != want {
				t.Fatalf("%d %q, want %q", s, text, want)
			}
		}
	}
}

// FuzzHead feeds a header and what follows it in pieces: nothing changes unless the header is cut, and then nothing but its end.
func FuzzHead(f *testing.F) {
	f.Add([]byte("GET / HTTP/1.1\r\nA: b\r\n\r\nbody"), 3)
	f.Add([]byte("GET / HTTP/1.1\r\n"+strings.Repeat("A: bbbbbbbbbb\n", 40)+"\r\nbody\n\r\n"), 7)
	f.Add([]byte("GET / HTTP/1.1\nAuthorization: "+strings.Repeat("t", 900)+"\n\nbody"), 64)
	f.Fuzz(func(t *testing.T, in []byte, chunk int) {
		chunk = 1 + max(chunk, -chunk)%300
		h := &head{o: &HeaderOptions{Free: 64, Max: 256, Fields: 8}}
		from := bytes.NewReader(in)
		var out []byte
		for p := make([]byte, max(chunk, 1)); ; {
			n, err := h.read(from, p)
			out = append(out, p[:n]...)
			if err != nil {
				break
			}
		}
		if h.cut == nil {
			if !bytes.Equal(in, out) {
				t.Fatalf("%q became %q", in, out)
			}
			return
		}
		same := 0
		for same < min(len(in), len(out)) && in[same] == out[same] {
			same++
		}
		if !h.ended {
			if same != len(out) {
				t.Fatalf("%q became %q", in, out)
			}
			return
		}
		_, rest, _ := bytes.Cut(out[same:], []byte("\r\n"))
		rest = bytes.TrimPrefix(rest, []byte("\r\n"))
		if same > 256+chunk || !bytes.HasSuffix(in, rest) {
			t.Fatalf("%q became %q", in, out)
		}
	})
}
