package pkt

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// packets frames each of lines.
func packets(lines ...string) (stream string) {
	for _, l := range lines {
		stream += fmt.Sprintf("%04x%s", len(l)+4, l)
	}
	return stream
}

// readAll writes packets the way they are shown in comments of git's documents, and the error behind them.
func readAll(r *Reader) (shown []string, err error) {
	for {
		kind, payload, err := r.Next()
		if err != nil {
			return shown, err
		}
		if kind == Data {
			shown = append(shown, string(payload))
		} else {
			shown = append(shown, kind.String())
		}
	}
}

func TestPacketsAreReadHoweverTheStreamIsCut(t *testing.T) {
	long := strings.Repeat("x", MaxPayload)
	stream := "0006a\n" + "0005a" + "0004" + "0000" + "0001" + "0002" + "FFF0" + long + "fff0" + long + "000bfoobar\n" + "0000"
	want := []string{"a\n", "a", "", "a flush packet", "a delimiter packet", "a response-end packet", long, long, "foobar\n", "a flush packet"}
	for name, cut := range map[string]func(io.Reader) io.Reader{
		"whole":            func(r io.Reader) io.Reader { return r },
		"by the byte":      iotest.OneByteReader,
		"by halves":        iotest.HalfReader,
		"with its end":     iotest.DataErrReader,
		"by 65 kilobytes":  func(r io.Reader) io.Reader { return chunks{r, 65_000} },
		"by 3 bytes":       func(r io.Reader) io.Reader { return chunks{r, 3} },
		"by a packet less": func(r io.Reader) io.Reader { return chunks{r, 65_519} },
	} {
		got, err := readAll(NewReader(cut(strings.NewReader(stream))))
		if err != io.EOF || strings.Join(got, "|") != strings.Join(want, "|") {
			t.Errorf("%s: %d packets and %v, want %d and EOF", name, len(got), err, len(want))
		}
	}
}

// chunks reads at most n bytes at once.
type chunks struct {
	io.Reader
	n int
}

func (c chunks) Read(p []byte) (int, error) { return c.Reader.Read(p[:min(len(p), c.n)]) }

func TestWhatIsNoPacketIsMalformedAndWhatIsCutIsUnexpectedlyAtItsEnd(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		stream io.Reader
		want   error
	}{
		{strings.NewReader(""), io.EOF},
		{strings.NewReader("0"), io.ErrUnexpectedEOF},
		{strings.NewReader("0005"), io.ErrUnexpectedEOF},
		{strings.NewReader("0009abcd"), io.ErrUnexpectedEOF},
		{strings.NewReader("0000000"), io.ErrUnexpectedEOF},
		{strings.NewReader("0003"), ErrMalformed},
		{strings.NewReader("fff1"), ErrMalformed},
		{strings.NewReader("ffff" + strings.Repeat("x", 70_000)), ErrMalformed},
		{strings.NewReader("+001a"), ErrMalformed},
		{strings.NewReader("0x05a"), ErrMalformed},
		{strings.NewReader("<html>"), ErrMalformed},
		{strings.NewReader("-001"), ErrMalformed},
		{iotest.ErrReader(broken), broken},
		{io.MultiReader(strings.NewReader("0006a"), iotest.ErrReader(broken)), broken},
	} {
		if _, err := readAll(NewReader(c.stream)); !errors.Is(err, c.want) {
			t.Errorf("got %v, want %v", err, c.want)
		}
	}
}

// writes keeps each Write apart.
type writes struct {
	all  []string
	fail error
}

func (w *writes) Write(p []byte) (int, error) {
	if w.fail != nil {
		return 0, w.fail
	}
	w.all = append(w.all, string(p))
	return len(p), nil
}

func TestAPacketIsOneWrite(t *testing.T) {
	var dst writes
	w := NewWriter(&dst)
	w.Line("want ", "abc", " side-band-64k")
	w.Packet([]byte("x"))
	w.Packet(nil)
	w.Delim()
	w.Error("no such repository")
	w.Flush()
	want := "001bwant abc side-band-64k\n|0005x|0004|0001|001bERR no such repository\n|0000"
	if got := strings.Join(dst.all, "|"); got != want || w.Err() != nil {
		t.Errorf("got  %q, %v\nwant %q", got, w.Err(), want)
	}
}

func TestAWriterStopsAtItsFirstError(t *testing.T) {
	var dst writes
	w := NewWriter(&dst)
	w.Packet(make([]byte, MaxPayload))
	w.Line(strings.Repeat("x", MaxPayload)) // the line feed is too much
	w.Flush()
	w.Line("a")
	if len(dst.all) != 1 || w.Err() == nil {
		t.Errorf("%d packets were written, and the error is %v; want 1 and one", len(dst.all), w.Err())
	}
	broken := errors.New("broken")
	w = NewWriter(&writes{fail: broken})
	w.Flush()
	w.Line("a")
	if w.Err() != broken {
		t.Errorf("got %v, want the destination's error", w.Err())
	}
}

func TestALineOfErrorIsTold(t *testing.T) {
	var remote *RemoteError
	if err := ErrorLine([]byte("ERR no\x1b[31m such\x00 repository\n")); !errors.As(err, &remote) || remote.Text != "no [31m such  repository" {
		t.Errorf("got %v", err)
	}
	for _, line := range []string{"", "ERR", "ERRATIC", "version 2\n"} {
		if err := ErrorLine([]byte(line)); err != nil {
			t.Errorf("%q is an error: %v", line, err)
		}
	}
}

func TestReadingAndWritingAllocateNothingForAPacket(t *testing.T) {
	w := NewWriter(io.Discard)
	w.Line(strings.Repeat("x", 1000))
	name := "refs/heads/main"
	if n := testing.AllocsPerRun(100, func() { w.Line("ref-prefix ", name); w.Flush() }); n > 0 {
		t.Errorf("a line costs %v allocations", n)
	}
	stream := bytes.Repeat([]byte("0009abcd\n"), 10_000)
	r := NewReader(bytes.NewReader(stream))
	r.Next()
	if n := testing.AllocsPerRun(9000, func() {
		if _, _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("a packet costs %v allocations", n)
	}
}
