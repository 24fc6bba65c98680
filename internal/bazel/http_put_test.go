package bazel

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"
)

// B4
func TestACutOffUploadIsNeverStored(t *testing.T) {
	ar := string(unhexString(t, hexARH))
	for _, tt := range []struct {
		name, path, head, body, whole string
	}{
		{"an action result", "/ac/" + actionKey(3), "Content-Length: 81", ar[:40], ar},
		{"a blob", "/cas/" + hashH, "Content-Length: 6", "hel", "hello\n"},
		{"chunks without the last one", "/cas/" + hashH, "Transfer-Encoding: chunked", "3\r\nhel\r\n3\r\nlo\n\r\n", "hello\n"},
		{"a chunk cut in the middle", "/cas/" + hashH, "Transfer-Encoding: chunked", "6\r\nhel", "hello\n"},
		{"an opaque entry in chunks", "/ac/" + actionKey(4), "Transfer-Encoding: chunked", "4\r\n\xcc\xacab\r\n", "\xcc\xacab"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, d := newDiskRig(t, nil)
			c := r.dial()
			c.send("PUT "+tt.path+" HTTP/1.1\n"+tt.head, tt.body)
			if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			r.want(c.answer("PUT"), 400)
			_ = c.Close()
			eventually(t, "the upload is given up", func() bool { return d.Stats().UploadsActive == 0 && r.conns.Stats().InUse == 0 })
			if n := d.Stats(); n.Reserved != 0 || n.Unlinking != 0 {
				t.Errorf("%d bytes are reserved, %d being removed", n.Reserved, n.Unlinking)
			}
			r.want(r.get(tt.path), 404)
			if strings.HasPrefix(tt.path, "/cas/") {
				r.want(r.put(tt.path, []byte(tt.whole)), 200)
				r.want(r.get(tt.path), 200, tt.whole)
			}
			if in := r.cache.write.Stats().InUse; in != 0 {
				t.Errorf("%d bytes of permits are held", in)
			}
		})
	}
}

// Bazel tries again after a 500: what the client got wrong must not look like it.
func TestABrokenChunkedEncodingIsTheClientsFault(t *testing.T) {
	r, d := newDiskRig(t, nil)
	for _, tt := range []struct{ name, body, want string }{
		{"no number", "x\r\nhello\n\r\n0\r\n\r\n", "invalid byte in chunk length"},
		{"a negative size", "-6\r\nhello\n\r\n0\r\n\r\n", "invalid byte in chunk length"},
		{"a size of 2^64", "10000000000000000\r\nhello\n\r\n0\r\n\r\n", "too large"},
		{"no size", "\r\nhello\n\r\n0\r\n\r\n", "empty hex number"},
		{"a bare LF", "6\nhello\n\n0\n\n", "bare LF"},
		{"no CRLF behind the chunk", "6\r\nhello\n0\r\n\r\n", "malformed"},
		{"a huge extension", "6;" + strings.Repeat("x", 100_000) + "\r\nhello\n\r\n0\r\n\r\n", "too long"},
		{"many extensions", strings.Repeat("1;"+strings.Repeat("x", 1000)+"\r\nh\r\n", 30) + "0\r\n\r\n", "non-data"},
		{"trailers without end", "6\r\nhello\n\r\n0\r\n" + strings.Repeat("X: y\r\n", 20_000) + "\r\n", "long trailer"},
		{"a trailer that is none", "6\r\nhello\n\r\n0\r\nno field\r\n\r\n", "no field"},
	} {
		for _, path := range []string{"/cas/" + hashH, "/ac/" + actionKey(3)} {
			t.Run(tt.name+" "+path[:4], func(t *testing.T) {
				c := r.dial()
				c.send("PUT "+path+" HTTP/1.1\nTransfer-Encoding: chunked", tt.body)
				a := c.answer("PUT")
				if a.code != 400 || !strings.Contains(a.body, "chunked encoding is broken") || !strings.Contains(a.body, tt.want) || !a.closes {
					t.Errorf("%d %q, closes: %v; want 400 with %q", a.code, a.body, a.closes, tt.want)
				}
				r.want(r.get(path), 404)
			})
		}
	}
	eventually(t, "every upload is given up", func() bool { return d.Stats().UploadsActive == 0 })
}

// B5
func TestWrongBytesOfTheRightLengthAreRefused(t *testing.T) {
	r, _ := newDiskRig(t, nil)
	r.want(r.put("/cas/"+hashH, []byte("other\n")), 400)
	r.want(r.get("/cas/"+hashH), 404)
	r.want(r.put("/cas/"+hashH, []byte("hello\n")), 200)
	r.want(r.put("/cas/"+hashH, []byte("hello\n\n")), 400)
	r.want(r.get("/cas/"+hashH), 200, "hello\n")
}

