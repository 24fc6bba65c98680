package pkt

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// somePack is no pack, but so many bytes that none is like another.
func somePack(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

func TestAPackComesThroughEverySideband(t *testing.T) {
	for _, size := range []int{Sideband, Sideband64k} {
		for _, n := range []int{0, 1, size - 1, size, size + 1, 3 * size, 500_000} {
			for _, atOnce := range []int{0, 1, 2, 5} {
				pack := somePack(n)
				for name, send := range map[string]func(*Muxer) error{
					"Write": func(m *Muxer) error {
						_, err := m.Write(pack)
						return err
					},
					"ReadFrom": func(m *Muxer) error {
						_, err := m.ReadFrom(iotest.DataErrReader(bytes.NewReader(pack)))
						return err
					},
					"ReadFrom, by halves": func(m *Muxer) error {
						_, err := m.ReadFrom(iotest.HalfReader(bytes.NewReader(pack)))
						return err
					},
				} {
					var wire bytes.Buffer
					m := NewMuxer(&wire, size, make([]byte, atOnce*(size+5)))
					if err := errors.Join(send(m), m.Close()); err != nil {
						t.Fatal(err)
					}
					got, err := io.ReadAll(NewDemuxer(NewReader(&wire), nil))
					if err != nil || !bytes.Equal(got, pack) {
						t.Fatalf("%s of %d bytes by %d, %d packets at once: %d bytes and %v came through", name, n, size, atOnce, len(got), err)
					}
				}
			}
		}
	}
}

func TestPacketsAreAsLargeAsTheClientMayGet(t *testing.T) {
	for _, size := range []int{Sideband, Sideband64k} {
		var wire bytes.Buffer
		m := NewMuxer(&wire, size, nil)
		m.ReadFrom(bytes.NewReader(somePack(2*size + 7)))
		m.Write(somePack(2*size + 7))
		m.Close()
		shown, _ := readAll(NewReader(&wire))
		var lengths []int
		for _, p := range shown[:len(shown)-1] {
			lengths = append(lengths, len(p)-1)
		}
		if want := []int{size, size, 7, size, size, 7}; !slices.Equal(lengths, want) {
			t.Errorf("packets of %d bytes, want %d", lengths, want)
		}
	}
}

func TestALineOfProgressCostsNoPacketOfThePack(t *testing.T) {
	cost := testing.AllocsPerRun(100, func() { NewMuxer(io.Discard, Sideband64k, nil).Progress("queued, position 3\n") })
	m := NewMuxer(io.Discard, Sideband64k, nil)
	m.Progress("queued, position 3")
	if cost > 3 || len(m.buf) > 100 {
		t.Errorf("%v allocations, and a buffer of %d bytes", cost, len(m.buf))
	}
}

func TestAsManyPacketsAreWrittenAtOnceAsTheBufferHolds(t *testing.T) {
	var dst writes
	m := NewMuxer(&dst, Sideband64k, make([]byte, 4*(Sideband64k+5)+100))
	m.ReadFrom(bytes.NewReader(somePack(10 * Sideband64k)))
	m.Write(somePack(10 * Sideband64k))
	m.Close()
	var sizes []int
	for _, w := range dst.all {
		sizes = append(sizes, len(w)/65520)
	}
	if want := []int{4, 4, 2, 4, 4, 2, 0}; !slices.Equal(sizes, want) {
		t.Errorf("writes of %d packets, want %d", sizes, want)
	}
}

func TestWhatIsThereIsNotKeptBackForWhatMayCome(t *testing.T) {
	r, w := io.Pipe()
	var dst writes
	got := make(chan string, 1)
	m := NewMuxer(io.MultiWriter(&dst, writerFunc(func(p []byte) { got <- string(p) })), Sideband64k, make([]byte, 1<<20))
	done := make(chan error)
	go func() {
		_, err := m.ReadFrom(r)
		done <- err
	}()
	for _, part := range []string{"PACK", "more"} {
		io.WriteString(w, part)
		if g := <-got; g != "0009\x01"+part {
			t.Errorf("got %q", g)
		}
	}
	w.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) { f(p); return len(p), nil }

func TestWithoutASidebandThePackIsBareAndNothingElseCanBeSaid(t *testing.T) {
	var wire bytes.Buffer
	m := NewMuxer(&wire, 0, nil)
	pack := somePack(100_000)
	m.Write(pack[:10])
	m.Progress("queued, position 3")
	if n, err := m.ReadFrom(iotest.HalfReader(bytes.NewReader(pack[10:]))); n != 99_990 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	if err := m.Fail("no"); err != ErrNoBand {
		t.Errorf("got %v, want ErrNoBand", err)
	}
	m.Close()
	if !bytes.Equal(wire.Bytes(), pack) {
		t.Error("the bytes are not those of the pack")
	}
}

func TestProgressAndFailureGoOnTheirBands(t *testing.T) {
	var dst writes
	m := NewMuxer(&dst, Sideband64k, nil)
	m.Progress("queued, position 3")
	m.Progress("50%\r")
	m.Write([]byte("PACK"))
	m.Fail("the server is busy")
	want := "0018\x02queued, position 3\n|0009\x0250%\r|0009\x01PACK|0018\x03the server is busy\n"
	if got := strings.Join(dst.all, "|"); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	dst.all = nil
	NewMuxer(&dst, Sideband, nil).Fail(strings.Repeat("x", 5000))
	if len(dst.all) != 1 || len(dst.all[0]) != 1000 {
		t.Errorf("%d writes, want one packet as large as the client takes", len(dst.all))
	}
}

func TestAMuxerStopsWhenTheClientIsGone(t *testing.T) {
	gone := errors.New("gone")
	m := NewMuxer(&writes{fail: gone}, Sideband, nil)
	for what, err := range map[string]error{
		"Write":    second(m.Write(somePack(5000))),
		"ReadFrom": second(m.ReadFrom(bytes.NewReader(somePack(5000)))),
		"Progress": m.Progress("a"), "Fail": m.Fail("a"), "Close": m.Close(),
	} {
		if err != gone {
			t.Errorf("%s: got %v", what, err)
		}
	}
	broken := errors.New("broken")
	if _, err := NewMuxer(io.Discard, Sideband, nil).ReadFrom(iotest.ErrReader(broken)); err != broken {
		t.Errorf("got %v, want the source's error", err)
	}
}

func second[T any](_ T, err error) error { return err }

func TestAPacketOfThePackCostsNoAllocation(t *testing.T) {
	m := NewMuxer(io.Discard, Sideband64k, nil)
	src := bytes.NewReader(somePack(Sideband64k))
	if n := testing.AllocsPerRun(100, func() { m.ReadFrom(src); src.Seek(0, 0) }); n > 0 {
		t.Errorf("ReadFrom costs %v allocations", n)
	}
	pack := somePack(Sideband64k)
	if n := testing.AllocsPerRun(100, func() { m.Write(pack) }); n > 0 {
		t.Errorf("Write costs %v allocations", n)
	}
}

func TestADemuxerTakesBandsApart(t *testing.T) {
	stream := packets("\x02Counting", "\x02 objects: 1\rCounti", "\x01", "\x01PACK", "\x02ng objects: 2\n\n\x1b[31mred\n",
		"\x01abc", "\x02last") + "0000" + packets("behind\n")
	for name, read := range map[string]func(*Demuxer) ([]byte, error){
		"Read": func(d *Demuxer) ([]byte, error) { return io.ReadAll(iotest.OneByteReader(struct{ io.Reader }{d})) },
		"WriteTo": func(d *Demuxer) ([]byte, error) {
			var b bytes.Buffer
			_, err := d.WriteTo(&b)
			return b.Bytes(), err
		},
	} {
		var lines []string
		r := NewReader(strings.NewReader(stream))
		pack, err := read(NewDemuxer(r, func(line string) { lines = append(lines, line) }))
		if err != nil || string(pack) != "PACKabc" {
			t.Errorf("%s: %q, %v", name, pack, err)
		}
		if want := []string{"Counting objects: 1", "Counting objects: 2", "[31mred", "last"}; !slices.Equal(lines, want) {
			t.Errorf("%s: progress %q, want %q", name, lines, want)
		}
		if rest, err := readAll(r); err != io.EOF || len(rest) != 1 || rest[0] != "behind\n" {
			t.Errorf("%s: behind the side-band there is %q, %v", name, rest, err)
		}
	}
}

func TestOnlyAFlushPacketMakesAPackWhole(t *testing.T) {
	for _, c := range []struct {
		stream string
		want   error
	}{
		{"0009\x01PACK", io.ErrUnexpectedEOF},
		{"0009\x01PACK000", io.ErrUnexpectedEOF},
		{"0009\x01PACK0009\x01PA", io.ErrUnexpectedEOF},
		{"", io.ErrUnexpectedEOF},
		{"0009\x01PACK0001", ErrMalformed},
		{"0009\x01PACK0002", ErrMalformed},
		{"0009\x01PACK0004", ErrMalformed},
		{"0009\x01PACK0006\x04a", ErrMalformed},
		{"0009\x01PACK<html>", ErrMalformed},
	} {
		if _, err := io.ReadAll(NewDemuxer(NewReader(strings.NewReader(c.stream)), nil)); !errors.Is(err, c.want) {
			t.Errorf("%q: got %v, want %v", c.stream, err, c.want)
		}
		if _, err := NewDemuxer(NewReader(strings.NewReader(c.stream)), nil).WriteTo(io.Discard); !errors.Is(err, c.want) {
			t.Errorf("%q: got %v, want %v", c.stream, err, c.want)
		}
	}
	var remote *RemoteError
	_, err := io.ReadAll(NewDemuxer(NewReader(strings.NewReader(packets("\x01PACK", "\x03out of memory\n")+"0000")), nil))
	if !errors.As(err, &remote) || remote.Text != "out of memory" {
		t.Errorf("got %v, want what the server said", err)
	}
}

func TestProgressThatNeverEndsIsPassedOnInPieces(t *testing.T) {
	var wire bytes.Buffer
	m := NewMuxer(&wire, Sideband64k, nil)
	for range 5 {
		m.send(bandProgress, bytes.Repeat([]byte("x"), Sideband64k))
	}
	m.Close()
	longest, total := 0, 0
	d := NewDemuxer(NewReader(&wire), func(line string) { longest, total = max(longest, len(line)), total+len(line) })
	if _, err := d.WriteTo(io.Discard); err != nil || longest > maxLine || total != 5*Sideband64k {
		t.Errorf("%d bytes of progress, at most %d in a line, %v", total, longest, err)
	}
}

func BenchmarkMuxer(b *testing.B) {
	pack := somePack(16 << 20)
	for name, buf := range map[string][]byte{"packets=1": nil, "packets=4": make([]byte, 4*65520)} {
		b.Run(name, func(b *testing.B) {
			m := NewMuxer(io.Discard, Sideband64k, buf)
			src := bytes.NewReader(pack)
			b.SetBytes(int64(len(pack)))
			b.ReportAllocs()
			for b.Loop() {
				src.Reset(pack)
				m.ReadFrom(struct{ io.Reader }{src})
			}
		})
	}
}

func BenchmarkDemuxer(b *testing.B) {
	var wire bytes.Buffer
	m := NewMuxer(&wire, Sideband64k, nil)
	m.Write(somePack(16 << 20))
	m.Close()
	b.SetBytes(16 << 20)
	b.ReportAllocs()
	for b.Loop() {
		d := NewDemuxer(NewReader(bytes.NewReader(wire.Bytes())), nil)
		if _, err := io.Copy(io.Discard, d); err != nil {
			b.Fatal(err)
		}
	}
}