// B19, the client that asks first
func TestATooLargeBodyIsRefusedBeforeItIsSentWithBothSizes(t *testing.T) {
	r, _ := newDiskRig(t, func(h *httpCache) { h.maxBlob = mib })
	c := r.dial()
	c.send("PUT /cas/"+hashP+" HTTP/1.1\nContent-Length: 67108864\nExpect: 100-continue", "")
	a := c.answer("PUT")
	r.want(a, 413)
	if !strings.Contains(a.body, "67108864") || !strings.Contains(a.body, "1048576") || !strings.Contains(a.body, "bazel.max_blob") {
		t.Errorf("the text is %q", a.body)
	}
	if _, err := c.in.ReadByte(); err != io.EOF {
		t.Errorf("the connection goes on although the body may follow: %v", err)
	}
}

// B19, the client that sends all of the body before it looks for an answer: 64 MiB of zeros
func TestATooLargeBodyThatIsSentAnyhowGetsAReadableAnswer(t *testing.T) {
	for _, framing := range []string{"Content-Length: 67108864", "Transfer-Encoding: chunked"} {
		t.Run(framing, func(t *testing.T) {
			r, _ := newDiskRig(t, func(h *httpCache) { h.maxBlob = mib })
			c := r.dial()
			c.send("PUT /cas/"+hashP+" HTTP/1.1\n"+framing, "")
			chunk := make([]byte, mib)
			for range 64 {
				if strings.HasPrefix(framing, "T") {
					fmt.Fprintf(c.Conn, "%x\r\n", len(chunk))
				}
				if _, err := c.Write(chunk); err != nil {
					t.Fatalf("the server hung up on a body of bounded size: %v", err)
				}
				if strings.HasPrefix(framing, "T") {
					fmt.Fprint(c.Conn, "\r\n")
				}
			}
			if strings.HasPrefix(framing, "T") {
				fmt.Fprint(c.Conn, "0\r\n\r\n")
			}
			a := c.answer("PUT")
			r.want(a, 413)
			if !strings.Contains(a.body, "1048576") {
				t.Errorf("the text is %q", a.body)
			}
		})
	}
}

func TestABlobThatIsThereIsNotAskedForAgain(t *testing.T) {
	r, _ := newDiskRig(t, nil)
	big := bytes.Repeat([]byte("x"), 3*mib)
	path := "/cas/" + hashOf(big)
	r.want(r.put(path, big), 200)

	c := r.dial()
	c.send(fmt.Sprintf("PUT %s HTTP/1.1\nContent-Length: %d\nExpect: 100-continue", path, len(big)), "")
	r.want(c.answer("PUT"), 200)

	// A client that does not ask sends its body in any case; the connection goes on after it.
	c = r.dial()
	c.send(fmt.Sprintf("PUT %s HTTP/1.1\nContent-Length: %d", path, len(big)), string(big))
	r.want(c.answer("PUT"), 200)
	c.send("HEAD "+path+" HTTP/1.1", "")
	r.want(c.answer("HEAD"), 200)

	// Another length cannot have the same digest, and is said to be wrong before it is read.
	c.send(fmt.Sprintf("PUT %s HTTP/1.1\nContent-Length: %d\nExpect: 100-continue", path, len(big)+1), "")
	r.want(c.answer("PUT"), 400)

	before := r.cache.write.Stats().Admitted
	r.want(r.put(path, big), 200)
	if after := r.cache.write.Stats().Admitted; after != before {
		t.Errorf("an upload of what is there took a permit")
	}
}

func TestAPermitIsWaitedForBeforeTheBodyIsAskedFor(t *testing.T) {
	r, _ := newDiskRig(t, nil)
	all, err := r.cache.write.TryAdmit("other", r.cache.write.Stats().Limit)
	if err != nil {
		t.Fatal(err)
	}
	c := r.dial()
	c.send("PUT /cas/"+hashH+" HTTP/1.1\nContent-Length: 6\nExpect: 100-continue", "")
	eventually(t, "the upload waits", func() bool { return r.cache.write.Stats().Queued == 1 })
	all.Release()
	line, err := c.in.ReadString('\n')
	if err != nil || line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("%q %v", line, err)
	}
	_, _ = c.in.ReadString('\n')
	fmt.Fprint(c.Conn, "hello\n")
	r.want(c.answer("PUT"), 200)
}

func TestAStalledUploadIsCutAndLeavesNothing(t *testing.T) {
	r, d := newDiskRig(t, func(h *httpCache) { h.stall = 200 * time.Millisecond })
	c := r.dial()
	c.send(fmt.Sprintf("PUT /cas/%s HTTP/1.1\nContent-Length: %d", hashH, 10*mib), "a few bytes")
	a := c.answer("PUT")
	r.want(a, 408)
	if _, err := c.in.ReadByte(); err != io.EOF {
		t.Errorf("the connection goes on: %v", err)
	}
	eventually(t, "permit and upload are gone", func() bool { return d.Stats().UploadsActive == 0 && r.cache.write.Stats().InUse == 0 })
}

// One byte at a time is no progress: it would hold a permit for years.
func TestADrippingUploadIsCutToo(t *testing.T) {
	r, _ := newDiskRig(t, func(h *httpCache) { h.stall = 300 * time.Millisecond })
	c := r.dial()
	c.send(fmt.Sprintf("PUT /cas/%s HTTP/1.1\nContent-Length: %d", hashH, 10*mib), "")
	go func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for range 200 {
			<-tick.C
			if _, err := c.Write([]byte("x")); err != nil {
				return
			}
		}
	}()
	r.want(c.answer("PUT"), 408)
}

// What is bounded is the time without progress, not that of the transfer.
func TestASteadyUploadOutlastsTheStallTimeAndGetsItsAnswer(t *testing.T) {
	for _, tt := range []struct {
		name string
		last byte
		code int
	}{{"right bytes", 'x', 200}, {"wrong bytes", 'y', 400}} {
		t.Run(tt.name, func(t *testing.T) {
			r, _ := newDiskRig(t, func(h *httpCache) { h.stall = 200 * time.Millisecond })
			body := bytes.Repeat([]byte("x"), 20*8*kib)
			path := "/cas/" + hashOf(body)
			body[len(body)-1] = tt.last
			c := r.dial()
			c.send(fmt.Sprintf("PUT %s HTTP/1.1\nContent-Length: %d", path, len(body)), "")
			tick := time.NewTicker(30 * time.Millisecond)
			defer tick.Stop()
			for len(body) > 0 {
				<-tick.C
				if _, err := c.Write(body[:8*kib]); err != nil {
					t.Fatal(err)
				}
				body = body[8*kib:]
			}
			r.want(c.answer("PUT"), tt.code)
		})
	}
}

// B10b
func TestTheSecondUploaderOfABlobIsToldTheTruth(t *testing.T) {
	r, _ := newDiskRig(t, nil)
	big := bytes.Repeat([]byte("y"), 2*mib)
	path := "/cas/" + hashOf(big)
	first := r.dial()
	first.send(fmt.Sprintf("PUT %s HTTP/1.1\nContent-Length: %d", path, len(big)), string(big[:mib]))
	eventually(t, "the first upload is admitted", func() bool { return r.cache.write.Stats().Held == 1 })
	r.want(r.get(path), 404)
	r.want(r.put(path, big), 200)
	r.want(r.get(path), 200, string(big))
	if _, err := first.Write(big[mib:]); err != nil {
		t.Fatal(err)
	}
	r.want(first.answer("PUT"), 200)
}

// B9: an upload costs its buffer, however large it is.
func TestALargeUploadTakesNoMoreMemoryThanItsPermit(t *testing.T) {
	const size = 256 * mib
	r, _ := newDiskRig(t, nil)
	c := r.dial()
	var before, after runtime.MemStats
	c.send(fmt.Sprintf("PUT /ac/%s HTTP/1.1\nContent-Length: %d", actionKey(9), size), "")
	eventually(t, "the upload is admitted", func() bool { return r.cache.write.Stats().Held == 1 })
	chunk := make([]byte, mib)
	runtime.ReadMemStats(&before)
	for range size / mib {
		if _, err := c.Write(chunk); err != nil {
			t.Fatal(err)
		}
	}
	r.want(c.answer("PUT"), 200)
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > mib {
		t.Errorf("%d bytes were allocated for an upload of %d", got, size)
	}
}

// ccache sends header and body apart, with Nagle's algorithm on: the body waits for the header's acknowledgement, and the
// acknowledgement for an answer that cannot come.
func TestAnUploadInTwoWritesDoesNotWaitForADelayedAcknowledgement(t *testing.T) {
	r, _ := newDiskRig(t, nil)
	c := r.dial()
	if err := c.Conn.(*net.TCPConn).SetNoDelay(false); err != nil {
		t.Fatal(err)
	}
	fastest := time.Hour
	for i := range 20 {
		body := fmt.Sprintf("body %d", i)
		c.send("HEAD /ac/"+actionKey(1)+" HTTP/1.1", "") // question and answer put the connection into the delaying mode
		c.answer("HEAD")
		c.send(fmt.Sprintf("PUT /ac/%s HTTP/1.1\nContent-Length: %d", hashOf([]byte(body)), len(body)), "")
		start := time.Now()
		if _, err := io.WriteString(c.Conn, body); err != nil {
			t.Fatal(err)
		}
		r.want(c.answer("PUT"), 200)
		fastest = min(fastest, time.Since(start))
	}
	if fastest > 30*time.Millisecond {
		t.Errorf("the fastest of 20 uploads took %v", fastest)
	}
}
